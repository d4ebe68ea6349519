# Every target sets up what it needs in .venv; PYTHON is any Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint clean

run: $(READY)
	$(BIN)/python -m tv_jax.main --config=configs/quickstart.py

test: $(READY)
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tv_jax needs Python 3.11 or newer: make PYTHON=python3.12"; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .gpu .pytest_cache .ruff_cache
