"""Alerts: each begins once and ends once, whatever fails or is killed in between; wrong rules name their line."""

import http.server
import json
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.errors import BadInput, MissingFile
from broadmatch.evaluate import HourFigures, QualityFolder
from broadmatch.evaluate.traffic_quality import METRICS, Figure
from broadmatch.registry import AlertRule, Alerts, alerts, read_rules
from broadmatch.registry.alerts import replayed
from broadmatch.registry.rules import STANDARD
from broadmatch.serve.quality_hours import hours_kept_in, quality_page, watch_of
from broadmatch.signals import Categorical, Cross, Description, Hour, Weekday
from tests.cli.conftest import failed, worked

HOUR = 3_600_000_000
RULE = '[[rule]]\nname = "few clicks"\nfigure = "Clicks"\nbelow = 10\n'


def hour_of(number, clicks=None, *more):
    own = () if clicks is None else (Figure("Clicks", "", "all", "all", clicks, 100),)
    return HourFigures(number * HOUR, (*own, *more))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "alerts.toml").write_text(RULE)
    return tmp_path


def opened(folder):
    return Alerts(folder / "alerts.toml", folder / "state.json")


def states(folder, values, first=0):
    """What is told for each hour; the process begins anew before each."""
    return [[m.state for m in opened(folder).check(hour_of(first + i, v))] for i, v in enumerate(values)]


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what it is sent, and answers as it is told."""

    got: list = []  # noqa: RUF012
    answers: list = []  # noqa: RUF012

    def do_POST(self):
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status = self.answers.pop(0) if self.answers else 204
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def webhook():
    Receiver.got, Receiver.answers = [], []
    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook?token=secret"
        server.shutdown()
        thread.join()


def test_an_alert_begins_once_and_ends_once(folder):
    assert states(folder, [20, 5, 5, None, 5, 20, 20, 5]) == [[], ["begin"], [], [], [], ["end"], [], ["begin"]]


def test_for_some_hours_in_a_row(folder):
    (folder / "alerts.toml").write_text(RULE + "for_hours = 3\n")
    assert states(folder, [5, 5, 20, 5, 5, 5, 5, 20]) == [[], [], [], [], [], ["begin"], [], ["end"]]


@given(st.lists(st.sampled_from([1.0, 20.0, None]), max_size=40), st.integers(1, 4))
def test_begins_and_ends_take_turns(values, for_hours):
    rule = AlertRule("few", "Clicks", below=10.0, for_hours=for_hours)
    messages = replayed([rule], [hour_of(i, value) for i, value in enumerate(values)])
    assert [m.state for m in messages] == ["begin", "end"] * (len(messages) // 2) + ["begin"] * (len(messages) % 2)
    broken, on, expected = 0, False, []
    for value in values:
        if value is not None:
            broken = broken + 1 if value < 10 else 0
            if broken >= for_hours and not on:
                expected.append("begin")
                on = True
            elif not broken and on:
                expected.append("end")
                on = False
    unknown = max((len(run) for run in "".join("n" if v is None else "v" for v in values).split("v")), default=0)
    if unknown < 24:
        assert [m.state for m in messages] == expected
    assert len({m.id for m in messages}) == len(messages)


def test_what_is_no_longer_measured_ends_after_a_day(folder):
    assert states(folder, [5, *[None] * 24]) == [["begin"], *[[]] * 23, ["end"]]


def test_a_rule_that_is_gone_takes_its_alerts_along(folder):
    states(folder, [5])
    (folder / "alerts.toml").write_text(RULE.replace("few clicks", "other"))
    assert states(folder, [5, 20], first=1) == [["begin"], ["end"]]


def test_which_figures_a_rule_is_about():
    def figure(slicing="all", name="all", model="served", metric="Bias"):
        return Figure(metric, model, slicing, name, 1.0, 50)

    german = figure("country", "de")
    assert AlertRule("a", "Bias").concerns(figure())
    assert AlertRule("a", "PSI").concerns(figure("signal", "title", "", "PSI"))
    assert not AlertRule("a", "Bias").concerns(german)
    assert not AlertRule("a", "LogLoss").concerns(figure())
    assert AlertRule("a", "Bias", slice="*").concerns(german)
    assert AlertRule("a", "Bias", slice="country=*").concerns(german)
    assert AlertRule("a", "Bias", slice="country=de").concerns(german)
    assert not AlertRule("a", "Bias", slice="country=at").concerns(german)
    assert not AlertRule("a", "Bias", slice="device=*").concerns(german)
    assert AlertRule("a", "Bias", slice="query=a=b").concerns(figure("query", "a=b"))
    assert not AlertRule("a", "Bias", model="learned").concerns(figure())
    assert AlertRule("a", "Bias", above=2, below=-2).broken_by(figure()) is False
    assert AlertRule("a", "Bias", above=0.5, below=-2).broken_by(figure()) is True
    assert AlertRule("a", "Bias", above=0.5, least=51).broken_by(figure()) is None
    assert AlertRule("a", "Bias", above=0.5).broken_by(figure()._replace(value=float("nan"))) is None


def test_a_webhook(folder, webhook):
    (folder / "alerts.toml").write_text(RULE + f'webhook = "{webhook}"\n')
    states(folder, [5, 5, 20])
    begin, end = Receiver.got
    assert begin == {
        "id": begin["id"], "alert": "few clicks", "state": "begin", "figure": "Clicks", "model": "",
        "slice": "all traffic", "value": 5, "bound": "below 10", "hour": "1970-01-01T00:00Z",
        "since": "1970-01-01T00:00Z",
        "text": "few clicks: Clicks of all traffic is 5, below 10, from 1970-01-01T00:00Z on.",
    }  # fmt: skip
    assert (end["state"], end["hour"], end["since"]) == ("end", "1970-01-01T02:00Z", "1970-01-01T00:00Z")
    assert end["id"] != begin["id"]


@pytest.mark.parametrize("answer", [500, 404, 302])
def test_what_fails_is_sent_with_the_next_hour_in_order(folder, webhook, answer, caplog):
    (folder / "alerts.toml").write_text(RULE + f'webhook = "{webhook}"\n')
    Receiver.answers = [answer, answer]
    states(folder, [5, 20])  # the end waits behind the begin
    assert [m["state"] for m in Receiver.got] == ["begin", "begin"]
    assert opened(folder).counts == {"on": 0, "sent": 0, "failed": 2, "unsent": 2, "dropped": 0}
    assert f"answered {answer}" in caplog.text
    assert "secret" not in caplog.text
    states(folder, [20], first=2)
    assert [m["state"] for m in Receiver.got[2:]] == ["begin", "end"]
    assert opened(folder).counts == {"on": 0, "sent": 2, "failed": 2, "unsent": 0, "dropped": 0}


def test_a_kill_between_sending_and_noting_sends_again_and_never_not(folder, monkeypatch):
    out = folder / "out"
    words = [sys.executable, "-c", f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read() + '\\n')"]
    (folder / "alerts.toml").write_text(RULE + f"command = {json.dumps(words)}\n")
    real = alerts._sent

    def killed(rule, message):
        real(rule, message)
        raise KeyboardInterrupt

    monkeypatch.setattr(alerts, "_sent", killed)
    with pytest.raises(KeyboardInterrupt):
        opened(folder).check(hour_of(0, 5))
    monkeypatch.setattr(alerts, "_sent", real)
    assert opened(folder).check(hour_of(0, 5)) == []  # the hour again, as after a kill of the learner
    opened(folder).check(hour_of(0, 5))
    first, second = map(json.loads, out.read_text().splitlines())
    assert first == second
    assert first["state"] == "begin"


def test_a_command_that_fails(folder, caplog):
    (folder / "alerts.toml").write_text(RULE + f'command = ["{sys.executable}", "-c", "raise SystemExit(3)"]\n')
    states(folder, [5])
    assert "ended with 3" in caplog.text
    (folder / "alerts.toml").write_text(RULE + 'command = ["/no/such/command"]\n')
    states(folder, [5], first=1)
    assert "No such file" in caplog.text
    assert opened(folder).counts["failed"] == 2


def test_what_cannot_be_sent_for_long_is_bounded(folder, monkeypatch, caplog):
    (folder / "alerts.toml").write_text(RULE + 'command = ["false"]\n')
    monkeypatch.setattr(alerts, "_MOST_UNSENT", 3)
    monkeypatch.setattr(alerts, "_sent", lambda rule, message: "it is down")
    states(folder, [5, 20] * 4)
    assert opened(folder).counts == {"on": 0, "sent": 0, "failed": 8, "unsent": 3, "dropped": 5}
    assert "dropped" in caplog.text


def test_wrong_rules_hold_no_longer_at_first_and_leave_those_of_before_later(folder, caplog):
    both = opened(folder)
    (folder / "alerts.toml").write_text(RULE + "bellow = 3\n")
    assert [m.state for m in both.check(hour_of(0, 5))] == ["begin"]
    assert "The rules of before hold" in caplog.text
    with pytest.raises(BadInput, match="is it 'below'"):
        opened(folder)


NO_HOUR = '{"hour": "x", "watched": [], "unsent": [], "n_sent": 0, "n_failed": 0, "n_dropped": 0}'


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 10**5, '{"hour": 1}', NO_HOUR])
def test_a_damaged_state_begins_anew(folder, caplog, text):
    (folder / "state.json").write_text(text)
    assert states(folder, [5]) == [["begin"]]
    assert "is damaged" in caplog.text


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (RULE + "bellow = 3", 5, "the key 'bellow' is unknown (is it 'below'?)"),
        ('x = 1\n' + RULE, 1, "the key 'x' is unknown"),
        (RULE + "\n" + RULE, 7, "two rules are called"),
        (RULE + "\n" + RULE.replace("few", "no").replace("10", '"ten"'), 9, "below must be a number, but it is 'ten'"),
        (RULE.replace("Clicks", "Clicsk"), 3, "figure must be one of Impressions"),
        ('[[rule]]\nname = "a"\nabove = 1', 1, "the rule has no figure"),
        ('[[rule]]\nname = "a"\nfigure = "Bias"', 3, "the rule has no bound"),
        (RULE + "for_hours = 0", 5, "for_hours must be a whole number from 1"),
        (RULE + "for_hours = true", 5, "for_hours must be"),
        (RULE + "above = nan", 5, "above must be a number"),
        (RULE + "least = -1", 5, "least must be"),
        (RULE + 'slice = "country"', 5, "slice must be"),
        (RULE + 'slice = "=de"', 5, "slice must be"),
        (RULE + 'webhook = "file:///etc/passwd"', 5, "webhook must be an address"),
        (RULE + 'webhook = "https://"', 5, "webhook must be an address"),
        (RULE + 'webhook = "http://a:b"', 5, "webhook must be an address"),
        (RULE + 'command = "mail"', 5, "command must be a list"),
        (RULE + "command = []", 5, "command must be a list"),
        (RULE + 'webhook = "https://a"\ncommand = ["a"]', 6, "keep one of them"),
        (RULE + "[rule.more]\na = 1", 5, "the key 'more' is unknown"),
        ("rule = [1]", 0, "a rule must be a table"),
        ("[rule]\nname = 1", 0, "must hold at most"),
        ("[[rule]\n", 0, "is not TOML: "),
    ],
)  # fmt: skip
def test_wrong_rules_name_their_line(folder, text, line, says):
    (folder / "alerts.toml").write_text(text)
    with pytest.raises(BadInput) as error:
        read_rules(folder / "alerts.toml")
    assert says in str(error.value)
    assert not line or f"alerts.toml, line {line}: " in str(error.value)


def test_other_wrong_files(folder):
    with pytest.raises(MissingFile):
        read_rules(folder / "none.toml")
    (folder / "alerts.toml").write_bytes(b"\xff")
    with pytest.raises(BadInput, match="UTF-8"):
        read_rules(folder / "alerts.toml")


def test_the_standard_rules(tmp_path):
    rules = read_rules(STANDARD)
    assert len(rules) >= 4
    assert {rule.figure for rule in rules} <= set(METRICS)
    assert Alerts(tmp_path / "alerts.toml", tmp_path / "state.json").check(hour_of(0, 5)) == []


def test_hours_in_the_folder_of_a_server(folder, caplog):
    keep = hours_kept_in(folder)
    for i, clicks in enumerate([20, 5, 5]):
        keep(hour_of(i, clicks))
    assert [h.start // HOUR for h in QualityFolder(folder / "quality").hours()] == [0, 1, 2]
    assert "few clicks: Clicks of all traffic is 5" in caplog.text
    said = worked("alerts", "check", folder)
    assert said.splitlines()[1].split() == ["1970-01-01T01:00Z", "begin", "few", "clicks", "Clicks", "all", "traffic",
                                            "5", "below", "10"]  # fmt: skip
    assert "1 rules, 3 hours, 1 messages; nothing was sent." in said
    (message,) = json.loads(worked("alerts", "check", folder, "--json"))
    assert message["state"] == "begin"
    (folder / "alerts.toml").write_text("[[rules]]")
    assert "the key 'rules' is unknown" in failed("alerts", "check", folder)
    (folder / "quality" / "alerts.json").unlink()
    (folder / "quality" / "alerts.json").mkdir()
    keep(hour_of(4, 20))  # what cannot be written does not stop the learner
    assert "Cannot write" in caplog.text


def test_what_is_watched_of_a_log():
    description = Description(
        signals=[Categorical("ad"), Hour("time"), Weekday("time"), Cross("ad", "hour"), Categorical("city")],
        time="time", slices=["city"],
    )  # fmt: skip
    names = [*(signal.name for signal in description.signals), "constant"]
    watch = watch_of(description, names, 600.0)
    assert watch.signals == ("ad", "", "", "", "city", "")
    assert (watch.slices, watch.window) == (("city",), 600.0)


def test_the_last_hour_as_prometheus_reads_it(tmp_path):
    from prometheus_client.parser import text_string_to_metric_families

    assert quality_page(tmp_path) == b""
    odd = 'a "b" \\ \n c'
    hours_kept_in(tmp_path)(hour_of(3, 7.5, Figure("Bias", "served", "query", odd, -0.25, 9)))
    (family,) = text_string_to_metric_families(quality_page(tmp_path).decode())
    assert family.type == "gauge"
    found = {tuple(sample.labels.values()): sample.value for sample in family.samples}
    hour, clicks = ("Hour", "", "all", "all"), ("Clicks", "", "all", "all")
    assert found == {hour: 3 * 3600.0, clicks: 7.5, ("Bias", "served", "query", odd): -0.25}
