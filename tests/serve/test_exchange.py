"""Models are exchanged while clients ask: each answer is of one version, and none fails."""

from pathlib import Path

from benchmarks.serve_exchange import exchange
from benchmarks.serve_shop import make_shop


def test_no_answer_mixes_versions(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop", small=True)
    found = exchange(tmp_path / "shop", 6)
    assert found["answers"] > 100
    assert found["failed"] == found["mixed"] == found["never_served"] == 0
