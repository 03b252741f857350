#!/bin/bash
# device_faults.sh BIN: calls that fail and events that come on demand; programs end with their own error.
. "${0%/*}/lib.sh"
for program in ibv_rc_pingpong ibv_devinfo ibv_asyncwatch ib_write_bw; do
	command -v $program >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no $program here"; exit 77; }
done

# run_impaired FAULTS PROGRAM...: its status in $status, its output in $out
run_impaired() {
	out=$(timeout 60 "$BIN/weft" run --impair "$1" -- "${@:2}" 2>&1)
	status=$?
}
# fails FAULTS TEXT PROGRAM...: it fails by itself, and prints the text
fails() {
	run_impaired "$1" "${@:3}"
	case $status in 0 | 124 | 13?) fail "with $1, '${*:3}' exits with $status: $out" ;; esac
	says "$2"
}
# pingpong SERVER'S FAULTS, CLIENT'S FAULTS, OPTION...: $out has what the client printed, and its status is in $status
pingpong() {
	local port server=() client=()
	port=$(free_port)
	[ -z "$1" ] || server=(--impair "$1")
	[ -z "$2" ] || client=(--impair "$2")
	"$BIN/weft" run "${server[@]}" -- ibv_rc_pingpong -d weft1 -g 0 -p "$port" "${@:3}" >"$HOME_DIR/server" 2>&1 &
	within 60 is_listening "$port" || fail "no server: $(cat "$HOME_DIR/server")"
	out=$(timeout 60 "$BIN/weft" run "${client[@]}" "${trace[@]}" -- ibv_rc_pingpong -d weft1 -g 0 -p "$port" "${@:3}" \
		127.0.0.1 2>&1)
	status=$?
	kill $! 2>/dev/null
	wait $! 2>/dev/null
	rm "$HOME_DIR/server"
}
client_fails() { [ "$status" != 0 ] && [ "$status" != 124 ] || fail "the client exits with $status: $out"; }
trace=()

# mistakes
expect 2 weft run --impair fail=reg_mr -- true
says "fail=reg_mr: fail is VERB:ERROR, and perhaps :CALLS, as reg_mr:ENOMEM:3"
expect 2 weft run --impair fail=reg_mr:ENOMEM:0 -- true
expect 2 weft run --impair in.fail=reg_mr:ENOMEM -- true
expect 2 weft run --impair event=qp_dead -- true
says "event=qp_dead: event is EVENT, and perhaps :TIME or :VERB:CALLS, as qp_fatal:post_send:100"

# calls
fails fail=open_device:EIO,seed=1 "Failed to open device" ibv_devinfo
fails weft1.fail=query_port:EIO:1,seed=1 "Failed to query port 1" ibv_devinfo
says "PORT_ACTIVE"
run_impaired weft0.fail=open_device:EIO,seed=1 ibv_devinfo -d weft1
[ $status = 0 ] || fail "a fault of weft0 is weft1's too: $out"
for row in "reg_mr:Couldn't register MR" "alloc_pd:Couldn't allocate PD" "create_cq:Couldn't create CQ" \
	"create_qp:Couldn't create QP" "modify_qp:Failed to modify QP"; do
	fails "fail=${row%%:*}:ENOMEM:1,seed=1" "${row#*:}" ibv_rc_pingpong -d weft0
done
pingpong "" fail=post_send:ENOMEM:100,seed=1 -n 1000
client_fails
says "Couldn't post send"
pingpong "" fail=post_send:ENOMEM:100,seed=1 -n 1000 -N
client_fails
says "Couldn't post send"
pingpong "" fail=post_recv:ENOMEM:600..,seed=1 -n 1000
client_fails
says "Couldn't post receive"
pingpong "" fail=post_send:ENOMEM:1001,seed=1 -n 1000
[ $status = 0 ] || fail "a fault of a later call is this one's: $out"
port=$(free_port)
"$BIN/weft" run -- ib_write_bw -d weft0 -p "$port" >"$HOME_DIR/server" 2>&1 &
within 60 is_listening "$port" || fail "no ib_write_bw: $(cat "$HOME_DIR/server")"
fails fail=reg_mr:ENOMEM,seed=1 "Couldn't allocate MR" ib_write_bw -d weft0 -p "$port" 127.0.0.1
kill $! 2>/dev/null
wait $! 2>/dev/null
rm "$HOME_DIR/server"

# the QP of the hundredth request; it is in the trace, and is decided again
trace=(--trace "$HOME_DIR/trace")
pingpong "" event=qp_fatal:post_send:100,fail=post_recv:EINVAL:0%,seed=1 -n 1000
client_fails
says "Work Request Flushed Error"
expect 0 weft replay "$HOME_DIR/trace"
says "weft1 event qp_fatal"
says "all as recorded"
pingpong "" fail=post_send:EAGAIN:2%,seed=5 -n 1000
client_fails
expect 0 weft replay "$HOME_DIR/trace"
says "weft1 post_send fails: EAGAIN"
says "all as recorded"
rm "$HOME_DIR/trace"
trace=()

# events of a device: at once, after a time, and to a program that runs
run_watch() { "$BIN/weft" run "$@" -- stdbuf -oL ibv_asyncwatch -d weft1 >"$HOME_DIR/watch" 2>&1 & watch=$!; }
has_event() { grep -q "$1" "$HOME_DIR/watch" 2>/dev/null; }
end_watch() {
	kill "$watch" 2>/dev/null
	wait "$watch" 2>/dev/null
	rm "$HOME_DIR/watch"
}
run_watch --impair event=device_fatal,weft0.event=sm_change,event=lid_change:20ms,seed=1 --trace "$HOME_DIR/trace"
within 60 has_event IBV_EVENT_DEVICE_FATAL || fail "no fatal event: $(cat "$HOME_DIR/watch")"
within 60 has_event IBV_EVENT_LID_CHANGE || fail "no event after a time: $(cat "$HOME_DIR/watch")"
expect 0 weft impair weft1 event=gid_change,seed=1
within 60 has_event IBV_EVENT_GID_CHANGE || fail "no event of weft impair: $(cat "$HOME_DIR/watch")"
! has_event IBV_EVENT_SM_CHANGE || fail "an event of weft0 is weft1's: $(cat "$HOME_DIR/watch")"
expect 0 weft impair show
says "weft1.event=gid_change"
end_watch
rm "$HOME_DIR/trace"

# queues and QPs of a program that runs
for fault in cq_err qp_fatal device_fatal; do
	port=$(free_port)
	"$BIN/weft" run -- ibv_rc_pingpong -d weft1 -g 0 -n 1000000000 -p "$port" >"$HOME_DIR/server" 2>&1 &
	server=$!
	within 60 is_listening "$port" || fail "no server: $(cat "$HOME_DIR/server")"
	"$BIN/weft" run -- ibv_rc_pingpong -d weft1 -g 0 -n 1000000000 -p "$port" 127.0.0.1 >"$HOME_DIR/client" 2>&1 &
	client=$!
	within 60 eval '[ "$(weft qp | grep -c RTS)" = 2 ]' || fail "no pingpong: $(cat "$HOME_DIR"/{server,client})"
	expect 0 weft impair "$client" "event=$fault,seed=1"
	# a program whose CQ is dead sees no completion any more; the others end
	if [ $fault = cq_err ]; then
		within 60 eval 'weft qp "$client" | grep -q ERR' || fail "a QP outlives its CQ: $(weft qp)"
	else
		within 60 ended "$client" || fail "$fault does not end the client: $(cat "$HOME_DIR/client"; weft qp)"
		grep -qE "Work Request Flushed Error|Couldn't post" "$HOME_DIR/client" ||
			fail "with $fault: $(cat "$HOME_DIR/client")"
	fi
	kill $server $client 2>/dev/null
	wait $server $client 2>/dev/null
	rm "$HOME_DIR"/{server,client}
done

# it ends
port=$(free_port)
expect 0 weft pair -- ibv_rc_pingpong -d weft0 -n 10 -p "$port" --- ibv_rc_pingpong -d weft0 -n 10 -p "$port" localhost
finish
