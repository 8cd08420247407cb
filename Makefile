# memguard: everything a fresh machine needs is Python 3.11 or newer and make.
#   make bench   the integrity bench of SqliteSaver and SqliteStore, bare and guarded, with the overhead beside it
#   make test    the tests            make lint   ruff            make types   mypy --strict on the wheel
#   make crash   the full count of kills, power cuts and races: ten minutes
#   make letta   the tests of the Letta guard, on a Letta server that is started for them
#   make mcp     the reference MCP memory server, for the tests of the proxy (needs node and npm)
#   make rows    everyone in one table: each package in an environment of its own; half an hour and a network
#   make docs    the documentation    make lock   pin again       make clean   remove what was made here
# Options: PYTHON=python3.12 (the interpreter to use), VENV=folder, ARGS="more arguments for the tool".

PYTHON ?=
VENV ?= .venv
ARGS ?=
WORKERS ?= 2

BIN = $(VENV)/bin
ENVIRONMENT = $(VENV)/.environment
STAMP = $(VENV)/.installed
RESULTS = $(VENV)/bench-integrity.json $(VENV)/bench-overhead.json
DOCS_STAMP = $(VENV)/.installed-docs
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install bench rows mcp test crash lint format types docs lock clean FORCE

help:
	@sed -n '2,9s/^# //p' Makefile

install: $(STAMP)

# The environment's stamp holds the interpreter asked for: another PYTHON makes it anew, the same one costs nothing.
# Versions come from the lock alone (--no-deps, every file by its hash); `pip check` proves that it is complete.
$(ENVIRONMENT): requirements/lock.txt $(if $(PYTHON),$(shell grep -qsxF '$(PYTHON)' $(ENVIRONMENT) || echo FORCE))
	@python=$$(sh .ci/find-python "$(PYTHON)" "$(MAKECMDGOALS)") || exit 1; \
	echo "Installing into $(VENV) with $$("$$python" --version), once; this takes a minute or two" >&2; \
	"$$python" -m venv --clear "$(VENV)"
	@$(PIP) --no-deps -r requirements/lock.txt
	@echo '$(PYTHON)' > $(ENVIRONMENT)

$(STAMP): $(ENVIRONMENT) pyproject.toml setup.py
	@PYTHONWARNINGS=ignore $(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check >/dev/null || { $(BIN)/python -m pip check; exit 1; }
	@touch $(STAMP)

bench: $(STAMP)
	@rm -f $(RESULTS)
	@status=0; \
	$(BIN)/memguard bench integrity --quick -o $(word 1,$(RESULTS)) $(ARGS) || status=$$?; \
	$(BIN)/memguard bench overhead --quick -o $(word 2,$(RESULTS)) || status=$$?; \
	echo; $(BIN)/memguard bench summary $(RESULTS) || status=$$?; \
	exit $$status

test: $(STAMP)
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

crash: $(STAMP)
	@$(BIN)/pytest tests/crash -m crash_full $(ARGS)

# The server lives in an environment of its own: its dependencies are not ours.
letta: $(STAMP)
	@$(BIN)/python -P .ci/letta -- $(ARGS)

# Put beside the environment once; without node its tests say so and skip.
mcp: $(STAMP)
	@bash .ci/mcp $(VENV)/mcp-server

lint: $(STAMP)
	@$(BIN)/ruff check . $(ARGS)
	@$(BIN)/ruff format --check --quiet .

# Newest releases of other people's packages, below .rows; ARGS="--only NAME..." measures some rows again.
rows: $(STAMP)
	@$(BIN)/python .ci/rows/measure.py --upgrade $(ARGS)
	@$(BIN)/python tests/docs/refresh.py

format: $(STAMP)
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

types: $(STAMP)
	@$(BIN)/python .ci/types.py

$(DOCS_STAMP): requirements/docs.txt $(STAMP)
	@$(PIP) --no-deps -r requirements/docs.txt
	@touch $(DOCS_STAMP)

docs: $(DOCS_STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

# Resolves the newest versions that pyproject.toml allows, for Python 3.11 to 3.13 and every platform at once, and
# writes them with the hash of every file. When a framework moved, tests/measured_versions.toml says what to do.
LOCK = $(VENV)-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-emit-index-url --custom-compile-command "make lock"
lock:
	@python=$$(sh .ci/find-python "$(PYTHON)" lock) && "$$python" -m venv "$(VENV)-lock"
	@$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.5"
	$(LOCK) pyproject.toml --extra all --extra dev -o requirements/lock.txt $(ARGS)
	$(LOCK) requirements/docs.in -o requirements/docs.txt $(ARGS)

clean:
	@rm -rf "$(VENV)" "$(VENV)-lock" .venv-letta build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	@find memguard integrations bench tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

FORCE:
