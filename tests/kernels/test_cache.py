"""Cached machine code goes when the source of any kernel changes."""

import os
from pathlib import Path

from broadmatch.kernels.jit import forget_stale_code


def test_changed_source_drops_the_code_of_its_callers_and_no_other(tmp_path: Path) -> None:
    sources = {
        "kernels/callee.py": "y = 1",
        "labels/_outer.py": "from broadmatch.labels import _middle as kernels",
        "labels/_middle.py": "from broadmatch.kernels.callee import y",
        "labels/_other.py": "from broadmatch.kernels.another import z",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "labels" / "__pycache__").mkdir()
    forget_stale_code(tmp_path)
    code = {n: tmp_path / "labels" / "__pycache__" / f"_{n}.kernel-1.py311.1.nbc" for n in ("outer", "middle", "other")}
    for file in code.values():
        file.write_text("machine code")
    forget_stale_code(tmp_path)
    assert all(file.exists() for file in code.values())
    os.utime(tmp_path / "kernels" / "callee.py", ns=(1, 1))
    forget_stale_code(tmp_path)
    assert {name for name, file in code.items() if file.exists()} == {"other"}
    forget_stale_code(tmp_path)
    (tmp_path / "labels" / "_other.py").write_text("from broadmatch.kernels.another import w, z")
    forget_stale_code(tmp_path)
    assert not code["other"].exists()
