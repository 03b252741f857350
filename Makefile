# What a newcomer types. `make` builds weft into build/; `make deps` installs the packages which that needs. `make demo` and
# `make check` install what is missing by themselves (see scripts/setup).

.PHONY: all deps demo check install uninstall clean build product deb tarball docs

# Without the tests, unless build/ was set up with them.
all:
	scripts/setup --ask build
	$(MAKE) --no-print-directory product

product:
	test -e build/CMakeCache.txt || cmake --preset release -DWEFT_TESTS=OFF
	cmake --build --preset release --parallel $$(nproc)

deps:
	scripts/setup build

# With the tests.
build:
	cmake --preset release -DWEFT_TESTS=ON
	cmake --build --preset release --parallel $$(nproc)

demo:
	scripts/setup build demo
	$(MAKE) --no-print-directory product
	scripts/demo

check:
	scripts/setup build demo test
	$(MAKE) --no-print-directory build
	scripts/run-tests build build/check.xml -LE '^long$$'

# DESTDIR and PREFIX as usual. Installs what `make` has built, and builds nothing, as it may be root that installs.
PREFIX ?= /usr/local
install:
	@test -x build/bin/weft || { echo "make install: nothing is built here: run make first" >&2; exit 1; }
	cmake --install build --prefix $(PREFIX)

# What the last `make install` installed.
uninstall:
	@test -e build/install_manifest.txt || { echo "make uninstall: nothing was installed from here" >&2; exit 1; }
	while read -r file || [ -n "$$file" ]; do rm -f "$(DESTDIR)$$file"; done <build/install_manifest.txt

# Packages, into build/packages. The archive is built in a system of its own, which only root can make.
deb:
	scripts/setup build package
	scripts/package-deb

tarball:
	scripts/package-tarball

# The documentation as a site, in build/docs/site.
docs:
	scripts/setup docs
	scripts/docs build/docs

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz
