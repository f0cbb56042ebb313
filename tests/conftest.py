"""Fixtures that several packages share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# numpy is not loaded yet. Tables of tests are small, and threads that wait for each other take 30 times as long on
# cores that other tests are using.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No deadline: a first call compiles. In CI the same examples every time; elsewhere each run looks at new ones.
settings.register_profile("broadmatch", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("broadmatch")

pytest_plugins = ["tests.browser"]

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets beside the repository; tests that need it are skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets are not here: no folder shared/data beside the repository")
    return SHARED_DATA
