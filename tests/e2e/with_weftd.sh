#!/bin/sh
# with_weftd.sh WEFTD PROGRAM [ARGUMENT]...: runs the program with a weftd of its own, and sees that weftd leaves nothing.
set -eu
weftd=$1
shift
WEFT_DIR=$(mktemp -d /tmp/weft-test-XXXXXX)
export WEFT_DIR
"$weftd" --foreground --keep 2>"$WEFT_DIR/../${WEFT_DIR##*/}.log" &
pid=$!
trap 'kill $pid 2>/dev/null || true; wait $pid || true; rm -rf "$WEFT_DIR" "$WEFT_DIR.log"' EXIT
trap 'exit 1' TERM INT HUP
until [ -S "$WEFT_DIR/ctl" ]; do
	kill -0 $pid || { cat "$WEFT_DIR.log"; exit 1; }
done
"$@"
