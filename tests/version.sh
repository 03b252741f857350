#!/bin/bash
# version.sh PROJECT BIN: one version everywhere, that of CHANGELOG.md's newest entry, and the programs name the commit too.
set -u
project=$1 bin=$2
failed=0
fail() { echo "FAILED: $*"; failed=1; }
version=$(sed -n 's/^## \([0-9.]*\) - 20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/\1/p' "$project/CHANGELOG.md" | head -n 1)
[ -n "$version" ] || fail "CHANGELOG.md has no entry with a version and a date"
for program in weft weftd; do
	out=$("$bin/$program" --version)
	case $out in "$program $version ("?*")") ;; *) fail "$program --version: $out; CHANGELOG.md: $version" ;; esac
done
for page in "$project"/man/*.[1-8]; do
	grep -q "^\.TH .* \"weft $version\" " "$page" || fail "${page##*/} is of another version: $(grep '^\.TH' "$page")"
done

# The commit is that of the checkout, or what the build was given; that of a project around the sources is none of theirs.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "${dir:?}"' EXIT
commit() {
	cmake -D SOURCE="$dir" -D HEADER="$dir/commit.h" -D GIVEN="$1" -P "$project/cmake/commit.cmake" && cat "$dir/commit.h"
}
if command -v cmake >/dev/null; then
	[ "$(commit 1234abc)" = '#define WEFT_COMMIT "1234abc"' ] || fail "a commit that is given: $(commit 1234abc)"
	[ "$(commit '')" = '#define WEFT_COMMIT "no commit known"' ] || fail "no checkout: $(commit '')"
	if command -v git >/dev/null; then
		git -C "$dir" init -q
		git -C "$dir" -c user.name=n -c user.email=n@example.org commit -q --allow-empty -m m
		head=$(git -C "$dir" rev-parse --short HEAD)
		[ "$(commit '')" = "#define WEFT_COMMIT \"$head\"" ] || fail "a checkout: $(commit '')"
		checkout=$dir dir=$dir/third_party/weft
		mkdir -p "$dir"
		[ "$(commit '')" = '#define WEFT_COMMIT "no commit known"' ] || fail "inside another checkout: $(commit '')"
		dir=$checkout
	fi
fi
exit $failed
