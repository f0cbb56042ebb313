import pytest

from broadmatch.simulate import Marketplace, simulate_marketplace

SMALL = {"n_pages": 400, "n_sessions": 30_000, "days": 10}


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Marketplace:
    return simulate_marketplace(tmp_path_factory.mktemp("simulated") / "market", **SMALL, seed=5)
