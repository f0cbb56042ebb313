"""Blind sheets, filled-in sheets, and the report of what people said."""

import csv
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from broadmatch.errors import BadArtifact, BadInput, BadParameter, MissingFile
from broadmatch.evaluate import Judgements, SheetKey, judgement_report, paired_difference
from tests.reference import agreement as slow

ANSWERS = {
    "forest/": [("/tea", ["green tea", "=tea()", "black tea"]), ("/pie", ["pie", "apple pie"]), ("/none", [])],
    "trees/": [("/tea", ["black tea", "coffee"]), ("/pie", [("apple pie", 0.5)]), ("/none", ["pie"])],
}
KEY = SheetKey.of(ANSWERS, k=3)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fill(path, answers, judge=None):
    """A sheet as a person would leave it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["page", "phrase", "relevant", *(["judge"] if judge else [])])
        for (page, phrase), answer in answers.items():
            out.writerow([page, phrase, answer, *([judge] if judge else [])])
    return path


def test_a_sheet_has_every_pair_once_and_no_model(tmp_path):
    assert KEY.write_sheet(tmp_path / "sheet.csv", seed=1) == 7
    rows = rows_of(tmp_path / "sheet.csv")
    assert {(row["page"], row["phrase"].removeprefix("'")) for row in rows} == set(KEY.pairs())
    assert [*rows[0]] == ["page", "phrase", "relevant"]
    assert {row["relevant"] for row in rows} == {""}
    assert not any(model in (tmp_path / "sheet.csv").read_text() for model in ANSWERS)
    pages = [row["page"] for row in rows]
    assert len(set(pages)) == 1 + sum(a != b for a, b in itertools.pairwise(pages))


def test_the_order_is_fixed_by_the_seed_and_not_by_the_models(tmp_path):
    turned = SheetKey.of(dict(reversed(ANSWERS.items())), k=3)
    for name, key, seed in (("a", KEY, 1), ("b", KEY, 1), ("c", turned, 1), ("d", KEY, 2)):
        key.write_sheet(tmp_path / f"{name}.csv", seed=seed)
    first, again, other, drawn = ((tmp_path / f"{name}.csv").read_bytes() for name in "abcd")
    assert first == again == other != drawn


def test_a_key_is_read_as_it_was_written(tmp_path):
    KEY.save(tmp_path / "key.json")
    assert SheetKey.open(tmp_path / "key.json") == KEY


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_sheet_that_went_through_a_program_is_read(suffix, tmp_path):
    sheet = tmp_path / f"anna.{suffix}"
    KEY.write_sheet(sheet)
    if suffix == "csv":
        fill(sheet, {(r["page"], r["phrase"]): "yes" if "tea" in r["phrase"] else "No" for r in rows_of(sheet)})
    else:
        from openpyxl import load_workbook

        book = load_workbook(sheet)
        for _, phrase, relevant in book.active.iter_rows(min_row=2):
            assert phrase.data_type == "s"
            relevant.value = 1 if "tea" in phrase.value else 0
        book.save(sheet)
    judged = Judgements.read(KEY, [sheet])
    assert judged.judges == ["anna"]
    assert judged.relevant[:, 0].tolist() == ["tea" in phrase for _, phrase in KEY.pairs()]


def test_precision_is_over_judges_and_missing_phrases_are_misses(tmp_path):
    every = dict.fromkeys(KEY.pairs(), 0)
    anna = fill(tmp_path / "anna.csv", every | {("/tea", "green tea"): 1, ("/tea", "black tea"): "TRUE"})
    ben = fill(tmp_path / "ben.csv", every | {("/tea", "green tea"): "y", ("/pie", "pie"): 1})
    report = judgement_report(KEY, Judgements.read(KEY, [anna, ben]), n_bootstrap=200)
    assert report.models["forest/"]["P@3"].value == pytest.approx((1 + 0.5 + 0.5) / 9)
    assert report.models["trees/"]["P@3"].value == pytest.approx(0.5 / 9)
    assert report.models["forest/"]["P@3"].low < report.models["forest/"]["P@3"].high
    assert paired_difference(report.models["forest/"], report.models["trees/"], "P@3").value == pytest.approx(1.5 / 9)
    assert (report.judges, report.n_unjudged) == ({"anna": 7, "ben": 7}, 0)
    assert "Cohen's kappa" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["agreement"]["value"] == pytest.approx(5 / 7)


def test_what_is_not_filled_in_is_counted_and_left_out(tmp_path):
    anna = fill(tmp_path / "anna.csv", {("/tea", "green tea"): 1, ("/tea", "black tea"): "", ("/pie", "pie"): 0})
    report = judgement_report(KEY, Judgements.read(KEY, [anna]), n_bootstrap=10)
    assert (report.judges, report.n_pairs, report.n_unjudged) == ({"anna": 2}, 7, 5)
    # of nine places three are unjudged: of the six others one is right
    assert report.models["forest/"]["P@3"].value == pytest.approx(1 / 6)
    assert (report.agreement, report.kappa) == (None, None)
    assert "nobody judged 5" in str(report)
    with pytest.raises(BadInput, match="no row of the sheets was filled in"):
        judgement_report(KEY, Judgements.read(KEY, [fill(tmp_path / "empty.csv", dict.fromkeys(KEY.pairs(), ""))]))


def test_one_file_may_hold_several_judges(tmp_path):
    parts = [fill(tmp_path / f"{name}.csv", {("/pie", "pie"): 1}, judge=name).read_text() for name in ("anna", "ben")]
    (tmp_path / "both.csv").write_text(parts[0] + parts[1].partition("\n")[2])
    assert Judgements.read(KEY, [tmp_path / "both.csv"]).judges == ["anna", "ben"]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        fill(tmp_path / folder / "sheet.csv", {("/pie", "pie"): 1})
    assert len(Judgements.read(KEY, [tmp_path / "one/sheet.csv", tmp_path / "two/sheet.csv"]).judges) == 2


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({("/tea", "cocoa"): 1}, "line 2: 'cocoa' for '/tea' is not in the key"),
        ({("/pie", "pie"): "perhaps"}, "line 2: relevant is 'perhaps'"),
        ({("/pie", "pie"): 1, ("/pie", " pie"): 0}, "line 3: 'pie' for '/pie' is judged twice"),
    ],
)
def test_bad_rows_are_named(answers, message, tmp_path):
    with pytest.raises(BadInput, match=message):
        Judgements.read(KEY, [fill(tmp_path / "anna.csv", answers)])


def test_bad_keys_and_sheets_are_refused(tmp_path):
    with pytest.raises(BadInput, match="nothing to judge"):
        SheetKey.of({"a": [("/", [])]})
    with pytest.raises(BadInput, match="two answers"):
        SheetKey.of({"a": [("/", ["tea"]), ("/", ["pie"])]})
    with pytest.raises(BadInput, match="1 of 2 pages"):
        SheetKey.of({"a": [("/", ["tea"]), ("/b", [])], "b": [("/", ["tea"])]})
    with pytest.raises(BadParameter, match="k must be"):
        SheetKey.of(ANSWERS, k=0)
    with pytest.raises(BadParameter, match=r"\.csv or \.xlsx"):
        KEY.write_sheet(tmp_path / "sheet.pdf")
    with pytest.raises(BadInput, match="no sheets"):
        Judgements.read(KEY, [])
    with pytest.raises(MissingFile):
        SheetKey.open(tmp_path / "none.json")
    (tmp_path / "no.xlsx").write_bytes(b"PK")
    with pytest.raises(BadInput, match="not a workbook"):
        Judgements.read(KEY, [tmp_path / "no.xlsx"])
    (tmp_path / "no.csv").write_text("page,phrase\n/pie,pie\n")
    with pytest.raises(BadInput, match="no column 'relevant'"):
        Judgements.read(KEY, [tmp_path / "no.csv"])
    for wrong in (
        "",
        "[]",
        "{}",
        '{"k": 1, "models": {"a": 3}}',
        '{"k": 1, "models": {"a": {"/": "tea"}}}',
        '{"k": 1, "models": {"a": {"/": [3]}}}',
        "[" * 99999,
    ):
        (tmp_path / "bad.json").write_text(wrong)
        with pytest.raises(BadArtifact, match="not the key"):
            SheetKey.open(tmp_path / "bad.json")


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.data())
def test_agreement_equals_the_definitions(n_judges, data):
    row = st.lists(st.sampled_from([0.0, 1.0, None]), min_size=n_judges, max_size=n_judges)
    votes = data.draw(st.lists(row, min_size=7, max_size=7))
    relevant = np.array([[np.nan if vote is None else vote for vote in row] for row in votes])
    try:
        report = judgement_report(KEY, Judgements([str(i) for i in range(n_judges)], relevant), n_bootstrap=100)
    except BadInput as error:
        assert "judged" in str(error) or "filled in" in str(error)
        return
    kappa = slow.cohen(votes) if n_judges == 2 else slow.fleiss(votes)
    for found, expected in ((report.agreement, slow.agreement(votes)), (report.kappa, kappa)):
        assert (found is None) == (expected is None)
        assert found is None or found.value == pytest.approx(expected, abs=1e-12)


def test_cohens_kappa_is_that_of_scikit_learn():
    votes = np.array([[1, 1], [1, 0], [0, 0], [0, 0], [1, 1], [0, 1], [0, 0]], float)
    report = judgement_report(KEY, Judgements(["a", "b"], votes))
    assert report.kappa.value == pytest.approx(cohen_kappa_score(votes[:, 0], votes[:, 1]))


def test_the_table_of_fleiss_of_1971_in_two_classes():
    """Ten things, fourteen judges: yes is the first class of the paper's example against all others."""
    yes = [0, 0, 0, 0, 2, 7, 3, 2, 6, 0]
    votes = [[1.0] * n + [0.0] * (14 - n) for n in yes]
    key = SheetKey.of({"m": [(f"/{i}", ["x"]) for i in range(10)]}, k=1)
    report = judgement_report(key, Judgements([str(j) for j in range(14)], np.array(votes)))
    assert report.kappa.value == pytest.approx(slow.fleiss(votes))
    assert report.kappa.low <= report.kappa.value <= report.kappa.high
