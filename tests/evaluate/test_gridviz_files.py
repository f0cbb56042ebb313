"""Grid files are untrusted, pages self-contained, pictures readable, and the command makes them all."""

import json
import re
import struct
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate.gridviz import build_grid, page_html, read_grid, write_picture
from broadmatch.evaluate.gridviz.bundle import bundled
from broadmatch.evaluate.gridviz.codes import from_log, log_code
from broadmatch.evaluate.gridviz.file import MAGIC, grid_bytes
from broadmatch.evaluate.gridviz.picture import picture, png
from tests.browser import WIDE
from tests.cli.conftest import worked
from tests.evaluate.test_gridviz import predictions

HOSTILE = '</script><script>alert(1)</script> "><img src=x onerror=alert(1)> \u202e🎉' + "x" * 10_000


@pytest.fixture(scope="module")
def grid():
    return build_grid(predictions(300), every="day", cross=("country", "device"))


@pytest.fixture(scope="module")
def content(grid):
    return grid_bytes(grid)


def forged(content, change):
    """The file with another header."""
    length = struct.unpack("<I", content[8:12])[0]
    header = json.loads(content[12 : 12 + length])
    body = content[12 + length + -(12 + length) % 8 :]
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(12 + len(text)) % 8)
    return MAGIC + struct.pack("<I", len(text)) + text + body


def entry(header, name):
    return next(e for e in header["arrays"] if e["name"] == name)


FORGERIES = {
    "no models": (lambda h: h.update(models=[]), "lacks models"),
    "models of numbers": (lambda h: h.update(models=[1, 2, 3]), "models are not a list of texts"),
    "one model more": (lambda h: h["models"].append("x"), "array value is float32"),
    "a baseline that is not there": (lambda h: h.update(baseline=7), "baseline 7 is none of its 3 models"),
    "a baseline that is true": (lambda h: h.update(baseline=True), "baseline True"),
    "a level of 2": (lambda h: h.update(level=2.0), "level of its intervals is 2.0"),
    "a group beyond": (lambda h: h["groups"][1].update(count=10**9), "groups do not follow"),
    "a group before": (lambda h: h["groups"][1].update(first=-1), "group 'country' has no first"),
    "an unknown best": (lambda h: h["metrics"][0].update(best="up"), "where it is best"),
    "a time that is none": (lambda h: h["periods"][0].update(start="soon"), "is not of two times"),
    "a time without zone": (lambda h: h["periods"][0].update(start="2020-01-01"), "is not of two times"),
    "a huge array": (lambda h: entry(h, "value").update(shape=[2**40, 2**40, 4]), "needs 19,"),
    "an array of objects": (lambda h: entry(h, "value").update(dtype="object"), "holds 'object'"),
    "a shape below 0": (lambda h: entry(h, "value").update(shape=[-1, 3]), "has the shape"),
    "another type": (lambda h: entry(h, "impressions").update(dtype="int32"), "bytes follow its last array|is int32"),
    "an array twice": (lambda h: entry(h, "low").update(name="high"), "two arrays high"),
    "an array renamed": (lambda h: entry(h, "low").update(name="lower"), "it has the arrays"),
    "no scale": (lambda h: entry(h, "se").update(scale=None), "se has no scale"),
    "a scale too large": (lambda h: entry(h, "se")["scale"].update(log=[[1e300, 1.0]] * 4), "scale of its array"),
    "rows left out": (lambda h: h.update(left_out=-1), "rows left out"),
    "a title of numbers": (lambda h: h.update(title=3), "title is not a text"),
    "no arrays": (lambda h: h.pop("arrays"), "names no arrays"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_grid_is_refused_with_a_sentence(content, name):
    change, said = FORGERIES[name]
    with pytest.raises(BadInput, match=rf"^the grid is not a whole grid file: .*({said}).*; write it again with"):
        read_grid(forged(content, change))


def test_forged_content_is_refused(content, tmp_path):
    assert read_grid(forged(content, lambda h: None)).slices == read_grid(content).slices
    for wrong in (b"", b"BMGRID1", b"PK" + content, content[:11], content + b"\0", MAGIC + b"\xff" * 4, content[:-1]):
        with pytest.raises(BadInput, match="not a whole grid file"):
            read_grid(wrong)
    deep = b"[" * 100_000
    with pytest.raises(BadInput, match="not JSON"):
        read_grid(MAGIC + struct.pack("<I", len(deep)) + deep)
    (tmp_path / "cut.grid").write_bytes(content[: len(content) // 2])
    with pytest.raises(BadInput, match=r"cut\.grid is not a whole grid file"):
        read_grid(tmp_path / "cut.grid")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_damage_is_refused_or_gives_a_grid(content, data):
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_grid(bytes(damaged[: data.draw(st.sampled_from([len(content), len(content) // 2, 12]))]))
    except BadInput as error:
        assert "write it again" in str(error)


@given(st.lists(st.one_of(st.floats(0, 2.0**60, width=32), st.just(float("nan"))), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_codes_by_the_logarithm_are_near(numbers):
    values = np.array([numbers], np.float32)
    codes, scale = log_code(values, np.uint16, 0)
    back = from_log(codes, scale)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    np.testing.assert_array_equal(back == 0, values == 0)
    np.testing.assert_allclose(back, np.maximum(values, np.float32(1e-30)) * (values != 0), rtol=2e-3)


def test_the_page_holds_the_grid_and_allows_nothing_but_its_own_script_and_style(grid):
    from dataclasses import replace

    page = page_html(replace(grid, title=HOSTILE, slices=(HOSTILE, *grid.slices[1:])))
    assert page.count("<script") == page.count("</script>") == 2
    assert "<title>&lt;/script&gt;" in page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy and "http" not in policy
    for element, within in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        digest = b64encode(sha256(re.search(within, page, re.DOTALL)[1].encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy
    packed = re.search(r'id="grid">([^<]+)<', page)[1]
    assert read_grid(zlib.decompress(b64decode(packed))).slices[0] == HOSTILE


def test_modules_are_joined_in_order_and_circles_refused(tmp_path):
    (tmp_path / "a.js").write_text('import { b as other, c } from "./b.js";\nexport const a = other + c;\n')
    (tmp_path / "b.js").write_text("export const b = 1;\nexport async function c() {}\n")
    joined = bundled("a.js", tmp_path)
    assert joined.index("const $b = ") < joined.index("const $a = ")
    assert "const { b: other, c } = $b;" in joined and "return { b, c };" in joined
    assert not re.search(r"^(import|export)", bundled("grid_page.js"), re.MULTILINE)
    (tmp_path / "b.js").write_text('import { a } from "./a.js";\n')
    with pytest.raises(ValueError, match="in a circle"):
        bundled("a.js", tmp_path)
    (tmp_path / "b.js").write_text("export default 3;\n")
    with pytest.raises(ValueError, match="cannot be put into a page"):
        bundled("a.js", tmp_path)


def test_the_page_opens_from_the_disk(page, grid, tmp_path):
    """Fixture `page` fails on console errors, page errors and requests to another host."""
    from dataclasses import replace

    from broadmatch.evaluate.gridviz import write_page

    page.set_viewport_size(WIDE)
    write_page(replace(grid, title=HOSTILE), tmp_path / "grid.html")
    page.goto((tmp_path / "grid.html").as_uri())
    page.wait_for_selector(".grid-page canvas")
    assert page.locator("h1").inner_text().startswith("</script><script>alert(1)")
    assert page.evaluate("document.querySelector('main').gridPage.grid.models.join()") == "m0,m1,m2"
    decoded = page.evaluate(
        "Array.from(document.querySelector('main').gridPage.grid.period_value, (v) => (v === v ? v : null))"
    )
    expected = read_grid(grid_bytes(grid)).period_value.ravel()
    np.testing.assert_allclose(np.array(decoded, float), expected, rtol=1e-4, atol=1e-6)
    (tmp_path / "bad.html").write_text(re.sub(r'id="grid">[^<]+<', 'id="grid">AAAA<', page_html(grid)))
    page.goto((tmp_path / "bad.html").as_uri())
    page.wait_for_selector(".state.bad")


def test_the_picture_shows_better_worse_names_and_legend(grid, tmp_path):
    write_picture(grid, tmp_path / "grid.png")
    content = (tmp_path / "grid.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) < 200_000
    made = picture(grid, "device")
    assert made.shape[1:] == (1400, 3)
    reds, blues = (made[:, :, c].astype(int) - made[:, :, 2 - c] for c in (0, 2))
    assert (reds > 60).any() and (blues > 60).any()
    many = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)
    assert png(many)[25] == 2 and png(made)[25] == 3  # true colours; a palette
    with pytest.raises(BadParameter, match="slicing"):
        picture(grid, "town")


def test_the_command_writes_page_grid_picture_and_table(tmp_path):
    pq.write_table(predictions(200), tmp_path / "log.parquet")
    files = [tmp_path / f"grid.{kind}" for kind in ("html", "grid", "png", "csv", "parquet")]
    outs = [part for file in files for part in ("--out", str(file))]
    told = json.loads(
        worked("gridviz", str(tmp_path / "log.parquet"), *outs, "--slices", "country", "--cross", "country,device",
               "--every", "day", "--baseline", "m1", "--metrics", "LogLoss,Bias", "--min-impressions", "5", "--json")
    )  # fmt: skip
    assert told["baseline"] == "m1" and told["groups"]["country"] == 3 and told["periods"] == 3
    assert set(told["files"]) == {str(file) for file in files}
    grid = read_grid(tmp_path / "grid.grid")
    assert [m.name for m in grid.metrics] == ["LogLoss", "Bias"] and grid.baseline == 1
    assert pyarrow.csv.read_csv(tmp_path / "grid.csv").num_rows == grid.value.size
    worked("gridviz", str(tmp_path / "grid.grid"), "--out", str(tmp_path / "again.html"))
    assert (tmp_path / "again.html").read_text().startswith("<!doctype html>")
