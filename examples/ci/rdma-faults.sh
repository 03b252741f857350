#!/bin/bash
# rdma-faults.sh SERVER CLIENT: runs two commands of your project over weft, on a good network and on worse and worse ones.
# Each ends with 0 when its data was right. Any RDMA program will do; without arguments perftest's ib_send_bw is run.
# Both ends should agree that they are done before they leave: who leaves while its last acknowledgement is lost cannot repeat it.
#
# A failure is repeated with the command that is printed. SEED=12345 chooses the seed of all.
set -u -o pipefail

server=${1:-ib_send_bw -d weft0 -F -n 100}
client=${2:-ib_send_bw -d weft0 -F -n 100 127.0.0.1}
seed=${SEED:-$RANDOM}
limit=${LIMIT:-120}		# seconds for one run
out=${OUT:-$PWD/rdma-faults}	# traces and logs of what failed
mkdir -p "$out"

faults=(
	loss=0%
	loss=5%,reorder=2%,dup=1%,corrupt=1%
	delay=200us,jitter=100us,rate=1Gbit
	drop-ack=100,drop=3+7
)

status=0
for i in "${!faults[@]}"; do
	# shellcheck disable=SC2086 # commands with their arguments
	if weft pair --impair "${faults[$i]}" --seed "$seed" --timeout "$limit" --trace "$out/$i.trace" -- $server --- $client \
		>"$out/$i.log" 2>&1; then
		echo "ok      ${faults[$i]}"
		rm -f "$out/$i.trace" "$out/$i.log"
	else
		echo "FAILED  ${faults[$i]}"
		tail -n 12 "$out/$i.log"
		status=1
	fi
done
exit $status
