#!/bin/bash
# weft replay --pcap: a trace as a file that tshark reads, of InfiniBand and of RoCEv2.
. "${0%/*}/lib.sh"
skip() { rmdir "$HOME_DIR"; echo "SKIP: $*"; exit 77; }
command -v ibv_rc_pingpong >/dev/null || skip "no ibv_rc_pingpong here"
command -v tshark >/dev/null || skip "no tshark here: scripts/setup test"
export HOME=$HOME_DIR	# no preferences of who runs the tests

# frames: what tshark makes of the file, a frame a line: opcode, what is malformed, direction, interface
frames() {
	tshark -r "$HOME_DIR/pcap" -T fields -E separator=, -E aggregator=/ -e infiniband.bth.opcode -e _ws.malformed \
		-e frame.packet_flags_direction -e frame.interface_name >"$HOME_DIR/frames" 2>"$HOME_DIR/tshark"
}
count() { grep -cE "$1" "$HOME_DIR/frames"; }
frames_of() { python3 -c 'import json, sys; print(json.loads(sys.argv[1])["frames"])' "$1"; }

for device in weft0 weft1; do
	expect 0 weft pair --trace "$HOME_DIR/trace" -- ibv_rc_pingpong -d $device -g 0 -n 5 --- \
		ibv_rc_pingpong -d $device -g 0 -n 5 127.0.0.1
	expect 0 weft replay --json --pcap "$HOME_DIR/pcap" "$HOME_DIR/trace"
	passed=$(frames_of "$out")
	frames
	[ "$(count "^[0-9]+,,0x0000000[12],$device/ibv_rc_pingpong-[0-9]+\$")" = "$passed" ] ||
		fail "tshark knows less than $passed frames of $device: $(cat "$HOME_DIR"/{tshark,frames})"
	# each message of 4096 bytes has one last packet, and all is seen at both ends; some may be sent again
	[ "$(count '^2,')" -ge 20 ] || fail "there are $(count '^2,') last packets"
	in=$(count ',0x00000001,')
	if [ "$in" = 0 ] || [ "$in" -gt "$(count ',0x00000002,')" ]; then fail "$in of $passed frames are inbound"; fi
	# each process alone has those frames that are its among all
	mapfile -t pids < <(sed 's/.*-//' "$HOME_DIR/frames" | sort -u)
	[ ${#pids[@]} = 2 ] || fail "there are frames of the processes ${pids[*]}"
	sum=0
	for pid in "${pids[@]}"; do
		expect 0 weft replay --json "$HOME_DIR/trace" "$pid" --pcap "$HOME_DIR/pcap"
		own=$(frames_of "$out")
		mv "$HOME_DIR/frames" "$HOME_DIR/all"
		frames
		[ "$own" -gt 0 ] && [ "$(count .)" = "$own" ] && [ "$(grep -c -- "-$pid\$" "$HOME_DIR/all")" = "$own" ] ||
			fail "process $pid has $own frames, and $(count .) in its file"
		mv "$HOME_DIR/all" "$HOME_DIR/frames"
		sum=$((sum + own))
	done
	[ "$sum" = "$passed" ] || fail "the processes have $sum of $passed frames"
	rm "$HOME_DIR/trace"
done
expect 2 weft replay --pcap "$HOME_DIR/pcap" "$HOME_DIR/pcap"
says "need a file of their own"
expect 1 weft replay --pcap "$HOME_DIR/none/pcap" "$HOME_DIR/tshark"
says "No such file"
rm -rf "${HOME_DIR:?}"/{pcap,tshark,frames,.config,.local,.cache}
finish
