# make demo: the main job on data the package makes itself. make test: lint, types, tests. Both set everything up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.setup
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PYTHONDONTWRITEBYTECODE = 1

.PHONY: demo test lint types tests browser format bench clean

demo: $(SETUP)-run
	$(BIN)/python examples/demo.py demo

test: lint types tests

lint: $(SETUP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(SETUP)-dev
	$(BIN)/mypy

# Two processes with one thread each: with two each they would wait for one another on two cores. Many tests start real
# servers, clusters and browsers and kill them: what fails beside the others is shown, and judged with nothing beside it.
tests: export OMP_NUM_THREADS = 1
tests: $(SETUP)-dev browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 25 || \
	  { [ $$? = 1 ] && echo "Once more, with nothing beside it: what failed" && \
	    $(BIN)/python -m pytest --last-failed --last-failed-no-failures none -rA; }

# The page is tested in a real browser; where none can be had, those tests say that they did not run.
browser:
	@command -v chromium >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
	  echo "chromium is missing; the tests of the web page will be skipped (apt-get install chromium)"

bench: $(SETUP)-dev
	$(BIN)/python benchmarks/table.py --quick
	$(BIN)/python benchmarks/theatre.py
	$(BIN)/python benchmarks/encoders.py
	$(BIN)/python benchmarks/extract.py --hour
	$(BIN)/python benchmarks/tasks.py
	$(BIN)/python benchmarks/splavu_training.py --videos 512 --width 256 --epochs 10 --rows 4096
	$(BIN)/python benchmarks/latent_study.py build/bench/latent --size tiny --seeds 5 --variants "quantise 2" "erase both 1/4"
	$(BIN)/python benchmarks/gait.py build/bench/gait --seeds 20 --rows veil
	$(BIN)/python benchmarks/pixel_attackers.py build/bench/pixels --twin-size tiny --epochs 4 --networks tiny@own
	$(BIN)/python benchmarks/pixel_inference.py --seconds 2
	$(BIN)/python benchmarks/pixel_cost.py
	$(BIN)/python benchmarks/minimax.py --width 16 --size 64 --batch 4 --frames 8
	$(BIN)/python benchmarks/pixel_study.py build/bench/study --scale try --seeds 5 --rows "downsample 4×" SPAct veil-pixel

format: $(SETUP)-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Debian splits ensurepip from python3: fetch it where that is allowed, say so where it is not.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; name one with PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq python3-venv; } || \
	  { echo "python3-venv is missing; install it with: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(SETUP)-run: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

$(SETUP)-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	@touch $@ $(SETUP)-run

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache
