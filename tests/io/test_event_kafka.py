"""Logs in Kafka: offsets that are gone, messages of others, brokers that do not answer."""

import pytest

from broadmatch.errors import BadInput, CannotWrite, PositionLost
from broadmatch.io import KafkaEventLog
from tests.io.test_event_log import TOPICS, broker, make, read_all

__all__ = ["broker"]
QUICK = {"fetch.wait.max.ms": 5}


class AsksTimes:
    """A consumer whose question for times is answered otherwise."""

    def __init__(self, consumer, offsets_for_times):
        self._consumer, self.offsets_for_times = consumer, offsets_for_times

    def __getattr__(self, name):
        return getattr(self._consumer, name)


@pytest.fixture
def topic():
    return next(TOPICS)


def test_offsets_that_are_gone_are_told_and_never_waited_for(broker, topic):
    """The broker keeps a few megabytes of each partition."""
    with KafkaEventLog(topic, broker, write=True, settings=QUICK) as log:
        log.append(make(0))
        begin, large = log.begin, b'{"a":"%s"}' % (b"x" * 1_000_000)
        for k in range(8):
            log.append([make(6 * k + i + 1, payload=large) for i in range(6)])
        assert min(log.begin.offsets) > 0
        for look in (lambda: log.read(begin), lambda: log.wait(begin, 60)):
            with pytest.raises(PositionLost, match="are no longer kept; go on from the log's begin"):
                look()
        assert read_all(log)[0]


def test_a_time_is_asked_of_the_brokers_in_milliseconds(broker, topic, monkeypatch):
    """The client's own broker does not look at times: what it is asked is answered here, as the protocol says."""
    with KafkaEventLog(topic, broker, write=True, settings=QUICK) as log:
        log.append([make(i * 2_000_000) for i in range(40)])
        times, place = [[] for _ in log.begin.offsets], log.begin
        while place != log.end:
            (event,), after = log.read(place, 1)
            (partition,) = [p for p, moved in enumerate(after.offsets) if moved != place.offsets[p]]
            times[partition].append(event.time // 1000)
            place = after

        def offsets_for_times(wanted, timeout):
            for place in wanted:
                later = [i for i, moment in enumerate(times[place.partition]) if moment >= place.offset]
                place.offset = min(later, default=-1)  # -1: none is so late
            return wanted

        monkeypatch.setattr(log, "_consumer", AsksTimes(log._consumer, offsets_for_times))
        for i in (0, 1, 17, 39):
            found = read_all(log, log.since(make(i * 2_000_000).time))[0]
            assert sorted(found) == sorted(make(k * 2_000_000) for k in range(i, 40))
        assert log.since(1 << 60) == log.end and log.since(0) == log.begin == log.since(-5)


def test_an_offset_that_goes_while_it_is_read(broker, topic, monkeypatch):
    with KafkaEventLog(topic, broker, write=True, settings=QUICK) as log:
        for k in range(8):
            log.append([make(6 * k + i + 1, payload=b'{"a":"%s"}' % (b"x" * 1_000_000)) for i in range(6)])
        oldest, newest = log._marks()
        start = type(oldest)(oldest.log, tuple(0 for _ in oldest.offsets))
        monkeypatch.setattr(log, "_marks", lambda: (start, newest))  # as they were a moment ago
        with pytest.raises(PositionLost, match="are no longer kept; go on from the log's begin"):
            read_all(log, start)


def test_messages_of_others_are_passed_over_and_counted(broker, topic):
    kafka = pytest.importorskip("confluent_kafka")
    with KafkaEventLog(topic, broker, write=True, settings=QUICK) as log:
        log.append(make(0))
        producer = kafka.Producer({"bootstrap.servers": broker, "log_level": 2})
        time = ("time", bytes(8))
        producer.produce(topic, b"not json", b"key", headers=[("kind", b"clicks"), time])
        producer.produce(topic, b"{}", b"key", headers=[("kind", b"clicks"), ("time", b"soon")])
        producer.produce(topic, b"{}", b"key", headers=[("kind", b"\xff"), time])
        producer.produce(topic, None, None)
        producer.flush(10)
        log.append(make(1))
        assert sorted(read_all(log)[0]) == [make(0), make(1)]
        assert log.rejected == 4


def test_partitions_that_were_added_are_read_from_their_beginning(broker, topic):
    with KafkaEventLog(topic, broker, write=True, settings=QUICK) as log:
        log.append([make(i) for i in range(40)])
        fewer = type(log.begin)(topic, log.begin.offsets[:1])
        assert len(read_all(log, log.read(fewer, 1)[1])[0]) == 39


def test_brokers_that_do_not_answer_are_told(monkeypatch):
    monkeypatch.setattr("broadmatch.io.event_log.kafka._TIMEOUT", 0.2)
    with pytest.raises(BadInput, match="cannot be reached"):
        KafkaEventLog("events", "127.0.0.1:9")
    with pytest.raises(CannotWrite, match="cannot be reached"):
        KafkaEventLog("events", "127.0.0.1:9", write=True)


def test_a_broker_that_refuses_events(broker, topic):
    """Larger than what the client sends: the caller hears of it, and may append the rest again."""
    with KafkaEventLog(topic, broker, write=True, settings=QUICK | {"message.max.bytes": 2000}) as log:
        with pytest.raises(CannotWrite, match="1 of 2 events were kept: append them again"):
            log.append([make(0), make(1, payload=b'{"a":"%s"}' % (b"x" * 5000))])
        assert log.append([make(0), make(1)]) == (1, 1)
        assert sorted(read_all(log)[0]) == [make(0), make(1)]
