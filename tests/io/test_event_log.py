"""The contract of event logs, embedded and in Kafka: once, in order, from any position, never a hang."""

import functools
import itertools
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from broadmatch.errors import BadInput, BadParameter, CannotWrite, PositionLost
from broadmatch.io import EmbeddedEventLog, Event, EventBatch, EventPosition, KafkaEventLog, RecordStream, Rejects

TOPICS = (f"events-{i}" for i in itertools.count())


def make(i, kind="impressions", payload=b'{"ad":7}'):
    return Event(f"id-{i}", 1_700_000_000_000_000 + i, kind, payload)


def read_all(log, position=None, limit=10_000):
    """All events from a position on."""
    position, found = log.begin if position is None else position, []
    while True:
        batch, after = log.read(position, limit)
        assert len(batch) <= limit
        assert position <= after
        if not len(batch):
            return found, after
        found, position = [*found, *batch], after


@pytest.fixture(scope="session")
def broker():
    """The client's own broker, in this process."""
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 2})
    brokers = producer.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{one.host}:{one.port}" for one in brokers)
    producer.flush(1)


@pytest.fixture(params=["embedded", "kafka"])
def opened(request, tmp_path):
    """Opens the same log, to write or to read; closes all of them."""
    logs = []
    if request.param == "kafka":
        place = next(TOPICS), request.getfixturevalue("broker")
        how = functools.partial(KafkaEventLog, settings={"fetch.wait.max.ms": 5})
    else:
        place, how = (tmp_path / "log",), EmbeddedEventLog

    def make_log(**settings):
        logs.append(how(*place, **settings))
        return logs[-1]

    yield make_log
    for log in logs:
        log.close()


@pytest.fixture
def log(opened):
    return opened(write=True)


def test_what_is_appended_is_read(log):
    events = [make(i, kind) for i, kind in enumerate(("impressions", "clicks", "conversions", "bounces"))]
    assert log.append(events[0]) == (1, 0)
    assert log.append(events[1:3]) == (2, 0)
    assert log.append(EventBatch.of(events[3:])) == (1, 0)
    found, end = read_all(log)
    assert sorted(found) == sorted(events)
    assert end == log.end
    assert log.append([]) == (0, 0)
    assert log.end == end


def test_an_event_keeps_every_byte(log):
    odd = [
        Event("ü/日本-\U0001f600", -5, "clicks", '{"query":"pizza ü 日本 \U0001f600","x":[1,{"y":null}]}'.encode()),
        Event("x" * 200, 0, "impressions", b"{}"),
        Event("a", (1 << 60) - 1, "bounces", b'{"z":"' + b"z" * ((1 << 20) - 8) + b'"}'),
    ]
    assert log.append(odd) == (3, 0)
    assert sorted(read_all(log)[0]) == sorted(odd)


def test_a_repeated_id_is_kept_once_and_counted(log, opened):
    assert log.append([make(1), make(2), make(1)]) == (2, 1)
    assert log.append([make(2), make(3)]) == (1, 1)
    assert log.append(make(3, payload=b'{"other":1}')) == (0, 1)
    assert log.repeated == 3
    log.close()
    again = opened(write=True)  # what is on disk is known too
    assert again.append([make(i) for i in range(5)]) == (2, 3)
    found, _ = read_all(again)
    assert sorted(found) == sorted(make(i) for i in range(5))


def test_positions_go_on_wherever_a_reader_was(log, opened):
    for i in range(0, 60, 3):
        log.append([make(i), make(i + 1), make(i + 2)])
    everything, end = read_all(log)
    reader = opened()
    position, done = reader.begin, []
    while position != end:
        batch, position = opened().read(EventPosition.from_json(position.to_json()), limit=7)
        done += batch
    assert sorted(done) == sorted(everything)
    assert sorted(read_all(reader, limit=1)[0]) == sorted(everything)


def test_what_comes_later_is_waited_for(log, opened):
    reader = opened()
    assert not reader.wait(reader.end, 0)
    log.append(make(0))
    assert reader.wait(reader.begin, 10)
    (first,), position = reader.read(reader.begin)
    assert first == make(0)
    waited = []
    thread = threading.Thread(target=lambda: waited.append(reader.wait(position, 60)))
    thread.start()
    log.append(make(1))
    thread.join(60)
    assert waited == [True]
    assert [*reader.read(position)[0]] == [make(1)]


def test_threads_share_the_log(log):
    def work(k):
        for i in range(10):
            assert sum(log.append([make(1000 * k + i), make(i)])) == 2

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found, _ = read_all(log)
    assert sorted(found) == sorted(
        [make(i) for i in range(10)] + [make(1000 * k + i) for k in range(1, 9) for i in range(10)]
    )
    assert log.repeated == 70


def test_submitted_events_are_there_when_the_log_is_closed(log, opened):
    results = [log.submit(make(i)) for i in range(50)]
    log.close()
    assert [one.result(0) for one in results] == [(1, 0)] * 50
    assert len(read_all(opened())[0]) == 50
    with pytest.raises(CannotWrite, match="closed"):
        log.append(make(51))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (tuple(make(1)), "must be an Event"),
        (make(1)._replace(id=""), "1 to 200 bytes"),
        (make(1)._replace(id="x" * 201), "has 201"),
        (make(1)._replace(id=7), "must be a text"),
        (make(1)._replace(id="\ud800"), "must be a text"),
        (make(1)._replace(kind="click"), "kinds are impressions"),
        (make(1)._replace(time=1.5), "whole microseconds"),
        (make(1)._replace(time=1 << 60), "whole microseconds"),
        (make(1)._replace(payload="{}"), "bytes of a JSON object"),
        (make(1)._replace(payload=b"[]"), "bytes of a JSON object"),
        (make(1)._replace(payload=b"{}\n"), "bytes of a JSON object"),
        (make(1)._replace(payload=b'{"a":\n1}'), "in one line"),
        (make(1)._replace(payload=b'{"a":"%s"}' % (b"x" * (1 << 20))), "at most 1,048,576"),
    ],
)
def test_what_is_no_event_is_refused_and_nothing_with_it_is_kept(log, event, said):
    end = log.end
    with pytest.raises(BadInput, match=said):
        log.append([make(0), event])
    assert log.end == end


def test_batches_are_bound(log):
    with pytest.raises(BadInput, match="at most 10,000"):
        log.append([make(i) for i in range(10_001)])
    large = make(0, payload=b'{"a":"%s"}' % (b"x" * 1_000_000))
    with pytest.raises(BadInput, match="at most 67,108,864"):
        log.append([large._replace(id=str(i)) for i in range(68)])
    with pytest.raises(BadParameter, match="limit"):
        log.read(log.begin, 0)


def test_columns_that_do_not_fit_are_refused(log):
    good = EventBatch.of([make(0), make(1)])
    broken = [
        {"kind": good.kind + 4}, {"time": good.time[:1]}, {"id_ptr": good.id_ptr + 1},
        {"payload_ptr": good.payload_ptr[::-1].copy()}, {"payloads": good.payloads.copy() * 0 + 10},
    ]  # fmt: skip
    for change in broken:
        with pytest.raises(BadInput, match=r"EventBatch\.of"):
            log.append(EventBatch(**{**vars(good), **change}))


def test_strange_positions_are_refused(log):
    log.append([make(0), make(1)])
    end = log.end
    with pytest.raises(BadInput, match="another log"):
        log.read(EventPosition("elsewhere", end.offsets))
    with pytest.raises(PositionLost, match="beyond the end"):
        log.read(EventPosition(end.log, (end.offsets[0] + 1000, *end.offsets[1:])))
    for plain in (
        {},
        {"log": "x"},
        {"log": 1, "offsets": [1]},
        {"log": "x", "offsets": [-1]},
        {"log": "x", "offsets": []},
    ):
        with pytest.raises(BadInput, match="not a position"):
            EventPosition.from_json(plain)


def test_who_only_reads_cannot_append(log, opened):
    log.append(make(0))
    with pytest.raises(BadParameter, match="write must be True"):
        opened().append(make(1))


def test_columns_of_events():
    events = [
        make(0, payload=b'{"ad":"a","price":1,"id":"theirs"}'), make(1, payload=b'{"price":2.5,"extra":[1]}'),
        make(2, "clicks", b'{"ad":"\\ud800"}'), make(3, "clicks", b'{"ad":{}}'), make(4, payload=b"{}"),
    ]  # fmt: skip
    batch, rejects = EventBatch.of(events), Rejects()
    table = batch.to_arrow(["price", "id", "ad", "time", "kind"], rejects)
    assert table.to_pydict() == {
        "price": [1.0, 2.5, None], "id": ["id-0", "id-1", "id-4"], "ad": ["a", None, None],
        "time": [datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(microseconds=i) for i in (0, 1, 4)],
        "kind": ["impressions"] * 3,
    }  # fmt: skip
    assert rejects.reasons == {"ad is an object or a list": 1, "a text in the line is not valid Unicode": 1}
    with pytest.raises(BadInput, match="Event 'id-2' of events: a text in the line is not valid Unicode; pass rejects"):
        batch.to_arrow(["ad"])
    assert batch.only("clicks").to_arrow(["id", "kind"]).to_pydict() == {"id": ["id-2", "id-3"], "kind": ["clicks"] * 2}
    assert EventBatch.of([]).to_arrow(["id", "ad"]).num_rows == 0
    with pytest.raises(BadInput, match="kinds are"):
        batch.only("views")


def test_columns_are_those_of_the_same_lines_in_a_file(tmp_path):
    payloads = [
        b'{"ad":"a%d","price":%s,"clicked":%s,"deep":{"x":1}}' % (i, b"null" if i % 5 == 0 else b"%d.5" % i,
                                                                   b"true" if i % 3 else b"false") for i in range(300)
    ]  # fmt: skip
    file, columns = tmp_path / "log.jsonl", ["price", "ad", "clicked"]
    file.write_bytes(b"".join(payload + b"\n" for payload in payloads))
    (rows,) = RecordStream(file, columns=columns)
    found = EventBatch.of([make(i, payload=payload) for i, payload in enumerate(payloads)]).to_arrow(columns)
    assert found.equals(rows.table)


def test_events_since_a_time(tmp_path, monkeypatch):
    """The embedded log only: the client's own broker of Kafka does not look at times."""
    marks = []
    monkeypatch.setattr("broadmatch.io.event_log.writer.SEGMENT_EVENTS", 5)
    with EmbeddedEventLog(tmp_path / "log", write=True) as log:
        for part in range(30):
            marks.append((time.time_ns() // 1000, log.end))
            log.append(Event(str(part), part, "clicks", b'{"x":"' + b"x" * 1500 + b'"}'))
        assert len(list(log.path.glob("*.events"))) > 3
        for moment, place in marks:
            assert log.since(moment) == place
        assert log.since(0) == log.begin and log.since(1 << 60) == log.end


def test_parts_of_a_batch_have_their_own_results(tmp_path):
    with EmbeddedEventLog(tmp_path / "log", write=True) as log:
        log.append([make(1), make(4)])
        found = log.append_parts(EventBatch.of([make(i) for i in (0, 1, 2, 3, 0, 4)]), [2, 0, 3, 1])
        assert found == [(1, 1), (0, 0), (2, 1), (0, 1)]
        with pytest.raises(BadInput, match="have 3 in all"):
            log.append_parts(EventBatch.of([make(7), make(8)]), [1, 2])
        assert len(read_all(log)[0]) == 5
