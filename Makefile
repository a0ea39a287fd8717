# Two commands from a fresh clone: `make demo` sets up and runs the main job, `make test` runs the tests.
.POSIX:
.PHONY: help demo test check bench bench-peers test-faults test-runtimes docs serve lock modules events-page runtimes-page status clean

VENV = .venv
PYTHON =
# Most tests wait for a process, a server or a disk: four at a time keep two processors busy, and take 4 GB of memory.
JOBS = 4
PARALLEL = -n $(JOBS) --dist loadfile -p no:langsmith_plugin -p no:schemathesis -o tmp_path_retention_policy=failed
# What is killed and starved of its disk is given more of the machine.
FAULTS = -n 2 --dist loadfile
# Who asks Python to keep no compiled modules would have each of a few thousand processes compile them anew.
PYTEST = PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest
SET_UP = sh scripts/environment.sh

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 16

demo: ## set up and run the demonstration: agents, a kill, a recovery, a verification (offline after set-up)
	@$(SET_UP) $(VENV) demo $(PYTHON)
	@$(VENV)/bin/chatsnapshot demo

test: ## run the tests in the same environment, JOBS=4 at a time
	@$(SET_UP) $(VENV) demo $(PYTHON)
	@$(SET_UP) $(VENV) test $(PYTHON)
	$(PYTEST) $(PARALLEL)

check: ## lint, format, types and the house rules
	@$(SET_UP) $(VENV) demo $(PYTHON)
	@$(SET_UP) $(VENV) test $(PYTHON)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PYTEST) -q $(PARALLEL) tests/house

bench: ## measure against limits and peers, in an environment of its own
	@$(SET_UP) .venvs/bench bench $(PYTHON)
	.venvs/bench/bin/python -m benchmarks

bench-peers: ## the same OTLP load to ours, MLflow and Phoenix, each in an environment of its own
	@sh scripts/bench-peers.sh

test-faults: ## kill, cut the power, fill the disk
	@$(SET_UP) $(VENV) demo $(PYTHON)
	@$(SET_UP) $(VENV) test $(PYTHON)
	$(PYTEST) $(FAULTS) -m faults

test-runtimes: ## every supported Python, the oldest dependencies, every agent runtime
	@sh scripts/test-runtimes.sh

docs: ## build the documentation into site/
	@$(SET_UP) .venvs/docs docs $(PYTHON)
	@test -x .venvs/docs/bin/zensical || { echo 'Building the pages needs Python 3.11 or newer: make docs PYTHON=python3.13' >&2; exit 1; }
	.venvs/docs/bin/zensical build --strict --clean
	@echo "Built: open site/index.html"

serve: ## the HTTP service over ./chatsnapshot.db, on http://127.0.0.1:8420
	@$(SET_UP) $(VENV) demo $(PYTHON)
	@$(VENV)/bin/python -c 'import starlette, uvicorn' 2>/dev/null || $(SET_UP) $(VENV) test $(PYTHON)
	@$(VENV)/bin/chatsnapshot serve

lock: ## write the hashed locks anew from pyproject.toml
	@$(SET_UP) .venvs/lock lock $(PYTHON)
	.venvs/lock/bin/python scripts/lock.py

modules: ## write the list of modules in ARCHITECTURE.md anew
	@$(SET_UP) $(VENV) demo $(PYTHON)
	$(VENV)/bin/python scripts/modules.py

events-page: ## write the tables of docs/events.md anew from the schemas
	@$(SET_UP) $(VENV) demo $(PYTHON)
	$(VENV)/bin/python scripts/events_page.py

runtimes-page: ## run the contract of adapters wherever a runtime is set up, and write the table of docs/runtimes.md anew
	@$(SET_UP) $(VENV) demo $(PYTHON)
	@$(SET_UP) $(VENV) test $(PYTHON)
	$(VENV)/bin/python scripts/runtimes_table.py

status: ## run the conformance suite and write the table of stores in README.md anew
	@$(SET_UP) $(VENV) demo $(PYTHON)
	@$(SET_UP) $(VENV) test $(PYTHON)
	$(VENV)/bin/python scripts/status.py

clean: ## remove environments and everything built
	rm -rf .venv .venvs build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
