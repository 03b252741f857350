#!/bin/bash
# counters_page.sh PROJECT: weft-counters(1) lists the counters of counters.def, in its order and with its descriptions.
set -u
diff <(sed -n 's/^COUNTER(\([a-z_]*\), "\(.*\)")$/\1: \2/p' "$1/src/base/counters.def") \
	<(sed -n '/^\.SH COUNTERS/,/^\.SH PROGRAMS/p' "$1/man/weft-counters.1" |
		awk '/^\.TP/ { getline; name = $2; getline; print name ": " $0 }')
