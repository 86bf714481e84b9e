# Two commands do everything on a fresh Debian or Ubuntu machine with Python 3.11+: `make demo` and `make test`.
# They make .venv, install what is missing (system packages too) and do not install again what is there.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
PACKAGES := libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6

.PHONY: help setup system demo test test-all check format bench clean
help:
	@echo "make demo      set everything up, then show what the suite does (pictures and films in demo/)"
	@echo "make test      set everything up, then lint, type-check and test"
	@echo "make test-all  the same with the tests that take minutes"
	@echo "make check     ruff and mypy        make format   let ruff rewrite"
	@echo "make bench     every benchmark, as JSON in benchmarks/"

setup: system .venv/ready

# GL libraries come from Debian; nothing on PyPI has them. Asked for only when neither EGL nor OSMesa loads.
system:
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) here. Type: sudo apt-get install -y python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) --version). Type: make PYTHON=python3.12 ..."; exit 1; }
	@if $(PYTHON) -c 'import ctypes; ctypes.CDLL("libEGL.so.1"); ctypes.CDLL("libEGL_mesa.so.0"); ctypes.CDLL("libOSMesa.so.8")' 2>/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(PACKAGES); \
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo apt-get update -qq && sudo apt-get install -y -qq $(PACKAGES); \
	else echo "OpenGL libraries are missing. Type:  sudo apt-get install -y $(PACKAGES)"; exit 1; fi

.venv/ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
	  { echo "No venv module here. Type: sudo apt-get install -y python3-venv"; exit 1; }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[train,dev]"
	@touch $@

demo: setup
	$(BIN)/cbm doctor
	$(BIN)/cbm preview --task cartpole-swingup --distraction easy -o demo/cartpole-easy.png
	$(BIN)/cbm preview --task walker-walk --distraction hard --dynamic -o demo/walker-hard-dynamic.png

test: check
	$(BIN)/python -m pytest -m "not slow"

test-all: check
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/cbm bench env --json > benchmarks/env.json

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis demo
