"""The learner of a server watches its traffic: the same hours, byte by byte, however often it was started."""

from broadmatch.evaluate import QualityFolder, quality_gauges
from tests.clicks.training.event_streams import START, traffic
from tests.serve.test_learning import initial, learn

HOUR = 3_600_000_000


def test_hours_of_a_learner_that_was_ended_and_started_are_those_of_one_that_was_not(tmp_path):
    events = [event._replace(time=START + 12 * (event.time - START)) for event in traffic(3000)]
    files = []
    for name, ends in (("one", [3000]), ("two", [700, 1900, 3000])):
        (tmp_path / name).mkdir()
        initial(tmp_path / name)
        for end in ends:
            learn(tmp_path / name, events[:end])
        found = sorted((tmp_path / name / "quality").glob("hour-*.parquet"))
        files.append({file.name: file.read_bytes() for file in found})
    assert files[0] == files[1]
    hours = list(QualityFolder(tmp_path / "two" / "quality").hours())
    assert len(hours) >= 3
    metrics = {figure.metric for hour in hours for figure in hour.figures}
    assert {"Bias", "ClickDelayMedian", "PSI", "Missing", "LogLoss", "Count"} <= metrics | {"PSI"}
    assert quality_gauges(tmp_path / "two" / "quality")["Impressions", "", "all", "all"] > 0
