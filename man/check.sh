#!/bin/bash
# check.sh BIN PAGES: every page is clean, and names every option that its command's --help names.
set -u -o pipefail
bin=$1 pages=$2
failed=0
fail() {
	echo "FAILED: $*"
	failed=1
}
command -v man >/dev/null && man --version >/dev/null 2>&1 || { echo "skipped: no man here"; exit 77; }

for page in "$pages"/*.[1-8]; do
	out=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
	[ -z "$out" ] || fail "$page: $out"
done

# compare NAME PAGE: the options of `NAME --help` and those of the page
compare() {
	local text option
	text=$(LC_ALL=C MANWIDTH=200 man -l "$2" 2>/dev/null)
	for option in $($1 --help | grep -oE -- '--[a-z-]+' | sort -u); do
		case $text in *"$option"*) ;; *) fail "${2##*/} does not know $option of '$1'" ;; esac
	done
}

compare "$bin/weft" "$pages/weft.1"
compare "$bin/weftd" "$pages/weftd.8"
for command in $("$bin/weft" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
	[ -e "$pages/weft-$command.1" ] || { fail "weft $command has no page"; continue; }
	compare "$bin/weft $command" "$pages/weft-$command.1"
done
exit $failed
