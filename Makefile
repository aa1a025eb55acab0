# Every target sets up .venv by itself on first use.   make PYTHON=python3.12 demo
PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
# What pip leaves in the source tree when it builds the extension there.
BUILT := .cmake .ninja_deps .ninja_log .skbuild-info.json CMakeCache.txt CMakeFiles CMakeInit.txt \
  build.ninja cmake_install.cmake src/kiln/*.so
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo story test test-full oracle breaks sanitize bench lint docs clean

help:
	@echo "make demo       the tutorial line by line, then two networks that learn to read digits"
	@echo "make story      a transformer reads a book letter by letter, and continues it"
	@echo "make test       the tests, without the slow suites"
	@echo "make test-full  all tests"
	@echo "make oracle     ask jax again for its answers, then compare kiln with them"
	@echo "make breaks     break one behaviour after another and watch the tests of its item fail"
	@echo "make sanitize   the tests of the extension, under the address and undefined-behaviour sanitizers"
	@echo "make bench      time kiln beside jax; writes benchmarks/results/"
	@echo "make lint       ruff and mypy"
	@echo "make docs       write the generated parts of docs/ again"
	@echo "make clean      remove .venv, builds and caches"

demo: $(VENV)/.has-examples
	$(RUN) examples/tutorial.py
	$(RUN) examples/digits.py
	$(RUN) examples/digits_cnn.py

story: $(VENV)/.has-examples
	$(RUN) examples/char_transformer.py

test: $(VENV)/.has-test
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -m "not full" $(ARGS)

test-full: $(VENV)/.has-test
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

oracle: $(VENV)/.has-test
	$(RUN) -m tests.differential.oracle $(TOPICS)
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal tests/differential tests/programs $(ARGS)

breaks: $(VENV)/.has-test
	$(RUN) -m tests.mutation $(ITEMS)

# Python is not built with the sanitizer, so its library comes first and leaks are not looked for.
# Objects are allocated one by one, so that one used after its end is found. `-S` leaves out the
# editable installation, which would put the usual extension before this one; what the sanitizer
# says goes past pytest.
SANITIZED := build/sanitize
PACKAGES = $$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
RUN_SANITIZED = LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 PYTHONMALLOC=malloc \
  PYTHONPATH="$(CURDIR)/$(SANITIZED)/src:$(PACKAGES)" $(CURDIR)/$(RUN) -S
sanitize: $(VENV)/.has-test
	$(PIP) install cmake ninja
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -R src $(SANITIZED)/src
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S . -B $(SANITIZED)/objects -G Ninja -DKILN_SANITIZE=ON \
	  -DCMAKE_CXX_COMPILER=$(CXX) -DKILN_TREE=$(CURDIR)/$(SANITIZED)/src -DPython_EXECUTABLE=$(CURDIR)/$(RUN)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build $(SANITIZED)/objects
	$(RUN_SANITIZED) -c 'import kiln._runtime as r; assert "$(SANITIZED)" in r.__file__, r.__file__'
	$(RUN_SANITIZED) -m pytest -q --capture=sys -p no:cacheprovider tests/unit/_runtime -m "not full" $(ARGS)

bench: $(VENV)/.has-bench
	$(RUN) -m benchmarks $(ARGS)

lint: $(VENV)/.has-lint
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

docs: $(VENV)/.has-bench
	$(RUN) -m kiln coverage --markdown > $(VENV)/primitives.md
	mv $(VENV)/primitives.md docs/primitives.md
	$(RUN) -m benchmarks.report docs/performance.md

clean:
	rm -rf $(VENV) $(BUILT) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of extras; a change of pyproject.toml or of the extension installs again. Tests run the examples too.
$(VENV)/.has-test: EXTRAS := test,examples
$(VENV)/.has-examples: EXTRAS := examples
$(VENV)/.has-bench: EXTRAS := bench
$(VENV)/.has-lint: EXTRAS := lint
$(VENV)/.has-%: pyproject.toml CMakeLists.txt $(wildcard src/kiln/_runtime/*) | $(RUN)
	@echo "installing kiln[$(EXTRAS)] into $(VENV)"
	@$(PIP) install --editable ".[$(EXTRAS)]"
	@touch $@

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kiln needs Python 3.11 or newer: make PYTHON=/path/to/it")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@$(PIP) install --upgrade pip
