#!/bin/sh
# What a process can write at a fixed address, of the rooms below abi, is listed here with its reason. All else hangs at a struct
# that its user has: two of them may be in one process.
# usage: singletons.sh ARCHIVE...
set -eu

allowed='
crc.c.o known		a fact of the processor, found when first needed
log.c.o out		the log is the process'"'"'s: what complains in the pure rooms knows nobody to tell
log.c.o bug_sink	the same
log.c.o bugs		the same
bugs.c.o path		the same, of the file that bugs go to
config.c.o config	the environment is the process'"'"'s, read once
config.c.o once		the same
fork.c.o process	the runtimes themselves, for handlers of fork and exit, which are given no argument
entry.c.o in_vain	a thread'"'"'s: how long it has polled in vain
'

found=$(for archive; do objdump -t "$archive"; done 2>/dev/null | awk '
	/file format/ { sub(/:$/, "", $1); file = $1 }
	/file format/ || $NF ~ /^[.$]/ { next }
	{
		for (i = 2; i < NF; i++)
			if ($i ~ /^(\*COM\*|\.(bss|data|tbss|tdata)(\..*)?)$/ && $i !~ /^\.data\.rel\.ro/) {
				name = $NF
				sub(/\.[0-9]+$/, "", name)
				print file, name
			}
	}' | sort -u)
failed=0
count=0
for pair in $(echo "$found" | tr ' ' '='); do
	object=${pair%=*} name=${pair#*=}
	count=$((count + 1))
	echo "$allowed" | grep -q "^$object $name	" && continue
	echo "$object: $name can be written, and there is one for the process"
	failed=1
done
[ $count -ge 5 ] || { echo "only $count found: are these the archives of weft?"; exit 2; }
exit $failed
