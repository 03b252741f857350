#!/bin/bash
# The weft command: help, JSON, exit statuses, and programs of every kind under weft run.
. "${0%/*}/lib.sh"

commands="run up down status devices qp mr counters doctor bench"

is_json() { python3 -c 'import json, sys; json.load(sys.stdin)'; }

expect 0 weft --help
for command in $commands; do
	says "  $command "
done
expect 0 weft --version
expect 2 weft
expect 2 weft nonsense
says "no command 'nonsense'"
expect 0 weftd --help
expect 2 weftd --nonsense
for command in $commands; do
	expect 0 weft "$command" --help
	says "Usage: weft $command"
	expect 0 weft help "$command"
	expect 2 weft "$command" --nonsense
done
for command in up down status devices bench; do
	expect 2 timeout 20 "$BIN/weft" "$command" surplus
done
for command in qp mr counters; do
	expect 2 weft "$command" seven
	expect 1 weft "$command" 1
done

# JSON on the standard output and nothing else, with and without a weftd
for command in down status qp mr counters devices up up status qp mr counters devices doctor down; do
	out=$(weft "$command" --json 2>"$HOME_DIR/stderr")
	is_json <<<"$out" || fail "weft $command --json is not JSON: $out"
	[ -s "$HOME_DIR/stderr" ] && fail "weft $command --json says on stderr: $(cat "$HOME_DIR/stderr")"
done
rm -f "$HOME_DIR/stderr"
expect 0 weft devices
says "weft0  InfiniBand"
says "weft1  Ethernet"
says "LID 1"

# exit statuses and what the program gets
expect 7 weft run -- sh -c 'exit 7'
expect 127 weft run -- no-such-program
says "no-such-program"
expect 126 weft run -- /etc/passwd
expect 2 weft run
for devices in mlx5_0 weft weft01 weft0,mlx5_0 weft0:weft1; do
	expect 2 weft run --device $devices -- true
	says "unknown device in --device $devices"
done
expect 2 weft run --path packets -- true
says "unknown path: --path packets"
expect 2 weft run --profile sead -- true
expect 2 weft run --profile seed,ack=4 --impair reorder=1% -- true
expect 0 weft run --profile seed,ack=4 --impair loss=1% -- true
expect 2 weft run --impair weft2.loss=1% -- true
says "weft devices lists the devices"

# a trace of an older format, and what is none
printf 'W\002\001%61s' '' >"$HOME_DIR/old.trace"
expect 1 weft replay "$HOME_DIR/old.trace"
says "of version 2"
printf '%64s' '' >"$HOME_DIR/no.trace"
expect 1 weft replay "$HOME_DIR/no.trace"
says "is not a weft trace"
rm -f "$HOME_DIR/old.trace" "$HOME_DIR/no.trace"
expect 0 weft run --device weft1 -- sh -c 'echo $WEFT_DEVICES'
says weft1
expect 0 weft run -- cat /sys/class/infiniband/weft1/ports/1/link_layer
says Ethernet
expect 0 weft run true

# no descriptor where a program might count on its own, and a trace that is found from everywhere
low='cd /proc/$$/fd && ls -d [0-9] [1-9][0-9] 2>/dev/null'
[ "$(weft run -- sh -c "$low")" = "$(sh -c "$low")" ] || fail "weft run leaves a low descriptor open: $(weft run -- sh -c "$low")"
out=$(cd "$HOME_DIR" && "$BIN/weft" run --trace here -- sh -c 'cd / && echo "$WEFT_TRACE"')
[ "$out" = "$HOME_DIR/here" ] || fail "weft run --trace here is $out"
rm "$HOME_DIR/here"
expect 0 weft run -- "$BIN/weft" run -- sh -c 'echo "$LD_PRELOAD"'
case $out in *libweft-shim*libweft-shim*) fail "a weft run inside another preloads twice: $out" ;; esac
out=$(LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6 weft run -- "$BIN/weft" run -- sh -c 'echo "$LD_PRELOAD"')
case $out in *libweft-shim*libweft-shim*) fail "a weft run inside another preloads twice: $out" ;; esac
out=$(LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6 weft run -- sh -c 'echo "$LD_PRELOAD"')
says ":/lib/x86_64-linux-gnu/libm.so.6"
[ "$(echo text | weft run -- cat)" = text ] || fail "the standard input does not reach the program"

# shells, scripts, interpreters and what they start
printf '#!/bin/sh\ncd /sys/class/infiniband && ls\n' >"$HOME_DIR/script"
chmod +x "$HOME_DIR/script"
expect 0 weft run -- "$HOME_DIR/script"
says weft0
rm "$HOME_DIR/script"
expect 0 weft run -- python3 -c '
import os, subprocess
print(os.listdir("/sys/class/infiniband"))
subprocess.run(["ls", "/dev/infiniband"])'
says weft1
says uverbs0
if command -v gcc >/dev/null && printf 'int main(void) { return 3; }' | gcc -static -x c -o "$HOME_DIR/static" - 2>/dev/null; then
	expect 3 weft run -- "$HOME_DIR/static"
	says "statically linked"
	expect 1 weft doctor "$HOME_DIR/static"
	says "statically linked"
	rm "$HOME_DIR/static"
fi
if [ "$(id -u)" != 0 ] && [ -u /bin/su ]; then
	expect 1 weft doctor su
	says "setuid"
	says "put weft inside: sudo weft run --"
	cp /bin/true "$HOME_DIR/sudo" && chmod u+s "$HOME_DIR/sudo"
	expect 0 weft run -- "$HOME_DIR/sudo"	# its own user's: a program like any other
	[ -z "$out" ] || fail "weft run warns of $out"
	rm "$HOME_DIR/sudo"
fi
expect 0 weft doctor cat
for tier in "mapped memory" "remapped memory" "memory file" process_vm; do says "$tier"; done
expect 2 weft run --shared-heap=2k -- true
says "not a size"
expect 0 weft run --shared-heap=64k -- env
says WEFT_SHARED_HEAP=65536
for size in 4096 5000k 2m 4194303k 1g; do expect 0 weft run --shared-heap=$size -- true; done
expect 0 weft run --shared-heap=2M -- env
says WEFT_SHARED_HEAP=2097152
for size in 4095 3k k 4096b 1kk -4096 9999999999; do
	expect 2 weft run --shared-heap=$size -- true
	says "--shared-heap=$size is not a size"
done
expect 2 weft run --remap=1 -- true
says "--remap=1 is not a size"
expect 0 weft run --remap -- env
says WEFT_REMAP=65536
expect 0 weft run --remap=1m -- env
says WEFT_REMAP=1048576

expect 0 weft down
finish
