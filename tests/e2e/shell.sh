#!/bin/bash
# shell.sh BIN: weft shell is the user's shell with weft's devices and a mark in its prompt, and ends with its status.
for program in ibv_devices python3; do
	command -v $program >/dev/null || { echo "skipped: no $program here"; exit 77; }
done
. "${0%/*}/lib.sh"
# on_terminal SHELL WORDS...: weft shell on a terminal of its own, to which the words are typed; what it shows in $out
on_terminal() {
	out=$(SHELL=$1 TERM=dumb HOME=$HOME_DIR timeout 60 python3 -c '
import os, pty, sys
typed = "\n".join(sys.argv[2:]) + "\n"
pid, fd = pty.fork()
if pid == 0:
	os.execv(sys.argv[1], [sys.argv[1], "shell"])
shown = b""
while True:
	try:
		got = os.read(fd, 4096)
	except OSError:
		break
	if not got:
		break
	shown += got
	if typed and b"(weft)" in shown:
		os.write(fd, typed.encode())
		typed = ""
sys.stdout.write(shown.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' "$BIN/weft" "${@:2}" 2>&1)
	status=$?
}

export SHELL=/bin/sh
expect 7 weft shell -- -c 'ibv_devices; exit 7'
says weft1
expect 0 weft shell --device weft1 -- -c 'ibv_devices; echo "mark $WEFT_SHELL"'
says "mark 1"
case $out in *weft0*) fail "a hidden device is shown: $out" ;; esac
expect 2 weft shell --device mlx5_0
says "unknown device"
SHELL=/nonexistent/sh expect 127 weft shell
says "cannot be run"
for shell in /bin/bash /bin/dash; do
	[ -x $shell ] || continue
	echo 'PS1="own> "' >"$HOME_DIR/.bashrc"
	on_terminal $shell 'ibv_devices' 'exit 5'
	[ $status = 5 ] || fail "$shell: the exit status is $status: $out"
	says weft0
	[ $shell != /bin/bash ] || says "(weft) own> "
	rm "$HOME_DIR/.bashrc"
	rm -f "$HOME_DIR/.bash_history"
done
finish
