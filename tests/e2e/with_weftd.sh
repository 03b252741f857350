#!/bin/sh
# with_weftd.sh WEFTD PROGRAM [ARGUMENT]...: runs the program with a weftd of its own, and sees that weftd leaves nothing, and
# that no sanitizer found anything and no internal check failed in either.
set -eu
weftd=$1
shift
WEFT_DIR=$(mktemp -d /tmp/weft-test-XXXXXX)
export WEFT_DIR
for runtime in ASAN UBSAN TSAN; do
	eval "export ${runtime}_OPTIONS=\"\${${runtime}_OPTIONS-}:log_path=$WEFT_DIR.finding\""
done
export WEFT_BUGS="$WEFT_DIR.finding.bugs"
"$weftd" --foreground --keep 2>"$WEFT_DIR/../${WEFT_DIR##*/}.log" &
pid=$!
finish() {
	status=$?
	kill $pid 2>/dev/null || true
	wait $pid || true
	if cat "$WEFT_DIR".finding.* 2>/dev/null; then
		status=1
	fi
	# a process that was killed a moment ago may have kept weftd from taking its files along
	rm -rf "${WEFT_DIR:?}/made-by-weft"
	rm -f "$WEFT_DIR.log" "$WEFT_DIR".finding.*
	rmdir "$WEFT_DIR" || status=1
	exit $status
}
trap finish EXIT
trap 'exit 1' TERM INT HUP
until [ -S "$WEFT_DIR/ctl" ]; do
	kill -0 $pid || { cat "$WEFT_DIR.log"; exit 1; }
done
"$@"
