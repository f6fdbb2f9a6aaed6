# Needs python3 and make; everything else goes into $(VENV), which each target makes or brings up to date by itself.
#   make test PYTHON=python3.12 VENV=.venv-3.12

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
ROUNDS ?= 10
COVERAGE ?= --cov --cov-report=term
BIN := $(VENV)/bin
# Tests start hundreds of programs: compiled once, and not each time, they take a third less to start.
export PYTHONDONTWRITEBYTECODE :=
# node has a list of authorities of its own; let it trust those of the system, too.
export NODE_EXTRA_CA_CERTS ?= $(wildcard /etc/ssl/certs/ca-certificates.crt)
NPM_INSTALL := npm install --no-package-lock --no-fund --no-audit --loglevel=error --fetch-retries=2 --fetch-timeout=60000

.DEFAULT_GOAL := help
.PHONY: help venv demo test fuzz client-packages clients lint format bench-packages bench docs docs-rules docs-cli \
	screenshots lock clean

help: ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "PYTHON=... and VENV=... choose the Python and the virtual environment ($(PYTHON), $(VENV)); ARGS=... is passed on."

venv: ## make the virtual environment, or bring it up to date
	@$(PYTHON) .ci/venv.py $(VENV)

demo: venv ## record, judge and replay a small service on this machine
	@$(BIN)/wiretape demo $(ARGS)

test: venv ## run the tests on all cores, with branch coverage
	@$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal $(COVERAGE) $(ARGS)

fuzz: venv ## try the properties with ROUNDS (10) times other examples; takes minutes
	@for round in $$(seq $(ROUNDS)); do \
		$(BIN)/python -m pytest -q -m hypothesis --numprocesses=auto --dist=worksteal $(ARGS) || exit 1; done

client-packages: ## install the npm packages of tests/clients; needs node and npm
	@$(NPM_INSTALL) --prefix tests/clients

clients: venv client-packages ## write docs/clients.md anew: what other people's clients make of a broken stream
	@$(BIN)/python tests/clients/table.py docs/clients.md

lint: venv ## check style, types, which package imports which, and the links of the pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/site/build.py build/docs

format: venv ## put the code into the common form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-packages: ## install the npm packages of the benchmarks, which are optional; needs node and npm, and Java to run one
	@$(NPM_INSTALL) --prefix benchmarks/peers

bench: venv ## measure wiretape beside stock mitmdump, bare handlers and other mock servers
	@$(BIN)/python benchmarks/run.py $(ARGS)

docs: venv ## make a site of the pages in build/docs; a link to what is not there fails
	@$(BIN)/python .ci/site/build.py build/docs

docs-cli: venv ## write docs/cli.md anew, from the commands and their options
	@$(BIN)/python .ci/cli_page.py docs/cli.md

docs-rules: venv ## write docs/rules anew, from the catalogue and its examples
	@$(BIN)/wiretape rule --all --format markdown --output docs/rules

screenshots: venv ## make the pictures in docs/images anew, from the recording of a demo; needs chromium
	@$(BIN)/python .ci/screenshots.py docs/images

# uv reads no configuration here, so that nothing of this machine gets into the lock.
# The versions that are there stay where they fit; ARGS=--upgrade takes the newest.
lock: ## resolve the dependencies anew into requirements.lock
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install -qq --disable-pip-version-check uv
	@env -u UV_INDEX -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
		.venv-lock/bin/uv pip compile pyproject.toml --quiet --no-config --universal --python-version 3.11 --extra dev \
		--generate-hashes --custom-compile-command "make lock" --output-file requirements.lock $(ARGS)
	@echo "requirements.lock holds $$(grep -c '^[a-z].*==' requirements.lock) pinned versions"

clean: ## remove what was made here: $(VENV), caches, coverage, builds, the recording of the demo
	rm -rf $(VENV) .venv-lock build dist htmlcov .coverage .coverage.* .hypothesis wiretape-demo.db*
	rm -rf tests/clients/node_modules benchmarks/peers/node_modules .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find core proxy replay inspect tests benchmarks .ci -name __pycache__ -type d -prune -exec rm -rf {} +
