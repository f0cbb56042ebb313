"""The files in deploy/ say what the command line and the server understand."""

import configparser
from pathlib import Path

import pytest
import typer.main

from broadmatch.cli import app

ROOT = Path(__file__).parents[2]


def options_of(name):
    return {option for one in typer.main.get_command(app).commands[name].params for option in one.opts}


def test_the_unit_of_systemd():
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string((ROOT / "deploy" / "broadmatch.service").read_text())
    service = unit["Service"]
    words = service["ExecStart"].split()
    assert words[0].endswith("/broadmatch") and words[1] == "serve"
    assert {word for word in words if word.startswith("--")} <= options_of("serve")
    assert words[words.index("--host") + 1] == "127.0.0.1"  # without keys, nothing else is served
    assert service["NoNewPrivileges"] == service["ProtectHome"] == service["DynamicUser"] == "yes"
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""
    assert int(service["TimeoutStopSec"]) > 5 and service["Restart"] == "always"


def test_the_compose_file():
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"server", "learner", "kafka", "postgres"}
    command = services["server"]["command"]
    assert command[0] == "serve" and {word for word in command if word.startswith("--")} <= options_of("serve")
    for name in ("server", "learner"):
        assert services[name]["build"]["args"]["EXTRAS"] == "[serve,kafka]"
        assert services[name]["read_only"] and services[name]["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in services["server"]["ports"])
    docker = (ROOT / "Dockerfile").read_text()
    assert "ARG EXTRAS" in docker and "USER 65532" in docker and "broadmatch warmup" in docker
