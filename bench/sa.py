#!/usr/bin/env python3
"""How many PathRecord Gets a second a subnet administration answers, weft's and OpenSM's, live over the same fabric.

usage: sa.py [--weft PROGRAM] [--asker PROGRAM] [--rounds N] [--seconds N] [--window N,...] [KIND[:NAME=VALUE]...]
KIND is one of weft fabric make. weft's administration and OpenSM's take turns in each round; a program at h2 asks for paths to
all hosts, with so many questions under way. What is printed is the median of the answers in a second, and of the answers for
each second of a processor: of that which answers alone (OpenSM's process, or all of weftd), and with weftd, which carries the
datagrams of both."""
import json
import os
import re
import shutil
import subprocess
import sys

from trial import TREE, Fabric, arguments, by_opensm, cpu_s, medians


def ask(fabric, args, window, who):
	said = subprocess.run(fabric.at('h2', 'ibstat'), env=fabric.env, capture_output=True, text=True, check=True).stdout
	own, sm = (re.search(rf'{name} lid: (\d+)', said)[1] for name in ('Base', 'SM'))
	nodes = json.loads(fabric.weft('fabric', 'show', '--json'))['nodes']
	lids = [p['lid'] for n in nodes if n['type'] == 'host' for p in n['ports'] if p['lid']]
	words = fabric.at('h2', args.asker, sm, own, str(min(lids)), str(max(lids)), str(window))
	# what is asked for the first time is measured no more than what is asked again
	subprocess.run([*words, '1'], env=fabric.env, capture_output=True, check=True)
	before, all_before = cpu_s(who), fabric.all_s(who)
	rate = float(subprocess.run([*words, str(args.seconds)], env=fabric.env, capture_output=True, text=True,
				    check=True).stdout)
	asked = rate * args.seconds
	return rate, asked / (cpu_s(who) - before), asked / (fabric.all_s(who) - all_before)


def by_weft(args, window, home, kind):
	with Fabric(args.weft, home, kind) as fabric:
		fabric.until(fabric.is_up)
		return ask(fabric, args, window, fabric.pid())


def by_other(args, window, home, kind):
	with by_opensm(args.weft, home, kind) as (fabric, pid):
		return ask(fabric, args, window, pid)


WAYS = {'weft': by_weft, 'OpenSM': by_other}


def measure(kind, window, args):
	ways = {name: lambda home, way=way: way(args, window, home, kind) for name, way in WAYS.items()}
	for name, (rate, own, every) in medians(ways, args.rounds).items():
		print(f'{kind:24} {name:8} {window:>4} under way: {rate:8.0f} answers/s; for each second of a processor: '
		      f'{own:8.0f}, with all of weftd {every:8.0f}', flush=True)


def main():
	parser = arguments(__doc__)
	parser.add_argument('--asker', default=os.path.join(TREE, 'build/bench/sa_rate'))
	parser.add_argument('--seconds', type=int, default=3)
	parser.add_argument('--window', default='16')
	args = parser.parse_args()
	if not shutil.which('opensm') or not shutil.which('ibstat') or not os.path.exists(args.asker):
		print('SKIP: no opensm, no ibstat, or no libibumad to build with here: scripts/setup test')
		return 77
	args.weft, args.asker = os.path.abspath(args.weft), os.path.abspath(args.asker)
	for kind in args.kinds:
		for window in args.window.split(','):
			measure(kind, window, args)
	return 0


sys.exit(main())
