# Every target makes its own virtual environment first; nothing but Python >= 3.10 is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help demo test unit contract crashes google boto3 airflow matrix facts-next jobs-next bench bench-quick bench-kills soak lint types check constraints clean

help:  ## show what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.ready  ## kill real Airflow tasks and watch them resume (KEEP=1 keeps its home)
	@$(BIN)/python examples/demo.py

test: unit contract crashes airflow  ## every test

unit: $(VENV)/.ready  ## the fast tests
	@$(BIN)/python -m pytest -n 2 tests/unit

contract: $(VENV)/.ready  ## what a state store must do, on ours and on Airflow's
	@$(BIN)/python -m pytest -n 2 tests/contract

crashes: $(VENV)/.ready  ## the testing kit turned on everything, real kills of child processes included
	@$(BIN)/python -m pytest -n 2 tests/crashes

google: .venv-google/.ready  ## the crashes of Google's operators, whose provider is installed apart; Python >= 3.11
	@.venv-google/bin/python -m pytest tests/crashes/test_bigquery.py

boto3: .venv-boto3/.ready  ## the examples of boto3 in docs/loop-libraries.md, which needs an older python-dateutil
	@.venv-boto3/bin/python -m pytest tests/unit/test_loop_libraries_page.py -k "s3 or paginator or boto3"

airflow: $(VENV)/.ready  ## the tests on a real Airflow with real kills
	@$(BIN)/python -m pytest tests/airflow

matrix: $(VENV)/.ready  ## which backend keeps the contract: docs/conformance.md, made anew
	@$(BIN)/python tests/support/matrix.py

facts-next: $(VENV)/.ready  ## the stand-ins of the testing kit against the pre-release of the next Airflow
	@$(BIN)/python tests/support/facts_next.py

jobs-next: $(VENV)/.ready  ## jobs whose run, Dag file or record changes, on the pre-release of the next Airflow
	@$(BIN)/python tests/support/facts_next.py jobs

bench: $(VENV)/.ready  ## measure ours beside others, which are installed apart; writes docs/benchmarks.* and the README
	@$(BIN)/python tests/benchmarks --publish

bench-quick: $(VENV)/.ready  ## a minute or two of the same, which shows that it runs
	@$(BIN)/python tests/benchmarks --quick

bench-kills: $(VENV)/.ready  ## what five kills cost a loop over all flights on a real Airflow; some minutes
	@$(BIN)/python tests/benchmarks/bench_loop_kills.py

soak: $(VENV)/.ready  ## hundreds of mapped tasks, killed at random for ten minutes (SOAK="--minutes 2")
	@$(BIN)/python tests/soak.py $(SOAK)

lint: $(VENV)/.ready  ## style, formatting, import borders
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports

types: $(VENV)/.ready  ## mypy and pyright
	@$(BIN)/mypy
	@$(BIN)/pyright

check: test lint types  ## all of it

clean:  ## remove what the targets made
	rm -rf $(VENV) .venv-google .venv-boto3 dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("airflow-resume needs Python 3.10 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV) (once; about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --upgrade pip
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --editable . --group dev
	@touch $@

.venv-google/.ready: pyproject.toml constraints-google.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("The provider of Google needs Python 3.11 or newer here, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 google")'
	@echo "Making .venv-google (once; some minutes, 2 GB) ..."
	@$(PYTHON) -m venv .venv-google
	@.venv-google/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints-google.txt --upgrade pip
	@.venv-google/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints-google.txt --editable . --group google
	@touch $@

.venv-boto3/.ready: pyproject.toml constraints.txt
	@echo "Making .venv-boto3 (once; about a minute) ..."
	@$(PYTHON) -m venv .venv-boto3
	@grep -v '^python-dateutil==' constraints.txt > .venv-boto3/constraints.txt
	@.venv-boto3/bin/python -m pip install -qq --disable-pip-version-check --constraint .venv-boto3/constraints.txt --upgrade pip
	@.venv-boto3/bin/python -m pip install -qq --disable-pip-version-check --constraint .venv-boto3/constraints.txt --editable . --group boto3
	@touch $@
