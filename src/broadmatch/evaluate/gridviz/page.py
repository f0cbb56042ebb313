"""A grid as one self-contained page, to open from the disk or send by mail: no other file, no request to any host."""

import html
import os
import zlib
from base64 import b64encode
from hashlib import sha256

from broadmatch.evaluate.gridviz.bundle import STATIC, bundled
from broadmatch.evaluate.gridviz.file import grid_bytes
from broadmatch.evaluate.gridviz.grid import Grid
from broadmatch.io.files import replacing_file

_STYLE = "main { padding: var(--s3); }"
_START = """
const main = document.querySelector("main");
$grid_data.unpack(document.getElementById("grid").textContent).then(
  (grid) => $grid_page.showGrid(main, grid),
).catch((error) => {
  main.replaceChildren($dom.state(`${error.message} Copy the page again, or open it in a newer browser.`, "bad"));
});
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main><p class="state" role="status">The grid is being unpacked.</p></main>
<noscript>This page draws its grid with a script: allow scripts for it. It asks nothing of any other place.</noscript>
<script type="application/octet-stream" id="grid">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def write_page(grid: Grid, path: str | os.PathLike[str]) -> None:
    """Write the page of a grid; the name holds the old file or the whole new one."""
    with replacing_file(path) as out:
        out.write(page_html(grid).encode())


def page_html(grid: Grid) -> str:
    """The page of a grid. Its policy allows its own script and style by their hashes, and nothing else."""
    style = "\n".join([*((STATIC / name).read_text(encoding="utf-8") for name in ("look.css", "grid.css")), _STYLE])
    script = '"use strict";\n' + bundled("grid_page.js") + _START
    if "</" in style or "</script" in script or "<!--" in script:
        raise ValueError("The page's own script or style would end its element.")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = b64encode(zlib.compress(grid_bytes(grid), 9)).decode()
    return _PAGE.format(policy=policy, title=html.escape(grid.title), style=style, data=data, script=script)


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
