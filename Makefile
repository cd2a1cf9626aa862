# make campaign    set up, execute a short campaign of this machine, build the book
# make test        set up, and the tests that take minutes
# make test-slow   the tests that take longer
# make coverage    all quick tests once more, counting the lines and branches taken: prints a table, fails under 95%
# make mutants     change the code in one place at a time and see whether a test notices: tests/mutants.toml names the
#                  modules, MODULES="runner/journal.py" takes one; results in tests/mutants.json
# make book        build the book from what lies in data/
# make lint        ruff and mypy
# make lock        pin requirements.in anew

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13)
VENV ?= .venv
BIN = $(VENV)/bin
CAMPAIGN ?= data/local-$(shell date -u +%Y%m%d-%H%M%S)
BUNDLED = $(lastword $(sort $(wildcard data/pgstack-*)))
UV_COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url

.PHONY: campaign test test-slow coverage mutants book lint lock check-system check-trees

campaign: check-trees $(VENV)/ready
	$(BIN)/python -m runner new $(CAMPAIGN) --from $(BUNDLED)
	$(BIN)/python -m runner seal $(CAMPAIGN)
	$(BIN)/python -m runner run $(CAMPAIGN)
	$(BIN)/jupyter-book build book/
	@echo "The site: $(CURDIR)/book/_build/html/index.html"

book: $(VENV)/ready
	$(BIN)/jupyter-book build book/

test: $(VENV)/ready-dev
	$(BIN)/python -m pytest

test-slow: $(VENV)/ready-dev
	$(BIN)/python -m pytest -m slow

coverage: $(VENV)/ready-dev
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m tests.coverage_table

mutants: $(VENV)/ready-dev
	$(BIN)/python -m tests.mutants $(MODULES)

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/ready: requirements.txt | check-system
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "venv is missing: install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/ready-dev: $(VENV)/ready requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

check-system:
	@test -n "$(PYTHON)" || { echo "Python is missing: install Python 3.11, 3.12 or 3.13"; exit 1; }
	@test "$$(uname -s)" = Linux || { echo "This runner needs Linux: namespaces, /proc and CPU affinity"; exit 1; }
	@for tool in taskset setpriv:util-linux; do command -v $${tool%%:*} >/dev/null || \
		{ echo "$${tool%%:*} is missing: install util-linux"; exit 1; }; done
	@test "$$(id -u)" != 0 || command -v ip >/dev/null || { echo "ip is missing: install iproute2"; exit 1; }

check-trees:
	@command -v python3.11 >/dev/null || { echo "python3.11 is missing: the trees of the bundled campaign need it"; exit 1; }

lock:
	$(UV_COMPILE) requirements.in -o requirements.txt
	$(UV_COMPILE) requirements-dev.in -o requirements-dev.txt -c requirements.txt
