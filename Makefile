# Every target sets up what it needs on a fresh machine: a virtual environment with pinned, hashed packages.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.ready
RUNTIME := $(VENV)/.runtime
DOCS := $(VENV)/.docs

.PHONY: demo test test-all browser lint bench paper family docs look fuzz faults audit wheels numba lock clean

demo: $(RUNTIME)
	$(BIN)/pmbandits demo --out out/demo.png

test: $(READY) browser lint
	$(BIN)/python -m pytest

# Everything, also what takes seconds a test: all policies against their references, coverage by simulation, the paper.
test-all: $(READY) browser lint
	$(BIN)/python -m pytest -m ""

# A browser for the tests of pages, where it may be installed. Without one these tests are skipped, and say so.
browser:
	@command -v chromium >/dev/null 2>&1 || \
		{ command -v apt-get >/dev/null 2>&1 && apt-get update -qq >/dev/null 2>&1 && \
		apt-get install -y -qq chromium >/dev/null 2>&1; } || \
		echo "No chromium, and none can be installed here: tests of pages in a browser are skipped."

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY)
	$(BIN)/python -m benchmarks

# The paper's experiments at full size, with the page out/paper/index.html. Stopped, it goes on where it was.
# python docs/claims.py out/paper takes its verdicts over into the documentation.
paper: $(RUNTIME)
	$(BIN)/pmbandits reproduce all --out out/paper

# Our own comparison of all policies (half an hour on two cores), and the page docs/family.md with its picture and tables.
# Stopped, it goes on where it was. A new policy needs its seconds first: python -m benchmarks.family.
family: $(RUNTIME)
	$(BIN)/pmbandits reproduce family --seed 20261116 --out out/family
	$(BIN)/python docs/family.py out/family

# The documentation, out/docs/index.html: runs every example and checks every link inside. Warnings are errors.
docs: $(DOCS)
	$(BIN)/python docs/build.py

# Every page of the documentation in a browser, at three widths, light and dark: what is too wide, cut off, missing or hard
# to read is an error. Pictures of all pages are in out/look.
look: $(READY) browser
	@test -d out/docs || $(MAKE) docs
	$(BIN)/python -m tools.look

# Attacks on all readers and public functions, for an hour or so; prints the table of docs/security.md. Then atheris, which
# looks for inputs by itself, where there is one for this Python (FUZZ_SECONDS for each reader).
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz
	$(INSTALL) --require-hashes -r requirements-fuzz.txt || echo "There is no atheris for this Python; random edits must do."
	$(BIN)/python -m tests.fuzz.guided $(FUZZ_SECONDS)

# Faults on purpose: 1,000 kills of server processes under load on SQLite and PostgreSQL, connections cut, PostgreSQL killed,
# full disks. After every round the log is played again and compared. Stopped, it goes on where it was (an hour or so).
faults: $(READY)
	$(BIN)/python -m tests.faults

# Known vulnerabilities of what is pinned (needs the network, or DATABASE=all.zip), the bill of materials, and licences.
audit: $(READY)
	$(BIN)/python -m tools.audit $(if $(DATABASE),--database $(DATABASE))

# The wheel and the source distribution; that they are complete; and that the wheel can be installed and used in clean
# environments of every Python from 3.11 to 3.13 that is here, or of those named: make wheels PYTHONS="python3.12 …". Needs the network.
wheels: $(RUNTIME)
	$(BIN)/python -m tools.wheels $(PYTHONS)

# The library alone, which is all that the demonstration needs …
$(RUNTIME): requirements.txt pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'pmbandits needs Python 3.11 or newer; set PYTHON=python3.11')"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $(RUNTIME)

# … and what development adds.
$(READY): requirements-dev.txt $(RUNTIME)
	$(INSTALL) --require-hashes -r requirements-dev.txt
	touch $(READY)

# … and what the documentation adds.
$(DOCS): requirements-docs.txt $(RUNTIME)
	$(INSTALL) --require-hashes -r requirements-docs.txt
	touch $(DOCS)

# All kernels compiled with the newest numba, or with another (NUMBA=0.60.0 make numba), and the room that knows numba's
# inside tested with it. Everything else is as new as that numba and pyproject.toml allow. Needs the network.
numba: export PMBANDITS_CACHE_DIR = $(CURDIR)/$(VENV)-numba/kernels
numba:
	rm -rf $(VENV)-numba
	$(PYTHON) -m venv $(VENV)-numba
	$(VENV)-numba/bin/python -m pip install --quiet --disable-pip-version-check \
		"numba$(if $(NUMBA),==$(NUMBA))" pytest pytest-xdist hypothesis -e ".[all]"
	$(VENV)-numba/bin/python -m pytest tests/state
	$(VENV)-numba/bin/pmbandits warm
	@$(VENV)-numba/bin/python -m pip list --disable-pip-version-check | grep -iE '^(numba|llvmlite|numpy|scipy) '

# Pin anew. Needs the network; the result names no index.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	for name in requirements requirements-service requirements-dev requirements-docs; do \
		$(VENV)-lock/bin/uv pip compile $$name.in --python-version 3.11 --generate-hashes --no-emit-index-url \
			--no-annotate --quiet --upgrade --custom-compile-command "make lock" -o $$name.txt || exit 1; \
	done
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-numba out .pytest_cache .mypy_cache .ruff_cache
