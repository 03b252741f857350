#!/bin/bash
# weft bench from end to end: what it writes, whom it names, and that nothing is left. Never how fast anything is.
. "${0%/*}/lib.sh"

[ "$(nproc)" -ge 2 ] || { echo "skipped: a second CPU is needed"; rmdir "$HOME_DIR"; exit 77; }
cd "$HOME_DIR" || exit 1

# no weftd and no directory beside ours
left() { find "$HOME_DIR" -mindepth 1 -maxdepth 1 -name 'run*'; }

expect 0 weft bench --list
says "send-latency: "
says "  weft-loop "
expect 2 weft bench --only nobody
says "--list"
for wrong in "--size 8,x" "--size 0" "--size 3G" "--cpus 0" "--cpus 0,0" "--cpus 0,99999" "--reps 0" "--reps x"; do
	# shellcheck disable=SC2086
	expect 2 weft bench $wrong
	says "next: "
done
left | grep -q . && fail "left: $(left)"

printf 'before\n<!-- weft bench: begin -->\nold\n<!-- weft bench: end -->\nafter\n' >report.md
expect 0 weft bench --quick --reps 2 --only send-latency/weft-loop,write-latency/weft-loop,memcpy,line,registration,ring \
	--size 8,4K --goals --json figures.json --markdown report.md --svg plot.svg
python3 - <<'END' || fail "the files are not as expected: $out"
import json, math, xml.dom.minidom

report = json.load(open('figures.json'))
assert report['rounds'] == 2 and report['machine']['processor'] and isinstance(report['machine']['busy'], bool)
rows = {(r['contest'], r['name'], r['size']): r for r in report['results']}
wanted = {(c, 'weft-loop', s) for c in ('send-latency', 'write-latency') for s in (8, 4096)}
wanted |= {('write-latency', 'memcpy', s) for s in (8, 4096)} | {('write-bandwidth', 'memcpy', s) for s in (8, 4096)}
wanted |= {(c, 'line', 8) for c in ('send-latency', 'write-latency')} | {('send-rate', 'ring', 8)}
wanted |= {('registration', 'weft-loop', s) for s in (4096, 1 << 30)}
assert set(rows) == wanted, set(rows) ^ wanted
for row in rows.values():
	assert row['spread']['count'] == 2 and len(row['rounds']) == 2, row
	assert all(math.isfinite(figure) and figure > 0 for figure in row['rounds']), row
verdicts = {(g['contest'], g['weft'], g['against']): g['verdict'] for g in report['goals']}
assert verdicts[('send-latency', 'weft-loop', 'line')] in ('met', 'missed')
assert verdicts[('send-latency', 'weft-loop', 'openmpi')] == 'unknown'

text = open('report.md').read()
assert text.startswith('before\n<!-- weft bench: begin -->\n') and text.endswith('<!-- weft bench: end -->\nafter\n'), text
assert 'old' not in text.split('end -->')[0].split('begin -->')[1].splitlines()
assert '(plot.svg)' in text and '### Goals' in text and 'weft-loop' in text
svg = xml.dom.minidom.parse('plot.svg').documentElement
assert svg.tagName == 'svg' and len(svg.getElementsByTagName('polyline')) >= 4
END
left | grep -q . && fail "left: $(left)"

# a new file has the marks, so that the next report replaces this one
for i in 1 2; do
	expect 0 weft bench --quick --reps 1 --only line --markdown new.md --json figures.json
	[ "$(head -n 1 new.md) $(tail -n 1 new.md)" = "<!-- weft bench: begin --> <!-- weft bench: end -->" ] || fail "no marks"
done
rm new.md
# no picture without anything in it
expect 1 weft bench --quick --reps 1 --only line --svg empty.svg
says "empty.svg is not written: no contest over sizes was measured"
[ ! -e empty.svg ] || fail "an empty picture is written"

# over queue pairs and processes, and goals that name nobody
many=queue-pairs,peers,transitions,opening,start,write-rate/weft-loop-mapped,atomic-latency
expect 0 weft bench --quick --reps 1 --only $many --goals \
	--json figures.json --svg many.svg --markdown many.md
python3 - <<'END' || fail "the files of many are not as expected: $out"
import json, math, xml.dom.minidom

rows = {(r['contest'], r['name'], r['size']): r for r in json.load(open('figures.json'))['results']}
wanted = {('queue-pairs', 'weft-loop', n) for n in (1, 10, 100, 1000)} | {('peers', 'weft-loop', 2 ** i) for i in range(6)}
wanted |= {('queue-pairs', 'weft-one', 1000), ('peers', 'weft-one', 32), ('start', 'weft-run', 1), ('opening', 'weft-loop', 1)}
wanted |= {('transitions', 'weft-loop', 1), ('write-rate', 'weft-loop-mapped', 8)}
wanted |= {('atomic-latency', name, 8) for name in ('weft-loop', 'weft-loop-mapped', 'add')}
assert set(rows) == wanted, set(rows) ^ wanted
assert all(math.isfinite(figure) and figure > 0 for row in rows.values() for figure in row['rounds']), rows
assert rows['queue-pairs', 'weft-loop', 10]['counted'] == 'queue pairs' and rows['start', 'weft-run', 1]['counted'] is None
verdicts = {(g['contest'], g['against']): g['verdict'] for g in json.load(open('figures.json'))['goals']}
assert verdicts['peers', 'weft-one'] in ('met', 'missed') and verdicts['transitions', None] in ('met', 'missed'), verdicts
text = open('many.md').read()
assert '| 1 | 10 | 100 | 1000 |' in text and '| queue-pairs, 1000 | weft-one: ' in text and 'at least 50000 1/s' in text, text
assert len(xml.dom.minidom.parse('many.svg').getElementsByTagName('polyline')) == 4
END
rm many.svg many.md

# other libraries over weft, where they are installed: a row has no figure when its program fails
over=ucx-latency,libfabric-latency,mpi-latency,mpi-allreduce
expect 0 weft bench --quick --reps 1 --only $over --json over.json
grep -q "fails\|does not end\|no figure" <<<"$out" && fail "a library over weft: $out"
rm over.json

# to the standard output, without an error from a peer that is not there
out=$(PATH=/nonexistent "$BIN/weft" bench --quick --reps 1 --only send-latency --size 8 2>&1) || fail "without peers: $out"
says "ib_send_lat is not installed: install perftest"
says "fi_pingpong is not installed: install libfabric-bin"
says "  verbs loop over weft  "
says "Medians of up to 1 rounds"
grep -q "Goals" <<<"$out" && fail "nobody asked for goals: $out"
grep -q '|' <<<"$out" && fail "no table for a terminal: $out"
[ "$(grep -v '/' <<<"$out" | wc -L)" -le 100 ] || fail "too wide for a terminal: $out"
expect 0 weft bench --quick --reps 3 --only line,send-latency/weft-loop --size 8 --goals
says "The machine "
says "Goals: "
says "/ line "
expect 1 weft bench --quick --reps 1 --only line --json /nonexistent/file

# between two hosts, which can be made by everybody who may have namespaces
expect 0 weft bench --wire --list
says "wire-send-latency: "
says "  sockperf-udp "
grep -q "^send-latency" <<<"$out" && fail "contests of one host among those of a wire: $out"
expect 2 weft bench --wire --only send-latency
says "weft bench --wire --list"
expect 2 weft bench --only wire-qps
printf '<!-- weft bench: begin -->\n<!-- weft bench: end -->\n' >wire.md
expect 2 weft bench --wire --markdown wire.md
says "weft bench, wire: begin"
if unshare -Urnm true 2>/dev/null && command -v ip >/dev/null; then
	printf '<!-- weft bench, wire: begin -->\nold\n<!-- weft bench, wire: end -->\n' >>wire.md
	some=wire-send-latency,wire-event-latency/weft-loop,wire-send-rate/weft-loop,wire-write-bandwidth/weft-loop,udp,weft-8
	expect 0 weft bench --wire --quick --reps 1 --only $some --goals --json figures.json --markdown wire.md
	python3 - <<'END' || fail "the files of a wire are not as expected: $out"
import json, math

report = json.load(open('figures.json'))
assert 'veth' in report['machine']['wire']
rows = {(r['contest'], r['name'], r['size']): r for r in report['results']}
for wanted in [(c, 'weft-loop', s) for c, s in (('wire-send-latency', 8), ('wire-event-latency', 8), ('wire-send-rate', 64),
		('wire-write-bandwidth', 1 << 20))] + [('wire-send-latency', 'weft-perftest', 8),
		('wire-qps', 'weft-8', 1), ('wire-send-latency', 'tcp', 8), ('wire-send-latency', 'udp', 8),
		('wire-write-bandwidth', 'udp', 65536)]:
	figure, = rows[wanted]['rounds']
	assert figure and math.isfinite(figure) and figure > 0, (wanted, rows[wanted])
verdicts = {(g['contest'], g['weft'], g['against']): g['verdict'] for g in report['goals']}
assert verdicts[('wire-send-latency', 'weft-loop', 'tcp')] in ('met', 'missed')
text = open('wire.md').read()
assert text.startswith('<!-- weft bench: begin -->\n<!-- weft bench: end -->\n<!-- weft bench, wire: begin -->\n'), text
assert '\nold\n' not in text and text.endswith('<!-- weft bench, wire: end -->\n'), text
END
	left | grep -q . && fail "left: $(left)"
else
	echo "part skipped: no network namespaces can be made here"
fi

# ended while it measures; not by SIGINT, which background commands of a script ignore
"$BIN/weft" bench --only registration,line --reps 100 >/dev/null 2>&1 &
bench=$!
measures() { pgrep -P $bench -f lib/weft/bench/ >/dev/null; }
within 10 measures || fail "weft bench does not begin"
kill -TERM $bench
wait $bench
[ $? = 130 ] || fail "an ended weft bench exits otherwise than with 130"
left | grep -q . && fail "left: $(left)"

rm -f report.md wire.md figures.json plot.svg
cd /
finish
