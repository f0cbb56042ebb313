"""What is read without SQLAlchemy is what the index gives, and where that cannot be, nobody is misled."""

import subprocess
import sys

import pytest

from broadmatch.registry import SignalIndex
from broadmatch.registry.reporting.addresses import FILE
from broadmatch.registry.reporting.quick import find_in_folder
from tests.registry.test_signal_index import NAMES, TOMORROW, add


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sig nals%#?"


def test_the_same_versions(folder):
    with SignalIndex.open(folder) as index:
        for name in NAMES:
            add(index, name, owner=name, description=name, settings={"buckets": [0, 1.5]}, platforms=[name])
            index.add_version(name, by=name, data={"columns": [name, "é"]})
            index.deprecate(name, use=f"{name}@2", by=name, by_date=TOMORROW, reason=name)
        asked = [*NAMES, *(f"{name}@2" for name in NAMES), "none", f"{NAMES[0]}@3"]
        found = find_in_folder(str(folder), asked)
        assert found == index.find(asked)
        assert len(found) == 2 * len(NAMES)
        assert find_in_folder(str(folder), []) == {}


def test_what_it_cannot_tell_it_leaves_to_the_index(folder):
    assert find_in_folder(str(folder), ["price"]) is None
    with SignalIndex.open(folder) as index:
        add(index)
        with index._database.write() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '1'")
    assert find_in_folder(str(folder), ["price"]) is None  # not up to date
    (folder / FILE).write_text("no database " * 1000)
    assert find_in_folder(str(folder), ["price"]) is None
    assert find_in_folder("postgresql://host/db", ["price"]) is None


def test_a_learner_whose_signals_are_allowed_loads_no_database(folder, tmp_path):
    with SignalIndex.open(folder) as index:
        add(index, "ad", kind="categorical")
        with index._database.write() as connection:
            connection.exec_driver_sql("UPDATE versions SET status = 'white-listed'")
        script = (
            "import sys\n"
            "from broadmatch.cli.consumption import Consumption\n"
            "from broadmatch.signals import Categorical, Description\n"
            "run = Consumption(sys.argv[1], None)\n"
            "run.check(Description(signals=[Categorical('ad')]), 'm')\n"
            "run.report({'ad': 0.5})\n"
            "run.close()\n"
            "print('sqlalchemy' in sys.modules)\n"
        )
        env = {"XDG_STATE_HOME": str(tmp_path), "PATH": ""}
        words = [sys.executable, "-c", script, str(folder)]
        assert subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout == "False\n"
        assert [one.coverage for one in index.consumers("ad")] == [0.5]
