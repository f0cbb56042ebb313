"""What the contract suite needs: the estimators found in the package, data for each, and how to compare them."""

import hashlib
import importlib
import inspect
import os
import pkgutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.data import CSR, Hierarchy
from broadmatch.labels import one_vs_rest
from broadmatch.labels.base import LabelModel
from broadmatch.params import Estimator

N_POINTS, N_FEATURES, N_LABELS = 300, 30, 9
NEVER = N_LABELS - 1
"""A label that no point has."""


def points(seed=0):
    """X and Y with something to learn; one point without features, one without labels, one label never seen."""
    rng = np.random.default_rng(seed)
    X = (rng.random((N_POINTS, N_FEATURES)) * (rng.random((N_POINTS, N_FEATURES)) < 0.2)).astype(np.float32)
    X[5] = 0
    Y = (X @ (rng.random((N_FEATURES, N_LABELS)) < 0.3) > 0.8).astype(np.float32)
    Y[:, 0] = X[:, 0] > 0
    Y[7] = Y[:, NEVER] = 0
    return sp.csr_matrix(X), sp.csr_matrix(Y)


def pages():
    """HTML pages as bytes and as text, an empty one among them."""
    words = ["pizza", "taxi", "flowers", "fresh", "cheap", "city", "night", "café"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 12)) for _ in range(40)]
    html = [f"<title>{t[:6]}</title><body>{t}<a href='/'>{t[-6:]}</a>" for t in texts]
    return [*(page.encode() if i % 2 else page for i, page in enumerate(html)), "", *texts]


def page_phrases():
    """Phrases for each of `pages`, some of which stand on it."""
    return [["fresh pizza", "cheap taxi"] if i % 3 else ["city night", "flowers"] for i in range(len(pages()))]


def categories():
    """The labels of `points` as a hierarchy: two roots, four below them, one of these has two parents, three deeper."""
    above = [[], [], [0], [0], [0, 1], [1], [2], [2], [4]]
    return Hierarchy.of({str(i): [str(p) for p in parents] for i, parents in enumerate(above)})


def searches():
    """A click log with sessions, in a file."""
    rng = np.random.default_rng(0)
    words = ["pizza", "taxi", "flowers", "fresh", "cheap", "city", "night", "café"]
    asked = [f"{rng.choice(words)} {rng.choice(words)},p{rng.integers(0, 9)}" for _ in range(200)]
    rows = [f"{one},s{i // 4},{1_700_000_000 + i}" for i, one in enumerate(asked)]
    folder = Path(tempfile.gettempdir()) / f"broadmatch-contract-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    (folder / "clicks.csv").write_text("\n".join(["query,page,session,time", *rows]), encoding="utf-8")
    return folder / "clicks.csv"


def bids():
    """Bid phrases of the pages of `searches`, in a file."""
    rows = [f"p{i},{phrase}" for i in range(9) for phrase in PAIRS[1][i % 3 : i % 3 + 2]]
    file = searches().with_name("bids.csv")
    file.write_text("\n".join(["page,phrase", *rows]), encoding="utf-8")
    return file


PAIRS = (
    ["pizza taxi", "city night", "fresh café", "unheard", ""],
    ["pizza", "night taxi", "cheap flowers", "city", "of"],
)
"""Queries and phrases."""
LABEL_MODELS = ("AdaBoostLC", "FastXML", "MLRF", "OneVsRest", "PfastreXML", "SwiftXML")
SET_MODELS = ("HierarchicalLabels", "MetaLabeler", "PCut", "RCut", "SCut", "TargetCut", "Threshold")
SELECTORS = ("RocchioSelector",)
VECTORIZERS = ("PageVectorizer", "PivotedVectorizer")
EXPANDERS = ("KSP",)
EXTRACTORS = ("KEX",)
EMBEDDINGS = ("ClickEmbeddings",)
PAIR_MODELS = ("BidPhraseModel",)
CLICK_LEARNERS = ("FOBOS", "FTRL", "ManyModels", "OGD", "RDA", "SingleValue")
CALIBRATIONS = ("IsotonicCalibration", "PoissonCalibration", "SlicedCalibration")
STREAM_STEPS = (*CALIBRATIONS, "ClickJoin", "Subsampler", "TrafficQuality")
"""What stands before or behind a click learner in a stream, and goes on from a checkpoint as it does."""
SETTINGS_ONLY = ("Auction",)
"""What has parameters and learns nothing."""
NAMES = {
    *(*LABEL_MODELS, *SET_MODELS, *SELECTORS, *VECTORIZERS, *EXPANDERS, *EXTRACTORS, *EMBEDDINGS),
    *(*CLICK_LEARNERS, *STREAM_STEPS, *SETTINGS_ONLY, *PAIR_MODELS),
}
"""What the suite has to find: a new estimator is written here, and nowhere else."""

DATA = {
    **dict.fromkeys((*LABEL_MODELS, *SET_MODELS, *SELECTORS), points),
    **dict.fromkeys(VECTORIZERS, lambda: (pages(),)),
    **dict.fromkeys(EXPANDERS, lambda: (searches(),)),
    **dict.fromkeys(EXTRACTORS, lambda: (pages(), page_phrases())),
    **dict.fromkeys(EMBEDDINGS, lambda: (PAIRS[0], CSR.from_scipy(points()[1][: len(PAIRS[0])]))),
    **dict.fromkeys(PAIR_MODELS, lambda: (searches(), bids())),
    "HierarchicalLabels": lambda: (*points(), categories()),
}
"""What `fit` takes, by name of the estimator."""

SMALL = {
    "n_trees": 4,
    "rounds": 4,
    "max_leaf": 3,
    "min_leaf": 1,
    "features_per_node": 5,
    "min_pages": 2,
    "goal": 0.5,
    "bits": 12,
    "n_jobs": 1,
}
"""Settings that make a fit fast, for the estimators that have them."""

LONG = SMALL | {"n_trees": 1_000_000, "rounds": 1_000_000}
"""Settings that make a fit take longer than any test waits."""


def found():
    """Every estimator that a package of broadmatch offers."""
    packages = [m.name for m in pkgutil.iter_modules(broadmatch.__path__) if m.ispkg]
    modules = [importlib.import_module(f"broadmatch.{name}") for name in packages]
    things = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    return sorted({t for t in things if inspect.isclass(t) and issubclass(t, Estimator)}, key=lambda t: t.__name__)


FOUND = found()


def among(names):
    """The estimators of these names that were found, as a parameter of a test."""
    return pytest.mark.parametrize("cls", [c for c in FOUND if c.__name__ in names], ids=lambda c: c.__name__)


ESTIMATORS = [c for c in FOUND if hasattr(c, "fit")]
every_estimator = among([c.__name__ for c in ESTIMATORS])
every_label_model, every_set_model = among(LABEL_MODELS), among(SET_MODELS)
every_predictor = among(LABEL_MODELS + SET_MODELS)
every_transformer, every_vectorizer = among(SELECTORS + VECTORIZERS), among(VECTORIZERS)
every_click_learner, every_stream_step = among(CLICK_LEARNERS), among(STREAM_STEPS)
every_online = among((*CLICK_LEARNERS, *STREAM_STEPS))


def small(cls, settings=SMALL, **more):
    """An estimator with the settings that it has."""
    return cls(**{name: value for name, value in (settings | more).items() if name in cls.rules})


def make_long(cls):
    """Make a fit last until it is stopped where no setting does: the last label waits."""
    if cls.__name__ == "OneVsRest":
        solve_block = one_vs_rest.solve_block

        def waiting(first, last, data, tolerance, seed, stop):
            while last == N_LABELS and not stop[0]:
                time.sleep(0.01)
            return solve_block(first, last, data, tolerance, seed, stop)

        one_vs_rest.solve_block = waiting


def data_of(cls):
    return DATA[cls.__name__]()


def fitted(cls, **more):
    return small(cls, **more).fit(*data_of(cls))


def answer(model, given=None):
    """What an estimator says of data, as bytes."""
    X = (data_of(type(model)) if given is None else given)[0]
    if hasattr(model, "embed"):
        return [model.embed(PAIRS[0]).tobytes(), model.page_vectors_.tobytes()]
    if hasattr(model, "decision_function") and hasattr(model, "best"):
        return [model.predict(*PAIRS).tobytes(), model.decision_function(*PAIRS).tobytes()]
    if hasattr(model, "recommend"):
        return [list(model.recommend(X, k)) for k in (4, None)]
    if isinstance(model, LabelModel):
        said = model.predict_topk(X, k=4).to_csr()
    elif hasattr(model, "expand_many"):
        said = model.expand_many([["pizza taxi"], ["city night", ("fresh", 0.5)], []], k=9).ranking.to_csr()
    else:
        said = model.predict_sets(X).to_csr() if hasattr(model, "predict_sets") else model.transform(X)
    return tuple(np.asarray(a).tobytes() for a in (said.indptr, said.indices, said.data)), said.shape


def arrays_of(state, prefix=""):
    """Every array of a state and of its parts, by name."""
    own = {prefix + name: array for name, array in state.arrays.items()}
    for name, part in state.parts.items():
        own |= arrays_of(part, f"{prefix}{name}.")
    return own


def bits(model):
    """A hash of every array that the model is made of."""
    return {n: hashlib.sha256(np.ascontiguousarray(a)).hexdigest() for n, a in arrays_of(model.to_state()).items()}


def memory_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None
