#!/bin/bash
# tarball.sh PROJECT OUT: `make tarball` gives an archive whose objects need no library but glibc's, of 2.31 at most. It is left
# in OUT, for try.sh.
set -u -o pipefail
project=$1 out=$2
rm -rf "${out:?}"
. "$project/scripts/debian-root"
# its headers are bookworm's
why=$(can_make_root bullseye bookworm) || { echo "SKIP: $why"; exit 77; }
failed=0
fail() { echo "FAILED: $*"; failed=1; }
dir=$(mktemp -d /tmp/weft-packages.XXXXXX) || exit 1
trap 'rm -rf "${dir:?}"' EXIT

"$project/scripts/package-tarball" "$out" >"$dir/log" 2>&1 || fail "package-tarball: $(cat "$dir/log")"
[ "$(stat -c %U:%G "$out" "$out"/*.tar.gz | sort -u)" = "$(stat -c %U:%G "$project")" ] ||
	fail "what root made in the checkout is not its owner's: $(ls -ld "$out" "$out"/*.tar.gz)"
tar -C "$dir" -xzf "$out"/weft-*.tar.gz || fail "no archive"
objects=0
while read -r object; do
	readelf -h "$object" >/dev/null 2>&1 || continue
	objects=$((objects + 1))
	needed=$(readelf -d "$object" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
		grep -vE '^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-x86-64\.so\.2)$')
	case $object:$needed in *:) ;; */bench/verbs:libibverbs.so.1) ;; *) fail "${object##*/} needs $needed" ;; esac
	newest=$(readelf -V "$object" | grep -o 'GLIBC_2[0-9.]*' | sort -V | tail -n 1)
	[ "$(printf '%s\n' "$newest" GLIBC_2.31 | sort -V | tail -n 1)" = GLIBC_2.31 ] || fail "${object##*/} needs $newest"
done < <(find "$dir"/weft-*/bin "$dir"/weft-*/lib -type f)
[ $objects -ge 7 ] || fail "only $objects objects in the archive"
exit $failed
