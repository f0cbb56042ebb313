"""Plans over HTTP: phrases of all models with their facts and why, whatever page they are asked for."""

import pytest

from broadmatch.serve.studio import work
from broadmatch.serve.studio.planner.page_text import MOST_LETTERS, text_blocks
from broadmatch.serve.studio.planner.planning import LARGEST_PAGE
from broadmatch.serve.studio.planner.themes import themes
from tests.serve.plan_shop import ADDRESS, TAXI, make_plan_folder, plan_app
from tests.serve.shop import call

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202eevil\u202c", "🍕" * 50, "=1+1", "\0"]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return plan_app(make_plan_folder(tmp_path_factory.mktemp("plan") / "engine"))


def plan(app, path="plan", **body):
    (answer,) = call(app, ("POST", f"/v1/studio/{path}", body))
    return answer


def phrases_of(answer):
    assert answer.status_code == 200, answer.text
    return {one["phrase"]: one for one in answer.json()["phrases"]}


def test_phrases_come_from_the_model_the_page_and_the_expansion(app):
    found = phrases_of(plan(app, html=TAXI))
    assert found["airport taxi"]["sources"] == ["learned", "extracted"]
    sources = {source for one in found.values() for source in one["sources"]}
    assert sources == {"learned", "extracted", "expanded"}
    assert all(0 <= one["score"] <= 1 for one in found.values())
    assert [one["score"] for one in found.values()] == sorted((one["score"] for one in found.values()), reverse=True)
    expanded = next(one for one in found.values() if one["sources"] == ["expanded"])
    assert expanded["seeds"] and expanded["seeds"][0][0] in found
    by_address = plan(app, address=ADDRESS).json()
    assert {one["phrase"] for one in by_address["phrases"]} >= {"airport taxi", "taxi"}
    assert [block["kind"] for block in by_address["blocks"]] == ["title", "heading", "text"]
    assert by_address["blocks"][2]["text"] == "Order a taxi to the airport, day & night."


def test_facts_are_those_of_the_log_and_absent_where_it_has_none(app):
    answer = plan(app, html=TAXI)
    found = phrases_of(answer)
    facts = found["airport taxi"]["facts"]
    assert facts["searches"] == pytest.approx(6 * 365.25 / 12 / 2) and facts["series"] == [3, 3]
    assert facts["competition"] == 100 and 1.5 <= facts["bid_low"] <= facts["bid_high"] <= 1.7
    assert [rung[0] for rung in facts["ladder"]] == sorted(rung[0] for rung in facts["ladder"])
    assert facts["ladder"][-1][1] > facts["ladder"][0][1] > 0
    assert answer.json()["unit"] == "day" and answer.json()["first"] == "2024-03-01"
    assert found["minicab"]["sources"] == ["expanded"] and found["minicab"]["facts"] is None
    assert found["city taxi"]["facts"] is None


def test_phrases_that_one_has_are_not_planned_and_those_never_wanted_go(app):
    before = phrases_of(plan(app, html=TAXI))
    found = phrases_of(plan(app, html=TAXI, revealed=["Airport TAXI!"]))
    assert "airport taxi" in before and "airport taxi" not in found
    answer = plan(app, html=TAXI, negatives=["airport", "[taxi]"])
    left = phrases_of(answer)
    assert not [one for one in left if "airport" in one.split()] and "taxi" not in left and "cheap taxi" in left
    assert answer.json()["ruled_out"] == len(before) - len(left)
    assert phrases_of(plan(app, revealed=["pizza"])).keys() >= {"pizza delivery"}


def test_why_tells_words_of_the_page_and_pages_behind_it(app):
    why = plan(app, "why", html=TAXI, phrase="airport taxi").json()
    assert "taxi" in dict(why["words"]) and all(amount > 0 for _, amount in why["words"])
    assert any("taxi" in page for page, _, _ in why["pages"]) and all(0 <= like <= 1 for _, like, _ in why["pages"])
    assert why["factors"]["times"] >= 1 and why["extracted"]
    nothing = plan(app, "why", html=TAXI, phrase="nobody knows it").json()
    assert nothing["words"] == nothing["pages"] == nothing["extracted"] == []


def test_hostile_texts_are_texts(app):
    for text in (*HOSTILE, "x" * 10_000):
        for body in (
            {"text": text},
            {"html": text},
            {"text": "taxi", "revealed": [text[:1000]], "negatives": [text[:1000]]},
        ):
            answer = plan(app, **body)
            assert answer.status_code == 200, (body, answer.text)
    assert plan(app, text="<b>taxi</b>").json()["blocks"] == [{"kind": "text", "text": "<b>taxi</b>"}]


def test_a_page_of_five_megabytes_is_planned_and_a_larger_one_refused(app):
    answer = plan(app, html=TAXI + "<p>airport taxi words</p>" * 200_000)
    assert "airport taxi" in phrases_of(answer)
    blocks = answer.json()["blocks"]
    assert answer.json()["cut"] and sum(len(block["text"]) for block in blocks) < 1.2 * MOST_LETTERS
    assert plan(app, text="x" * (LARGEST_PAGE + 1)).status_code == 422


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"html": "  \n "}, {"html": "<script>x</script>"}])
def test_an_empty_page_has_no_plan(app, body):
    answer = plan(app, **body).json()
    assert answer["blocks"] == [] and isinstance(answer["phrases"], list)
    assert body or answer["phrases"] == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (422, {"html": "x", "text": "y"}),
        (404, {"address": "https://nobody.example/"}),
        (422, {"html": "x", "k": 0}),
        (422, {"html": "x", "fields": "nobody knows"}),
        (422, {"html": "x", "negatives": [""]}),
    ],
)
def test_what_cannot_be_planned_says_why(app, status, body):
    answer = plan(app, **body)
    assert answer.status_code == status and answer.json()["detail"].endswith("."), answer.text


def test_without_a_model_and_facts_phrases_are_those_of_the_page(tmp_path):
    app = plan_app(make_plan_folder(tmp_path / "engine", model=False, facts=False))
    answer = plan(app, html=TAXI)
    found = phrases_of(answer)
    assert "airport taxi" in found and {tuple(one["sources"]) for one in found.values()} == {("extracted",)}
    assert all(one["facts"] is None for one in found.values()) and answer.json()["unit"] is None
    (parts,) = call(app, ("GET", "/v1/studio"))
    assert parts.json()["recommender"] is None and not parts.json()["queries"] and parts.json()["examples"] == []
    assert plan(app, revealed=["pizza"]).status_code == 404
    assert plan(app, address=ADDRESS).status_code == 404


def test_a_model_of_sets_says_what_is_in_its_set(tmp_path):
    app = plan_app(make_plan_folder(tmp_path / "engine", facts=False, sets=True))
    answer = plan(app, html=TAXI)
    assert answer.json()["has_set"]
    assert sum(one["in_set"] for one in phrases_of(answer).values()) == 2
    (parts,) = call(app, ("GET", "/v1/studio"))
    assert parts.json()["sets"] and parts.json()["pages"] == 2 and ADDRESS in parts.json()["examples"]


def test_facts_that_are_published_again_are_taken_up(tmp_path):
    folder = make_plan_folder(tmp_path / "engine", facts=False)
    app = plan_app(folder)
    assert phrases_of(plan(app, html=TAXI))["airport taxi"]["facts"] is None
    make_plan_folder(folder, model=False)
    assert phrases_of(plan(app, html=TAXI))["airport taxi"]["facts"]["searches"] > 0


def test_who_finds_too_many_waiting_comes_again(app, monkeypatch):
    monkeypatch.setattr(work, "_MOST_WAITING", 0)
    answer = plan(app, html=TAXI)
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"


def test_text_of_a_page_is_what_a_person_reads():
    page = "<title>A &lt;b&gt;</title><style>p{}</style><p>One <b>two</b>three<br>four<img alt='five' src='six.png'>"
    assert [(one.kind, one.text) for one in text_blocks(page)[0]] == [
        ("title", "A <b>"), ("text", "One twothree"), ("text", "four"),
    ]  # fmt: skip
    assert text_blocks("")[0] == [] and text_blocks(b"caf\xe9")[0][0].text == "café"


def test_themes_are_words_that_phrases_share():
    assert themes([]) == [] and themes(["tea"]) == [""]
    assert themes(["red shoes", "blue shoes", "the the", "shoe"]) == ["shoe", "shoe", "", "shoe"]
    phrases = [f"{a} {b}" for a in ("x1", "x2", "x3") for b in ("insurance", "cover")]
    assert all(theme in phrase.split() for theme, phrase in zip(themes(phrases), phrases, strict=True))
