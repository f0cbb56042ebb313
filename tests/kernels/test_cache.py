"""Cached machine code goes when the source of any kernel changes."""

import os
from pathlib import Path

from broadmatch.kernels.jit import forget_stale_code


def test_changed_source_drops_the_code_and_unchanged_keeps_it(tmp_path: Path) -> None:
    outer, callee = tmp_path / "labels" / "_outer.py", tmp_path / "kernels" / "callee.py"
    for file in (outer, callee):
        file.parent.mkdir()
    outer.write_text("x = 1")
    callee.write_text("y = 1")
    forget_stale_code(tmp_path)
    code = tmp_path / "labels" / "__pycache__" / "_outer.kernel-1.py311.1.nbc"
    code.parent.mkdir()
    code.write_text("machine code")
    forget_stale_code(tmp_path)
    assert code.exists()
    callee.write_text("y = 2")
    os.utime(callee, ns=(1, 1))
    forget_stale_code(tmp_path)
    assert not code.exists()
    assert outer.exists()
