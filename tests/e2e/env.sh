#!/bin/bash
# env.sh BIN: with the variables of weft env a program that something else starts has weft's devices.
for program in ibv_devices python3; do
	command -v $program >/dev/null || { echo "skipped: no $program here"; exit 77; }
done
. "${0%/*}/lib.sh"
expect 0 bash -c 'eval "$("$1" env)" && ibv_devices' - "$BIN/weft"
says weft1
# it stays, without a lease of weft run
within 1 are_live 1 || fail "weftd does not stay"
mapfile -t variables < <("$BIN/weft" env docker)
expect 0 env "${variables[@]}" ibv_devices
says weft0
"$BIN/weft" env vscode >"$HOME_DIR/json"
expect 0 python3 -c 'import json, os, subprocess, sys
subprocess.run(["ibv_devices"], env=os.environ | json.load(open(sys.argv[1])), check=True)' "$HOME_DIR/json"
says weft0
rm "$HOME_DIR/json"
expect 0 weft env sh
says "export LD_PRELOAD="
expect 0 weft env fish
says "set -gx WEFT_DIR $WEFT_DIR"
# WEFT_NODE names a host of the fabric, which this network does not have, and a network of weft pair's never has
export WEFT_NODE=h1
expect 1 weft env
says "fabric"
if command -v ibv_rc_pingpong >/dev/null; then
	expect 0 weft pair -- ibv_rc_pingpong -d weft0 -n 10 --- ibv_rc_pingpong -d weft0 -n 10 localhost
fi
unset WEFT_NODE
expect 2 weft env csh
says "there is no form 'csh'"
expect 0 weft down
finish
