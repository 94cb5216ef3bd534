# Two commands matter: `make demo` and `make test`. Both set up all they need in .venv.

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

# Where containers set it, every process that is started compiles all of our modules again, and each of the tests' four all tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo serve test lint types types-of-callers quality test-gpu gpu-wheels gpu-page bench releases chaos soak hostile fuzz audit clean

help: ## Show this list
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: PYTHON (the Python to build on; of test-gpu: the one with your torch), TORCH_SPEC (a torch to install), VENV (default .venv)"

demo: $(INSTALLED) ## Start the service, reduce an example model over REST, run its repro, stop
	@$(BIN)/python examples/demo.py

serve: $(INSTALLED) ## Start the service and leave it running; the page to open is printed
	@$(BIN)/minimizer serve

test: lint ## Lint and run the everyday tests (about 15 minutes on 2 cores)
	@VENV=$(VENV) tests/prepare.sh
	@# Four processes, since many tests wait for others; in the order of the folders, since the slow files come first in it.
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=10 -m "not quality"

lint: $(INSTALLED_DEV) ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Two at a time: the types of the package, and those of what uses it, each with a cache of its own.
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types types-of-callers

types: $(INSTALLED_DEV)
	$(BIN)/mypy
	$(BIN)/mypy examples/demo.py
	$(BIN)/mypy --config-file tests/oldest_python.ini --cache-dir .mypy_cache/oldest -p minimizer.inside
	$(BIN)/lint-imports

types-of-callers: $(INSTALLED_DEV)
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests tests
	$(BIN)/mypy --config-file benchmarks/mypy.ini --cache-dir .mypy_cache/benchmarks benchmarks/*.py
	$(BIN)/mypy --config-file benchmarks/mypy.ini --cache-dir .mypy_cache/benchmarks benchmarks/chaos/*.py

quality: $(INSTALLED_DEV) ## Real reductions of real failures (at most 25 minutes; WHOLE_CORPUS=1: all, hours)
	@VENV=$(VENV) tests/prepare.sh
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n 2 --dist load --maxschedchunk 1 --durations=0 -m quality

test-gpu: ## The GPU set on PYTHON and the torch it has; no network, nothing installed; at most 8 minutes, resumable
	@$(PYTHON) tests/gpu run $(ARGS)

gpu-wheels: ## Fetch what the engine needs beside torch, for PYTHON or for WHEELS_FOR=3.12, into build/gpu-wheels
	@$(PYTHON) tests/gpu wheels $(if $(WHEELS_FOR),--version $(WHEELS_FOR)) $(ARGS)

gpu-page: ## Write the tables of docs/gpu.md from the results of the GPU set
	@$(PYTHON) tests/gpu page

bench: $(INSTALLED_DEV) ## The corpus, ours against PyTorch's own minifier, into docs/benchmarks.md; resumable
	$(BIN)/python benchmarks/corpus.py $(ARGS)

releases: $(INSTALLED) ## Every release of torch as people install it, into docs/benchmarks.md; by hand, hours, resumable (ARGS=--delete)
	$(BIN)/python benchmarks/releases.py $(ARGS)

chaos: $(INSTALLED_DEV) ## Kills and storms under running jobs, into docs/benchmarks.md; by hand, resumable (ARGS='--minutes 60')
	@VENV=$(VENV) tests/prepare.sh
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/chaos $(ARGS)

soak: $(INSTALLED_DEV) ## 300 jobs in a row, and what the service holds then; by hand, an hour (ARGS='--jobs 30')
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/soak.py $(ARGS)

hostile: $(INSTALLED_DEV) ## The corpus of hostile scripts, with the sandbox and without it, into docs/security.md
	$(BIN)/python tests/security/hostile $(ARGS)

fuzz: $(INSTALLED_DEV) ## Messages, scripts and archives at random, two minutes each; by hand (FUZZ_SECONDS=600)
	FUZZ_SECONDS=$${FUZZ_SECONDS:-120} $(BIN)/python -m pytest -p no:xdist -s tests/security/test_fuzzed_parsers.py

audit: ## Known vulnerabilities of the pinned packages; by hand, asks the network
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --upgrade pip-audit
	build/audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

clean: ## Remove what make has made; minimizer-out and minimizer-data stay
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt scripts/install.sh
	@scripts/install.sh $(VENV)
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt scripts/install.sh
	@scripts/install.sh $(VENV) dev,production,oidc
	@touch $@ $(INSTALLED)
