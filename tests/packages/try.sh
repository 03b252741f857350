#!/bin/bash
# try.sh PROJECT OUT SUITE [deb]: in a fresh system of the suite, an ordinary user unpacks the archive of OUT/tarball and takes
# README's tour with it. With `deb`, the packages of OUT/deb are installed, used the same way and removed, and nothing is left of
# them; they are for the release that built them and later ones.
set -u -o pipefail
project=$1 out=$2 suite=$3 deb=${4-}
. "$project/scripts/debian-root"
why=$(can_make_root "$suite") || { echo "SKIP: $why"; exit 77; }
archive=1
[ -d "$out/tarball" ] || archive=
[ -d "$out/deb" ] || [ -z "$deb" ] || missing=packages deb=
[ -n "$archive$deb" ] || { echo "SKIP: nothing was built to try: package/deb and package/tarball say why"; exit 77; }
[ -n "$archive" ] || echo "part skipped: no archive was built: package/tarball says why"
[ -z "${missing-}" ] || echo "part skipped: no packages were built: package/deb says why"
dir=$(mktemp -d "/tmp/weft-$suite.XXXXXX") || exit 1
trap 'rm -rf --one-file-system "${dir:?}"' EXIT
chmod 755 "$dir"
packages=mount,ibverbs-utils,perftest,rdmacm-utils,iproute2
# what the packages need besides, so that only theirs come and go; and for a user of weft-dev
[ -z "$deb" ] || packages+=,libjansson4,libsqlite3-0,gcc,libc6-dev,pkgconf
make_root "$suite" "$dir/root" "$packages" || { echo "no root of $suite"; exit 1; }
mkdir -p "$dir/root/try/e2e" "$dir/root/try/build/packages"
cp "$project"/tests/e2e/{tour,lib,completion}.sh "$dir/root/try/e2e"
cp "$project"/tests/packages/{lib,debian,archive}.sh "$project/README.md" "$project/docs/systems.md" "$dir/root/try"
if [ -n "$archive" ]; then
	cp "$out"/tarball/*.tar.gz "$dir/root/try/build/packages"
	enter_root "$dir/root" /try/archive.sh || exit 1
fi
[ -n "$deb" ] || exit 0

# release ROOT: the number of its Debian; what has none is newer than all that have one.
release() { (VERSION_ID='' && . "$1/etc/os-release" && echo "${VERSION_ID:-999}"); }
here=$(release /) there=$(release "$dir/root")
if [ "$(printf '%s\n' "$here" "$there" | sort -V | tail -n 1)" != "$there" ]; then
	echo "part skipped: the packages are of release $here, and $suite is $there"
	exit 0
fi
cp "$out"/deb/*.deb "$dir/root/try/build/packages"
enter_root "$dir/root" /try/debian.sh
