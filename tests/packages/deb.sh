#!/bin/bash
# deb.sh PROJECT OUT: `make deb` gives packages without a word of lintian, and the same bytes in another folder. They are left in
# OUT, for try.sh.
set -u -o pipefail
project=$1 out=$2
rm -rf "${out:?}"
for program in lintian dh dpkg-buildpackage; do
	command -v $program >/dev/null || { echo "SKIP: no $program here: scripts/setup package"; exit 77; }
done
failed=0
fail() { echo "FAILED: $*"; failed=1; }
dir=$(mktemp -d /tmp/weft-packages.XXXXXX) || exit 1
trap 'rm -rf "${dir:?}"' EXIT
mkdir -p "$out" "$dir/another-folder"

text=$("$project/scripts/package-deb" "$out" 2>&1) || fail "package-deb: $text"
[ "$(grep -cv '\.deb$' <<<"$text")" = 0 ] || fail "lintian finds: $text"
TMPDIR="$dir/another-folder" "$project/scripts/package-deb" "$dir" >"$dir/log" 2>&1 || fail "package-deb again: $(cat "$dir/log")"
for package in weft weft-dev; do
	cmp "$out/$package"_*.deb "$dir/$package"_*.deb || fail "$package is another one when it is built in another folder"
done
exit $failed
