# Builds a plugin, and runs its tests. The Makefile of a project includes it.
#
# make            build/plugin.wasm, a module that hosts load
# make test       the author's tests, as an ordinary program
# make toolchain  the compiler for WebAssembly; nothing if there is none
#
# WASM_CC names another compiler for WebAssembly, WASM_CFLAGS more flags for it, and CC and CFLAGS those
# of the tests. The same compilers take sources in C++, without exceptions and types at run time.

SDK := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
BUILD := build
SOURCES ?= $(sort $(wildcard src/*.c src/*.cc src/*.cpp))
TESTS ?= $(sort $(wildcard test/*.c test/*.cc test/*.cpp))
HEADERS := $(wildcard src/*.h test/*.h $(SDK)/*.h $(SDK)/src/*.h)
SDK_SOURCES := $(sort $(wildcard $(SDK)/src/*.c))

# Each line: the program that has to work, and the compiler. Zig has a linker and a libc; clang needs
# wasm-ld, and has a libc where wasi-libc is installed.
WASI := --target=wasm32-wasi -mexec-model=reactor
FREE := --target=wasm32 -nostdlib -Wl,--no-entry
# The stack is in front of the data, as Zig has it, so that its end is a crash and no overwritten data.
FIRST := -Wl,--stack-first
CLANGS := clang clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14
define FIND
for zig in zig 'python3 -m ziglang' python-zig; do \
  $$zig version >/dev/null 2>&1 && echo "$$zig cc $(WASI)" && exit; \
done; \
for clang in $(CLANGS); do \
  for flags in '$(WASI) $(FIRST)' '$(FREE) $(FIRST)'; do \
    echo 'int x(void) { return 0; }' | $$clang $$flags -xc - -o /dev/null >/dev/null 2>&1 \
      && echo "$$clang $$flags" && exit; \
  done; \
done
endef

ifeq ($(origin WASM_CC),undefined)
WASM_CC := $(shell $(FIND))
endif

# Without a compiler of the system, the one for WebAssembly runs the tests.
ifeq ($(origin CC)$(shell command -v cc),default)
CC := $(filter-out $(WASI) $(FREE) $(FIRST),$(WASM_CC))
endif

HAS_CXX := $(filter %.cc %.cpp,$(SOURCES) $(TESTS))
# Tables leave members out, of which C++ warns.
FLAGS := -I$(SDK) -Wall -Wextra -fno-exceptions $(if $(HAS_CXX),-Wno-missing-field-initializers)
WASM_FLAGS := -Os -g0 -fvisibility=hidden -Wl,--strip-all -Wl,-z,stack-size=262144

$(BUILD)/plugin.wasm: $(SOURCES) $(SDK_SOURCES) $(HEADERS) $(MAKEFILE_LIST)
	$(if $(WASM_CC),,$(error There is no compiler for WebAssembly: pip install ziglang, or apt-get install clang lld))
	@mkdir -p $(BUILD)
	$(WASM_CC) $(WASM_FLAGS) $(if $(HAS_CXX),-fno-rtti) $(FLAGS) $(WASM_CFLAGS) -o $@ $(SOURCES) $(SDK_SOURCES)

.PHONY: test toolchain clean
test: $(BUILD)/test
	$(BUILD)/test

$(BUILD)/test: $(SOURCES) $(TESTS) $(SDK_SOURCES) $(SDK)/testing.c $(HEADERS) $(MAKEFILE_LIST)
	@mkdir -p $(BUILD)
	$(CC) -g -O1 $(FLAGS) $(CFLAGS) -o $@ $(SOURCES) $(TESTS) $(SDK_SOURCES) $(SDK)/testing.c

toolchain:
	$(info $(WASM_CC))

clean:
	rm -rf $(BUILD)
