"""The signal index, the same suite on SQLite and on PostgreSQL."""

import multiprocessing
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import pytest

from broadmatch.errors import BadInput, BadParameter, CannotWrite, Conflict, MissingFile
from broadmatch.registry import ConsumptionReport, SignalIndex
from broadmatch.registry.names import LONGEST
from broadmatch.registry.records import DAY, now_us

TOMORROW = datetime.now(UTC).date() + timedelta(days=1)


@dataclass
class Vetted:
    passed: bool = True
    plain: dict = field(default_factory=lambda: {"findings": [], "figures": {"coverage": 0.9}})

    def to_dict(self):
        return {"passed": self.passed, **self.plain}


def add(index, name="price", **more):
    return index.add(name, **{"kind": "number", "owner": "anna", "by": "anna", **more})


def allowed(index, name="price", **more):
    add(index, name, **more)
    index.record_vetting(name, Vetted())
    return index.allow(name, by="anna")


def report(index, signals, model="ctr", **more):
    given = dict.fromkeys(signals) if not isinstance(signals, dict) else signals
    index.report(ConsumptionReport(**{"model": model, "team": "ads", "signals": given, **more}))


def test_what_was_added_is_found_whole(index):
    about = {
        "settings": {"buckets": "log"}, "description": "what it costs", "made_by": "shop.sql",
        "data": {"files": ["prices.parquet"], "columns": ["log.price"]}, "platforms": ["search"], "domains": ["ctr"],
    }  # fmt: skip
    made = add(index, **about)
    assert (made.name, made.version, made.status, made.revision) == ("price", 1, "proposed", 1)
    assert index.get("price") == index.get("price@1") == made
    assert made.settings == about["settings"]
    assert (made.platforms, made.domains) == (("search",), ("ctr",))
    assert made.data == {"files": ("prices.parquet",), "columns": ("log.price",)}
    assert index.signals() == index.signals(status="proposed") == index.signals(search="COSTS") == [made]
    assert index.signals(search="%") == index.signals(status="retired") == []
    assert index.find(["price@1", "price", "none"]) == {"price@1": made, "price": made}
    with pytest.raises(BadInput, match="there already, owned by anna"):
        add(index)
    with pytest.raises(MissingFile, match="no signal 'price@2'"):
        index.get("price@2")
    with pytest.raises(BadParameter, match="status must be"):
        index.signals(status="good")


NAMES = [
    "it's", '"; DROP TABLE signals; --', "%_\\", "💸 prix 价格", "a@b", "x" * LONGEST, "💸" * LONGEST,
    "new\nline", "a/b", " ", "{}",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_only_names(index, name):
    add(index, name, owner=name, by=name, description=name, data={"columns": [name]})
    index.add_version(name, by=name)
    report(index, {name: 0.5}, model=name, contact=name, environment=name)
    index.deprecate(name, use=f"{name}@2", by=name, by_date=TOMORROW, reason=name)
    assert [(one.model, one.contact, one.coverage) for one in index.consumers(name)] == [(name, name, 0.5)]
    assert index.get(name).replacement == f"{name}@2"
    assert [one.signal for one in index.board()] == [f"{name}@1"]
    assert [one.name for one in index.signals(search=name)] == [name, name]
    assert {row["who"] for row in index.audit(name)} == {name}
    assert [notice.recipient for notice in index.notices()] == [name, name]  # not white-listed, and deprecated
    assert index.notices()[-1].message["signal"] == f"{name}@1"
    assert len(index.models()) == 1


@pytest.mark.parametrize("name", ["", "x" * (LONGEST + 1), "a\0b", "\ud800", 5, None])
def test_what_is_no_name_is_refused(index, name):
    with pytest.raises(BadInput):
        add(index, name)
    with pytest.raises(BadInput):
        ConsumptionReport(model="m", signals={name: None})
    assert index.signals() == []


@pytest.mark.parametrize(
    ("more", "what"),
    [({"kind": "nmber"}, "kind of 'price' must be one of"), ({"settings": {"buckets": "lin"}}, "buckets must be"),
     ({"kind": "cross", "settings": {}}, "must be one of"), ({"owner": ""}, "The owner must be"),
     ({"data": {"rows": ["x"]}}, "files, tables and columns"), ({"platforms": [""]}, "platforms must be"),
     ({"by": ""}, "by must be")],
)  # fmt: skip
def test_what_is_no_signal_is_refused_and_leaves_nothing(index, more, what):
    with pytest.raises(BadInput, match=what):
        add(index, **more)
    assert index.signals() == index.audit() == []


def test_white_listing_needs_a_passed_vetting(index):
    add(index)
    with pytest.raises(BadInput, match="needs a passed vetting"):
        index.allow("price", by="ben")
    index.record_vetting("price", Vetted(False))
    assert index.get("price").status == "proposed"
    with pytest.raises(BadInput, match="needs a passed vetting"):
        index.allow("price", by="ben")
    index.record_vetting("price", Vetted())
    assert index.get("price").status == "vetted"
    assert index.allow("price", by="ben").status == "white-listed"
    assert [one["passed"] for one in index.vettings("price")] == [True, False]
    assert index.vettings("price")[0]["report"] == Vetted().to_dict()
    report(index, ["price"], contact="ads@example.org")
    index.record_vetting("price", Vetted(False))  # in use: it stays, and who uses it hears of it
    assert index.get("price").status == "white-listed"
    assert [(n.kind, n.recipient) for n in index.notices()] == [("vetting", "anna"), ("vetting", "ads@example.org")]


def test_a_report_is_kept_once_and_in_any_order(index):
    allowed(index)
    early = ConsumptionReport(model="ctr", team="ads", signals={"price": 0.5}, seen=1000)
    late = ConsumptionReport(model="ctr", team="ads", signals={"price": 0.75, "other@3": None}, seen=2000)
    for one in (late, early, late, early):
        index.report(one)
    (price,) = index.consumers("price")
    assert (price.first_seen, price.last_seen, price.coverage, price.open) == (1000, 2000, 0.75, True)
    made = index.get("other@3")
    assert (made.status, made.owner) == ("proposed", "")
    assert [(m.name, m.first_seen, m.last_seen, m.active) for m in index.models()] == [("ctr", 1000, 2000, True)]
    index.report(early, late)
    assert index.consumers("price") == [price]
    (notice,) = index.notices()  # of what is not white-listed, once
    assert notice.kind == "consumed"
    assert notice.message["signals"] == ["other@3"]


def test_a_signal_that_was_only_reported_gets_an_owner(index):
    report(index, ["price"])
    assert add(index).owner == "anna"
    assert [one.model for one in index.consumers("price")] == ["ctr"]


def test_models_of_one_name_in_two_teams_are_two(index):
    report(index, ["price"], team="ads")
    report(index, ["price"], team="shop")
    report(index, ["price"], team="shop", environment="staging", use="serving")
    assert [(one.team, one.environment, one.use) for one in index.consumers("price")] == [
        ("ads", "", "training"), ("shop", "", "training"), ("shop", "staging", "serving")]  # fmt: skip


def test_deprecation_finds_every_consumer_and_tracks_replacement(index):
    allowed(index)
    index.add_version("price", by="anna", settings={"buckets": [0, 1]})
    for number in range(3):
        report(index, ["price"], model=f"m{number}", contact=f"owner{number}", seen=1000)
    report(index, ["price"], model="m0", use="serving", contact="owner0", seen=1000)
    found = index.deprecate("price", use="price@2", by_date=TOMORROW, by="anna", reason="drifts")
    assert [(one.model, one.use) for one in found] == [("m0", "serving"), ("m0", "training"), ("m1", "training"),
                                                      ("m2", "training")]  # fmt: skip
    (row,) = index.board()
    assert (row.signal, row.replacement, row.by_date, row.overdue) == ("price@1", "price@2", TOMORROW, False)
    assert (row.open, row.done) == (4, 0)
    report(index, ["price@2"], model="m1", seen=2000)  # replaced
    index.set_active("m2", False, by="ben", team="ads")  # no longer in use
    (row,) = index.board()
    assert (row.open, row.done) == (2, 2)
    assert {(one.model, one.use) for one in index.consumers("price") if one.open} == {
        ("m0", "training"), ("m0", "serving")}  # fmt: skip
    report(index, ["price@2"], model="m0", seen=3000)
    report(index, ["price@2"], model="m0", use="serving", seen=3000)
    assert index.board()[0].open == 0
    assert index.retire("price", by="anna").status == "retired"
    assert index.board() == []
    report(index, ["price"], model="m3")  # retired, and consumed all the same
    assert [(row.signal, row.overdue, row.open) for row in index.board()] == [("price@1", True, 1)]
    with pytest.raises(BadInput, match="is retired; add a new version"):
        index.allow("price", by="anna")


def test_what_is_consumed_is_retired_by_force_only(index):
    allowed(index)
    report(index, ["price"])
    with pytest.raises(BadInput, match=r"consumed by 1 models \('ctr'\)"):
        index.retire("price", by="anna")
    assert index.get("price").status == "white-listed"
    assert index.retire("price", by="anna", force=True, reason="wrong").reason == "wrong"


def test_replacements_never_go_in_a_circle(index):
    for name in "abc":
        add(index, name)
    index.deprecate("a", use="b", by="anna")
    index.deprecate("b", use="c", by="anna")
    for name in ("a", "b", "c"):
        with pytest.raises(BadInput, match=f"circle: 'c@1' → '{name}@1'"):
            index.deprecate("c", use=name, by="anna")
    assert index.get("c").status == "proposed"
    index.retire("c", by="anna")
    add(index, "d")
    with pytest.raises(BadInput, match="'c@1' is retired itself"):
        index.deprecate("d", use="c", by="anna")
    with pytest.raises(MissingFile, match="no signal 'e@1'"):
        index.deprecate("d", use="e", by="anna")


def test_a_date_in_the_past_is_refused(index):
    add(index)
    with pytest.raises(BadInput, match="2020-01-31 has passed"):
        index.deprecate("price", by="anna", by_date=date(2020, 1, 31))
    assert index.get("price").status == "proposed"
    index.deprecate("price", by="anna", by_date=datetime.now(UTC).date())
    assert not index.board()[0].overdue


def test_the_second_of_two_who_change_a_signal_is_refused(index, address):
    seen = add(index).revision
    index.edit("price", by="anna", description="euros", revision=seen)
    with (
        SignalIndex.open(address) as other,
        pytest.raises(Conflict, match=r"changed by somebody else since revision 1"),
    ):
        other.edit("price", by="ben", description="dollars", revision=seen)
    assert index.get("price").description == "euros"
    index.deprecate("price", by="anna")
    with pytest.raises(Conflict, match=r"is deprecated already \(revision 3\); name that revision"):
        index.deprecate("price", by="ben")
    index.deprecate("price", by="ben", by_date=TOMORROW, revision=3)
    assert index.get("price").by_date == TOMORROW


def test_two_at_the_very_same_moment(index, address):
    seen, said, gate = add(index).revision, [], threading.Barrier(8)

    def change(who):
        with SignalIndex.open(address) as own:
            gate.wait()
            try:
                said.append(own.edit("price", by=who, owner=who, revision=seen).owner)
            except Conflict:
                said.append(None)

    threads = [threading.Thread(target=change, args=(f"person {number}",)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    (owner,) = [one for one in said if one is not None]
    assert len(said) == 8
    assert index.get("price").owner == owner
    assert [row["who"] for row in index.audit("price")] == [owner, "anna"]


def test_the_trail_says_who_changed_what(index):
    add(index, by="anna")
    index.edit("price", by="ben", owner="carl")
    first, last = index.audit("price")[::-1]
    assert (first["who"], first["what"], first["before"]) == ("anna", "add", None)
    assert (last["who"], last["what"], last["before"], last["after"]) == (
        "ben", "edit", {"owner": "anna"}, {"owner": "carl"})  # fmt: skip
    with pytest.raises(BadParameter, match="not 'status'"):
        index.edit("price", by="ben", status="white-listed")
    report(index, ["price"], reason="only a test")
    assert index.audit()[0]["after"]["reason"] == "only a test"


def test_what_nobody_consumed_for_long(index):
    for name in ("used", "old", "new", "never"):
        add(index, name)
    now = now_us()
    report(index, ["used"], seen=now)
    report(index, ["old"], model="b", seen=now - 40 * DAY)
    later = now + 10 * DAY
    assert [one.name for one in index.unused(30, now=later)] == []  # all were made less than 30 days ago
    assert [one.name for one in index.unused(9, now=later)] == ["never", "new", "old", "used"]
    assert [one.name for one in index.unused(0, now=now_us())] == ["never", "new", "old", "used"]
    report(index, ["new"], seen=later)
    assert [one.name for one in index.unused(9, now=later)] == ["never", "old", "used"]


def write(address, number, n_each):
    with SignalIndex.open(address) as own:
        for turn in range(n_each):
            signals = {f"s{n}": None for n in range(turn, turn + 5)} | {f"own{number}": None}
            own.report(ConsumptionReport(model=f"m{number}", team="t", signals=signals, seen=number * 100 + turn))


def test_fifty_writers_at_once_lose_nothing(index, address):
    threads = [threading.Thread(target=write, args=(address, number, 1)) for number in range(50)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(index.models()) == 50
    for shared in range(5):
        assert len(index.consumers(f"s{shared}")) == 50
    assert all(len(index.consumers(f"own{number}")) == 1 for number in range(0, 50, 7))
    assert sum(len(index.consumers(f"own{number}")) for number in range(50)) == 50


def test_writers_of_several_processes_lose_nothing(index, address):
    context = multiprocessing.get_context("fork")
    index.close()
    workers = [context.Process(target=write, args=(address, number, 2)) for number in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert [one.exitcode for one in workers] == [0] * 4
    assert len(index.consumers("s2")) == 4


def test_an_index_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(MissingFile, match="signals add"):
        SignalIndex.open(tmp_path / "none", make=False)
    assert not (tmp_path / "none").exists()
    with pytest.raises(CannotWrite, match="postgresql://localhost/x cannot be used") as caught:
        SignalIndex.open("postgresql://me:secret@localhost:1/x")
    assert "secret" not in str(caught.value)
    with pytest.raises(BadParameter, match="mysql"):
        SignalIndex.open("mysql://me:secret@localhost/x")
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="Cannot make the folder"):
        SignalIndex.open(tmp_path / "file" / "index")
