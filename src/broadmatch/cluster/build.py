"""Which broadmatch this is: its version and a fingerprint of its source, so that nodes can be compared."""

import functools
import hashlib
import sys
from pathlib import Path

import broadmatch


@functools.cache
def this_build() -> str:
    """Version of broadmatch, digest of its source, version of Python.

    >>> this_build().split()[0] == broadmatch.__version__
    True
    """
    root = Path(broadmatch.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{broadmatch.__version__} (source {digest.hexdigest()[:10]}, Python {python})"
