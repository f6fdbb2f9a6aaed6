# Needs python3 and make; everything else is installed into $(VENV), which each target creates or updates.
#   make test PYTHON=python3.12 VENV=.venv-3.12

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
ROUNDS ?= 10
SECONDS ?= 3600
SEED ?= 1
BIN := $(VENV)/bin
TEST := $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal
# Tests start hundreds of programs, which start a third faster if their modules are compiled only once.
export PYTHONDONTWRITEBYTECODE :=
# node has its own list of authorities; let it also trust those of the system.
export NODE_EXTRA_CA_CERTS ?= $(wildcard /etc/ssl/certs/ca-certificates.crt)
NPM_INSTALL := npm install --no-package-lock --no-fund --no-audit --loglevel=error --fetch-retries=2 --fetch-timeout=60000

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-packages coverage fuzz soak reproductions mutants audit client-packages clients lint format bench-packages bench docs docs-rules docs-cli \
	screenshots lock build release-check test-lowest clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "PYTHON=... and VENV=... choose the Python and the virtual environment ($(PYTHON), $(VENV)); ARGS=... is passed on."

venv: ## create or update the virtual environment
	@$(PYTHON) .ci/venv.py $(VENV)

demo: venv ## record, check and replay a small service on this machine
	@$(BIN)/wiretape demo $(ARGS)

test: venv ## run the tests on all cores, but for those of the packages
	@$(TEST) --ignore=tests/packages $(ARGS)

test-packages: venv ## build, install and use the wheel, the sdist and the recipe of the container
	@$(TEST) tests/packages $(ARGS)

coverage: venv ## run the tests and report branch coverage; takes half as long again
	@$(TEST) --ignore=tests/packages --cov --cov-report=term $(ARGS)

fuzz: venv ## run the property tests ROUNDS (10) times with 500 new examples, and changed copies of tests/fuzz/corpus
	@for round in $$(seq $(ROUNDS)); do \
		WIRETAPE_FUZZ=500 $(TEST) -q -m hypothesis --timeout=1200 $(ARGS) || exit 1; done

soak: venv ## break things under load for SECONDS (3600), seeded with SEED (1), and print a table
	@WIRETAPE_SOAK_SECONDS=$(SECONDS) WIRETAPE_SOAK_SEED=$(SEED) \
		$(BIN)/python -m pytest --quiet --capture=no tests/proxy/test_soak.py $(ARGS)

reproductions: venv ## break each rule about the service, and run the script that wiretape probe prints
	@WIRETAPE_REPRODUCTIONS=1 $(BIN)/python -m pytest --quiet --verbose tests/probe/test_probe_second_service.py -k printed_script $(ARGS)

# cosmic-ray has its own environment, because tests need none of its packages.
mutants: venv ## change the code in small ways, and report which changes no test notices (ARGS="sse --sample 100")
	@$(PYTHON) -m venv .venv-mutants
	@.venv-mutants/bin/python -m pip install -qq --disable-pip-version-check cosmic-ray
	@.venv-mutants/bin/python .ci/mutants.py $(BIN)/python $(ARGS)

audit: ## list known advisories about the pinned dependencies, if their data can be reached
	@$(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip install -qq --disable-pip-version-check pip-audit || echo "pip-audit cannot be installed."
	@.venv-audit/bin/python .ci/audit.py .venv-audit/bin/pip-audit requirements.lock

client-packages: ## install the npm packages of tests/clients; needs node and npm
	@$(NPM_INSTALL) --prefix tests/clients

clients: venv client-packages ## break streams of Chromium 50 times in two ways, and regenerate docs/clients.md
	@WIRETAPE_CHROMIUM_RUNS=50 $(BIN)/python -m pytest --quiet tests/clients/test_clients.py -k breaks_no_rule
	@$(BIN)/python tests/clients/table.py docs/clients.md

lint: venv ## check style, types, imports between packages, and links in the docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/site/build.py build/docs

format: venv ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-packages: ## install the npm packages of the benchmarks, which are optional; needs node and npm, and Java to run one
	@$(NPM_INSTALL) --prefix benchmarks/peers

bench: venv ## compare wiretape with stock mitmdump and other mock servers, and write docs/benchmarks.md; takes a quarter of an hour
	@$(BIN)/python benchmarks/run.py --output docs/benchmarks.md $(ARGS)

docs: venv ## build the site of the docs in build/docs; broken links fail
	@$(BIN)/python .ci/site/build.py build/docs

docs-cli: venv ## regenerate docs/cli.md from the commands and their options
	@$(BIN)/python .ci/cli_page.py docs/cli.md

docs-rules: venv ## regenerate docs/rules and docs/contracts from the rules and their examples
	@$(BIN)/wiretape rule --all --format markdown --output docs/rules
	@for name in $(notdir $(wildcard docs/contracts/*)); do \
		$(BIN)/wiretape contract docs $$name --output docs/contracts/$$name || exit 1; done

screenshots: venv ## regenerate the pictures in docs/images from a demo recording; needs chromium
	@$(BIN)/python .ci/screenshots.py docs/images

# uv reads no configuration, so that nothing of this machine gets into the lock file.
# Locked versions stay if they fit; ARGS=--upgrade takes the newest.
lock: ## resolve the dependencies into requirements.lock
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install -qq --disable-pip-version-check uv
	@env -u UV_INDEX -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
		.venv-lock/bin/uv pip compile pyproject.toml --quiet --no-config --universal --python-version 3.11 --extra dev \
		--generate-hashes --custom-compile-command "make lock" --output-file requirements.lock $(ARGS)
	@echo "requirements.lock contains $$(grep -c '^[a-z].*==' requirements.lock) pinned versions"

build: venv ## build the wheel and the sdist in dist
	@rm -rf dist
	@env -u SOURCE_DATE_EPOCH $(BIN)/python -m hatchling build --directory dist

release-check: venv ## rehearse a release: build, inspect, install and use the packages, and print what is left to do; takes a quarter of an hour
	@$(BIN)/python .ci/release_check.py build/release

# With the oldest Python that is supported, because old versions of packages have no wheels for new ones.
# The packages that only tests need have any version that fits.
test-lowest: ## run the tests with the lowest versions of dependencies that pyproject.toml allows
	@$(PYTHON) -m venv .venv-lowest
	@.venv-lowest/bin/python -m pip install -qq --disable-pip-version-check uv
	@.venv-lowest/bin/uv pip compile pyproject.toml --quiet --resolution lowest-direct \
		--extra proxy --extra otlp --extra dask --output-file .venv-lowest/lowest.txt
	@.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --constraint .venv-lowest/lowest.txt --editable '.[dev]'
	@.venv-lowest/bin/python -m pytest --numprocesses=auto --dist=worksteal --ignore=tests/packages $(ARGS)

clean: ## remove $(VENV), caches, coverage, builds and the recording of the demo
	rm -rf $(VENV) .venv-lock .venv-lowest .venv-mutants .venv-audit build dist htmlcov .coverage .coverage.* .hypothesis wiretape-demo.db*
	rm -rf tests/clients/node_modules benchmarks/peers/node_modules .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find core contracts proxy replay inspect tests benchmarks .ci -name __pycache__ -type d -prune -exec rm -rf {} +
