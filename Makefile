# What a newcomer types. All of them install what is missing first (see scripts/setup) and build into build/.

.PHONY: all demo check install clean build

all:
	scripts/setup build
	$(MAKE) --no-print-directory build

build:
	cmake --preset release
	cmake --build --preset release --parallel $$(nproc)

demo:
	scripts/setup build demo
	$(MAKE) --no-print-directory build
	scripts/demo

check:
	scripts/setup build demo test
	$(MAKE) --no-print-directory build
	scripts/run-tests build build/check.xml -LE '^long$$'

# DESTDIR and PREFIX as usual.
PREFIX ?= /usr/local
install: all
	cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz
