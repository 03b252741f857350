#!/bin/sh
# pair.sh WEFTD PAIR: two processes over a weftd of their own, in each way of waiting. Prints figures; fails on a wrong byte.
set -eu
WEFT_DIR=$(mktemp -d /tmp/weft-pair-XXXXXX)
export WEFT_DIR
"$1" --foreground 2>"$WEFT_DIR/log" &
weftd=$!
trap 'kill $weftd 2>/dev/null; wait $weftd 2>/dev/null || true; rm -rf "$WEFT_DIR"' EXIT
until [ -S "$WEFT_DIR/ctl" ]; do
	kill -0 $weftd
done
"$2" send 8 2000
"$2" send 4096 2000
"$2" send 100000 200
"$2" event 8 500
"$2" watch 8 200
"$2" stream 8 20000
"$2" stream 65536 2000
"$2" stream 1048576 200
