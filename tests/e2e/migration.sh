#!/bin/bash
# Automatic path migration over weft0: two hosts of a fabric, whose ports have two LIDs each, with a switch on either way. The
# link of one way is cut, and the connection goes on by the other; or an end wants it so, and then it may go without packets.
# migration.sh BIN FLOW
. "${0%/*}/lib.sh"
FLOW=$2
ends=()

# A fat tree: h1 and h3 are at different switches, with two above them. Each host's port has the LIDs n and n + 1, n even.
fabric() {
	"$BIN/weft" fabric make fat-tree | python3 -c 'import re, sys
text = sys.stdin.read()
old = sorted({int(lid) for lid in re.findall(r"\"h\d+\" lid (\d+)", text)})
lid = {str(n): str(16 + 2 * i) for i, n in enumerate(old)}
text = re.sub(r"# lid (\d+) lmc 0( \"s)", lambda m: "# lid %s lmc 1%s" % (lid[m[1]], m[2]), text)
print(re.sub(r"(\"h\d+\" lid )(\d+)", lambda m: m[1] + lid[m[2]], text))'
}

# start NODE NUMBER
start() {
	"$BIN/weft" run --node "$1" -- "$FLOW" "$HOME_DIR/flow" "end$2" "end$((1 - $2))" lid 15 1 >"$HOME_DIR/flow/out$2" 2>&1 &
	ends[$2]=$!
}
starts() {
	mkdir "$HOME_DIR/flow"
	start h1 0
	start h3 1
	are_at armed 0
}

is_at() { [ "$(cat "$HOME_DIR/flow/end$1.path" 2>/dev/null)" = "$2" ]; }
are_at() {
	local i
	for i in 0 1; do
		within 30 is_at $i "$*" || fail "end $i is $(cat "$HOME_DIR/flow/end$i.path" "$HOME_DIR/flow/out$i"), not $*"
	done
}
count() { cat "$HOME_DIR/flow/end$1.count"; }
has_moved() { [ "$(count "$1")" -gt "$2" ]; }
moves() {
	local i
	for i in 0 1 0 1; do
		within 30 has_moved $i "$(count $i)" || fail "end $i does not get on: $(cat "$HOME_DIR/flow/out$i")"
	done
}
stops() {
	local i
	kill -TERM "${ends[@]}"
	for i in 0 1; do
		wait "${ends[$i]}" || fail "end $i fails: $(cat "$HOME_DIR/flow/out$i")"
	done
	rm -r "$HOME_DIR/flow"
}
# goes PATH MIGRATION: does weft qp say so of both?
goes() {
	weft qp --json | python3 -c 'import json, sys
qps = [q for p in json.load(sys.stdin)["processes"] for q in p.get("qps", [])]
sys.exit(len(qps) != 2 or any(not q["path"].startswith(sys.argv[1]) or q["migration"] != sys.argv[2] for q in qps))' "$@"
}

fabric >"$HOME_DIR/fabric"
expect 0 weft up
expect 0 weft fabric load --routing auto "$HOME_DIR/fabric"
rm "$HOME_DIR/fabric"

# one of the two links of the first switch to those above carries the primary path
starts
within 10 goes packets armed || fail "what is armed does not send packets: $(weft qp)"
expect 0 weft fabric link s1:1 down
moves
if is_at 0 "armed 0"; then
	expect 0 weft fabric link s1:1 up
	expect 0 weft fabric link s1:2 down
fi
are_at migrated 1
moves
expect 0 weft fabric link s1:1 up
expect 0 weft fabric link s1:2 up
moves
stops

starts
kill -USR1 "${ends[0]}"
are_at migrated 1
within 10 goes direct migrated || fail "what has migrated sends packets: $(weft qp)"
moves
stops

expect 0 weft down
finish
