# Needs Python 3.11 or newer and make; everything else is installed into .venv.
# What is checked is defined in tox.ini; these targets run those commands in .venv.
PYTHON ?= python3
PYTHON := $(PYTHON)
VENV := .venv
BIN := $(VENV)/bin
CHECK := $(BIN)/python tools/checks.py
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint types docs screenshots bench sbom clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/installed-demo ## deblur an example image (in napari, or into files without a display)
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then PYTHON=$(PYTHON) tools/system_libraries.sh; fi
	@$(BIN)/napari-kpac demo

test: $(VENV)/installed-dev system ## lint, types, import contract, manifest, and the tests in real windows
	@$(CHECK) lint types manifest tests

test-all: $(VENV)/installed-dev system ## the same with the tests that take long
	@$(CHECK) lint types manifest tests-all

lint: $(VENV)/installed-dev ## style and import contract
	@$(CHECK) lint

types: $(VENV)/installed-dev ## static types
	@$(CHECK) types

docs: $(VENV)/installed-docs ## build the documentation into site/
	@$(CHECK) docs

screenshots: $(VENV)/installed-dev system ## make all images of the documentation again, from the real program
	@$(CHECK) screenshots

bench: $(VENV)/installed-dev ## measure speed and memory on this machine
	@$(CHECK) bench

sbom: $(VENV)/installed-demo ## list the dependencies and their licences (sbom.json, licences.md)
	@$(CHECK) sbom

clean: ## remove the environment and everything generated
	rm -rf $(VENV) .tox demo-output dist site

.PHONY: system
system:
	@PYTHON=$(PYTHON) tools/system_libraries.sh

$(VENV)/bin/python:
	@PYTHON=$(PYTHON) tools/system_libraries.sh venv
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -e ".[all]"
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed-demo
	$(BIN)/python -m pip install -q -e ".[all,docs]"
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed-demo
	$(BIN)/python -m pip install -q -e ".[all,dev]"
	@touch $@
