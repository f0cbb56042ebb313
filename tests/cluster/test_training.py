"""One-vs-rest by blocks of labels and ranking trees by tree: the same bits as on one machine; resuming."""

import shutil

import numpy as np
import pytest

from broadmatch.cluster import ThreadEngine, fit
from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.io.checkpoints import Checkpoints, Portion, PortionDone
from broadmatch.labels import MLRF, AdaBoostLC, FastXML, OneVsRest, PfastreXML, SwiftXML
from tests.cluster.data import belief_data, digests, plain_data


def label_features(n_labels):
    return CSR.from_rows([[i % 7, 7 + i % 11] for i in range(n_labels)], 18)


MODELS = {
    "one-vs-rest": (lambda: OneVsRest(n_jobs=1), False),
    "logistic": (lambda: OneVsRest(loss="logistic", positives="balanced", n_jobs=2), False),
    "fastxml": (lambda: FastXML(n_trees=5, n_jobs=1), False),
    "pfastrexml": (lambda: PfastreXML(n_trees=4, n_jobs=2, ties="random"), False),
    "swiftxml": (lambda: SwiftXML(n_trees=3, n_jobs=1), True),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("data", [plain_data, belief_data])
def test_same_bits_for_every_number_of_shards(name, data, tmp_path):
    make, described = MODELS[name]
    X, Y = data(400)
    more = {"label_features": label_features(Y.n_cols)} if described else {}
    expected = digests(make().fit(X, Y, **more))
    for n_shards in (1, 2, 3, 5):
        job = tmp_path / f"{n_shards}"
        assert digests(fit(ThreadEngine(), make(), X, Y, job, n_shards, **more)) == expected


def test_it_goes_on_from_the_parts_that_are_there(tmp_path):
    X, Y = plain_data(400)
    whole = fit(ThreadEngine(), FastXML(n_trees=4), X, Y, tmp_path, 2)
    shutil.rmtree(tmp_path / "00000002")
    made = []

    class Counting(ThreadEngine):
        def map(self, task, items, *, memory, title):
            items = list(items)
            made.extend(item[3] for item in items)
            return super().map(task, items, memory=memory, title=title)

    assert digests(fit(Counting(), FastXML(n_trees=4), X, Y, tmp_path, 2)) == digests(whole)
    assert made == [[2]]


def test_mlrf_is_grown_over_rows(tmp_path):
    X, Y = plain_data(400)
    model = MLRF(n_trees=2, subtree_rows=1000)
    assert digests(fit(ThreadEngine(), model, X, Y, tmp_path, 2)) == digests(model.fit(X, Y))


def test_a_model_of_rounds_is_refused(tmp_path):
    with pytest.raises(
        BadInput, match=r"^AdaBoostLC learns in rounds, one after the other; train it on one machine\.$"
    ):
        fit(ThreadEngine(), AdaBoostLC(), *plain_data(400), tmp_path, 2)


def test_a_portion_makes_its_parts_and_no_model(tmp_path):
    X, Y = plain_data(400)
    model = FastXML(n_trees=3)
    with pytest.raises(PortionDone):
        model.fit(X, Y, checkpoint=Portion(tmp_path, [2, 5]))
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000002"]
    assert not model.__sklearn_is_fitted__()
    assert Checkpoints(None).wanted(2) == range(2)


def test_options_that_are_no_data_do_not_travel(tmp_path):
    X, Y = plain_data(400)
    names = [f"label {i}" for i in range(Y.n_cols)]
    model = fit(ThreadEngine(), FastXML(n_trees=1), X, Y, tmp_path, 2, label_names=names)
    assert list(model.label_names_) == names
    assert np.isfinite(model.predict_topk(X, 3).scores).all()
