"""The studio's parts are published whole or not at all, from Python and from the command line."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.errors import BadArtifact, BadInput, BadParameter, MissingFile
from broadmatch.evaluate.gridviz import read_grid
from broadmatch.labels import KEX
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.planner.query_facts import QueryFactsTable
from broadmatch.serve.studio.publishing import publish_studio
from tests.cli.conftest import worked
from tests.serve.plan_shop import auctions
from tests.serve.shop import make_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("studio") / "engine")


def predictions(path):
    rows = [
        {"clicked": i % 3 == 0, "p_old": 0.3, "p_new": 0.1 + i % 3 / 5, "country": ["de", "at"][i % 2]}
        for i in range(60)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_all_parts_at_once_from_the_command_line(folder, tmp_path):
    log, grid, loop = auctions(tmp_path / "log.parquet"), predictions(tmp_path / "p.parquet"), tmp_path / "arms.json"
    loop.write_text(json.dumps({"arms": {"own": {}}, "days": 3, "burn_in": 1}))
    KEX().fit(["<h1>Thai food</h1> Thai food", "<h1>Taxi</h1> a taxi"], [["thai food"], ["taxi"]]).save(
        tmp_path / "kex"
    )
    parts = ("--auctions", log, "--kex", tmp_path / "kex", "--grid", f"variants={grid}", "--loop", loop)
    said = " ".join(worked("publish", "studio", folder, *parts).split())
    assert "facts of 8 queries" in said and "2 models × 3 slices" in said
    studio = StudioFolder(folder)
    assert QueryFactsTable.read(studio.queries).of(["taxi"])[0]["searches"] > 0
    assert studio.grid_names() == ["variants"] and read_grid(studio.grid("variants")).title == "variants"
    assert (studio.loop / "arms.json").is_file() and (studio.extractor / "manifest.json").is_file()
    again = publish_studio(folder, grids={"copy": studio.grid("variants")})
    assert again.grids == {"copy": (2, 3)} and studio.grid_names() == ["copy", "variants"]


def test_what_is_no_part_is_refused_and_changes_nothing(folder, tmp_path):
    before = sorted(path for path in folder.rglob("*"))
    (tmp_path / "arms.json").write_text("[1]")
    with pytest.raises(BadInput, match="no result of a loop"):
        publish_studio(folder, loop=tmp_path / "arms.json")
    with pytest.raises(MissingFile, match="no folder of a server"):
        publish_studio(tmp_path, loop=tmp_path / "arms.json")
    with pytest.raises(BadParameter, match="grid must be"):
        publish_studio(folder, grids={"../x": tmp_path / "p.parquet"})
    with pytest.raises((BadArtifact, MissingFile)):
        publish_studio(folder, extractor=tmp_path)
    (tmp_path / "bad.grid").write_bytes(b"no grid")
    with pytest.raises((BadArtifact, BadInput)):
        publish_studio(folder, grids={"bad": tmp_path / "bad.grid"})
    assert sorted(path for path in folder.rglob("*") if path.name != "grids") == [
        one for one in before if one.name != "grids"
    ]


@pytest.mark.parametrize("name", ["../secret", "nothing", "", "a/b", "." * 3, "x" * 100])
def test_a_grid_is_found_by_nothing_but_its_name(folder, name):
    with pytest.raises(MissingFile, match="publish studio --grid"):
        StudioFolder(folder).grid(name)
