# Needs Python 3.11, Java 17 or newer (a JDK), Maven and a Rust toolchain. Every step runs once: stamps are in .venv and
# in the target folders.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
MVN ?= mvn
CARGO ?= cargo
# MAKEFLAGS= before cargo: it would warn of make's job server, which it does not need.
VENV := .venv
BIN := $(VENV)/bin
PYTEST = $(BIN)/pytest --hypothesis-profile $(HYPOTHESIS)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
DRIVER := $(or $(CARGO_TARGET_DIR),driver/target)/release/leadline-load
HYPOTHESIS ?= same
JAVA := workloads/target/.packaged
# Maven gives some the same old time in every build.
PROGRAMS := $(foreach name,spring quarkus,workloads/dealership-$(name)/target/dealership-$(name).jar)
DRIVER_SOURCES := $(shell find driver/src driver/gclog driver/instructions -name '*.rs' -o -name Cargo.toml) driver/Cargo.toml driver/Cargo.lock
JAVA_SOURCES := $(shell find workloads -path '*/target' -prune -o \( -path '*/src/*' -type f -o -name pom.xml \) -print)
PYTHON_CODE := leadline tests tools $(wildcard bench)

# Hundreds of tests start the command: none compiles its modules anew.
export PYTHONDONTWRITEBYTECODE :=

say = @printf '\033[1m==>\033[0m %s\n' $(1)

.PHONY: quickstart install check matrix test test-rust test-quick test-slow test-host test-beside test-java lint lint-python lint-rust lint-java format wheel bench site lock clean check-tools check-python
.DELETE_ON_ERROR:

quickstart: install  ## provision, run the built-in study, write its report
	$(call say,"running the built-in study quickstart")
	$(BIN)/leadline quickstart

install: check-tools $(VENV)/.run $(DRIVER) $(JAVA)  ## everything .venv/bin/leadline needs in this checkout

check: lint $(DRIVER) $(JAVA) test-quick  ## the inner loop: formatters, linters, strict types and quick tests, about three minutes

test: check-tools $(VENV)/.dev  ## formatters, linters, strict types and every test
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target lint-python lint-rust lint-java test-java $(DRIVER)
	@$(MAKE) --no-print-directory --jobs 2 test-rust test-quick
	@$(MAKE) --no-print-directory --jobs 3 test-host test-beside test-slow

matrix: export LEADLINE_MATRIX := 1
matrix: test  ## every test with every server and database and mode and queue and generator that is installed

test-rust:
	$(call say,"testing the driver (Rust)")
	MAKEFLAGS= $(CARGO) test --quiet --locked --manifest-path driver/Cargo.toml

# Tests in Python have a lower priority than those of the driver and of real servers beside them, which have deadlines.
test-quick:
	$(call say,"testing leadline (Python): what takes no second")
	nice $(PYTEST) --numprocesses 2 --dist worksteal -m "not slow" tests/unit

test-slow:
	$(call say,"testing leadline (Python): statistics and whole studies")
	nice -n 19 $(PYTEST) --numprocesses 2 --dist worksteal -m slow tests/golden tests/statistics tests/unit

test-java: lint-java  # the compiler lints too
	$(call say,"testing the workloads (Java)")
	$(MVN) -B -q -f workloads/pom.xml verify
	@touch $(PROGRAMS) $(JAVA)

test-host:  # tests that take the host's lease or change its settings, one after the other
	$(call say,"testing with real servers and databases and pages: those that hold the host")
	$(PYTEST) -vv --no-header --durations=20 -m host tests/stack tests/browser

test-beside:  # real servers, databases and pages that need nothing to themselves
	$(call say,"testing with real servers and databases and pages: those beside them")
	$(PYTEST) -vv --no-header --durations=20 -m "not host" tests/stack tests/browser

lint: check-tools $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint-python lint-rust lint-java

lint-python:
	$(call say,"checking Python: format and lint and strict types")
	$(BIN)/ruff format --quiet --check $(PYTHON_CODE)
	$(BIN)/ruff check --quiet $(PYTHON_CODE)
	$(BIN)/mypy

lint-rust:
	$(call say,"checking Rust: format and lint")
	$(CARGO) fmt --all --check --manifest-path driver/Cargo.toml
	MAKEFLAGS= $(CARGO) clippy --quiet --locked --all-targets --manifest-path driver/Cargo.toml -- -D warnings

lint-java:
	$(call say,"checking Java: format")
	$(MVN) -B -q -f workloads/pom.xml spotless:check

format: check-tools $(VENV)/.dev
	$(call say,"formatting Python and Rust and Java")
	$(BIN)/ruff check --quiet --fix $(PYTHON_CODE)
	$(BIN)/ruff format --quiet $(PYTHON_CODE)
	$(CARGO) fmt --all --manifest-path driver/Cargo.toml
	$(MVN) -B -q -f workloads/pom.xml spotless:apply

wheel: check-tools $(VENV)/.run $(DRIVER) $(JAVA)  ## dist/leadline-*.whl with the driver and the Java archives inside
	$(call say,"building the wheel")
	$(BIN)/python -m hatchling build -t wheel

bench: install
	$(call say,"comparing with other tools")
	$(BIN)/python -m bench

site: check-tools $(VENV)/.dev  ## the documents as pages in dist/site
	$(call say,"building the site")
	$(BIN)/mkdocs build --quiet --strict

lock: $(VENV)/.dev  ## pin the dependencies anew, with hashes and without addresses
	$(call say,"pinning the Python dependencies")
	@command -v uv >/dev/null || { echo 'make lock needs uv on the PATH' >&2; exit 1; }
	@for name in requirements requirements-build requirements-dev; do \
	  uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    $$name.in -o $$name.lock || exit 1; done

clean:
	$(call say,"removing the virtual environment and everything built")
	rm -rf $(VENV) dist driver/target workloads/target workloads/*/target .mypy_cache .ruff_cache .pytest_cache

# steps ----------------------------------------------------------------------------------------------------------------

$(VENV)/bin/python: | check-python
	$(call say,"making $(VENV) with $(PYTHON)")
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock requirements-build.lock pyproject.toml tools/hatch_build.py | $(VENV)/bin/python
	$(call say,"installing the pinned Python packages")
	$(PIP) install --require-hashes -r requirements.lock -r requirements-build.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run | $(VENV)/bin/python
	$(call say,"installing the pinned Python packages for development")
	$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

$(DRIVER): $(DRIVER_SOURCES) | check-tools
	$(call say,"building the driver leadline-load and the plugin of QEMU (Rust)")
	MAKEFLAGS= $(CARGO) build --quiet --release --locked --manifest-path driver/Cargo.toml
	@touch $@

$(JAVA): $(JAVA_SOURCES) | check-tools
	$(call say,"building the applications and the agent (Java)")
	$(MVN) -B -q -f workloads/pom.xml -DskipTests package
	@mkdir -p $(@D) && touch $(PROGRAMS) $@

check-python:
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Python 3.11 or newer is needed as python3.11 or python3 (or make PYTHON=/path/to/python)' >&2; exit 1; }

check-tools:
	@command -v $(MVN) >/dev/null || { echo 'Maven (mvn) is needed and is not on the PATH' >&2; exit 1; }
	@command -v $(CARGO) >/dev/null || { echo 'a Rust toolchain (cargo) is needed and is not on the PATH' >&2; exit 1; }
	@command -v javac >/dev/null || test -x "$$JAVA_HOME/bin/javac" || { \
	  echo 'a JDK, Java 17 or newer, is needed: javac is not on the PATH and JAVA_HOME names none' >&2; exit 1; }
