# `make demo` and `make test` work on a fresh Debian or Ubuntu machine with Python 3.11 or 3.12. They create .venv and
# install what is missing, including system packages; nothing is installed twice.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
DEMO_STEPS ?= 150000
TRAINED := zoo:cartpole-swingup/drqv2+cbm
PACKAGES := libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6

.PHONY: help setup system browser demo docs tutorial results test test-all smoke assault check format bench clean
help:
	@echo "make demo      set up everything, then train CBM for about ten minutes (curve, film and page in demo/)"
	@echo "make test      set up everything, then lint, type-check and test"
	@echo "make test-all  the same, including the tests that take minutes"
	@echo "make smoke     the paper's main study, a few seconds per run: every method on every task, and its report"
	@echo "make assault   attack the program: kills, damaged files, wrong command lines; prints what held"
	@echo "make docs      build the documentation site; open site/index.html"
	@echo "make tutorial  run docs/tutorial.ipynb and store its pictures in it"
	@echo "make results   curves and page of the benchmark, from the stored records of its runs"
	@echo "make check     ruff and mypy        make format   let ruff rewrite"
	@echo "make bench     every benchmark, as JSON in benchmarks/"

setup: system .venv/ready

# GL libraries come from Debian; nothing on PyPI has them. Installed only when neither EGL nor OSMesa loads.
system:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed. Type: sudo apt-get install -y python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	  { echo "Python 3.11 or 3.12 is needed, $(PYTHON) is $$($(PYTHON) --version). Type: make PYTHON=python3.12 ..."; exit 1; }
	@if $(PYTHON) -c 'import ctypes; ctypes.CDLL("libEGL.so.1"); ctypes.CDLL("libEGL_mesa.so.0"); ctypes.CDLL("libOSMesa.so.8")' 2>/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(PACKAGES); \
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo apt-get update -qq && sudo apt-get install -y -qq $(PACKAGES); \
	else echo "OpenGL libraries are missing. Type:  sudo apt-get install -y $(PACKAGES)"; exit 1; fi

# The report page is tested in a real browser: Debian's Chromium, or the one that Playwright fetches where there is no such
# package (on Ubuntu it is a snap). 113 MB to download; only the tests need it.
browser: setup
	@if $(BIN)/python tests/helpers/browser.py 2>/dev/null; then :; \
	elif [ "$$(. /etc/os-release; echo $$ID)" = debian ] && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	elif [ "$$(. /etc/os-release; echo $$ID)" = debian ] && command -v sudo >/dev/null && sudo -n true 2>/dev/null; then \
	  sudo apt-get update -qq && sudo apt-get install -y -qq --no-install-recommends chromium; \
	else $(BIN)/playwright install --with-deps chromium || \
	  { echo "There is no browser to test the page with. Type:  sudo apt-get install -y chromium"; exit 1; }; fi

.venv/ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
	  { echo "The venv module is missing. Type: sudo apt-get install -y python3-venv"; exit 1; }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[train,export,cluster,zoo,dev,docs]"
	@touch $@

# About ten minutes on two cores. After an interruption it resumes where it was.
demo: setup
	$(BIN)/cbm doctor
	$(BIN)/cbm preview --task cartpole-swingup --distraction easy -o demo/what-the-agent-sees.png
	$(BIN)/cbm record $(TRAINED) --videos unseen -o demo/trained-agent.mp4
	@if [ -f demo/run/config.json ]; then $(BIN)/cbm train --resume demo/run; else \
	  $(BIN)/cbm train --task cartpole-swingup --agent drqv2+cbm --distraction easy --preset laptop \
	    --steps $(DEMO_STEPS) --out demo/run; fi
	$(BIN)/cbm eval demo/run --episodes 10 --videos unseen -o demo/unseen-videos.json
	$(BIN)/cbm record demo/run $(TRAINED) --videos unseen -o demo/film.mp4
	$(BIN)/cbm plot demo/run -o demo/curve.png
	$(BIN)/cbm robustness demo/run $(TRAINED) --episodes 3 -o demo/robustness
	$(BIN)/cbm analyze demo/run --episodes 0
	$(BIN)/cbm report demo/run -o demo/report.html
	@echo "Look at demo/report.html, demo/film.mp4 (your agent beside a trained one of the zoo), demo/curve.png, demo/robustness/"

test: check browser
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: check browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Twice: the second time finds everything done.
smoke: setup
	$(BIN)/cbm study run multi --scale smoke --root demo/studies
	$(BIN)/cbm study run multi --scale smoke --root demo/studies
	$(BIN)/cbm study report multi --scale smoke --root demo/studies

# Minutes to an hour, depending on the machine. For a shorter one: ASSAULT="--kills 20 --words 100".
assault: setup
	$(BIN)/python tests/assault/run.py $(ASSAULT)

# A static site without any request to a server, so it can be opened as a file. A dead link or a name that is gone is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "Look at site/index.html"

# The benchmark's curves and page, from the records of its runs that are in the repository.
results: setup
	$(BIN)/cbm plot docs/results/raw/benchmark -o docs/results/benchmark/curves.png
	$(BIN)/cbm report docs/results/raw/benchmark -o docs/results/benchmark/report.html
	@echo "Look at docs/results/benchmark/report.html"

tutorial: setup
	$(BIN)/python tests/helpers/tutorial.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/cbm bench env --json > benchmarks/env.json
	$(BIN)/cbm bench update --json > benchmarks/update.json
	$(BIN)/cbm bench methods --json > benchmarks/methods.json
	$(BIN)/cbm bench act --json > benchmarks/act.json
	$(BIN)/cbm bench train --json > benchmarks/train.json
	$(BIN)/cbm bench study --json > benchmarks/study.json

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis demo site
