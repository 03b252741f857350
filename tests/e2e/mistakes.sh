#!/bin/bash
# What users do wrong, or meet on the way: the message names the cause and the next step, and nothing is left behind.
. "${0%/*}/lib.sh"

# says_line TEXT: one whole line of the last command's output is this.
says_line() { grep -qxF -- "$1" <<<"$out" || fail "no line '$1' in: $out"; }

# a reader of weft doctor that has seen enough leaves no process behind
targets() {
	for p in /proc/[0-9]*; do
		[ "$p/exe" -ef "$BIN/weft" ] && grep -qz '^doctor$' "$p/cmdline" 2>/dev/null && echo "$p"
	done
}
no_targets() { [ -z "$(targets)" ]; }
weft up >/dev/null
for i in 1 2 3 4 5 6; do
	"$BIN/weft" doctor 2>/dev/null | head -1 >/dev/null
done
within 5 no_targets || fail "weft doctor | head -1 leaves $(targets | tr '\n' ' ')"

# weft down --help frightens nobody with connections that break
expect 0 weft down --help
says "they keep their connections"

# a wrong option: who says so, and where to look; not the whole help
expect 2 weft run --nonsense -- true
says "weft run: unrecognized option '--nonsense'"
says_line "  next: weft run --help"
[ "$(wc -l <<<"$out")" = 2 ] || fail "more than two lines: $out"
expect 2 weft status surplus
says_line "weft status: takes no argument, but there is 'surplus'"
version=$(weft --version)
for same in -V version; do
	expect 0 weft $same
	says_line "$version"
done

# what asks the kernel, or agents that only a fabric has, says so once
if command -v rdma >/dev/null; then
	out=$(weft run -- rdma link show 2>&1)
	says_line "weft: rdma asks the kernel, which has no device of weft's; weft devices, weft qp and weft mr list them"
fi
if command -v sminfo >/dev/null; then
	out=$(weft run -- sminfo -t 10 2>&1)
	[ "$(grep -c "^weft: sminfo asks agents of a fabric, and there is none here; " <<<"$out")" = 1 ] || fail "no hint: $out"
fi
expect 0 weft run -- ibv_devinfo
[ "$(grep -c 'weft: ' <<<"$out")" = 0 ] || fail "a hint that nobody needs: $out"

# the system's weftd is started by nobody but root
if [ ! -e /run/weft ]; then
	out=$(unset WEFT_DIR; "$BIN/weft" status --system)
	says_line '  next: have root run `weft up --system`'
fi

# numbers of weft sa, and what only the protocol of old has; nothing to be set
for setting in key=-5 key=+5 key=010 key= "key= 5" key=99999999999999999999999 lid=65536 window=0x10000 retries=8 key; do
	expect 2 weft sa gettable nodes --node h1 "$setting"
	says ": '$setting'"
done
for setting in window=3 retries=2 bits=lsb; do
	expect 2 weft sa gettable nodes --node h1 --profile standard $setting
	says "key= and lid= alone: '$setting'"
done
expect 2 weft mad set ""
says "set with NAME=VALUE"

# the directory's name, and what is wrong with it
out=$(WEFT_DIR=foo weft status 2>&1)
says "the runtime directory foo cannot be used: WEFT_DIR is not an absolute path"
out=$(WEFT_DIR=$HOME_DIR/missing/run weft run -- true 2>&1)
says "$HOME_DIR/missing/run cannot be used: No such file or directory"
says "next: make the directory above it"
long=$HOME_DIR/$(printf 'x%.0s' {1..120})
for program in "weft status" weftd; do
	out=$(WEFT_DIR=${long:0:96} $program 2>&1) && fail "$program takes a directory of 96 bytes"
	says "its path is too long"
	says "absolute path of at most 95 bytes"
done

# --device hides the others from whoever reads the device files, too
expect 0 weft run -d weft1 -- sh -c 'cd /sys/class/infiniband && ls; ls /sys/class/infiniband_verbs /dev/infiniband'
case $out in *weft0* | *uverbs0* | *umad*) fail "--device weft1 shows weft0: $out" ;; esac
says weft1
says uverbs1
expect 0 weft run -d weft0 -- ls /sys/class/infiniband /sys/class/infiniband_mad
case $out in *weft1*) fail "--device weft0 shows weft1: $out" ;; esac
says umad0
expect 0 weft run -d weft1,weft0 -- ls /sys/class/infiniband
[ "$out" = "weft0
weft1" ] || fail "--device weft1,weft0 shows: $out"
expect 0 weft run -d weft1 -- "$BIN/weft" run -- ls /sys/class/infiniband
[ "$out" = weft1 ] || fail "a weft run inside weft run --device weft1 shows: $out"
expect 0 weft run -d weft1 -- ibv_devinfo
says "hca_id:	weft1"
case $out in *weft0*) fail "ibv_devinfo shows weft0: $out" ;; esac

# faults
expect 2 weft run --impair loss=5 -- true
says "loss=5: loss is 0% to 100%, with the sign %"
for impair in in.out.loss=1% out.out.loss=1% weft0.weft1.loss=1%; do
	expect 2 weft run --impair $impair -- true
	says "one of out and in, and one of weft0 to weft"
done

# a trace in which nothing was recorded is no success
trace=$HOME_DIR/trace
expect 0 weft run --trace "$trace" -- true
expect 1 weft replay "$trace"
says_line "weft: $trace is empty: no program opened a device of weft's"
expect 0 weft run --impair delay=1us,seed=5 --trace "$trace" -- ibv_devinfo
expect 1 weft replay "$trace"
says "no frames were recorded in $trace"
case $out in *seed=*seed=*) fail "two seeds in: $out" ;; esac
expect 1 weft replay "$trace" 1
says "no process 1 was recorded"
head -c 100 /dev/zero >"$trace.other"
expect 1 weft replay "$trace.other"
says_line "weft: $trace.other is not a weft trace"
rm "$trace.other"

# the server's and the client's weft run with one --trace: both are in it
go=$HOME_DIR/go
mkfifo "$go"
weft run --trace "$trace" -- sh -c "ibv_devinfo >'$go'; read -r _ <'$go'" 2>/dev/null &
first=$!
cat "$go" >/dev/null
expect 0 weft run --trace "$trace" -- ibv_devinfo -d weft1
says "another weft run is writing to $trace"
echo on >"$go"
wait $first
rm "$go"
expect 1 weft replay "$trace"
[ "$(grep -c ' is ibv_devinfo' <<<"$out")" = 2 ] || fail "not both processes are in the trace: $out"
# and the next one begins anew
expect 0 weft run --trace "$trace" -- ibv_devinfo
expect 1 weft replay "$trace"
[ "$(grep -c ' is ibv_devinfo' <<<"$out")" = 1 ] || fail "the trace was not begun anew: $out"
rm "$trace"

expect 0 weft down
finish
