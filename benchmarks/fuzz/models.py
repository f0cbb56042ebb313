"""Forged model folders of every kind: opening one raises `BadArtifact` or nothing, and what opens can be asked.

The folders are made once, by a process with the usual machine code: python -m benchmarks.fuzz.models FOLDER
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

import broadmatch
from benchmarks.fuzz import target
from benchmarks.fuzz.mutate import mutated
from broadmatch.ads import KSP, Auction, BidPhraseModel
from broadmatch.clicks import (
    FOBOS,
    FTRL,
    OGD,
    RDA,
    Bloom,
    ClickJoin,
    ClickModel,
    IsotonicCalibration,
    ManyModels,
    PoissonCalibration,
    SingleValue,
    SlicedCalibration,
    Subsampler,
    Variant,
)
from broadmatch.data import CSR, Batch, Dataset, Hierarchy, Impressions, Names
from broadmatch.errors import BadArtifact, BroadmatchError, MissingFile
from broadmatch.evaluate import TrafficQuality
from broadmatch.features import ClickEmbeddings, PageVectorizer, PivotedVectorizer, RocchioSelector
from broadmatch.harvest import QueryTable
from broadmatch.io import artifacts
from broadmatch.labels import KEX, MLRF, AdaBoostLC, FastXML, OneVsRest, PfastreXML, Recommender, SwiftXML
from broadmatch.labels.predictor import LabelPredictor
from broadmatch.sets import HierarchicalLabels, MetaLabeler, PCut, RCut, SCut, TargetCut, Threshold
from broadmatch.signals import Categorical, Description, Encoder, FeatureNames

Files = dict[str, bytes]
N_POINTS, N_FEATURES, N_LABELS = 60, 12, 6
_NUMBERS = (0, 1, -1, 2, 7, 127, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63))
_FLOATS = (0.0, -1.0, 1e-45, 1e38, -1e38, 1e300, float("inf"), float("-inf"), float("nan"))
_PLAIN = (None, True, False, "", "x", "mlrf", [], {}, [1], {"a": 1}, 1.5, 10**30, -0.0, *_NUMBERS, *_FLOATS)
QUERIES = ["fresh pizza", "pizza", "taxis", "taxi"]
PAGES = ["<title>pizza</title> fresh pizza", "<p>fresh flowers", "flowers and pizza", "", "taxi pizza"] * 3


def points() -> tuple[Any, Any]:
    """Small X and Y with something to learn."""
    rng = np.random.default_rng(0)
    X = (rng.random((N_POINTS, N_FEATURES)) * (rng.random((N_POINTS, N_FEATURES)) < 0.3)).astype(np.float32)
    Y = (X @ (rng.random((N_FEATURES, N_LABELS)) < 0.3) > 0.8).astype(np.float32)
    Y[:, 0] = 1
    return sp.csr_matrix(X), sp.csr_matrix(Y)


def impressions() -> Batch:
    """A short stream of impressions."""
    rng = np.random.default_rng(0)
    rows = [[10 + int(rng.integers(0, 4)), 100 + int(rng.integers(0, 9))] for _ in range(40)]
    clicked = [float(row[0] > 11) for row in rows]
    stream = Impressions.from_rows(rows, fields=[[0, 1]] * 40, clicked=clicked)
    numbers = np.arange(1, 41, dtype=np.uint64)
    slices = {"slice": pa.array([f"s{i % 3}" for i in range(40)])}
    return Batch(stream, time=numbers.astype(np.int64) * 1_000_000, query=numbers // np.uint64(2), id=numbers,
                 slices=slices)  # fmt: skip


def made() -> dict[str, Any]:
    """One thing of every kind that can be saved, by a name of its own."""
    X, Y = points()
    few: dict[str, Any] = {"n_trees": 2, "max_leaf": 4, "n_jobs": 1}
    one = OneVsRest(n_jobs=1)
    tree = Hierarchy.of({str(i): [str(p) for p in above] for i, above in enumerate([[], [], [0], [0, 1], [2], [2]])})
    models: dict[str, Any] = {
        "mlrf": MLRF(**few).fit(X, Y, feature_names=[f"f{i}" for i in range(N_FEATURES)]).calibrate(X, Y),
        "fastxml": FastXML(**few).fit(X, Y),
        "pfastrexml": PfastreXML(**few, ties="random").fit(X, Y),
        "swiftxml": SwiftXML(**few).fit(X, Y, point_names=[str(i) for i in range(N_POINTS)]),
        "swiftxml_plain": SwiftXML(**few, item_sets="plain").fit(X, Y, label_features=np.eye(N_LABELS)),
        "one_vs_rest": one.fit(X, Y),
        "adaboost_lc": AdaBoostLC(rounds=2, n_jobs=1).fit(X, Y, evaluation=(X, Y)),
        "metalabeler": MetaLabeler(one, score_weight=1.0, bar=0.0).fit(X, Y),
        "metalabeler_ranks": MetaLabeler(one, on="ranks", calibrated=True, folds=2).fit(X, Y),
        "rcut": RCut(one).fit(X, Y),
        "pcut": PCut(one).fit(X, Y),
        "scut": SCut(one).fit(X, Y),
        "threshold": Threshold(one, at_least=1).fit(X, Y),
        "target_cut": TargetCut(one, goal=0.3).fit(X, Y),
        "hierarchical_labels": HierarchicalLabels(n_jobs=1, score_weight=1.0, bar=-1.0).fit(X, Y, tree),
        "hierarchical_classes": HierarchicalLabels(n_jobs=1).fit(X, Y, tree),
    }
    vectorizer = PageVectorizer(min_pages=1, n_jobs=1)
    rows = vectorizer.fit_transform(PAGES)
    labels = [["food"], ["gifts"], ["food", "gifts"], [], ["taxi"]] * 3
    models |= {
        "page_vectorizer": vectorizer,
        "pivoted_vectorizer": PivotedVectorizer(min_pages=1, n_jobs=1).fit(PAGES),
        "rocchio_selector": RocchioSelector(terms=2).fit(X, Y),
        "recommender": Recommender(vectorizer, MLRF(**few).fit(rows, labels)),
        "auction": Auction(),
        "ksp": KSP(min_llr=0.0, n_jobs=1).fit_graphs(
            QUERIES, clicks=CSR.from_rows([[0], [0, 1], [1], [2]], 3), rewrites=CSR.from_rows([[1], [2], [], []], 4)
        ),
        "click_embeddings": ClickEmbeddings(size=2).fit(QUERIES, CSR.from_rows([[0], [0, 1], [1], [2]], 3)),
        "bid_phrase": BidPhraseModel(n_trees=3, n_jobs=1).fit_graph(
            QUERIES * 9,
            CSR.from_rows([[0], [0, 1], [1], [2]] * 9, 3),
            ["pizza", "taxi"],
            CSR.from_rows([[0], [1], [0, 1]], 2),
        ),
        "kex": KEX(bits=12, n_jobs=1).fit(PAGES, labels[: len(PAGES)], queries=QueryTable(Names.of(["food", "taxi"]))),
        "dataset": Dataset(CSR.from_scipy(X), CSR.from_scipy(Y), Names.numbers(N_LABELS)),
        "hierarchy": tree,
    }
    return models | _of_clicks()


def _of_clicks() -> dict[str, Any]:
    batch = impressions()
    shown, slices = batch.impressions, batch.slices
    several = {"all": Variant(), "one": Variant(fields=[1]), "ogd": Variant(learner="ogd")}
    learners: dict[str, Any] = {
        "ftrl": FTRL(encoding="q2.13"), "rda": RDA(rates="counts"), "fobos": FOBOS(encoding="float32"),
        "ogd": OGD(inclusion=Bloom(1, 1024)), "many_models": ManyModels(several),
        "single_value": SingleValue({"all": Variant(), "one": Variant(fields=[1])}),
    }  # fmt: skip
    for learner in learners.values():
        learner.learn_many(shown)
    p = np.linspace(0.05, 0.6, len(batch))
    calibrations: dict[str, Any] = {
        "poisson_calibration": PoissonCalibration(half_life=10),
        "isotonic_calibration": IsotonicCalibration(min_clicks=1),
        "sliced_calibration": SlicedCalibration(by=("slice",), min_clicks=1),
        "sliced_isotonic": SlicedCalibration(by=("slice",), method="isotonic", min_clicks=1),
    }
    for calibration in calibrations.values():
        calibration.learn_many(p, shown.clicked, *([slices] if "sliced" in calibration.kind else []))
        calibration.refresh()
    names = FeatureNames()
    description = Description(label="clicked", signals=[Categorical("ad"), Categorical("slice")], slices=["slice"])
    columns = {"clicked": [1, 0] * 5, "ad": ["shoes", "pizza"] * 5, "slice": ["s0", "s1"] * 5}
    encoded = Encoder(description, names=names).encode(pa.record_batch(columns))
    model = FTRL()
    model.learn_many(encoded.impressions)
    served = model.to_serving()
    join, sampler = ClickJoin(window=5), Subsampler(rate=0.5)
    join.add_impressions(batch)
    join.add_clicks([3, 99], [3_000_000, 41_000_000])
    sampler.take(batch)
    watch = TrafficQuality(window=5, slices=("slice",), signals=("ad", "other"), least=1)
    watch.add(batch, p, p)
    whole = ClickModel(description, {"model": served}, calibration=calibrations["sliced_calibration"], names=names)
    return {**learners, **calibrations, "feature_names": names, "click_serving": served, "batch": batch,
            "click_join": join, "subsampler": sampler, "click_model": whole, "traffic_quality": watch}  # fmt: skip


def ask(thing: Any) -> None:
    """Let a thing do what it is there for, and let it be saved and opened again."""
    X, Y = points()
    batch = impressions()
    if isinstance(thing, LabelPredictor):
        _ask_predictor(thing, X, Y)
    elif isinstance(thing, Recommender):
        list(thing.recommend(PAGES[:3], k=2))
        thing.explain(PAGES[0], thing.model.label_names_[0])
    elif isinstance(thing, KEX):
        for k in (2, None):
            list(thing.recommend(PAGES, k))
        thing.explain(PAGES[0], next(thing.recommend(PAGES[0], 1)).phrases[0].phrase)
    elif isinstance(thing, PageVectorizer | RocchioSelector):
        thing.transform(X if isinstance(thing, RocchioSelector) else PAGES)
        thing.get_feature_names_out()
    elif isinstance(thing, KSP):
        list(thing.expand_many([QUERIES[:2], ["pizza fresh", "flower"]], k=3, negatives=["taxi"], group=True))
        thing.fit_weights([QUERIES[:1]], [QUERIES[1:2]])
    elif isinstance(thing, ClickEmbeddings):
        thing.embed(["pizza", "fresh taxi", ""])
    elif isinstance(thing, BidPhraseModel):
        thing.predict(QUERIES, ["pizza", "taxi", "", "cold pizza taxi"])
    elif isinstance(thing, Auction):
        thing.run(bid=[2.0, 1.0], probability=[0.1, 0.3], uncertainty=[0.5, 0.5])
    elif isinstance(thing, Dataset):
        thing.take(np.arange(len(thing))[:2])
    elif isinstance(thing, Hierarchy):
        _ = thing.ancestors, thing.depth
    else:
        _ask_clicks(thing, batch)
    artifacts.restore(thing.to_state())


def _ask_predictor(model: Any, X: Any, Y: Any) -> None:
    model.predict_sets(X)
    model.predict(X[:3])
    model.score(X, Y)
    if model.pointwise:
        model.predict_one(X[0], *([3] if hasattr(model, "calibration_") else []))
    for label in (0, len(model.label_names_) - 1):
        model.explain(X[1], label)
    if not isinstance(model, HierarchicalLabels):
        model.predict_topk(X, k=3, revealed=Y)
    if isinstance(model, FastXML | PfastreXML | SwiftXML):
        model.explain(X[1], 0, revealed=[1, 2])
        model.add_points(X[:4], Y[:4])
        model.predict_topk(X, k=3)


def _ask_clicks(thing: Any, batch: Batch) -> None:
    shown, p = batch.impressions, np.linspace(0.05, 0.6, len(batch))
    if isinstance(thing, SlicedCalibration):
        thing.apply(p, batch.slices)
        thing.learn_many(p, shown.clicked, batch.slices)
        thing.refresh()
    elif hasattr(thing, "refresh"):
        thing.apply(p)
        thing.learn_many(p, shown.clicked)
        thing.refresh()
    elif isinstance(thing, ClickModel):
        rows = pa.record_batch({"ad": ["shoes", "new"], "slice": ["s0", "s9"]})
        thing.predict_many(rows)
        thing.predict_one({"ad": "shoes", "slice": "s1"})
        if thing.names is not None:
            thing.top_features()
    elif isinstance(thing, ClickJoin):
        thing.add_clicks([5], [44_000_000])
        thing.finish()
    elif isinstance(thing, Subsampler):
        thing.take(batch)
        thing.finish()
    elif isinstance(thing, TrafficQuality):
        if tuple(thing.slices) == ("slice",):
            thing.add(batch, p, p)
        thing.tick(10**11, {"clicks": 7})
    elif isinstance(thing, FeatureNames):
        thing.lookup(np.arange(5, dtype=np.uint64))
    elif isinstance(thing, Batch):
        thing.between(0, min(2, len(thing)))
    else:
        thing.predict_many(shown)
        if hasattr(thing, "learn_many"):
            thing.learn_many(shown)
        if hasattr(thing, "items"):
            thing.items()


@target
def models(draw: random.Random, folder: Path) -> None:
    """Folders of every kind."""
    _compile()
    name, files = draw.choice(list(_folders().items()))
    forged = forge(draw, dict(files))
    place = folder / "model"
    shutil.rmtree(place, ignore_errors=True)
    write(forged, place)
    (folder / "kind.txt").write_text(name)
    asked(place, verify=draw.random() < 0.5)


def asked(place: Path, verify: bool = True) -> bool:
    """Open a folder, and ask what it holds, if it opens; whether it did."""
    try:
        thing = broadmatch.load(place, verify=verify)
    except (BadArtifact, MissingFile):
        return False
    except BroadmatchError as error:
        raise AssertionError("opening a folder raised another error") from error
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        ask(thing)
    return True


def forge(draw: random.Random, files: Files) -> Files:
    """A few changes to a folder; mostly its sums are made to fit, as a forger would."""
    for _ in range(1 + min(draw.getrandbits(2), draw.getrandbits(2))):
        if not files:
            break
        name = draw.choice([file for file in files if file.endswith(".npy")] or list(files))
        kind = draw.random()
        if kind < 0.5 and name.endswith(".npy"):
            files[name] = array_bytes(forged_array(draw, read_array(files[name]), files))
        elif kind < 0.85:
            with contextlib.suppress(ValueError, KeyError):  # where an earlier change has left no manifest
                manifest = json.loads(files[artifacts.MANIFEST])
                _forge_plain(draw, manifest)
                files[artifacts.MANIFEST] = json.dumps(manifest).encode()
        elif kind < 0.9:
            other = draw.choice(list(files))
            files[name], files[other] = files[other], files[name]
        elif kind < 0.93:
            files.pop(name)
        else:
            other = draw.choice(list(files))
            files[other] = mutated(draw, [files[other]])
    return files if draw.random() < 0.1 else signed(files)


def forged_array(draw: random.Random, array: np.ndarray[Any, Any], files: Files) -> np.ndarray[Any, Any]:
    """Other values, another order, another length, another shape, another type."""
    array, flat = array.copy(), array.reshape(-1)
    kind = draw.randrange(9)
    if kind < 4 and flat.size:
        values = (*_NUMBERS, *(_FLOATS if array.dtype.kind == "f" else ()), flat.size, -flat.size, flat.size - 1)
        at = [draw.randrange(flat.size) for _ in range(draw.choice((1, 1, 2, flat.size)))]
        with np.errstate(all="ignore"):
            new = np.array([draw.choice(values) for _ in at], object)
            flat = array.reshape(-1)
            flat[at] = [_cast(value, array.dtype) for value in new]
    elif kind == 4 and flat.size:
        with np.errstate(all="ignore"):
            array = (array + array.dtype.type(draw.choice((1, 3, 100)))).astype(array.dtype)
    elif kind == 5:
        array = array[::-1]
    elif kind == 6:
        array = array[: draw.randint(0, len(array))] if array.ndim else array
    elif kind == 7:
        array = np.concatenate([array, array[: draw.randint(0, len(array))]]) if array.ndim else array
    else:
        shapes = (lambda a: a[None], lambda a: a.reshape(-1, 1), lambda a: a.reshape(-1), lambda a: a.astype("U3"),
                  lambda a: a.astype(np.float64), lambda a: a.astype(np.int64),
                  lambda a: np.zeros((), a.dtype))  # fmt: skip
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = draw.choice(shapes)(array)
    return np.ascontiguousarray(array)


def _cast(value: Any, dtype: Any) -> Any:
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        small = int(value) % 2**bits
        return small - 2**bits if dtype.kind == "i" and small >= 2 ** (bits - 1) else small
    return dtype.type(value)


def _forge_plain(draw: random.Random, manifest: dict[str, Any]) -> None:
    """Change something in the manifest: a value, a name, what holds them."""
    at: Any = manifest
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        keys = [key for key in keys if key not in ("arrays", "checksum") or draw.random() < 0.1]
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and draw.random() < 0.9:
            at = at[key]
            continue
        if draw.random() < 0.15:
            del at[key]
        elif isinstance(at[key], int | float) and draw.random() < 0.5:
            at[key] += draw.choice((1, -1, 0.5, 10**9))
        else:
            at[key] = draw.choice(_PLAIN)
        return


def signed(files: Files) -> Files:
    """The same folder with a manifest that says of each array what is there, and a checksum that fits."""
    try:
        manifest = json.loads(files[artifacts.MANIFEST])
        manifest.pop("checksum", None)
        for name, entry in manifest["arrays"].items():
            if f"{name}.npy" in files:
                raw = files[f"{name}.npy"]
                array = read_array(raw)
                digest = hashlib.sha256(array.tobytes()).hexdigest()
                entry |= {"bytes": len(raw), "dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest}
        text = json.dumps(manifest, sort_keys=True)
        manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
        files[artifacts.MANIFEST] = json.dumps(manifest).encode()
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError):  # damaged beyond that
        pass
    return files


def read_array(raw: bytes) -> np.ndarray[Any, Any]:
    """The array of a file; one that numpy cannot read is empty."""
    try:
        found: np.ndarray[Any, Any] = np.load(io.BytesIO(raw), allow_pickle=False)
    except Exception:
        return np.empty(0)
    return found


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """An array as a file."""
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)
    return out.getvalue()


def write(files: Files, place: Path) -> None:
    """Write a folder."""
    place.mkdir(parents=True)
    for name, content in files.items():
        (place / name).write_bytes(content)


@functools.cache
def made_by(module: str) -> Path:
    """The folder that a module of fuzzers makes, once for just this source and by a process of its own."""
    place = Path(__file__).parents[1] / "out" / "fuzz" / f"{module.rpartition('.')[2]}-{_source()}"
    if not place.exists():
        usual = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
        part = place.with_suffix(f".{os.getpid()}")
        part.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", module, str(part)], env=usual, check=True)
        part.rename(place)
    return place


@functools.cache
def _folders() -> dict[str, Files]:
    """The files of a folder of each kind."""
    return {found.name: read(found) for found in sorted(made_by(__spec__.name).iterdir())}


@functools.cache
def _compile() -> None:
    """Ask one of each kind as it was made, so that no case has to wait for machine code."""
    for name, files in _folders().items():
        with tempfile.TemporaryDirectory() as place:
            write(files, Path(place) / name)
            ask(broadmatch.load(Path(place) / name))


def read(folder: Path) -> Files:
    """The files of a folder."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def _source() -> str:
    """A name for just this source."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), *sorted(Path(broadmatch.__file__).parent.rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


if __name__ == "__main__":
    for name, thing in made().items():
        artifacts.save(thing, Path(sys.argv[1]) / name)
