#!/bin/bash
# The commands of docs/hosts.md as they stand, block after block, at two hosts, each a network namespace with a weftd of its own.
# hosts_doc.sh BIN PROGRAM: the program is what mpirun starts.
# Exit 77: no namespaces, or no such programs here.
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"

export A=10.7.0.1 B=10.7.0.2 PROGRAM=$1 PATH=$BIN:$PATH
row=hosts.md
doc=$(dirname "$0")/../../docs/hosts.md

needs ib_write_bw rping
wire 1024
server=

# The server of the other host waits for its client now.
is_ready()
{
	grep -q "pings are answered" "$tmp/server" || on 1 ss -Htln 'sport = 18515' | grep -q LISTEN ||
		on 1 "$BIN/weft" status --json | grep -Eq '"listeners": ?[1-9]'
}

# The commands of a block at a host; mpirun reaches the other one by this instead of ssh.
run()
{
	on "$1" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent="$tmp/reach" \
		DEVICE=w"$1" timeout 100 bash -euc "$2" </dev/null >"$tmp/out" 2>&1 || fail "$2: $(cat "$tmp/out")"
}

begin()
{
	: >"$tmp/server"
	WEFT_DIR=$tmp/1 timeout 100 nsenter -t "$far" -n bash -euc "exec $1" >"$tmp/server" 2>&1 &
	server=$!
	within_life_of "$server" is_ready || { fail "$1: $(cat "$tmp/server")"; return; }
}

# What waits for ^C gets it; rping's server ends with an error when its client leaves.
finish()
{
	[ -z "$server" ] && return
	! grep -q "pings are answered" "$tmp/server" || kill -TERM "$server"
	wait "$server"
	server=
}

{ echo '#!/bin/sh'; echo 'shift'; echo "exec env WEFT_DIR=$tmp/1 nsenter -t $far -n sh -c \"\$*\""; } >"$tmp/reach"
chmod +x "$tmp/reach"

# do_block KIND TEXT
do_block()
{
	local before=$SECONDS
	do_it "$@"
	echo "$1: $((SECONDS - before)) s"
}

do_it()
{
	case $1 in
	b) begin "$2" ;;
	a) run 0 "$2"; finish ;;
	mpi)
		command -v mpirun >/dev/null && run 0 "$2"
		;;
	iptables | nft)
		command -v "$1" >/dev/null && run 0 "$2" && run 1 "$2"
		;;
	limits)	# kernels before 6.11 show them to the initial network namespace alone
		if [ -e /proc/sys/net/core/rmem_max ]; then
			run 0 "$2"
		else
			echo "part skipped: no limits in a namespace here"
		fi
		;;
	root) run 0 "$2"; run 1 "$2" ;;
	*) fail "a block of kind $1" ;;
	esac
}

blocks=0
kind=
text=
while IFS= read -r line; do
	case $line in
	'```sh '*) kind=${line#*sh } text= ;;
	'```')
		do_block "$kind" "$text"
		blocks=$((blocks + 1))
		;;
	*) text+=$line$'\n' ;;
	esac
done <"$doc"
[ $blocks -ge 8 ] || fail "only $blocks blocks"
echo "$blocks blocks"
exit $failed
