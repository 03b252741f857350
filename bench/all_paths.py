#!/usr/bin/env python3
"""How long saquery -p takes, all paths between all nodes of a fabric, of weft's administration and of OpenSM's, and the memory.

usage: all_paths.py [--weft PROGRAM] [--rounds N] [KIND[:NAME=VALUE]...]
KIND is one of weft fabric make, fat-tree:ports=36 where none is named. The two administrations take turns in each round, each
over a weftd of its own; saquery writes to a file. Printed are the least, the median and the most of the seconds, and the most
memory that weftd and OpenSM have had."""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from trial import Fabric, arguments, by_opensm, read

UNANSWERED_MS = 120000


def peak_mb(pid):
	return int(re.search(r'^VmHWM:\s+(\d+) kB', read(f'/proc/{pid}/status'), re.M)[1]) / 1024


def ask(fabric, opensm=None):
	"""Paths, seconds, and MB of weftd and of OpenSM."""
	said = os.path.join(fabric.home, 'paths')
	with open(said, 'w', encoding='utf-8') as out:
		begun = time.monotonic()
		subprocess.run(fabric.at('h2', 'saquery', '-p', '-t', str(UNANSWERED_MS)), env=fabric.env, stdout=out, check=True)
		took = time.monotonic() - begun
	return read(said).count('PathRecord dump'), took, peak_mb(fabric.pid()), peak_mb(opensm) if opensm else 0


def by_weft(weft, home, kind):
	with Fabric(weft, home, kind) as fabric:
		fabric.until(fabric.is_up)
		return ask(fabric)


def by_other(weft, home, kind):
	with by_opensm(weft, home, kind) as (fabric, pid):
		return ask(fabric, pid)


def measure(kind, args):
	found = {'weft': [], 'OpenSM': []}
	for _ in range(args.rounds):
		for name, way in (('weft', by_weft), ('OpenSM', by_other)):
			with tempfile.TemporaryDirectory(prefix='weft-bench.') as home:
				found[name].append(way(args.weft, home, kind))
	for name, rows in found.items():
		paths, seconds, weftd, opensm = zip(*rows)
		memory = f'{max(weftd):.0f} MB of weftd' + (f', {max(opensm):.0f} MB of OpenSM' if max(opensm) else '')
		print(f'{kind:24} {name:8} {min(paths)} paths: {min(seconds):.2f} s at least, '
		      f'{statistics.median(seconds):.2f} s, {max(seconds):.2f} s at most; {memory}', flush=True)


def main():
	args = arguments(__doc__, ('fat-tree:ports=36',)).parse_args()
	if not shutil.which('opensm') or not shutil.which('saquery') or not shutil.which('ibstat'):
		print('SKIP: no opensm, no saquery or no ibstat here: scripts/setup test')
		return 77
	args.weft = os.path.abspath(args.weft)
	for kind in args.kinds:
		measure(kind, args)
	return 0


if __name__ == '__main__':
	sys.exit(main())
