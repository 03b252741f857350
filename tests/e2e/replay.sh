#!/bin/bash
# weft replay of the traces of both ends: one story in the order of time, replayed as each alone.
. "${0%/*}/lib.sh"
skip() { rmdir "$HOME_DIR"; echo "SKIP: $*"; exit 77; }
command -v ibv_rc_pingpong >/dev/null || skip "no ibv_rc_pingpong here"

a=$HOME_DIR/server.trace b=$HOME_DIR/client.trace
# member NAME: of $out, which is JSON
member() { sed -n "s/^ *\"$1\": \([a-z0-9]*\),*$/\1/p" <<<"$out"; }

# in about half of the runs a polling program could have sent in another order
for _ in {1..8}; do
	rm -f "$a" "$b"
	port=$(free_port)
	"$BIN/weft" run --trace "$a" --impair delay=50us,seed=3 -- ibv_rc_pingpong -d weft0 -g 0 -n 50 -p "$port" \
		>"$HOME_DIR/log" 2>&1 &
	server=$!
	within 60 is_listening "$port" || fail "no server: $(cat "$HOME_DIR/log")"
	expect 0 weft run --trace "$b" --impair delay=50us,seed=4 -- ibv_rc_pingpong -d weft0 -g 0 -n 50 -p "$port" 127.0.0.1
	wait $server || fail "the server ends with $?: $(cat "$HOME_DIR/log")"
	frames=0
	for trace in "$a" "$b"; do
		expect 0 weft replay --json "$trace"
		frames=$((frames + $(member frames)))
	done
	expect 0 weft replay --json "$a" "$b"
	[ "$(member as_recorded)" = true ] || fail "the two are not as recorded: $out"
done
[ "$(member frames)" = "$frames" ] || fail "not $frames frames of both: $out"
weft replay "$b" "$a" >"$HOME_DIR/text" || fail "weft replay ends with $?"
grep -vE 'decisions replayed' "$HOME_DIR/text" | awk '{ print $1 }' | sort -C -g || fail "the lines are not in the order of time"
lines=$(wc -l <"$HOME_DIR/text")
alone=$(($(weft replay "$a" | wc -l) + $(weft replay "$b" | wc -l)))
[ "$lines" = $((alone - 1)) ] || fail "$lines lines of both, $alone of each alone"
# one process of two
pid=$(awk 'NR == 1 { print $2 }' "$HOME_DIR/text" | tr -dc 0-9)
expect 0 weft replay --json "$a" "$b" "$pid"
[ "$(member frames)" -lt "$frames" ] || fail "process $pid has all frames: $out"
expect 2 weft replay "$a" "$b" 0
expect 2 weft replay
expect 1 weft replay "$a" "$a"
says "are one file"
expect 2 weft replay --pcap "$b" "$a" "$b"
expect 1 weft replay "$a" "$HOME_DIR/text"
says "$HOME_DIR/text is not a weft trace"
# a program that polls and answers, without faults: what its process sends has the engine's own order
rm "$a"
loop=${BIN%/*}/lib/weft/bench/verbs
if [ -x "$loop" ] && [ "$(nproc)" -ge 2 ]; then
	expect 0 weft run --device weft0 --trace "$a" -- "$loop" send-latency 8 500 0 1
	expect 0 weft replay --json "$a"
	[ "$(member as_recorded)" = true ] || fail "polled answers are not as recorded: $out"
fi
rm -f "$a" "$b" "$HOME_DIR/log" "$HOME_DIR/text"
finish
