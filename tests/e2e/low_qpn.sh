#!/bin/bash
# low_qpn.sh BIN STRANGER_QP: packets for QP numbers below 4096, which are weftd's, go nowhere, and not to weftd as if they were
# QP1's where they pass faults or a trace: their sender stays attached.
. "${0%/*}/lib.sh"

for qpn in 1 5 4095; do
	for options in "" "--trace $HOME_DIR/trace" "--impair delay=1us,seed=7"; do
		expect 0 weft run $options -- "$2" $qpn "$BIN/weft status"
		says "transport retry counter exceeded"
		says e2e_stranger_qp
		case $out in *error*weftd*) fail "weftd is lost: $out" ;; esac
	done
done
rm "$HOME_DIR/trace"
expect 0 weft down
finish
