#!/bin/bash
# rdma-faults.sh SERVER CLIENT: runs two commands of your project over weft, on a good network and on worse and worse ones.
# Each ends with 0 when its data was right. Any RDMA program will do; without arguments perftest's ib_send_bw is run.
# Both ends should agree that they are done before they leave: who leaves while its last acknowledgement is lost cannot repeat it.
#
# A failure is repeated with the seed that is printed:  SEED=12345 rdma-faults.sh SERVER CLIENT
set -u -o pipefail

server=${1:-ib_send_bw -d weft0 -F -n 100}
client=${2:-ib_send_bw -d weft0 -F -n 100 127.0.0.1}
seed=${SEED:-$RANDOM}
limit=${LIMIT:-120}		# seconds for one run
out=${OUT:-$PWD/rdma-faults}	# traces and logs of what failed
export WEFT_DIR
WEFT_DIR=$(mktemp -d /tmp/rdma-faults.XXXXXX)	# a network of our own
trap 'weft down --force >/dev/null 2>&1; rm -rf "$WEFT_DIR"' EXIT
mkdir -p "$out"

faults=(
	loss=0%
	loss=5%,reorder=2%,dup=1%,corrupt=1%
	delay=200us,jitter=100us,rate=1Gbit
	drop-ack=100,drop=3+7
)

run() {
	local name=$1 impair=$2,seed=$seed failed=0
	# shellcheck disable=SC2086 # commands with their arguments
	timeout "$limit" weft run --impair "$impair" --trace "$out/$name.server.trace" -- $server >"$out/$name.server.log" 2>&1 &
	local pid=$!
	sleep "${START:-1}"	# until the server listens
	# shellcheck disable=SC2086
	timeout "$limit" weft run --impair "$impair" --trace "$out/$name.client.trace" -- $client \
		>"$out/$name.client.log" 2>&1 || failed=$?
	[ $failed = 0 ] || kill $pid 2>/dev/null
	wait $pid || failed=${failed/#0/server}
	if [ "$failed" = 0 ]; then
		echo "ok      $impair"
		rm -f "$out/$name".*
		return 0
	fi
	echo "FAILED  $impair (status $failed); repeat: SEED=$seed $0; frames: weft replay $out/$name.client.trace"
	tail -n 5 "$out/$name.client.log" "$out/$name.server.log"
	return 1
}

status=0
for i in "${!faults[@]}"; do
	run "$i" "${faults[$i]}" || status=1
done
exit $status
