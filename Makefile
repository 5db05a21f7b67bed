# Every target sets up what it needs on a fresh machine: a virtual environment with pinned, hashed packages.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.ready
RUNTIME := $(VENV)/.runtime
DOCS := $(VENV)/.docs
BENCH := $(VENV)/.bench
TOOLS := $(VENV)-tools/.ready

# Python keeps what it has parsed, whatever the shell says: without it each of the many processes of the tests parses
# numpy, scipy and numba anew, which is a third of all their time.
export PYTHONDONTWRITEBYTECODE :=

# Packages of a file, checked by their hashes: by uv, which is several times faster than pip, or by pip where uv finds none.
define install
$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1) || $(BIN)/python $(PIP) --require-hashes -r $(1)
endef

.PHONY: demo test test-all validity browser warm lint bench paper family docs prose look fuzz faults audit changelog hooks wheels numba lock clean

demo: $(RUNTIME)
	$(BIN)/pmbandits demo --out out/demo.png

# What people at work run: 12 CPU minutes from a fresh clone, 3 of them for installing, lint and compiling. Compiling needs
# the library alone, so what tests and lint need is installed beside it.
test:
	@$(MAKE) --no-print-directory -j 3 browser warm lint
	$(BIN)/python -m pytest

# Everything, also what takes seconds a test: all pairs of policies, supports and metrics, coverage by simulation, the paper.
test-all:
	@$(MAKE) --no-print-directory -j 3 browser warm lint
	$(BIN)/python -m pytest -m ""

# All kernels, compiled on all cores: quicker than in the order in which tests happen to need them.
warm: $(RUNTIME)
	$(BIN)/pmbandits warm

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

# How often each statement with a probability is wrong. Stopped, it goes on where it was (out/validity.json).
validity: $(BENCH)
	$(BIN)/python -m benchmarks.validity

bench: $(BENCH)
	$(BIN)/python -m benchmarks

# The paper's experiments at full size, with the page out/paper/index.html. Stopped, it goes on where it was.
# python docs/claims.py out/paper takes its verdicts over into the documentation.
paper: $(RUNTIME)
	$(BIN)/python -m research all --out out/paper

# Our own comparison of all policies (half an hour on two cores), and the page docs/family.md with its picture and tables.
# Stopped, it goes on where it was. A new policy needs its seconds first: python -m benchmarks.family.
family: $(RUNTIME)
	$(BIN)/python -m research family --seed 20261116 --out out/family
	$(BIN)/python docs/family.py out/family

# The documentation, out/docs/index.html: runs every example and checks every link inside. Warnings are errors.
docs: $(DOCS)
	$(BIN)/python docs/build.py

# The words of pages, docstrings and messages alone, which `make docs` checks first.
prose: $(READY)
	$(BIN)/python docs/prose.py

# Every page of the documentation in a browser, at three widths, light and dark: what is too wide, cut off, missing or hard
# to read is an error. Pictures of all pages are in out/look.
look: $(READY) browser
	@test -d out/docs || $(MAKE) docs
	$(BIN)/python -m tools.look

# Attacks on all readers and public functions, for an hour or so; prints the table of docs/security.md. Then atheris, which
# looks for inputs by itself, where there is one for this Python (FUZZ_SECONDS for each reader).
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz
	$(call install,requirements-fuzz.txt) || echo "There is no atheris for this Python; random edits must do."
	$(BIN)/python -m tests.fuzz.guided $(FUZZ_SECONDS)

# Faults on purpose: 1,000 kills of server processes under load on SQLite and PostgreSQL, connections cut, PostgreSQL killed,
# full disks. After every round the log is played again and compared. Stopped, it goes on where it was (an hour or so).
faults: $(READY)
	$(BIN)/python -m tests.faults

# Known vulnerabilities of what is pinned (needs the network, or DATABASE=all.zip), the bill of materials, and licences.
audit: $(READY) $(TOOLS)
	mkdir -p out/audit
	$(VENV)-tools/bin/cyclonedx-py requirements requirements-service.txt --pyproject pyproject.toml --output-reproducible -o out/audit/sbom.json
	$(BIN)/python -m tools.audit $(if $(DATABASE),--database $(DATABASE))
	$(if $(DATABASE),,$(VENV)-tools/bin/pip-audit --strict --progress-spinner off --disable-pip --require-hashes \
		$(addprefix -r ,requirements-dev.txt requirements-docs.txt requirements-bench.txt requirements-tools.txt))

# The fragments of changes/ become a section of CHANGELOG.md: make changelog VERSION=0.3.0. Without VERSION it is only shown.
changelog: $(TOOLS)
	$(VENV)-tools/bin/towncrier build $(if $(VERSION),--version $(VERSION) --yes,--draft --version next)

# Formatting, lint and secrets are checked before every commit of this clone.
hooks: $(TOOLS) $(READY)
	$(VENV)-tools/bin/pre-commit install

# The wheel and the source distribution; that they are complete; and that the wheel can be installed and used in clean
# environments of every Python from 3.11 to 3.13 that is here, or of those named: make wheels PYTHONS="python3.12 …". Needs the network.
wheels: $(RUNTIME)
	$(BIN)/python -m tools.wheels $(PYTHONS)

# The library alone, which is all that the demonstration needs …
$(RUNTIME): requirements-uv.txt requirements.txt pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'pmbandits needs Python 3.11 or newer; set PYTHON=python3.11')"
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/python $(PIP) --require-hashes -r requirements-uv.txt
	$(call install,requirements.txt)
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	touch $(RUNTIME)

# … and what tests and lint add,
$(READY): requirements-dev.txt $(RUNTIME)
	$(call install,requirements-dev.txt)
	touch $(READY)

# what the documentation adds,
$(DOCS): requirements-docs.txt $(RUNTIME)
	$(call install,requirements-docs.txt)
	touch $(DOCS)

# what benchmarks compare with,
$(BENCH): requirements-bench.txt $(READY)
	$(call install,requirements-bench.txt)
	touch $(BENCH)

# and what maintainers run now and then, in an environment of its own.
$(TOOLS): requirements-tools.txt
	$(PYTHON) -m venv $(VENV)-tools
	$(VENV)-tools/bin/python $(PIP) --require-hashes -r requirements-tools.txt
	touch $(TOOLS)

# All kernels compiled with the newest numba, or with another (NUMBA=0.60.0 make numba), and state/, which uses
# numba's internals, tested with it. Everything else is as new as that numba and pyproject.toml allow. Needs the network.
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
	for name in requirements requirements-service requirements-dev requirements-docs requirements-bench requirements-tools requirements-uv; do \
		$(VENV)-lock/bin/uv pip compile $$name.in --python-version 3.11 --generate-hashes --no-emit-index-url \
			--no-annotate --quiet --upgrade --custom-compile-command "make lock" -o $$name.txt || exit 1; \
	done
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-numba $(VENV)-tools out .pytest_cache .mypy_cache .ruff_cache
