"""Labels that are known already: recommend and explain --revealed, evaluate --reveal."""

import csv
import io
import json

import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.data import CSR, Dataset, Names, propensity
from broadmatch.evaluate import warm_start_report
from broadmatch.io import read_dataset, write_dataset
from tests.cli.conftest import FEW, failed, refused, worked
from tests.cli.conftest import broadmatch as run


def test_recommend_for_pages_with_revealed_phrases(warm, market, page, tmp_path):
    pages = market / "pages.parquet"
    cold = [json.loads(line) for line in worked("recommend", warm, pages, "-k", 3, "--json").splitlines()]
    known = {row["page"]: row["phrases"][0]["phrase"] for row in cold[:5]}
    lines = "".join(f"{url},{phrase.upper()}!\n" for url, phrase in known.items())
    (tmp_path / "bids.csv").write_text(
        f"url,bid\n{lines}nowhere,{cold[0]['phrases'][0]['phrase']}\n{cold[0]['page']},no such phrase\n"
    )
    asked = ("recommend", warm, pages, "-k", 3, "--json", "--revealed", tmp_path / "bids.csv")
    assert "say which it is with --revealed-columns phrase=YOURS" in failed(*asked)
    ran = run(*asked, "--revealed-columns", "page=url,phrase=bid")
    assert ran.code == 0, ran.err
    assert "the model does not know: 1, such as 'no such phrase'" in ran.err
    assert "1 pages of" in ran.err
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert told[5:] == cold[5:]
    for row in told[:5]:
        assert len(row["phrases"]) == 3
        assert known[row["page"]] not in [p["phrase"] for p in row["phrases"]]
    recommender = broadmatch.load(warm)
    ((_, expected),) = recommender.recommend(page.read_bytes(), 3, revealed=[[known[cold[0]["page"]]]])
    assert [p["phrase"] for p in told[0]["phrases"]] == [p.phrase for p in expected]


def test_what_was_recommended_can_be_revealed(warm, model, page, tmp_path):
    """The output of one call is the --revealed of the next: the next best come, with every model."""
    for one in (warm, model):
        worked("recommend", one, page, "-k", 2, "--out", tmp_path / "first.csv")
        first = {row["phrase"] for row in csv.DictReader(io.StringIO((tmp_path / "first.csv").read_text()))}
        second = worked("recommend", one, page, "-k", 2, "--format", "csv", "--revealed", tmp_path / "first.csv")
        assert len(first) == 2
        assert not first & {row["phrase"] for row in csv.DictReader(io.StringIO(second))}


def test_revealed_pages_that_are_not_among_the_pages(warm, page, tmp_path):
    (tmp_path / "bids.csv").write_text("page,phrase\nhttps://elsewhere.example/,taxi\n")
    said = failed("recommend", warm, page, "--revealed", tmp_path / "bids.csv", "--out", tmp_path / "o.csv")
    assert f"No page of {tmp_path / 'bids.csv'} is among the pages" in said
    assert "'https://elsewhere.example'" in said
    assert not (tmp_path / "o.csv").exists()
    assert "give it as --revealed" in refused("recommend", warm, page, "--revealed-columns", "page=url")
    assert "There is no file" in failed("recommend", warm, page, "--revealed", tmp_path / "none.csv")
    (tmp_path / "bids.csv").write_text("page,phrase\n,taxi\n")
    assert "1 of 1 rows are bad" in failed("recommend", warm, page, "--revealed", tmp_path / "bids.csv")


def test_recommend_for_rows(planted, rows_model, tmp_path):
    data, model = read_dataset(planted), broadmatch.load(rows_model)
    told = [json.loads(line) for line in worked("recommend", rows_model, planted, "-k", 4, "--json").splitlines()]
    assert [row["point"] for row in told] == list(data.points)
    best, _ = model.predict_one(data.X.row(7), k=4)
    assert [label["label"] for label in told[7]["labels"]] == [data.labels[i] for i in best]
    sp.save_npz(tmp_path / "X.npz", data.X.to_scipy())
    rows = list(csv.DictReader(io.StringIO(worked("recommend", rows_model, tmp_path / "X.npz", "--format", "csv"))))
    assert rows[0]["point"] == "0"
    assert set(rows[0]) == {"point", "rank", "label", "score"}
    sp.save_npz(tmp_path / "wide.npz", sp.csr_matrix((2, 99)))
    assert "X has 99 features, but the model was fitted on 60" in failed("recommend", rows_model, tmp_path / "wide.npz")
    assert "give one data set" in refused("recommend", rows_model, planted, planted)


def test_recommend_for_rows_with_revealed_labels(planted, rows_model, tmp_path):
    data, model = read_dataset(planted), broadmatch.load(rows_model)
    expected = CSR.from_scipy(model.predict_topk(data.X, 3, revealed=data.Y).to_csr())
    sp.save_npz(tmp_path / "Y.npz", data.Y.to_scipy())
    rows = [(f"p{i}", data.labels[int(label)]) for i in range(300) for label in data.Y.row(i)[0]]
    (tmp_path / "known.tsv").write_text("".join(f"{p}\t{label}\n" for p, label in [("point", "label"), *rows]))
    for revealed in (planted, tmp_path / "Y.npz", tmp_path / "known.tsv"):
        told = worked("recommend", rows_model, planted, "-k", 3, "--json", "--revealed", revealed).splitlines()
        found = [{label["label"] for label in json.loads(line)["labels"]} for line in told]
        assert found == [{data.labels[int(label)] for label in expected.row(i)[0]} for i in range(300)]
    sp.save_npz(tmp_path / "Y.npz", data.Y.to_scipy()[:5])
    asked = ("recommend", rows_model, planted, "--revealed")
    assert "has 5 rows, but there are 300 to recommend for" in failed(*asked, tmp_path / "Y.npz")
    sp.save_npz(tmp_path / "Y.npz", sp.csr_matrix((300, 4)))
    assert "has 4 labels, but the model knows 20" in failed(*asked, tmp_path / "Y.npz")
    other = Dataset(data.X, data.Y, Names.of([*data.labels[:19], "new"]))
    write_dataset(other, tmp_path / "other")
    assert "that the model does not know: 1" in run(*asked, tmp_path / "other").err


@pytest.mark.parametrize("name", ["mlrf", "fastxml", "swiftxml"])
def test_evaluate_with_revealed_labels(planted, tmp_path, name):
    data = read_dataset(planted)
    worked("train", planted, "--out", tmp_path / "m", "--model", name, *FEW)
    asked = ("evaluate", tmp_path / "m", planted, "--reveal", "0.25,0.5", "--seeds", 2, "-k", 1, "-k", 3)
    told = json.loads(worked(*asked, "--json"))
    model = broadmatch.load(tmp_path / "m")
    chance = propensity(model.label_counts_, len(data))
    expected = warm_start_report(model, data.X, data.Y, shares=(0.25, 0.5), seeds=(0, 1), ks=(1, 3), propensity=chance)
    assert told == json.loads(json.dumps(expected.to_dict()))
    assert worked(*asked) == f"{expected}\n"


def test_evaluate_with_revealed_labels_that_the_model_does_not_know(planted, rows_model, tmp_path):
    data = read_dataset(planted)
    write_dataset(Dataset(data.X, data.Y, Names.of([*data.labels[:19], "new"])), tmp_path / "other")
    told = json.loads(worked("evaluate", rows_model, tmp_path / "other", "--reveal", 0.5, "--json"))
    assert told["n_labels"] == 21
    assert told["shares"][0]["metrics"]["P@1"]["value"] < 1


def test_evaluate_a_recommender_with_revealed_phrases(warm, data):
    table = worked("evaluate", warm, data, "--reveal", "0.2,0.8", "--seeds", 1)
    assert "20% revealed" in table
    assert "80% revealed" in table
    assert "PSP@5" in table


@pytest.mark.parametrize("shares", ["0", "1.5", "1", "0.2,0.2", "half", "", "0.2;0.4", "nan"])
def test_shares_that_cannot_be(warm, data, shares):
    assert "--reveal is a list of different shares above 0 and below 1" in refused(
        "evaluate", warm, data, "--reveal", shares
    )


def test_options_that_do_not_go_together(warm, data, market):
    assert "give --reveal too" in refused("evaluate", warm, data, "--seeds", 2)
    assert "--truth cannot be had" in refused("evaluate", warm, data, "--reveal", "0.5", "--truth", market)
    said = failed("evaluate", warm, data, "--reveal", "0.5", "--seeds", 0)
    assert said == "Error: --seeds must be a whole number of at least 1, but it is 0."


def test_explain_for_rows(planted, rows_model, tmp_path):
    data, model = read_dataset(planted), broadmatch.load(rows_model)
    best = data.labels[int(model.predict_one(data.X.row(7), k=1)[0][0])]
    cold = json.loads(worked("explain", rows_model, planted, best, "--row", 7, "--json"))
    assert cold == model.explain(data.X.row(7), best).to_dict()
    assert json.loads(worked("explain", rows_model, planted, best, "--name", "p7", "--json")) == cold
    (tmp_path / "known.csv").write_text("point,label\n" + "".join(f"p7,{data.labels[i]}\n" for i in range(3)))
    asked = ("explain", rows_model, planted, best, "--name", "p7", "--revealed", tmp_path / "known.csv")
    warm = json.loads(worked(*asked, "--json"))
    assert warm == model.explain(data.X.row(7), best, revealed=[0, 1, 2]).to_dict()
    assert [one for one in warm["contributions"] if one["kind"] == "revealed"]
    table = worked(*asked)
    assert "Features that decided" in table
    assert "Revealed labels that decided" in table
    assert "The re-ranker" in table
    assert f"Of the {warm['factors']['n_near']} training points most like it" in " ".join(table.split())
    first = warm["neighbours"][0]
    assert f"{first['point']} ({first['likeness']:.2f}, with {', '.join(first['shared'])}" in " ".join(table.split())
    assert cold["neighbours"] == []
    assert "training points most like it" not in worked("explain", rows_model, planted, best, "--row", 7)
    assert "no point named 'p999'" in failed("explain", rows_model, planted, best, "--name", "p999")
    assert "no row 300; it has 0 to 299" in failed("explain", rows_model, planted, best, "--row", 300)
    assert "give a data set as PAGE and a point" in refused("explain", rows_model, planted, best)


def test_explain_for_a_page(warm, model, page, tmp_path):
    first, second = json.loads(worked("recommend", warm, page, "-k", 2, "--json"))["phrases"]
    (tmp_path / "bids.csv").write_text(f"page,phrase\n{page},{first['phrase']}\n")
    cold = worked("explain", warm, page, second["phrase"])
    assert "Words that decided" in cold
    assert "Revealed" not in cold
    warmed = json.loads(worked("explain", warm, page, second["phrase"], "--revealed", tmp_path / "bids.csv", "--json"))
    told = json.loads(worked("recommend", warm, page, "-k", 9, "--revealed", tmp_path / "bids.csv", "--json"))
    scores = {p["phrase"]: p["score"] for p in told["phrases"]}
    assert warmed["score"] == pytest.approx(scores[second["phrase"]], rel=1e-4)
    assert "MLRF does not look at revealed labels" in refused(
        "explain", model, page, second["phrase"], "--revealed", tmp_path / "bids.csv"
    )
    assert "give it as --revealed" in refused("explain", warm, page, "taxi", "--revealed-columns", "page=url")
