#!/usr/bin/env python3
"""A message costs no more instructions than it did.

usage: instructions.py WEFT PROGRAM lto|plain [--measure]

callgrind counts what PROGRAM (instructions.c) takes for two numbers of messages; their difference is exact but for a timer's tick
now and then, so a bar may be exceeded by 3 %, and what exceeds it is counted again: the least of three counts. instructions.txt
has the bars, for builds with link-time optimisation and without; --measure prints what is counted now. Packets cost several times
what a record does: that the count sees."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

WEFT, PROGRAM, BUILD = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
BARS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'instructions.txt')
FEW, MANY = 600, 1100	# each of the queue pairs has been used twice by then
MORE = 1.03		# of a bar
# what a kind takes of another at most: of one with a receive queue of its own, of one over a single queue pair
OF_OTHERS = {'send-shared': ('send', 1.15), 'send-qps': ('send', 1.5), 'write-qps': ('write', 1.5)}
COUNTS = 3
LIMIT_S = 100

if not shutil.which('valgrind'):
	print('SKIP: no valgrind here: scripts/setup memcheck')
	sys.exit(77)


def bars():
	with open(BARS) as f:
		columns, *rows = [line.split() for line in f if not line.startswith('#')]
	return {row[0]: int(row[columns.index(BUILD)]) for row in rows}


def counted(kind, count, options):
	command = [WEFT, 'run', *options, '--', 'valgrind', '--tool=callgrind', '--toggle-collect=measured',
		   '--callgrind-out-file=/dev/null', PROGRAM, kind, str(count)]
	run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
	found = re.search(r'Collected : (\d+)', run.stderr)
	if run.returncode or not found:
		sys.exit(f'FAILED: {" ".join(command)} ends with {run.returncode}: {run.stdout}{run.stderr}')
	return int(found.group(1))


def cost(kind, *options):
	return (counted(kind, MANY, options) - counted(kind, FEW, options)) / (MANY - FEW)


def least_cost(kind, bar):
	"""The first count that is within the bar, or the least."""
	least = cost(kind)
	for _ in range(COUNTS - 1):
		if least > MORE * bar:
			least = min(least, cost(kind))
	return least


def judge():
	status = 0
	costs = {}
	for kind, bar in bars().items():
		now = costs[kind] = least_cost(kind, bar)
		print(f'{kind:16}{now:8.0f}{bar:8}')
		if '--measure' in sys.argv:
			continue
		if now > MORE * bar:
			print(f'FAILED: {kind} takes {now:.0f} instructions, {bar} before')
			status = 1
		elif now * MORE < bar:
			print(f'{kind} takes fewer than before: its bar in {os.path.basename(BARS)} can be lowered')
	for kind, (other, most) in OF_OTHERS.items():
		if costs[kind] > most * costs[other]:
			print(f'FAILED: {kind} takes {costs[kind] / costs[other]:.2f} times what {other} does, {most} at most')
			status = 1
	packets = cost('send', '--path', 'packet')
	print(f'{"send as packets":16}{packets:8.0f}')
	if packets < 1.5 * costs['send']:
		print('FAILED: packets cost what a record costs: what is counted?')
		status = 1
	return status


home = tempfile.mkdtemp(prefix='weft-abi.')
os.environ['WEFT_DIR'] = os.path.join(home, 'run')
try:
	STATUS = judge()
finally:
	subprocess.run([WEFT, 'down'], capture_output=True)
	os.rmdir(home)
sys.exit(STATUS)
