# Every target works on a bare machine: python3 (3.11 or newer) and make, nothing active.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo serve studio test chromium postgresql lint fuzz bench clean

install: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "broadmatch needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq python3-venv; } || \
		{ echo "Python's venv module is missing; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/broadmatch warmup
	@touch $(STAMP)

demo: install
	$(BIN)/broadmatch demo

serve: install
	@test -d demo/server || $(MAKE) demo
	$(BIN)/broadmatch serve demo/server

studio: install
	@test -d demo/server/studio || $(MAKE) demo
	$(BIN)/broadmatch studio demo/server

test: install lint chromium postgresql
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# The browser that tests of pages look through: Debian's own, which gets its fixes with the rest of the machine. What
# drives it (playwright) brings a node that needs libatomic, which a bare Debian lacks.
chromium:
	@{ test -x /usr/bin/chromium && /sbin/ldconfig -p | grep -q libatomic.so.1 && \
		test -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf; } || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core libatomic1; } || \
		{ echo "Tests of pages need more; on Debian and Ubuntu: apt-get install chromium fonts-dejavu-core libatomic1"; exit 1; }

# The signal index is tested on a real PostgreSQL, which the tests start by themselves in a temporary folder.
postgresql:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; } || \
		echo "PostgreSQL is missing, and its tests are skipped; on Debian and Ubuntu: apt-get install postgresql"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: install
	$(BIN)/python -m benchmarks.fuzz --seconds 10 --no-bounds-checks --seed 13

bench: install
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
