"""`train --label-features`: what labels are like, from a matrix, texts or phrases."""

import json

import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.features import text_label_features
from broadmatch.io import read_dataset
from broadmatch.labels import SwiftXML
from tests.cli.conftest import FEW, failed, worked
from tests.cli.conftest import broadmatch as run


def fitted(planted, features, place):
    """Whether the model at `place` is the one with these label features."""
    data, model = read_dataset(planted), broadmatch.load(place)
    expected = SwiftXML(n_trees=3, max_leaf=5).fit(data.X, data.Y, label_features=features)
    assert model.label_features_.n_cols > 20
    assert model.label_features_.shape == expected.label_features_.shape
    assert (
        model.predict_topk(data.X, revealed=data.Y).to_csr() != expected.predict_topk(data.X, revealed=data.Y).to_csr()
    ).nnz == 0


def test_label_features_from_a_matrix(planted, tmp_path):
    own = sp.random(20, 6, 0.5, random_state=0, format="csr")
    sp.save_npz(tmp_path / "f.npz", own)
    worked("train", planted, "--out", tmp_path / "m", "--model", "swiftxml", *FEW, "--label-features",
           tmp_path / "f.npz")  # fmt: skip
    fitted(planted, own, tmp_path / "m")
    sp.save_npz(tmp_path / "f.npz", own[:7])
    said = failed("train", planted, "--out", tmp_path / "m2", "--model", "swiftxml", "--label-features",
                  tmp_path / "f.npz")  # fmt: skip
    assert f"{tmp_path / 'f.npz'} has 7 rows, but there are 20 labels" in said


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_label_features_from_texts(planted, tmp_path, suffix):
    data = read_dataset(planted)
    texts = {name: f"{name} about {'cats' if i < 10 else 'dogs'}" for i, name in enumerate(data.labels) if i != 3}
    file = tmp_path / f"texts.{suffix}"
    if suffix == "jsonl":
        file.write_text("".join(json.dumps({"title": n, "long": t}) + "\n" for n, t in texts.items()))
    else:
        mark = "," if suffix == "csv" else "\t"
        file.write_text("".join(f"{n}{mark}{t}\n" for n, t in {"title": "long", **texts}.items()))
    asked = ("train", planted, "--out", tmp_path / "m", "--model", "swiftxml", *FEW, "--label-features", file)
    said = failed(*asked)
    assert f"{file} has no column 'label' or 'name' or 'id' for our 'label'; its columns are 'title', 'long'" in said
    assert "--label-columns label=YOURS" in said
    ran = run(*asked, "--label-columns", "label=title,text=long")
    assert ran.code == 0, ran.err
    assert f"Labels without a text in {file}: 1 of 20." in ran.err
    words, _ = text_label_features([texts.get(name, "") for name in data.labels])
    fitted(planted, words, tmp_path / "m")


def test_label_texts_of_other_labels(planted, tmp_path):
    (tmp_path / "t.csv").write_text("label,text\nelsewhere,cats\n")
    asked = ("train", planted, "--out", tmp_path / "m", "--model", "swiftxml", "--label-features", tmp_path / "t.csv")
    assert "has a text for none of the 20 labels; it names 'elsewhere'" in failed(*asked)
    assert "but it maps 'moon'" in failed(*asked, "--label-columns", "moon=text")
    assert "There is no file" in failed(*asked[:-1], tmp_path / "none.csv")


def test_phrases_are_their_own_label_features(data, warm):
    """Beside the labels themselves, which the model adds."""
    train = broadmatch.load(data / "train")
    words, _ = text_label_features(list(train.labels))
    assert broadmatch.load(warm).model.label_features_.shape == (len(train.labels), len(train.labels) + words.n_cols)


def test_texts_without_a_word_in_common(planted, tmp_path):
    names = list(read_dataset(planted).labels)
    lines = "".join(f"{name},word{i}\n" for i, name in enumerate(names))
    (tmp_path / "t.csv").write_text(f"label,text\n{lines}")
    ran = run("train", planted, "--out", tmp_path / "m", "--model", "swiftxml", *FEW, "--label-features",
              tmp_path / "t.csv")  # fmt: skip
    assert ran.code == 0
    assert "Warning: No word is in two of the 20 label texts" in ran.err
