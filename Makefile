# Every target sets up its environment by itself on first use; each version of Python has its own,
# as .venv-3.12.   make PYTHON=python3.12 demo
PYTHON ?= python3
WORKERS ?= 2
# With WERROR=1 warnings of the C++ compiler are errors, as in .ci/run.
ifneq ($(WERROR),)
export SKBUILD_CMAKE_DEFINE := KILN_WERROR=ON
endif

# Objects that were compiled before, for another version of Python or another checkout, are used again.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
endif

# Tests start hundreds of interpreters; without bytecode each compiles kiln's sources again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
TAG := cp$(subst .,,$(patsubst .venv-%,%,$(VENV)))
SOURCES := $(shell find src/kiln/_runtime -name '*.cc' -o -name '*.h')
# The extension is built again when one of these changes.
RUNTIME := pyproject.toml CMakeLists.txt $(SOURCES)
# The versions that pyproject.toml names, each where it is found first: on the path, or kept by pyenv or uv.
# (Make drops what a shell prints that ends with the status of a command that was not found.)
VERSIONS = $(shell sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml)
PYTHONS = $(shell for v in $(VERSIONS); do \
  for python in python$$v $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$v.*/bin/python \
    $${XDG_DATA_HOME:-$$HOME/.local/share}/uv/python/cpython-$$v.*/bin/python; do \
    "$$python" -c 'import venv' 2> /dev/null && { echo "$$python"; break; }; done; done; true)
# What pip leaves in the source tree when it builds the extension there.
BUILT := .cmake .ninja_deps .ninja_log .skbuild-info.json CMakeCache.txt CMakeFiles CMakeInit.txt \
  build.ninja cmake_install.cmake src/kiln/*.so src/kiln/_runtime.*.a
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo story test test-full test-pythons libraries libraries-oracle libraries-suites jax-tests oracle breaks sanitize sanitize-libraries bench bench-suite bench-models bench-reports bench-limit bench-scale bench-programs cross browser test-cross test-aarch64 lint format hooks docs notebooks site check-site clusters \
  wheel wheels wheel-aarch64 check-wheel check-wheels clean

help:
	@echo "make demo       the tutorial line by line, then two networks that learn to read digits"
	@echo "make story      a transformer reads a book letter by letter, and continues it"
	@echo "make test       the tests, without the slow suites"
	@echo "make test-full  all tests"
	@echo "make test-pythons  make test with every supported Python that is installed"
	@echo "make libraries  programs of optax, flax, equinox, numpyro ... on kiln, beside jax's answers"
	@echo "make libraries-oracle  ask jax again for those answers; SUBJECTS=\"diffrax haiku\""
	@echo "make libraries-suites  SUITES_SOURCE=folder: the libraries' own tests on kiln; LIBRARIES=\"optax keras\" ARGS=--ask-jax"
	@echo "make jax-tests  JAX_SOURCE=checkout: jax's own tests on kiln; FILES=\"api_test.py\" ARGS=--ask-jax"
	@echo "make clusters   training under SLURM, Open MPI, MPICH, Ray and Dask, installed in build/clusters; takes root"
	@echo "make oracle     ask jax again for its answers, then compare kiln with them"
	@echo "make breaks     break one behavior after another and watch the tests of its item fail"
	@echo "make sanitize   the tests of the extension and of evictions, under the address and undefined-behavior sanitizers"
	@echo "make sanitize-libraries  exported libraries with threads, under the address, undefined-behavior and thread sanitizers"
	@echo "make bench      time kiln beside jax, and compare with the goals; writes benchmarks/results/"
	@echo "make bench-suite  time kiln beside jax, torch, NumPy and numba; ROWS=\"selu sort\" PEERS=kiln,jax"
	@echo "make bench-models  time whole models beside jax, torch, ONNX Runtime and OpenVINO; ROWS, PEERS"
	@echo "make bench-reports  time programs that were reported as slow on JAX; OLDER=PYTHON, another release of JAX"
	@echo "make bench-limit  measure the machine's peaks, and the part of them that the suite's rows reach"
	@echo "make bench-scale  compile a large training step for up to 512 virtual devices, beside jax"
	@echo "make bench-programs  time programs of libraries from start to end, on kiln and on jax"
	@echo "make lint       ruff, mypy, pyright over a program of a user, clang-format, spelling, and the words of docs/style.md"
	@echo "make format     format Python and C++ as make lint wants it"
	@echo "make hooks      let git run both before each commit, and tests/structure before each push"
	@echo "make docs       write the generated parts of docs/ again"
	@echo "make cross      build the static runtimes of libraries for other processors; TARGETS=\"aarch64 riscv64 wasm32 aarch64-macos\""
	@echo "make test-cross  run libraries for them under an emulator"
	@echo "make test-aarch64  run kiln itself on aarch64, under an emulator (hours); ARGS are pytest's"
	@echo "make browser    write a page that runs compiled functions to build/browser, and visit it"
	@echo "make notebooks  run examples/notebooks; NOTEBOOKS=\"tour mcmc\" stores the outputs of some again"
	@echo "make site       build the site into build/site/html, and check its links"
	@echo "make check-site look at the site in Chromium: widths, dark mode, searches"
	@echo "make wheel      build dist/kiln-*.whl for manylinux, which needs no compiler to be installed"
	@echo "make check-wheel  install it in clean environments without a compiler; run the demo, and the tests (or TESTS)"
	@echo "make wheel-aarch64  cross-build it for aarch64"
	@echo "make wheels, make check-wheels  both builds, and the check, for every supported Python that is installed"
	@echo "make clean      remove environments, builds and caches"

# From a wheel, if there is one and nothing has been built here: KILN_WHEEL, or that of dist/ for this Python.
ifeq ($(wildcard $(VENV)/.has-runtime),)
KILN_WHEEL ?= $(firstword $(wildcard dist/kiln-*-$(TAG)-*_$(shell uname -m).whl))
endif
ifneq ($(KILN_WHEEL),)
DEMO := build/demo-$(TAG)
else
DEMO := $(VENV)
endif
demo: $(DEMO)/.has-examples
	$(DEMO)/bin/python examples/tutorial.py
	$(DEMO)/bin/python examples/digits.py
	$(DEMO)/bin/python examples/digits_cnn.py

ifneq ($(KILN_WHEEL),)
$(DEMO)/.has-examples: $(KILN_WHEEL)
	@echo "installing $(KILN_WHEEL) into $(DEMO)"
	@rm -rf $(DEMO) && $(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python -m pip --quiet --disable-pip-version-check install "$(abspath $(KILN_WHEEL))[examples]"
	@touch $@
endif

story: $(VENV)/.has-examples
	$(RUN) examples/char_transformer.py

test: $(VENV)/.has-test
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -m "not full" $(ARGS)

test-full: $(VENV)/.has-test
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

test-pythons:
	@test -n "$(PYTHONS)" || { echo "none of Python $(VERSIONS) is installed"; exit 1; }
	@failed=; for python in $(PYTHONS); do \
	  echo "=== $$python"; $(MAKE) --no-print-directory PYTHON="$$python" test || failed="$$failed $$python"; \
	done; test -z "$$failed" || { echo "failed with:$$failed"; exit 1; }

# In an environment of their own, so that no test depends on what a library brings with it.
libraries libraries-oracle libraries-suites:
	@$(MAKE) --no-print-directory VENV=$(VENV)-libraries run-$@

run-libraries: $(VENV)/.has-distrax
	$(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup -m libraries tests/libraries $(ARGS)

run-libraries-oracle: $(VENV)/.has-distrax
	$(RUN) -m tests.libraries.oracle $(SUBJECTS)

# Which of them pass on jax is stored. Without the folder, those run whose tests are installed.
run-libraries-suites: $(VENV)/.has-distrax
	$(RUN) -m tests.libraries.suites $(LIBRARIES) $(if $(SUITES_SOURCE),--source $(SUITES_SOURCE)) $(ARGS)

# Of the release that as_jax/version.py names; which of them pass on jax is stored.
jax-tests: $(VENV)/.has-test
	@test -d "$(JAX_SOURCE)/tests" || { echo "say where a checkout of jax is: make jax-tests JAX_SOURCE=../jax"; exit 1; }
	$(RUN) -m tests.libraries.jax_tests $(JAX_SOURCE) $(FILES) $(ARGS)

# The managers are unpacked into build/clusters; nothing is installed outside it.
clusters: $(VENV)/.has-test
	$(RUN) -m tests.clusters -q $(ARGS)

oracle: $(VENV)/.has-test
	$(RUN) -m tests.differential.oracle $(TOPICS)
	$(RUN) -m tests.differential.public_names
	$(RUN) -m tests.differential.options
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
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -R src $(SANITIZED)/src
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S . -B $(SANITIZED)/objects -G Ninja -DKILN_SANITIZE=ON \
	  -DCMAKE_CXX_COMPILER=$(CXX) -DKILN_TREE=$(CURDIR)/$(SANITIZED)/src -DPython_EXECUTABLE=$(CURDIR)/$(RUN)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build $(SANITIZED)/objects
	$(RUN_SANITIZED) -c 'import kiln._runtime as r; assert "$(SANITIZED)" in r.__file__, r.__file__'
	$(RUN_SANITIZED) -m pytest -q --capture=sys -p no:cacheprovider tests/unit/_runtime \
	  tests/properties/test_eviction.py -m "not full" $(ARGS)

# Of the host's level: what libraries link, each kind of sanitizer in a build of its own.
SANITIZERS ?= address,undefined thread
sanitize-libraries: $(VENV)/.has-test
	@set -e; level=$$($(RUN) -c 'from kiln.engines.native.llvm.linking import host_target; print(host_target().name)'); \
	for kind in $(SANITIZERS); do \
	  into=$(CURDIR)/build/sanitize-libraries/$$kind; mkdir -p $$into; \
	  PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S . -B $$into -G Ninja -DKILN_SANITIZE_STATIC=$$kind \
	    -DCMAKE_CXX_COMPILER=$(CXX) -DKILN_TREE=$$into -DPython_EXECUTABLE=$(CURDIR)/$(RUN) > $$into.log; \
	  PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build $$into --target static_$${level#x86-64-}; \
	  KILN_TEST_SANITIZED="$$kind:$$into/kiln" $(RUN) -m pytest -q -n $(WORKERS) \
	    tests/programs/test_sanitized_libraries.py $(ARGS); \
	done

bench: $(VENV)/.has-bench
	$(RUN) -m benchmarks $(ARGS)
	-$(RUN) -m benchmarks.goals

# Parts of names of rows; one that holds a blank goes into ARGS.
bench-suite: $(VENV)/.has-peers
	$(RUN) -m benchmarks.suite $(ROWS) $(if $(PEERS),--peers $(PEERS)) $(ARGS)

bench-models: $(VENV)/.has-peers
	$(RUN) -m benchmarks.models $(ROWS) $(if $(PEERS),--peers $(PEERS)) $(ARGS)

bench-reports: $(VENV)/.has-peers
	$(RUN) -m benchmarks.reports $(ROWS) $(if $(PEERS),--peers $(PEERS)) $(if $(OLDER),--older $(OLDER)) $(ARGS)

bench-limit: $(VENV)/.has-peers
	$(RUN) -m benchmarks.limit $(ROWS) $(ARGS)

bench-scale: $(VENV)/.has-bench
	$(RUN) -m benchmarks.scale $(ARGS)

# Driven from the environment that can draw; the programs run in that of the libraries.
bench-programs: $(VENV)/.has-bench
	@$(MAKE) --no-print-directory VENV=$(VENV)-libraries $(VENV)-libraries/.has-distrax
	$(RUN) -m benchmarks.end_to_end --python $(VENV)-libraries/bin/python $(ARGS)

lint: $(VENV)/.has-lint
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m basedpyright --pythonpath $(RUN)
	$(VENV)/bin/clang-format --dry-run --Werror $(SOURCES)
	$(RUN) -m tests.structure.words
	$(VENV)/bin/codespell

format: $(VENV)/.has-lint
	$(RUN) -m ruff format .
	$(VENV)/bin/clang-format -i $(SOURCES)

hooks: $(VENV)/.has-lint
	$(RUN) -m pre_commit install --hook-type pre-commit --hook-type pre-push

docs: $(VENV)/.has-bench
	$(RUN) -m kiln coverage --markdown > $(VENV)/primitives.md
	mv $(VENV)/primitives.md docs/primitives.md
	$(RUN) -m kiln options > $(VENV)/options.md
	mv $(VENV)/options.md docs/options.md
	$(RUN) -m tests.unit.engines.native.elementary.measured docs/elementary.md
	$(RUN) -m benchmarks.report docs/performance.md

# Under build/, with the compiler of a package: nothing else need be installed.
TARGETS ?= aarch64 riscv64 wasm32 aarch64-macos
cross: $(VENV)/.has-cross
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S . -B build/cross -G Ninja -DKILN_TREE=$(CURDIR)/src \
	  -DKILN_CROSS="$$(echo $(TARGETS) | tr ' ' ';')" -DPython_EXECUTABLE=$(CURDIR)/$(RUN) > build/cross.log
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build build/cross --target cross

test-cross: cross $(VENV)/.has-test
	$(RUN) -m pytest -q -n $(WORKERS) tests/programs/test_cross.py tests/programs/test_macos.py \
	  tests/programs/test_module*.py $(ARGS)

test-aarch64: $(VENV)/.has-wheel-tools
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) -m tests.emulated -q -n $(WORKERS) --dist worksteal -m "not full" $(ARGS)

# Their programs, then what is stored of them; NOTEBOOKS="tour mcmc" stores their outputs again.
notebooks: $(VENV)/.has-notebooks
	$(if $(NOTEBOOKS),$(RUN) -m tests.documents.notebooks $(NOTEBOOKS))
	$(RUN) -m pytest -q tests/documents/test_notebooks.py $(ARGS)

site: $(VENV)/.has-site
	$(RUN) -m website

check-site: $(VENV)/.has-browser site
	$(RUN) -m pytest -q -n $(WORKERS) -m site tests/documents/test_site_in_browser.py $(ARGS)

# The page is tested in Chromium, if there is one.
browser: TARGETS := wasm32
browser: cross $(VENV)/.has-test
	$(RUN) examples/browser/build.py build/browser
	$(RUN) -m pytest -q tests/programs/test_browser.py
	@echo "$(RUN) -m http.server --directory build/browser"

# Compiled as the source tree is, so that it is as fast; linked for the oldest glibc that it may meet.
MACHINE := $(shell uname -m)
MANYLINUX := manylinux_2_28_$(MACHINE)
wheel: $(VENV)/.has-wheel-tools
	@rm -rf dist/kiln-*-$(TAG)-*_$(MACHINE).whl build/$(TAG)-* build/wheel-$(TAG)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" SKBUILD_CMAKE_DEFINE="CMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/manylinux.cmake;Python_EXECUTABLE=$(CURDIR)/$(RUN)" \
	  $(PIP) wheel --no-build-isolation --no-deps --wheel-dir build/wheel-$(TAG) .
	@! $(RUN) -m zipfile --list build/wheel-$(TAG)/*.whl | grep '_runtime/'
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) -m auditwheel repair --plat $(MANYLINUX) --wheel-dir dist build/wheel-$(TAG)/*.whl 2> build/auditwheel.log || \
	  { cat build/auditwheel.log; exit 1; }
	@$(RUN) -m twine check --strict dist/kiln-*-$(TAG)-*_$(MACHINE).whl

# Cross-built (tests/emulated), for the Python that builds it.
wheel-aarch64: $(VENV)/.has-wheel-tools
	@mkdir -p dist && rm -f dist/kiln-*-$(TAG)-*_aarch64.whl
	$(RUN) -m tests.emulated.cross_wheel dist
	@$(RUN) -m twine check --strict dist/kiln-*-$(TAG)-*_aarch64.whl

# With nothing on the path but the environments' own programs. In the first, without jaxlib and without the
# sources, a network is trained; in the second the tests run. The tools of the build are not there.
TESTS ?= tests
check-wheel:
	@elsewhere=$$(mktemp -d) && trap 'rm -rf "$$elsewhere"' EXIT && \
	cp -R $$(ls -A | grep -vxE 'src|build|dist|\.git|\.venv.*|\..*_cache|\.hypothesis') dist/kiln-*-$(TAG)-*_$(MACHINE).whl "$$elsewhere" && \
	$(PYTHON) -m venv "$$elsewhere/plain" && $(PYTHON) -m venv "$$elsewhere/test" && cd "$$elsewhere" && \
	wheel="$$(echo kiln-*.whl)" && \
	( export PATH="$$elsewhere/plain/bin" && \
	  python -m pip --quiet --disable-pip-version-check install "$$wheel[examples]" && \
	  python -c 'import kiln, sys, importlib.util as u; assert kiln.__file__.startswith(sys.prefix), kiln.__file__; assert not u.find_spec("jaxlib")' && \
	  kiln doctor && python examples/tutorial.py && python examples/digits.py && python examples/digits_cnn.py ) && \
	( export PATH="$$elsewhere/test/bin" && \
	  python -m pip --quiet --disable-pip-version-check install "$$wheel[test,examples]" && \
	  python -m pytest -q -n $(WORKERS) --dist worksteal -p no:cacheprovider -m "not full" $(TESTS) )

wheels: WHEEL_TARGETS := wheel $(if $(filter x86_64,$(MACHINE)),wheel-aarch64)
check-wheels: WHEEL_TARGETS := check-wheel
wheels check-wheels:
	@test -n "$(PYTHONS)" || { echo "none of Python $(VERSIONS) is installed"; exit 1; }
	@failed=; for python in $(PYTHONS); do \
	  echo "=== $$python"; $(MAKE) --no-print-directory PYTHON="$$python" $(WHEEL_TARGETS) || failed="$$failed $$python"; \
	done; for v in $(VERSIONS); do \
	  ls dist/kiln-*-cp$$(echo $$v | tr -d .)-*.whl > /dev/null 2>&1 || echo "no wheel for Python $$v: it is not installed here"; \
	done; test -z "$$failed" || { echo "failed with:$$failed"; exit 1; }

$(VENV)/.has-wheel-tools: pyproject.toml | $(RUN)
	@$(PIP) install cmake ninja $(BUILD_REQUIRES) $(WHEEL_REQUIRES)
	@touch $@

clean:
	rm -rf .venv .venv-* $(BUILT) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of extras, renewed when pyproject.toml changes. Tests run the examples too.
$(VENV)/.has-test: EXTRAS := test,examples
$(VENV)/.has-examples: EXTRAS := examples
$(VENV)/.has-bench: EXTRAS := bench
$(VENV)/.has-peers: EXTRAS := bench,peers
$(VENV)/.has-lint: EXTRAS := lint
$(VENV)/.has-cross: EXTRAS := cross
$(VENV)/.has-site: EXTRAS := site
$(VENV)/.has-browser: EXTRAS := test,browser
$(VENV)/.has-notebooks: EXTRAS := test,examples,notebooks
$(VENV)/.has-data: EXTRAS := test,data
$(VENV)/.has-libraries: EXTRAS := test,libraries
$(VENV)/.has-%: pyproject.toml | $(VENV)/.has-runtime
	@echo "installing kiln[$(EXTRAS)] into $(VENV)"
	@$(PIP) install --no-build-isolation --editable ".[$(EXTRAS)]"
	@touch $@

# Some libraries come as sources only, and are built with what the environment has: there is none in
# those of Python 3.12 and later, and one that cannot make wheels in those of 3.11.
$(VENV)/.has-libraries: | $(VENV)/.has-setuptools
$(VENV)/.has-setuptools: | $(RUN)
	@$(PIP) install "setuptools>=77"
	@touch $@

# distrax asks for a release of TensorFlow Probability that does not import on jax 0.10.
$(VENV)/.has-distrax: $(VENV)/.has-libraries
	@$(PIP) install --no-deps distrax==0.1.9 tfp-nightly==0.26.0.dev20261027
	@touch $@

# What builds the extension stays in the environment, so that a change compiles only what it touches.
# What CMake says is missing is shown alone.
BUILD_REQUIRES = $$($(RUN) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
WHEEL_REQUIRES = $$($(RUN) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["wheels"])')
$(VENV)/.has-runtime: $(RUNTIME) | $(RUN)
	@echo "building kiln._runtime"
	@$(PIP) install cmake ninja $(BUILD_REQUIRES)
	@$(PIP) install --no-build-isolation --no-deps --editable . > $(VENV)/build.log 2>&1 || \
	  { grep -m 1 -o 'kiln needs .*' $(VENV)/build.log || cat $(VENV)/build.log; exit 1; }
	@touch $@

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kiln needs Python 3.11 or newer: make PYTHON=/path/to/it"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@$(PIP) install --upgrade pip
