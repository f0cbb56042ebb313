"""`broadmatch train --tune`, and `train` without --model."""

import json

import numpy as np
import pytest

import broadmatch
from broadmatch.data import CSR
from broadmatch.io import Page, read_dataset, write_dataset, write_pages
from broadmatch.labels import MLRF, FastXML, OneVsRest, PfastreXML, SwiftXML, advise_model
from broadmatch.labels.choosing import trials
from broadmatch.simulate import synthetic_dataset
from tests.cli.conftest import LINEAR, failed, refused, worked
from tests.cli.conftest import broadmatch as run


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by a second whenever it is looked at."""
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(trials, "now", lambda: float(next(seconds)))


@pytest.fixture
def a_second_each(monkeypatch):
    """A clock that goes on by a second whenever a model is trained."""
    fits, fit = [], OneVsRest.fit
    monkeypatch.setattr(OneVsRest, "fit", lambda self, *data, **more: fits.append(self) or fit(self, *data, **more))
    monkeypatch.setattr(trials, "now", lambda: float(len(fits)))


def test_tune_saves_what_it_tried(points, tmp_path, a_second_each):
    out, asked = tmp_path / "m", ("--tune", "p@1", "--budget", 30, "--set", "damped=true")
    facts = json.loads(worked("train", points, "--out", out, *LINEAR, *asked, "--json"))
    tuning = facts["tuning"]
    assert tuning == json.loads((out / "tuning.json").read_text(encoding="utf-8"))
    assert tuning["metric"] == "P@1"
    assert tuning["seconds"] <= tuning["budget"] == 30
    assert len(tuning["trials"]) > 3
    assert not any("damped" in trial["settings"] for trial in tuning["trials"])
    model = broadmatch.load(out)
    assert isinstance(model, OneVsRest)
    chosen = OneVsRest(n_jobs=1, **tuning["settings"])
    assert model.get_params() == chosen.get_params()
    data = read_dataset(points)
    same = chosen.fit(data.X, data.Y).predict_topk(data.X).to_csr() != model.predict_topk(data.X).to_csr()
    assert same.nnz == 0
    assert model.n_points_ == len(data)


def test_tune_tells_its_path(points, tmp_path, ticking):
    ran = run("train", points, "--out", tmp_path / "m", *LINEAR, "--sets", "metalabeler", "--tune", "micro-F1",
              "--budget", 20)  # fmt: skip
    assert ran.code == 0, ran.err
    head, first, *_ = ran.out.splitlines()
    assert head.split() == ["tried", "size", "micro-F1", "%", "to", "the", "default", "s"]
    assert first.split()[:2] == ["default", "small"]
    assert " trials: micro-F1 " in ran.out
    assert "default (small): micro-F1" in ran.err
    assert broadmatch.load(tmp_path / "m").predict_sets(read_dataset(points).X).lengths.max() > 0


def test_what_does_not_go_with_tune(points, tmp_path, data):
    asked = ("train", points, "--out", tmp_path / "m")
    assert "--resume does not go with --tune" in refused(*asked, "--tune", "P@1", "--resume")
    assert "--cluster does not go with --tune" in refused(*asked, "--tune", "P@1", "--cluster", "auto")
    assert "--budget is how long --tune may take" in refused(*asked, "--budget", 5)
    assert "no metric 'auc' to tune; there are P@k, nDCG@k" in failed(*asked, "--tune", "auc")
    assert "--budget must be a number above 0" in failed(*asked, *LINEAR, "--tune", "P@1", "--budget", 0)
    assert "--model kex takes" in refused("train", data, "--out", tmp_path / "m", "--model", "kex", "--tune", "P@1")
    assert list(tmp_path.iterdir()) == []


def test_without_a_model_the_data_decide(points, tmp_path):
    ran = run("train", points, "--out", tmp_path / "m", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    expected = advise_model(*(getattr(read_dataset(points), part) for part in "XY"))
    assert type(broadmatch.load(tmp_path / "m")) is expected.model
    assert told["why"] == expected.why
    assert f"--model {told['label_model']}: {expected.why}." in ran.err


def test_words_of_a_small_vocabulary_are_no_measurements(tmp_path):
    colours, things = ("red", "blue", "green"), ("shoes", "hats", "coats", "boots")
    asked = [f"{colour} {thing}" for _ in range(3) for colour in colours for thing in things]
    pages = [Page(f"https://s.example/{n}", f"<p>buy {query} here".encode()) for n, query in enumerate(asked)]
    write_pages(pages, tmp_path / "pages.jsonl")
    log = [f"{query},https://s.example/{n}" for n, query in enumerate(asked) for _ in range(5)]
    (tmp_path / "log.csv").write_text("\n".join(["query,page", *log]))
    sources = ("--clicks", tmp_path / "log.csv", "--pages", tmp_path / "pages.jsonl", "--min-pages", 1)
    worked("harvest", *sources, "--out", tmp_path / "data")
    X = read_dataset(tmp_path / "data" / "train").X
    assert X.nnz > 0.1 * X.n_rows * X.n_cols
    facts = json.loads(worked("train", tmp_path / "data", "--out", tmp_path / "m", "--json"))
    assert facts["label_model"] == "one-vs-rest"


@pytest.mark.parametrize(
    ("given", "cls"),
    [
        (("--set", "c=2"), OneVsRest),
        (("--trees", 2), MLRF),
        (("--set", "max_leaf=3", "--trees", 2), MLRF),
        (("--set", "gamma=3", "--trees", 2), PfastreXML),
        (("--set", "reveal=0.3", "--trees", 2), SwiftXML),
    ],
)
def test_what_is_set_names_the_model(points, tmp_path, given, cls):
    worked("train", points, "--out", tmp_path / "m", *given)
    assert type(broadmatch.load(tmp_path / "m")) is cls


def test_settings_that_no_model_has(points, tmp_path):
    asked = ("train", points, "--out", tmp_path / "m")
    said = refused(*asked, "--set", "max_leav=3")
    assert "--set max_leav: 'max_leav' is not a parameter of any model; did you mean max_leaf?" in said
    assert "No model has all of c, n_trees" in refused(*asked, "--set", "c=1", "--trees", 3)
    assert "--set c must be" in failed(*asked, "--set", "c=much")
    assert list(tmp_path.iterdir()) == []


def test_label_features_are_for_swiftxml(points, tmp_path):
    data = read_dataset(points)
    table = tmp_path / "texts.csv"
    table.write_text("name,text\n" + "\n".join(f"{name},the word {name}" for name in data.labels), encoding="utf-8")
    worked("train", points, "--out", tmp_path / "m", "--label-features", table, "--set", "n_trees=2")
    assert type(broadmatch.load(tmp_path / "m")) is SwiftXML


def test_the_rule_by_size_and_kind():
    def shaped(n_points, n_features, n_labels, values, labels=1, **more):
        rng = np.random.default_rng(0)
        n = n_points * values
        X = CSR(np.arange(n_points + 1) * values, rng.integers(0, n_features, n).astype(np.int32),
                np.ones(n, np.float32), n_features)  # fmt: skip
        entries = np.arange(n_points * labels)
        Y = CSR(np.arange(n_points + 1) * labels, (entries % n_labels).astype(np.int32),
                np.ones(len(entries), np.float32), n_labels)  # fmt: skip
        return advise_model(X, Y, **more).model

    assert shaped(1000, 5000, 100, 30) is OneVsRest
    assert shaped(1000, 5000, 100, 30, labels=12) is FastXML
    assert shaped(20_000, 50_000, 20_000, 30) is OneVsRest
    assert shaped(1000, 100, 50, 100) is MLRF
    assert shaped(1000, 100, 50, 100, words=True) is OneVsRest
    assert shaped(1000, 100, 50, 100, labels=12, words=True) is FastXML
    assert shaped(1_200_000, 10, 100, 5, words=True) is MLRF
    assert shaped(400_000, 100_000, 400_000, 10) is PfastreXML
    assert shaped(1_200_000, 100_000, 1_200_000, 5) is MLRF


def test_tuned_pages_get_phrases(data, tmp_path, ticking):
    worked("train", data, "--out", tmp_path / "m", "--model", "mlrf", "--trees", 2, "--tune", "P@1", "--budget", 15)
    assert json.loads((tmp_path / "m" / "tuning.json").read_text(encoding="utf-8"))["trials"]
    assert isinstance(broadmatch.load(tmp_path / "m").model, MLRF)


def test_a_matrix_without_a_model(tmp_path):
    file = tmp_path / "train.txt"
    write_dataset(synthetic_dataset(200, 20, 3000, seed=1), file, format="xmc")
    assert json.loads(worked("train", file, "--out", tmp_path / "m", "--json"))["label_model"] == "one-vs-rest"
