"""The ad index finds what going through all ads finds: after every change, with a delta and compacted."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from broadmatch.ads import MATCH_TYPES, AdIndex, Extended, Inventory, select_extended
from broadmatch.ads.index import ad_index as index_module
from broadmatch.data import Names
from broadmatch.errors import BadArtifact, BadInput, BadParameter, CannotWrite, MissingFile
from tests.reference.ads_index import candidates

WORDS = list("abcdef")
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)
matches = st.sampled_from(MATCH_TYPES[:3])
bids = st.sampled_from([0.1, 0.5, 0.5, 0.55, 2.0, 1e6])
negatives = st.lists(st.tuples(phrases, matches), max_size=2)
ads = st.tuples(
    st.sampled_from([None, "one", "two"]),
    st.lists(st.tuples(phrases, matches, bids), max_size=4, unique_by=lambda row: (tuple(row[0]), row[1])),
    negatives,
)
queries = st.lists(st.sampled_from([*WORDS, "zz"]), max_size=6)


def empty():
    return Inventory.from_rows([{"ad": "none", "page": "p", "phrase": "nothing at all", "match": "exact", "bid": 1}])


def as_reference(index, names):
    found = {}
    for name in names:
        number = index.number(name)
        if number is None:
            continue
        record = index.record(number)
        found[number] = (
            None if record.campaign < 0 else index._record("campaigns", record.campaign).name,
            [(p.number, p.text.split(), MATCH_TYPES[p.match], p.bid) for p in record.phrases],
            [(text.split(), MATCH_TYPES[match]) for text, match in record.negatives],
            [(match.query.split(), match.phrase) for match in record.extended],
        )
    return found


def check(index, names, campaigns, asked, limit):
    """The index answers as the reference does, one by one and from arrays, and says why."""
    truth = as_reference(index, names)
    many = index.match_many([" ".join(query) for query in asked], limit)
    for q, query in enumerate(asked):
        wanted = candidates(truth, campaigns, query, limit)
        one = index.match(" ".join(query), limit)
        got = list(zip(one.ad.tolist(), one.phrase.tolist(), one.bid.tolist(), one.match.tolist(), strict=True))
        assert got == wanted
        assert all(np.array_equal(a, b) for a, b in zip(many.of(q), one, strict=True))
        for name in names:
            number = index.number(name)
            why = index.why(" ".join(query), name, limit)
            place = next((i for i, row in enumerate(wanted) if row[0] == number), None)
            assert (why.shown, why.place) == (place is not None, place), why
            if place is not None:
                assert (MATCH_TYPES.index(why.match), why.bid) == (wanted[place][3], wanted[place][2])


@settings(max_examples=25, deadline=None, phases=[Phase.generate])  # files take long to shrink by
@given(
    st.lists(ads, max_size=7), st.lists(ads, max_size=4), negatives, negatives,
    st.lists(queries, min_size=1, max_size=6), st.integers(1, 4),
    st.lists(st.tuples(queries, st.integers(0, 6)), max_size=3),
)  # fmt: skip
def test_the_index_equals_going_through_all_ads(tmp_path_factory, first, second, one, two, asked, limit, wider):
    index = AdIndex.create(tmp_path_factory.mktemp("ads") / "index", empty())
    names, campaigns = [f"ad{i}" for i in range(len(first))], {"one": one}

    def texts(rows):
        return [(" ".join(words), *rest) for words, *rest in rows]

    with index.change() as change:
        for name, (campaign, own, negative) in zip(names, first, strict=True):
            change.put_ad(name, texts(own), negatives=texts(negative), campaign=campaign)
        change.set_campaign_negatives("one", texts(one))
    for query, ad in wider:
        if ad < len(names) and query and (own := index.record(index.number(names[ad])).phrases):
            with index.change() as change:
                change.set_extended(names[ad], [(" ".join(query), own[-1].number, 0.9)])
    check(index, names, campaigns, asked, limit)
    index.compact()
    check(index, names, campaigns, asked, limit)
    with index.change() as change:
        for name, (campaign, own, negative) in zip(names, second, strict=False):
            change.put_ad(name, texts(own), negatives=texts(negative), campaign=campaign)
        change.set_campaign_negatives("two", texts(two))
        if len(names) > 4:
            change.remove_ad(names[4])
    campaigns["two"] = two
    check(index, names, campaigns, asked, limit)
    check(AdIndex(index.path), names, campaigns, asked, limit)


def test_many_bids_are_cut_to_the_highest(tmp_path):
    """More bids than rows are kept, equal ones among them, in units and lists of every kind."""
    rng = np.random.default_rng(0)
    rows = [
        {"ad": f"ad{i}", "page": "p", "phrase": ["a", "a b", "b", "c a", "a c b"][rng.integers(5)],
         "match": MATCH_TYPES[rng.integers(3)], "bid": float(rng.choice([0.25, 0.5, round(rng.random() + 0.01, 2)]))}
        for i in range(1500)
    ]  # fmt: skip
    index = AdIndex.create(tmp_path / "index", Inventory.from_rows(rows))
    names = [f"ad{i}" for i in range(1500)]
    truth = as_reference(index, names)
    for query in ("a", "a b", "b a c", "c a c b"):
        for limit in (1, 7, 50, 2000):
            found = index.match(query, limit)
            wanted = candidates(truth, {}, query.split(), limit)
            assert found.ad.tolist() == [row[0] for row in wanted]
            assert found.bid.tolist() == [row[2] for row in wanted]


def small(path, **more):
    rows = [
        {"ad": "shoes", "page": "p", "phrase": "red shoes", "match": "broad", "bid": 0.5},
        {"ad": "boots", "page": "p", "phrase": "red boots", "match": "phrase", "bid": 0.75},
    ]
    return AdIndex.create(path, Inventory.from_rows(rows), **more)


def test_changes_are_seen_by_other_readers_within_a_second(tmp_path):
    index = small(tmp_path / "index")
    code = (
        "import sys, time\nfrom broadmatch.ads import AdIndex\nindex = AdIndex(sys.argv[1])\n"
        "print('open', flush=True)\nwhile index.match('green hat').ad.size == 0: time.sleep(0.01)\n"
        "print(time.time(), flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(index.path)], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "open\n"
        with index.change() as change:
            change.put_ad("hat", [("green hat", "exact", 0.1)])
        done = time.time()
        assert float(reader.stdout.readline()) - done < 1


def test_the_map_grows_while_it_is_open_elsewhere(tmp_path, monkeypatch):
    from broadmatch.ads.index import store

    monkeypatch.setattr(store, "_FIRST_SIZE", 1 << 17)
    index = small(tmp_path / "index")
    code = (
        "import sys\nfrom broadmatch.ads import AdIndex\nfrom broadmatch.ads.index import store\n"
        "store._FIRST_SIZE = 1 << 17\n"
        "index = AdIndex(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.readline()\n"
        "print(index.match('many 199').ad.size)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(index.path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout.readline() == "open\n"
        for i in range(20):
            with index.change() as change:
                for k in range(10 * i, 10 * i + 10):
                    change.put_ad(f"many{k}", [(f"many {k}", "exact", 0.1), ("x" * 3000, "exact", 0.1)])
        assert (index.path / "store" / "data.mdb").stat().st_size > 4 << 17
        time.sleep(0.25)
        assert reader.communicate("\n")[0] == "1\n"


def test_dead_readers_are_cleared(tmp_path):
    index = small(tmp_path / "index")
    code = (
        "import os, sys, signal\nfrom broadmatch.ads import AdIndex\nindex = AdIndex(sys.argv[1])\n"
        "index.store.read(lambda txn: os.kill(os.getpid(), signal.SIGKILL))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(index.path)]).returncode == -9
    assert index.store._env.readers().count("\n") > 1
    with index.change() as change:
        change.set_phrase("shoes", "red shoes", "broad", 0.6)
    assert index.store._env.readers().strip() == "(no active readers)" or index.store._env.reader_check() == 0


def test_a_full_disk_keeps_nothing_of_a_change(tmp_path):
    index = small(tmp_path / "index")
    code = (
        "import resource, signal, sys\nfrom broadmatch.ads import AdIndex\nfrom broadmatch.errors import CannotWrite\n"
        "index = AdIndex(sys.argv[1])\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "try:\n    with index.change() as change:\n        change.set_phrase('shoes', 'red shoes', 'broad', 9)\n"
        "        for i in range(3000): change.put_ad(f'x{i}', [('y' * 300, 'exact', 1)])\n"
        "except CannotWrite as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(index.path)], capture_output=True, text=True)
    assert "nothing of this change was kept" in run.stdout, run.stderr
    index.refresh()
    assert index.match("red shoes").bid.tolist() == [0.5]
    with index.change() as change:
        change.set_phrase("shoes", "red shoes", "broad", 9)
    assert index.match("red shoes").bid.tolist() == [9]


def test_an_error_in_the_block_changes_nothing(tmp_path):
    index = small(tmp_path / "index")
    with pytest.raises(BadInput, match="no ad 'hat'"), index.change() as change:
        change.remove_ad("shoes")
        change.set_phrase("hat", "hat", "exact", 1)
    assert index.match("red shoes").ad.tolist() == [0]


def test_two_changes_at_once_are_refused(tmp_path):
    index = small(tmp_path / "index")
    first, second = index.change(), index.change()
    with first:
        first.set_phrase("shoes", "red shoes", "broad", 1)
    with pytest.raises(Exception, match="one writes at a time"), second:
        second.set_phrase("shoes", "red shoes", "broad", 2)
    assert index.match("red shoes").bid.tolist() == [1]


@pytest.mark.parametrize("bid", [0, -1, float("nan"), float("inf"), 1e12, "1"])
def test_bad_bids_are_refused(tmp_path, bid):
    index = small(tmp_path / "index")
    with pytest.raises(BadParameter, match="bid must be a number above 0"), index.change() as change:
        change.set_phrase("shoes", "red shoes", "broad", bid)


def test_phrases_that_cannot_match_are_refused(tmp_path):
    index = small(tmp_path / "index")
    for text in ("!!", "", "a " * 65):
        with pytest.raises(BadInput, match="1 to 64 words"), index.change() as change:
            change.set_phrase("shoes", text, "broad", 1)
    with pytest.raises(BadParameter, match="match must be one of"), index.change() as change:
        change.set_phrase("shoes", "a", "modified", 1)
    with pytest.raises(BadParameter, match="limit must be a whole number"):
        index.match("a", 0)


def test_an_index_of_another_format_is_refused(tmp_path):
    for version, words in ((0, "an older .* build the index again"), (99, "a newer .* upgrade")):
        index = small(tmp_path / f"index{version}")
        index.store.write(lambda txn, meta, version=version: meta.update(format=version))
        with pytest.raises(BadArtifact, match=words):
            AdIndex(index.path)
    with pytest.raises(MissingFile, match="no ad index"):
        AdIndex(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(BadArtifact, match="is not an ad index"):
        AdIndex(tmp_path / "other")


def test_damaged_postings_are_refused(tmp_path):
    index = small(tmp_path / "index")
    folder = next(index.path.glob("postings-*"))
    array = np.load(folder / "list_ptr.npy")
    array[-1] = 1000
    np.save(folder / "list_ptr.npy", array)
    with pytest.raises(BadArtifact, match="list_ptr"):
        AdIndex(index.path)
    with pytest.raises(CannotWrite, match="is not a broadmatch folder"):
        small(tmp_path)


def test_a_query_of_ten_thousand_words_takes_bounded_time(tmp_path):
    index = small(tmp_path / "index")
    query = " ".join(["red shoes", *(f"w{i}" for i in range(10_000)), "red boots"])
    index.match(query)
    begin = time.process_time()
    assert index.match(query).ad.tolist() == [0]  # boots stand behind the first 64 words
    assert time.process_time() - begin < 0.1
    assert not index.why(query, "boots").shown
    long = " ".join(f"w{i}" for i in range(64))
    with index.change() as change:
        change.put_ad("long", [(long, "exact", 1)])
    assert index.match(long).ad.size == 1
    assert index.match(f"{long} more").ad.size == 0


def test_threads_read_while_another_writes(tmp_path, monkeypatch):
    """The two phrases of an ad change together, and no reader sees one without the other."""
    index = small(tmp_path / "index")
    index.every = 0.0
    done, seen = threading.Event(), []

    def read():
        while not done.is_set():
            seen.append(tuple(index.match_many(["one", "two"]).bid.tolist()))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(1, 60):
        with index.change() as change:
            change.put_ad("pair", [("one", "exact", i), ("two", "exact", i)])
        if i == 30:
            index.compact()
    done.set()
    for thread in threads:
        thread.join()
    assert {pair[0] - pair[1] for pair in seen if pair} == {0.0}
    assert len(set(seen)) > 2


def test_a_large_delta_is_warned_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(index_module, "LARGEST_DELTA", 0)
    index = small(tmp_path / "index")
    with index.change() as change:
        change.set_phrase("shoes", "red shoes", "broad", 0.6)
    assert "compact it" in caplog.text
    index.compact()
    assert sorted(file.name for file in index.path.iterdir()) == [
        "postings-000000000000",
        "postings-000000000001",
        "store",
    ]
    assert index.match("red shoes").bid.tolist() == [0.6]


def test_extended_matches_go_with_a_phrase_and_its_bid(tmp_path):
    rows = Extended(
        Names.of(["Scarlet shoes!", "crimson shoes", "ruby shoes", "pink shoes", "scarlet shoes"]),
        np.array([0, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 0]), np.array([0.9, 0.8, 0.75, 0.5, 0.95]),
    )  # fmt: skip
    kept = select_extended(rows)
    assert list(kept.query) == ["scarlet shoes", "crimson shoes", "ruby shoes"]
    assert list(select_extended(rows, threshold=0.97).query) == ["scarlet shoes", "crimson shoes"]
    index = small(tmp_path / "index", extended=kept)
    found = index.match("Ruby Shoes")
    assert (found.ad.tolist(), found.bid.tolist(), found.match.tolist()) == ([0], [0.5], [3])
    assert index.why("ruby shoes", "shoes").reason.startswith("matches by the extended match 'ruby shoes' at 0.5 (bid ")
    with index.change() as change:
        change.set_phrase("shoes", "red shoes", "broad", 0.7)
    assert index.match("ruby shoes").bid.tolist() == [0.7]
    with index.change() as change:
        change.remove_phrase("shoes", "red shoes", "broad")
    assert index.match("ruby shoes").ad.size == 0
    with pytest.raises(BadInput, match="phrase 1 is not one of ad 0"):
        small(tmp_path / "other", extended=kept._replace(phrase=np.array([1, 1, 1])))
