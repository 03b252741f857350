#!/bin/bash
# What a weftd leaves that is killed, or told to leave while processes are attached, goes when nobody needs it; and
# weft down --force ends whatever weftd serves, and nothing else.
. "${0%/*}/lib.sh"
for program in ibv_asyncwatch ibv_rc_pingpong python3; do
	command -v $program >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no $program here"; exit 77; }
done

is_attached() { weft status --json 2>/dev/null | grep -qE "\"attached\": ?$1\b"; }
# a process that is attached: its pid goes to $watcher
watch() {
	"$BIN/weft" run -- ibv_asyncwatch >/dev/null 2>&1 &
	watcher=$!
	within 10 is_attached 1 || fail "ibv_asyncwatch does not attach"
}
unwatch() {
	kill -9 "$watcher"
	wait "$watcher" 2>/dev/null
}
files() { find "$HOME_DIR" | sort; }

# told to leave while a process is attached: the process comes back to the next weftd, and what it needs for that stays as long
# as it lives
watch
expect 0 weft down --force
[ -e "$WEFT_DIR/made-by-weft/claims" ] || fail "nothing is kept for a process that is attached"
for command in status qp down "down --force"; do
	weft $command >/dev/null 2>&1
	[ -e "$WEFT_DIR/made-by-weft/claims" ] || fail "weft $command removes what a process needs that lives"
done
expect 0 weft up
within 10 is_attached 1 || fail "the process does not come back"
expect 0 weft down --force
unwatch
expect 1 weft status
gone "$WEFT_DIR" || fail "left, when nobody needs it: $(files)"

# ... also when what weft run started has ended, and a child of it is attached
watcher=$(weft run -- sh -c 'ibv_asyncwatch >/dev/null 2>&1 & echo $!')
within 10 is_attached 1 || fail "ibv_asyncwatch does not attach"
expect 0 weft down --force
weft down >/dev/null 2>&1
[ -e "$WEFT_DIR/made-by-weft/claims" ] || fail "weft down removes what a process needs that lives"
kill -9 "$watcher"
within 5 gone "/proc/$watcher"
expect 1 weft status
gone "$WEFT_DIR" || fail "left, when nobody needs it: $(files)"

# the same by a signal, and then by the command that ends a weftd
watch
kill "$(daemons)"
within 5 are_live 0
unwatch
expect 0 weft down
gone "$WEFT_DIR" || fail "left, when nobody needs it: $(files)"

# the last process that ends by itself takes it along; this one does when its peer says what it does not understand
port=$(free_port)
"$BIN/weft" run -- ibv_rc_pingpong -d weft0 -p $port >"$HOME_DIR/server" 2>&1 &
server=$!
within 10 is_listening "$port" || fail "the server does not wait: $(cat "$HOME_DIR/server")"
within 10 is_attached 1 || fail "the server is not attached"
expect 0 weft down --force
[ -e "$WEFT_DIR/made-by-weft/claims" ] || fail "nothing is kept for processes that are attached"
echo nonsense >/dev/tcp/127.0.0.1/$port
wait "$server"
[ $? = 1 ] || fail "the server ends otherwise: $(cat "$HOME_DIR/server")"
rm "$HOME_DIR/server"
within 8 gone "$WEFT_DIR" || fail "left, when nobody needs it: $(files)"
within 8 are_live 0 || fail "a weftd that swept stays"

# killed: the next weftd, or weft down, cleans up
expect 0 weft up
kill -9 "$(daemons)"
expect 1 weft status
[ -S "$WEFT_DIR/ctl" ] || fail "the sign of a killed weftd is gone"
expect 0 weft down
gone "$WEFT_DIR" || fail "left of a killed weftd: $(files)"
watch
kill -9 "$(daemons)" "$watcher"
wait "$watcher" 2>/dev/null
expect 0 weft run -- true
within 8 gone "$WEFT_DIR" || fail "left of a killed weftd and its process: $(files)"
# ... but not while a program of weft run lives, which may attach
"$BIN/weft" run -- sleep 60 &
sleeper=$!
within 5 sh -c "'$BIN/weft' status | grep -q '1 programs'"
kill -9 "$(daemons)"
expect 0 weft down
[ -e "$WEFT_DIR/made-by-weft/devices/dev/infiniband/uverbs0" ] || fail "a program that lives has lost its device files"
kill "$sleeper"
wait "$sleeper" 2>/dev/null
expect 0 weft down
gone "$WEFT_DIR" || fail "left of a killed weftd and its program: $(files)"

# serves NAME KIND: something else holds the lock; its pid goes to $other
serves() {
	mkdir -m 700 -p "$WEFT_DIR"
	"${0%/*}/other_weftd.py" "$WEFT_DIR" "$1" "$2" >"$HOME_DIR/other" &
	other=$!
	within 10 grep -q serves "$HOME_DIR/other" || fail "other_weftd.py does not start"
	rm "$HOME_DIR/other"
}
# by itself or by whom it was to be ended: if not, this is too late to change its status
ended() {
	kill -9 "$other" 2>/dev/null
	wait "$other"
	[ $? = "$1" ] || fail "the other weftd does not end so"
}

# another version
for kind in answers before; do
	serves weftd $kind
	for command in "weft run -- true" "weft status" "weft down"; do
		expect 1 $command
		says "another version"
		says "weft down --force"
	done
	kill -0 "$other" || fail "weft down ends another version without --force"
	expect 0 weft down --force
	says "has exited"
	ended $([ $kind = answers ] && echo 0 || echo 143)
	expect 0 weft run -- cat /sys/class/infiniband/weft0/node_type
	expect 0 weft down --force
	[ -z "$(ls "$WEFT_DIR")" ] || fail "left of another version: $(files)"
done
rmdir "$WEFT_DIR"

# one that ends while weft run asks it
serves weftd leaves
expect 0 weft run --device weft0 -- cat /sys/class/infiniband/weft0/node_type
ended 0
expect 0 weft down --force
serves weftd leaves
expect 1 weft run --node h1 -- true
says "the network has no fabric"
ended 0
expect 0 weft down --force

# one that takes who comes, and answers nothing then: nobody waits for ever. What takes weftd long by itself is waited for
serves weftd mute
asking=()
for command in status mad "sa gettable nodes --node h1" "fabric unload" "impair all loss=1%" up qp; do
	timeout 100 "$BIN/weft" $command >"$HOME_DIR/said by ${command%% *}" 2>&1 &
	asking+=("$! $command")
done
for command in "${asking[@]}"; do
	wait "${command%% *}"
	status=$?
	command=${command#* }
	out=$(cat "$HOME_DIR/said by ${command%% *}")
	rm "$HOME_DIR/said by ${command%% *}"
	if [ "$command" = qp ]; then
		[ $status = 0 ] || fail "weft qp gives up a question to all processes: $out"
		continue
	fi
	[ $status = 1 ] || fail "weft $command ends with $status where weftd does not answer"
	says "weftd in $WEFT_DIR does not answer"
	says "weft down --force"
done
expect 0 weft down --force
ended 143
rmdir "$WEFT_DIR"

# one that does not answer, and not even to SIGTERM
serves weftd silent
expect 0 weft down --force
ended 137
gone "$WEFT_DIR/ctl" || fail "left of a silent weftd: $(files)"
rmdir "$WEFT_DIR"
# one that takes its time to end, as on a machine that has much else to do
serves weftd lingers
expect 0 weft down --force
ended 137
rmdir "$WEFT_DIR"
expect 0 weft up
kill -STOP "$(daemons)"
expect 0 weft down --force
within 5 are_live 0 || fail "a stopped weftd is not ended"
gone "$WEFT_DIR" || fail "left of a stopped weftd: $(files)"

# what is no weftd is left alone
serves other silent
expect 1 weft down --force
says "no weftd"
kill -0 "$other" || fail "weft down --force ends what is no weftd"
kill -9 "$other"
wait "$other" 2>/dev/null
expect 0 weft down
rmdir "$WEFT_DIR"

# what a weftd left before directories had a mark: removed when nothing else is there
serves weftd before
kill -9 "$other"
wait "$other" 2>/dev/null
echo mine >"$WEFT_DIR/notes"
before=$(files)
expect 1 weft run -- true
says "not made by weft"
[ "$(files)" = "$before" ] || fail "weft changes a directory that is not its own"
rm "$WEFT_DIR/notes"
expect 0 weft run -- cat /sys/class/infiniband/weft0/node_type
expect 0 weft down --force
[ -z "$(ls "$WEFT_DIR")" ] || fail "left of an earlier weftd: $(files)"
rmdir "$WEFT_DIR"

finish
