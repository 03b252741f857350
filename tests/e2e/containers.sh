#!/bin/bash
# The commands of docs/containers.md as they stand, block after block, and what happens to containers when weftd is killed.
. "${0%/*}/lib.sh"
doc=${0%/*}/../../docs/containers.md

skip() {
	rmdir "$HOME_DIR"
	echo "skipped: $1"
	exit 77
}
for program in unshare rping ib_write_bw; do
	command -v $program >/dev/null || skip "no $program here"
done
unshare --user --map-root-user --mount --pid --fork --ipc --net --mount-proc mount -t tmpfs none /run 2>/dev/null ||
	skip "no user namespaces here"

PATH=$BIN:$PATH
unset -f weft weftd
ADDRESS=$(hostname -I 2>/dev/null | cut -d' ' -f1)
export ADDRESS=${ADDRESS:-127.0.0.1}

# block KIND: all blocks of the document that are marked so
block() { awk -v kind="$1" '/^```/ { inside = ($0 == "```sh " kind); next } inside' "$doc"; }
# run TEXT: fails when any of its commands does, those in the background too
run() {
	out=$(timeout -s KILL 100 bash -c "$(declare -f end)"'
set -e
wait() { local p; for p in $(jobs -p); do builtin wait $p || [ $? = '"$1"' ] || exit 1; done; }
'"$2" 2>&1) || fail "$out"
}

# end JOB...: a job is a shell, its child unshare, which takes the rest with it. All at once, as each would leave for want of
# the other. Without a sanitizer's library, over which Debian's pgrep waits for a lock of libc for ever.
end() { kill -9 $(LD_PRELOAD='' pgrep -P "$(IFS=,; echo "$*")"); }

# rping's server ends with 255 when its client leaves
run 255 "$(block unshare)"
says "#bytes"
if command -v bwrap >/dev/null && bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
	run 255 "$(block unshare | sed -n '/^listening()/p'; block bwrap)"
else
	echo "part skipped: no bwrap here, or it may make no namespaces: its commands are not run"
fi

# a server in a container outlives weftd, and who comes then finds it, by the path that the document tells
functions=$(block unshare | sed -n '/^listening()/p; /^container()/,/^}/p')
weft up >/dev/null
run 137 "$functions
container weft run -- rping -s -P -p 7177 &
server=\$!
listening
kill -9 $(daemons)
weft up
listening
container weft run -- rping -c -a \"\$ADDRESS\" -C 10 -p 7177
container weft run -- rping -c -a \"\$ADDRESS\" -C 100000000 -p 7177 &
client=\$!
until weft qp | grep -q ' RTS .* packets'; do sleep 0.1; done
end \$server \$client
wait"

# within one container ptrace is allowed, and memory is handed out; between containers only where that is asked for
until_direct="until weft qp | grep -q ' RTS .* direct .*mem fd'; do sleep 0.1; done"
run 137 "$functions
both() {
	weft run -- rping -s -P -p 7178 &
	listening
	weft run -- rping -c -a \"\$ADDRESS\" -C 100000000 -p 7178
}
container bash -c \"\$(declare -f listening both); both\" &
both=\$!
$until_direct
end \$both
wait"
expect 0 weft down --force
export WEFT_MEMORY=user
weft up >/dev/null
run 137 "$functions
container weft run -- rping -s -P -p 7179 &
server=\$!
listening
container weft run -- rping -c -a \"\$ADDRESS\" -C 100000000 -p 7179 &
client=\$!
$until_direct
end \$server \$client
wait"
expect 0 weft down --force

finish
