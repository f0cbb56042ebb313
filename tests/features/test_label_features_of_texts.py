"""Label features from texts: words that several labels have, embeddings of a model on disk."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from broadmatch.errors import BadInput, MissingExtra
from broadmatch.features import embed_label_features, text_label_features

TEXTS = ["cheap pizza delivery", "pizza oven", "Oven <b>delivery</b> & more", "", "unlike any"]


def test_equals_scikit_learn_on_plain_text() -> None:
    texts = ["cheap pizza delivery", "pizza oven, pizza stone", "oven delivery", "", "unlike others"]
    features, vectorizer = text_label_features(iter(texts))
    peer = TfidfVectorizer(min_df=2)
    expected = peer.fit_transform(texts)
    assert list(vectorizer.vocabulary_) == list(peer.get_feature_names_out())
    assert features.to_scipy().toarray() == pytest.approx(expected.toarray())
    assert np.diff(features.indptr).tolist() == [2, 2, 2, 0, 0]


def test_a_label_that_comes_later_gets_the_same_columns() -> None:
    features, vectorizer = text_label_features(TEXTS)
    later = vectorizer.transform(["pizza oven"])
    assert np.array_equal(later.toarray()[0], features.to_scipy().toarray()[1])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no label texts"),
        ("pizza", "one string"),
        (["pizza", None], "The text of label 1 is None"),
        (["pizza", "oven"], "No word is in two of the 2 label texts"),
        ([""], "No word is in two of the 1 label texts"),
    ],
)
def test_texts_that_cannot_be_used_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        text_label_features(texts)


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(MissingExtra, match=r"pip install 'broadmatch\[embeddings\]'"):
        embed_label_features(TEXTS, "some/model")


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A model of three words, made with the library itself."""
    model2vec = pytest.importorskip("model2vec", reason="the extra broadmatch[embeddings] is not installed")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    unknown = "[UNK]"
    tokenizer = Tokenizer(WordLevel({unknown: 0, "pizza": 1, "oven": 2, "taxi": 3}, unk_token=unknown))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.array([[9, 9], [2, 0], [0, 2], [-3, 4]], np.float32)
    model2vec.StaticModel(vectors, tokenizer).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_embeddings_are_unit_rows_of_the_mean_of_the_words(model_folder: Path) -> None:
    features = embed_label_features(["pizza oven", "taxi", "", "unknown"], str(model_folder))
    expected = np.array([[0.5**0.5, 0.5**0.5], [-0.6, 0.8], [0, 0], [0, 0]])
    assert features.to_scipy().toarray() == pytest.approx(expected)
    assert np.diff(features.indptr).tolist() == [2, 2, 0, 0]


def test_a_folder_without_a_model_is_refused(model_folder: Path) -> None:
    with pytest.raises(BadInput, match=r"The embedding model .* cannot be loaded"):
        embed_label_features(["pizza"], str(model_folder.parent))
