# nbagent's own chores. `make install`, then `make demo`; `make test` is what CI runs.
#
# Everything lands in .venv, from pins with hashes; the wheel is built from this checkout and installed as a person would
# install it. A file under .venv/stamps says that a step is done, so a second run does only what changed.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= python3
# The image that the kernel's image starts from; when it isn't named, .ci/base-image makes one from Debian's packages.
BASE ?=

BIN := .venv/bin
DONE := .venv/stamps
UV := VIRTUAL_ENV=.venv UV_PYTHON_DOWNLOADS=never $(BIN)/uv --quiet
# Folders are listed too: their time changes when a file in them goes.
SOURCES := pyproject.toml LICENSE $(wildcard README.md) panel/hatch_build.py \
	$(shell find nbagent kernels -name __pycache__ -prune -o -print)
PANEL := $(wildcard panel/*.json) $(shell find panel/src panel/style panel/schema)

# Where there is no Node that builds it, the wheel has no panel, unless something is made that tests or measures the panel:
# then Node comes with the tests' packages.
NODE := $(shell .ci/setup node && echo yes)
WITH_PANEL := $(if $(filter test bench panel,$(MAKECMDGOALS))$(NODE),$(DONE)/panel)

# Much of the tests' time is waiting for kernels, so there is one process more than there are cores. Tests of a file and
# an engine stay together, since they share kernels; tests/conftest.py says which files come first.
PARALLEL := --numprocesses $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 1 : 4))) --dist loadfile

# $(call tests,ARGUMENTS): what fails beside others, on cores that all of them share, runs once more by itself, and has to
# pass then. The output names it: it waits too short for something, or finds what a neighbour left.
define tests
$(BIN)/pytest $(1) && exit || [[ $$? == 1 ]]
echo 'Alone, what failed beside others:'
$(BIN)/pytest $(1) --numprocesses 0 --last-failed --last-failed-no-failures none --verbose --maxfail 1
endef

# Empty, as in `make pins UPGRADE=`, only what is new in pyproject.toml is added and all other pins stay.
UPGRADE ?= --upgrade

# One resolution for every Python from 3.11 on, so that a result doesn't depend on which one runs it.
EXTRAS := anthropic google groq ollama openrouter local mcp
COMPILE := $(UV) pip compile --universal --python-version 3.11 --fork-strategy fewest --generate-hashes $(UPGRADE) \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make pins'

# What differs with the Python, the C library and the bubblewrap there are: start, limits, attacks, packages, archives.
NATIVE := tests/kernel/test_unpack_inside.py tests/kernel/test_kernel.py tests/notebook/compare \
	tests/sandbox/test_bubblewrap.py tests/sandbox/test_environment.py tests/packages/test_installer.py \
	tests/packages/test_resolver.py tests/test_import.py tests/test_threats.py

.PHONY: help install demo picture test native lint vm bench image panel dev pins clean

help:  ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## /  make \1 \t/p' Makefile

install: $(DONE)/wheel  ## nbagent in .venv, and the environment of its kernels
	@.ci/setup engine
	$(BIN)/nbagent env build

demo: install  ## a question, answered in a sandbox
	$(BIN)/nbagent demo

picture: install $(DONE)/tests $(DONE)/panel  ## the pictures in README.md, from runs of the demo
	folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT
	$(BIN)/nbagent demo --quiet --out "$$folder/demo.ipynb" --output-dir "$$folder/output"
	$(BIN)/python .ci/picture.py "$$folder/demo.ipynb" docs/demo.png
	PYTHONPATH=tests $(BIN)/python .ci/panel_picture.py docs

test: install $(DONE)/tests image lint  ## everything that CI checks
	@.ci/setup tests
	$(call tests,--ignore tests/bench $(PARALLEL))

native: install $(DONE)/tests  ## the tests of what differs with the machine; without Docker
	$(call tests,--without docker $(PARALLEL) $(NATIVE))

lint: $(DONE)/tests  ## style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

vm:  ## what an ordinary user on systemd gets, in an emulated machine; slow, needs root
	.ci/vm

bench: install $(DONE)/tests image  ## how long things take here, into docs/performance.md
	$(BIN)/pytest tests/bench --benchmark-only --page docs/performance.md

image: $(DONE)/wheel  ## the Docker image of the kernels; BASE=name:tag starts from an image of yours
	@.ci/setup docker
	base='$(BASE)'
	[[ -n $$base ]] || base=$$(.ci/base-image)
	$(BIN)/nbagent image build --base "$$base"

panel: $(DONE)/wheel  ## the JupyterLab panel, and the wheel with it

dev: $(DONE)/tests $(WITH_PANEL)  ## nbagent editable in .venv
	@$(UV) pip install --offline --no-deps --no-build-isolation --reinstall-package nbagent --editable .
	# So that the next `make install` or `make test` puts the wheel in its place.
	rm -f $(DONE)/wheel

pins: $(DONE)/uv  ## newest versions, with hashes and without addresses, into the three requirements.txt
	@$(COMPILE) kernels/requirements.in --output-file kernels/requirements.txt > /dev/null
	# Which file has which hash, for the locks of notebooks.
	@$(UV) pip compile kernels/requirements.txt --no-deps --universal --python-version 3.11 --only-binary :all: \
		--format pylock.toml | $(BIN)/python .ci/wheels.py > kernels/wheels.txt
	# First what the tests install, which is more, so that the few versions in which all of it agrees are found.
	$(COMPILE) pyproject.toml --extra test $(EXTRAS:%=--extra %) --output-file tests/requirements.txt > /dev/null
	$(COMPILE) pyproject.toml --group build --constraints tests/requirements.txt --output-file requirements.txt > /dev/null

clean:  ## undo everything but the cache of the kernels' packages
	rm -rf panel/{node_modules,build,lib}
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis .benchmarks
	find nbagent tests -name __pycache__ -prune -exec rm -rf {} +

$(DONE)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
		echo 'nbagent needs Python 3.11 or newer as $(PYTHON); name another one: make install PYTHON=python3.12' >&2; exit 1; }
	$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || {
		echo "$(PYTHON) can't make environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	echo 'Making .venv'
	$(PYTHON) -m venv .venv
	# pip only brings uv, from its pin, and uv the rest: seconds instead of a minute.
	pin=$$(mktemp); trap 'rm -f "$$pin"' EXIT
	sed -n '/^uv==/,/[^\\]$$/p' requirements.txt > "$$pin"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r "$$pin"
	mkdir -p $(DONE) && touch $@

$(DONE)/pins: requirements.txt | $(DONE)/uv
	@echo 'Installing the pinned dependencies'
	$(UV) pip sync --require-hashes requirements.txt
	touch $@

$(DONE)/panel: $(PANEL) | $(if $(NODE),$(DONE)/uv,$(DONE)/tests)
	@echo 'Building the JupyterLab panel'
	$(if $(NODE),,export PATH="$$PWD/$(BIN):$$PATH")
	cd panel
	log=../$(DONE)/panel.log
	if [[ ! node_modules/.package-lock.json -nt package-lock.json ]] && ! npm run packages > $$log 2>&1; then
		$(if $(filter test bench panel,$(MAKECMDGOALS)),cat $$log >&2; exit 1)
		# Without a stamp, so that the next `make` tries again.
		rm -rf build
		echo 'npm could not fetch the packages that build the JupyterLab panel, so there is none; all else works.' >&2
		echo "What npm said is in $(DONE)/panel.log. With its registry within reach: make panel" >&2
		exit 0
	fi
	npm run --silent build > $$log 2>&1 || { cat $$log >&2; exit 1; }
	touch ../$@

$(DONE)/wheel: $(SOURCES) $(DONE)/pins $(WITH_PANEL)
	@echo 'Building and installing the wheel'
	rm -rf dist
	# What could not be built above is not tried again.
	[[ -e panel/build/package.json ]] || export NBAGENT_PANEL=no
	# The pins hold the build backend too; offline proves that nothing else is fetched.
	$(UV) build --offline --wheel --no-build-isolation
	# Compiled as by pip: hundreds of processes of the tests import it, and the bench times it beside what pip installed.
	$(UV) pip install --offline --no-deps --reinstall-package nbagent --compile-bytecode dist/*.whl
	touch $@

# After the wheel: `uv pip sync` takes away what it doesn't know.
$(DONE)/tests: tests/requirements.txt $(DONE)/pins
	@echo 'Installing the pinned dependencies of the tests'
	$(UV) pip install --require-hashes --compile-bytecode -r tests/requirements.txt
	touch $@
