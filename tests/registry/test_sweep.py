"""The plan names exactly what can go, and the graph exactly what is there."""

import tomllib

import pytest

from broadmatch.registry import lineage, sweep_plan
from broadmatch.registry.records import DAY, now_us
from broadmatch.registry.sweep import lines_of, write_plan
from tests.registry.test_signal_index import add, report

ENTRIES = [
    'price = "number"',
    'price = { kind = "number", buckets = [0,\n  1,\n  5] }',
    '"price" = "number"  # old',
    '"pri\\u0063e" = "number"',
    "price.kind = \"number\"\nprice.column = 'p'",
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_without_the_lines_the_description_is_the_same_without_the_signal(entry):
    text = f'label = "clicked"\n[signals]\nad = "categorical"\n{entry}\n\n# the end\nquery = "text"\n'
    (found,) = lines_of("ads.toml", text, "price")
    assert found.text == entry
    lines = text.splitlines()
    left = tomllib.loads("\n".join(lines[: found.first - 1] + lines[found.last :]))
    whole = tomllib.loads(text)
    del whole["signals"]["price"]
    assert left == whole


def test_a_table_of_its_own_a_dotted_key_and_a_cross():
    text = '[signals.price]\nkind = "number"\nbuckets = "log"\n[signals.ad]\nkind = "text"\n'
    text += '[signals]\nboth = { cross = ["ad", "price"] }\n'
    price, cross = lines_of("ads.toml", text, "price")
    assert (price.first, price.last) == (1, 3)
    assert (cross.first, cross.last, cross.note) == (7, 7, "a cross with 'price'")
    dotted = 'signals.ad = "text"\nsignals.price = "number"\nslices = ["price"]\n'
    first, second = lines_of("ads.toml", dotted, "price")
    assert (first.first, first.last) == (2, 2)
    assert "among the slices" in second.note
    assert lines_of("ads.toml", 'label = "price"\n[signals]\nad = "text"\n', "price") == []
    (inline,) = lines_of("ads.toml", 'signals = { ad = "text", price = "number" }\n', "price")
    assert "by hand" in inline.note


def test_the_plan_leaves_what_others_need_and_deletes_nothing(index, tmp_path):
    add(index, "old", data={"files": ["old.parquet", "both.parquet"], "columns": ["old"], "tables": ["t"]})
    add(index, "used", data={"files": ["both.parquet"]})
    report(index, ["old"], model="a", seen=now_us() - 200 * DAY)
    folder = tmp_path / "descriptions"
    folder.mkdir()
    (folder / "ads.toml").write_text('[signals]\nold = "number"\nused = "number"\n')
    (folder / "wrong.toml").write_text("[signals\n")
    later = now_us() + 100 * DAY
    report(index, ["used"], model="b", seen=later)
    plan = sweep_plan(index, 90, [str(folder)], now=later)
    (swept,) = plan.signals
    assert (swept.signal, swept.files, swept.columns, swept.tables) == ("old@1", ("old.parquet",), ("old",), ("t",))
    assert [(at.first, at.last, at.text) for at in swept.lines] == [(2, 2, 'old = "number"')]
    assert "wrong.toml" in plan.unread[0]
    write_plan(plan, tmp_path / "plan.md")
    said = (tmp_path / "plan.md").read_text()
    assert "- file: old.parquet\n" in said
    assert f"{folder}/ads.toml:2: old" in said
    assert "both.parquet" not in said
    assert (folder / "ads.toml").read_text().count("old") == 1
    assert {one.name for one in index.signals()} == {"old", "used"}
    assert sweep_plan(index, 365, now=later).signals == ()


def test_the_graph_has_signals_models_and_what_leads_from_one_to_the_other(index):
    for name in ("ad", "query"):
        add(index, name, kind="categorical")
    add(index, "both", kind="cross", settings={"cross": ["ad", "query"]})
    index.deprecate("ad", use="query", by="anna")
    report(index, ["ad", "both"], model='say "hi"\n')
    found = lineage(index)
    assert {(one.kind, one.name) for one in found.nodes} == {
        ("signal", "ad@1"), ("signal", "query@1"), ("signal", "both@1"), ("model", 'say "hi"\n')}  # fmt: skip
    named = {one.id: one.name for one in found.nodes}
    assert {(named[e.source], named[e.target], e.kind) for e in found.edges} == {
        ("ad@1", "query@1", "replacement"), ("ad@1", "both@1", "cross"), ("query@1", "both@1", "cross"),
        ("ad@1", 'say "hi"\n', "training"), ("both@1", 'say "hi"\n', "training")}  # fmt: skip
    around = lineage(index, "query")
    assert [one.name for one in around.nodes] == ["ad@1", "both@1", "query@1"]
    assert {(named[e.source], named[e.target]) for e in around.edges} == {
        ("ad@1", "query@1"), ("ad@1", "both@1"), ("query@1", "both@1")}  # fmt: skip
    assert [one.name for one in lineage(index, "both").nodes] == ["ad@1", "both@1", "query@1", 'say "hi"\n']
    assert 'label="say \\"hi\\"\\n (ads)"' in found.to_dot()
    assert len(found.to_dot().splitlines()) == 3 + len(found.nodes) + len(found.edges)
