"""KSP: scores by their definition, sources, negatives, near-duplicates, weights, folders."""

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.ads import ARMS, KSP, Negatives, variant_key
from broadmatch.ads.expansion.phrases import NearDuplicates
from broadmatch.data import CSR, Names, Ranking
from broadmatch.errors import BadArtifact, BadInput, BadParameter, NotFitted
from broadmatch.labels import Phrase, Recommendation
from tests.reference import expansion as reference

WORDS = ("pizza", "delivery", "thai", "food", "taxi", "köln", "nail", "salon")
QUERIES = [f"{a} {b}" for a in WORDS for b in WORDS if a != b] + list(WORDS)


def matrix(shape, density, seed):
    rng = np.random.default_rng(seed)
    made = sp.random(*shape, density=density, random_state=rng, format="csr", dtype=np.float32)
    made.data[:] = rng.integers(1, 9, made.nnz)
    return CSR.from_scipy(made)


@pytest.fixture(scope="module")
def ksp():
    n = len(QUERIES)
    graphs = {"clicks": matrix((n, 20), 0.1, 0), "rewrites": matrix((n, n), 0.05, 1), "bids": matrix((n, 9), 0.1, 2)}
    return KSP(min_llr=0.0, n_jobs=2).fit_graphs(QUERIES, **graphs)


def dense_arms(ksp):
    return [arm.to_scipy().toarray().astype(np.float64) for arm in ksp.arms]


def test_scores_are_those_of_the_definition(ksp):
    weights = {"seeds": 0.5, "rewrites": 0.1, "walk": 1.0, "simrank": 0.3, "co_bid": 0.7}
    lists = [[("pizza", 0.9), ("thai food", 0.2)], ["taxi"], []]
    found = ksp.expand_many(lists, k=1000, weights=weights)
    for given, ranked in zip(lists, found, strict=True):
        seeds = [(QUERIES.index(s), 1.0) if isinstance(s, str) else (QUERIES.index(s[0]), s[1]) for s in given]
        expected = reference.expand(seeds, dense_arms(ksp), list(weights.values()), len(QUERIES))
        assert {one.phrase for one in ranked} == {QUERIES[q] for q in np.flatnonzero(expected)}
        assert [one.score for one in ranked] == pytest.approx(sorted(expected[expected > 0], reverse=True), rel=1e-5)
        for one in ranked:
            assert sum(source.share for source in one.sources) == pytest.approx(1.0)
            main = one.sources[0]
            assert main.seed in [s if isinstance(s, str) else s[0] for s in given]
            if main.arm != "seeds":
                arm = dense_arms(ksp)[ARMS.index(main.arm)]
                score = dict((s, 1.0) if isinstance(s, str) else s for s in given)[main.seed]
                part = weights[main.arm] * score * arm[QUERIES.index(main.seed), QUERIES.index(one.phrase)]
                assert main.share == pytest.approx(part / one.score, rel=1e-4)


def test_many_are_each_alone_whatever_holds_the_seeds(ksp):
    lists = [[("pizza", 0.5), ("thai food", 0.25)], [("taxi", 1.0)]]
    many = ksp.expand_many(lists, k=20)
    assert [list(map(tuple, one)) for one in many] == [list(map(tuple, ksp.expand(one, 20))) for one in lists]
    pages = [Recommendation("a", [Phrase(*pair) for pair in one]) for one in lists]
    ranking = Ranking(
        np.array([[1, 0], [2, 0]], np.int32), np.array([[0.5, 0.25], [1, 0]], np.float32), np.array([2, 1]),
        Names.of(["thai food", "pizza", "taxi"]),
    )  # fmt: skip
    for given in (pages, ranking):
        assert list(ksp.expand_many(given, k=20)) == list(many)
    names = many.ranking.names()
    assert names == [[one.phrase for one in phrases] for phrases in many]
    assert many[-1] == many[1]
    assert len(many[:1]) == 1


def test_unknown_seeds_stand_for_themselves_or_go_by_a_near_duplicate(ksp, caplog):
    caplog.set_level("INFO", "broadmatch")
    found = ksp.expand(["Quantum  Chemistry", "salons pizzas", "!?"], k=1000)
    phrases = [one.phrase for one in found]
    assert {"quantum chemistry", "salons pizzas"} <= set(phrases)
    assert "1 are expanded as near-duplicates, 1 only stand for themselves" in caplog.text
    assert "left out: 1" in caplog.text
    leader = max(("salon pizza", "pizza salon"), key=lambda q: ksp.clicks_[QUERIES.index(q)])
    alone = {one.phrase for one in ksp.expand([leader], k=1000)}
    assert set(phrases) >= alone - {leader}
    long = " ".join(f"word{i}" for i in range(200))
    assert [one.phrase for one in ksp.expand([long])] == [long]
    assert ksp.expand([]) == []


def test_a_phrase_given_twice_counts_once(ksp):
    assert ksp.expand(["pizza", "PIZZA!", ("pizza", 0.5)]) == ksp.expand(["pizza"])


def test_negatives_are_never_recommended(ksp):
    seeds = ["pizza", "thai food", "unknown taxi"]
    every = {one.phrase for one in ksp.expand(seeds, k=1000)}
    assert any("taxi" in phrase.split() for phrase in every)
    found = ksp.expand(seeds, k=1000, negatives=["Taxi", "food pizza", "[thai food]"])
    assert found
    for one in found:
        assert not Negatives(["taxi", "food pizza", "[food thai]"]).rule_out(one.phrase)
        assert {source.seed for source in one.sources} == {"pizza"}
    with pytest.raises(BadInput, match="list of phrases"):
        ksp.expand(seeds, negatives="taxi")


def test_negatives_among_queries_are_those_one_by_one():
    queries = Names.of(["aab", "ba", "aa", "aa b", "b aa c", "köln aa", "c aa b"])
    for negative in ("aa", "b aa", '"aa b"', "[b aa]", "köln", "zzz", "?"):
        ruled = Negatives([negative])
        assert ruled.among(queries).tolist() == [ruled.rule_out(query) for query in queries]
    assert Negatives(["aa"]).among(queries).sum() == 5


def test_near_duplicates_are_one(ksp):
    seeds = ["pizza", "thai food", "zebra crossings", "crossing zebra"]
    plain, grouped = ksp.expand(seeds, k=1000), ksp.expand(seeds, k=1000, group=True)
    keys = [variant_key(one.phrase) for one in grouped]
    assert len(keys) == len(set(keys)) < len(plain)
    assert sorted(p for one in grouped for p in (one.phrase, *one.variants)) == sorted(one.phrase for one in plain)
    best = {}
    for one in plain:
        best.setdefault(variant_key(one.phrase), one)
    assert [(one.phrase, one.score) for one in grouped] == [(one.phrase, one.score) for one in best.values()]
    few = ksp.expand(seeds, k=3, group=True)
    assert [one.phrase for one in few] == [one.phrase for one in grouped[:3]]


def test_the_most_clicked_of_a_group_leads():
    near = NearDuplicates(Names.of(["a b", "b a", "c", "c d"]), np.array([1.0, 5, 0, 0]))
    assert near.leader[near.of("a b")] == 1
    assert near.of("x") == -1


def test_learned_weights_beat_equal_ones_and_every_arm_alone():
    """The truth is said by the walk and the rewrites together; Simrank++ and bids say nothing."""
    rng = np.random.default_rng(0)
    n, n_lists = 200, 120
    topic = np.arange(n) % 20
    same = (topic[:, None] == topic) & (rng.random((n, n)) < 0.5)
    clicks = sp.csr_matrix((rng.integers(1, 9, n), (np.arange(n), rng.permutation(topic)))).astype(np.float32)
    ksp = KSP(min_llr=0.0).fit_graphs(
        [f"q{i}" for i in range(n)],
        clicks=CSR.from_scipy(clicks),
        rewrites=CSR.from_scipy(sp.csr_matrix(same * rng.integers(1, 20, (n, n)), dtype=np.float32)),
        bids=matrix((n, 10), 0.1, 5),
    )
    seeds = [[f"q{q}" for q in rng.choice(np.flatnonzero(topic == i % 20), 2, replace=False)] for i in range(n_lists)]
    truth = [[f"q{q}" for q in np.flatnonzero(topic == i % 20)] for i in range(n_lists)]
    ksp.fit_weights(seeds[:60], truth[:60], k=5)

    def precision(weights=None):
        found = ksp.expand_many(seeds[60:], 5, weights=weights).ranking.names()
        return np.mean([len(set(names) & set(true)) / 5 for names, true in zip(found, truth[60:], strict=True)])

    others = [dict.fromkeys(("seeds", *ARMS), 1.0), *({arm: 1.0} for arm in ("seeds", *ARMS))]
    assert precision() > 0.9
    assert precision() >= max(map(precision, others))
    assert precision() > precision({"co_bid": 1.0}) + 0.3
    assert ksp.weights_.max() == 1.0


def test_weights_want_lists_of_the_same_length_with_something_true(ksp):
    with pytest.raises(BadInput, match="1 lists of seeds and 2"):
        ksp.fit_weights([["pizza"]], [["taxi"], []])
    with pytest.raises(BadInput, match="no weights to learn"):
        ksp.fit_weights([["pizza"]], [["nowhere to be found"]])


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (["pizza"], "is the text 'pizza'"),
        ([[("pizza", float("nan"))]], "score of 'pizza' is nan"),
        ([[("pizza", -1.0)]], "at least 0"),
        ([[3]], "3 is no seed"),
        ([[("a", 1.0, 2.0)]], "is no seed"),
    ],
)
def test_bad_seeds_are_refused(ksp, lists, message):
    with pytest.raises(BadInput, match=message):
        ksp.expand_many(lists)


def test_bad_calls_are_refused(ksp):
    with pytest.raises(NotFitted):
        KSP().expand(["pizza"])
    with pytest.raises(BadParameter, match="k must be"):
        ksp.expand(["pizza"], k=0)
    with pytest.raises(BadParameter, match="'walks' is not an arm; did you mean walk"):
        ksp.expand(["pizza"], weights={"walks": 1.0})
    with pytest.raises(BadParameter, match="keep"):
        KSP(keep=0).fit_graphs(["a"], clicks=CSR.from_rows([[0]], 1))
    with pytest.raises(BadInput, match="has 2 rows"):
        KSP().fit_graphs(["a"], clicks=CSR.from_rows([[0], [0]], 1))
    with pytest.raises(BadInput, match="nothing to learn"):
        KSP().fit_graphs(["a"])


def test_saved_and_opened_it_answers_the_same(ksp, tmp_path):
    ksp.save(tmp_path / "ksp")
    opened = broadmatch.load(tmp_path / "ksp", KSP)
    seeds = ["pizza", ("thai food", 0.3), "food thai pizza"]
    assert opened.expand(seeds, 50, group=True) == ksp.expand(seeds, 50, group=True)
    assert isinstance(opened.walk_.data.base, np.memmap)
    few = KSP().fit_graphs(["a", "b"], clicks=CSR.from_rows([[0], [0]], 1))
    few.save(tmp_path / "few")
    assert broadmatch.load(tmp_path / "few").co_bid_ is None


def test_a_folder_whose_arms_are_no_probabilities_is_refused(ksp, tmp_path):
    state = ksp.to_state()
    for value in (np.nan, -1.0, 7.0):
        data = ksp.walk_.data.copy()
        data[3] = value
        forged = dict(state.arrays) | {"walk_data": data}
        with pytest.raises(BadArtifact, match="no probability"):
            KSP.from_state(type(state)(state.kind, state.params, forged, state.facts, state.parts))
