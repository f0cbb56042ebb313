"""Event logs by their address, as commands name them."""

from broadmatch.errors import BadParameter
from broadmatch.io.event_log.log import EventLog

KAFKA = "kafka://"


def open_event_log(address: str, *, write: bool = False, max_age: float | None = None) -> EventLog:
    """The log in a folder, or in a topic of Kafka: kafka://SERVER[,SERVER]/TOPIC.

    >>> with open_event_log("events", write=True) as log:
    ...     log.begin == log.end
    True
    """
    if not address.startswith(KAFKA):
        from broadmatch.io.event_log.embedded import EmbeddedEventLog

        return EmbeddedEventLog(address, write=write, max_age=max_age if write else None)
    servers, _, topic = address.removeprefix(KAFKA).partition("/")
    if not servers or not topic or "/" in topic:
        raise BadParameter(f"events must be a folder or kafka://SERVER[,SERVER]/TOPIC, but it is {address!r}.")
    from broadmatch.io.event_log.kafka import KafkaEventLog

    return KafkaEventLog(topic, servers, write=write)
