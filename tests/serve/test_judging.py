"""Blind sheets: grades are on disk before they are acknowledged, none is lost, and evaluate reads what was written."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from broadmatch.errors import BadArtifact, BadInput
from broadmatch.evaluate import Judgements, SheetKey, judgement_report
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.grades import GradeFile
from tests.serve.shop import Sink, call, make_folder
from tests.serve.studio_shop import ADDRESS, EMOJI, IMAGE, add_sheet

BASE = "/v1/studio/sheets"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("judged") / "engine")


@pytest.fixture
def folder(engine):
    add_sheet(engine)
    yield engine / "studio" / "judgements"
    (engine / "studio" / "judgements" / "sheet.grades.csv").unlink(missing_ok=True)


@pytest.fixture
def app(engine, folder):
    return make_app(ServeConfig(folder=engine), LiveService(engine), Sink())


def ask(app, path, body=None, status=200):
    (answer,) = call(app, ("GET", path) if body is None else ("POST", path, body))
    assert answer.status_code == status, answer.text
    return answer.json() if "json" in answer.headers["content-type"] else answer.content


def rows_of(app, judge):
    pages = ask(app, f"{BASE}/rows", {"sheet": "sheet", "judge": judge})["pages"]
    return [
        (page["page"], phrase, grade)
        for page in pages
        for phrase, grade in zip(page["phrases"], page["grades"], strict=True)
    ]


def grade(app, judge, page, phrase, grade, status=200):
    body = {"sheet": "sheet", "judge": judge, "page": page, "phrase": phrase, "grade": grade}
    return ask(app, f"{BASE}/grade", body, status)


def test_a_sheet_is_blind_and_in_the_order_of_its_file(app, folder):
    pages = ask(app, f"{BASE}/rows", {"sheet": "sheet", "judge": "anna"})
    assert set(pages) == {"sheet", "judge", "pages"} and set(pages["pages"][0]) == {"page", "phrases", "grades"}
    key = SheetKey.open(folder / "sheet.key.json")
    rows = rows_of(app, "anna")
    assert {row[:2] for row in rows} == set(key.pairs()) and len(rows) == 6 and {row[2] for row in rows} == {None}
    (state,) = ask(app, BASE)["sheets"]
    assert state == {"name": "sheet", "n_pages": 2, "n_rows": 6, "judges": {}}
    assert ask(app, f"{BASE}/page", {"page": "p2"}) == {"known": False, "blocks": []}


def test_grades_are_kept_by_judge_changed_and_taken_back(app, folder):
    for page, phrase, _ in rows_of(app, "anna"):
        grade(app, "anna", page, phrase, 4)
    assert grade(app, "anna", "p2", EMOJI, 1) == {"graded": 6, "n_rows": 6}
    assert grade(app, "anna", ADDRESS, IMAGE, None) == {"graded": 5, "n_rows": 6}
    grade(app, "ben ", "p2", EMOJI, 2)
    assert {row[:2]: row[2] for row in rows_of(app, "anna")}["p2", EMOJI] == 1
    assert [row[2] for row in rows_of(app, "ben")].count(2) == 1 and len(rows_of(app, "ben")) == 6
    assert ask(app, BASE)["sheets"][0]["judges"] == {"anna": 5, "ben": 1}
    for wrong in ("p2", "no phrase of it", 4), ("p3", EMOJI, 4), ("p2", EMOJI, 5):
        grade(app, "anna", *wrong, status=422)
    (folder.parent / "elsewhere.grades.csv").write_text("no grades")
    for name in ("../sheet", "../elsewhere", "a\0b"):
        assert "There is no sheet" in ask(app, f"{BASE}/rows", {"sheet": name, "judge": "x"}, 404)["detail"]


def test_evaluate_reads_the_file_as_it_is_and_agreement_is_its_own(app, folder):
    assert ask(app, f"{BASE}/agreement", {"sheet": "sheet"})["agreement"] is None
    ask(app, f"{BASE}/models", {"sheet": "sheet"}, 404)
    for i, (page, phrase, _) in enumerate(rows_of(app, "anna")):
        grade(app, "anna", page, phrase, 1)
        grade(app, "anna", page, phrase, 3 + i % 2)
        grade(app, "ben", page, phrase, 1 + i % 4)
    grade(app, "anna", "p2", EMOJI, None)
    key = SheetKey.open(folder / "sheet.key.json")
    judged = Judgements.read(key, [folder / "sheet.grades.csv"])
    assert judged.judges == ["anna", "ben"]
    report = judgement_report(key, judged, n_bootstrap=200)
    found = ask(app, f"{BASE}/agreement", {"sheet": "sheet"})
    assert found["judges"] == {"anna": 5, "ben": 6} and found["kappa_name"] == "Cohen's kappa"
    assert found["agreement"]["value"] == report.agreement.value and 0 < found["agreement"]["value"] < 1
    models = ask(app, f"{BASE}/models", {"sheet": "sheet"})["models"]
    assert {model: found["P@2"]["value"] for model, found in models.items()} == {
        model: one["P@2"].value for model, one in report.models.items()
    }
    assert ask(app, f"{BASE}/sheet.csv") == (folder / "sheet.grades.csv").read_bytes()


def test_two_judges_at_once_and_a_torn_line_lose_no_grade(tmp_path):
    path = tmp_path / "x.grades.csv"
    pairs = [("p", f"phrase {i}\n") for i in range(40)]
    files = [GradeFile(path), GradeFile(path)]  # as two processes have it: a lock of the file, none in common
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: files[i % 2].append(f"judge {i % 4}", pairs[i % 40], 1 + i % 4), range(160)))
    found = files[0].read()
    assert {judge: len(of) for judge, of in found.items()} == {f"judge {i}": 10 for i in range(4)}
    whole = path.read_bytes()
    path.write_bytes(whole + b'p,"half a li')
    assert files[1].read() == found
    files[1].append("=anna", ("p", "=1+1"), 4)
    assert path.read_bytes().startswith(whole) and b"half" not in path.read_bytes()
    assert files[0].read()["=anna"] == {("p", "=1+1"): 4}
    path.write_bytes(whole.replace(b"grade", b"other", 1))
    with pytest.raises(BadArtifact, match="damaged"):
        files[0].read()


def test_answers_of_one_judge_that_differ_are_still_refused_without_times(tmp_path, folder):
    key = SheetKey.open(folder / "sheet.key.json")
    sheet = tmp_path / "anna.csv"
    sheet.write_text("page,phrase,relevant\np2,🍕🚕,1\np2,🍕🚕,0\n", encoding="utf-8")
    with pytest.raises(BadInput, match="judged twice"):
        Judgements.read(key, [sheet])
