#!/usr/bin/env python3
"""How many PathRecord Gets a second a subnet administration answers, weft's and OpenSM's, live over the same fabric.

usage: sa.py [--weft PROGRAM] [--asker PROGRAM] [--rounds N] [--seconds N] [--window N] [KIND[:NAME=VALUE]...]
KIND is one of weft fabric make. weft's administration and OpenSM's take turns in each round; a program at h2 asks for paths to
all hosts. What is printed is the median of the answers in a second, and of the answers for each second of a processor: of that
which answers alone (OpenSM's process, or all of weftd), and with weftd, which carries the datagrams of both."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

from trial import LIMIT_S, TREE, arguments, cpu_s, medians, read


class Fabric:
	"""A network of its own that is the fabric."""
	def __init__(self, args, home, kind, *options):
		self.args, self.home, self.kind, self.options = args, home, kind, options
		self.env = dict(os.environ, WEFT_DIR=os.path.join(home, 'run'), OSM_TMP_DIR=home, OSM_CACHE_DIR=home)

	def weft(self, *words):
		return subprocess.run([self.args.weft, *words], env=self.env, check=True, capture_output=True, text=True).stdout

	def __enter__(self):
		net = os.path.join(self.home, 'net')
		with open(net, 'w', encoding='utf-8') as f:
			f.write(self.weft('fabric', 'make', *self.kind.split(':')))
		self.weft('up')
		self.weft('fabric', 'load', *self.options, net)
		return self

	def __exit__(self, *what):
		subprocess.run([self.args.weft, 'down', '--force'], env=self.env, stdout=subprocess.DEVNULL, check=False)

	def at(self, node, *words):
		return [self.args.weft, 'run', '--node', node, '--device', 'weft0', '--', *words]

	def pid(self):
		return json.loads(self.weft('status', '--json'))['pid']

	def all_s(self, who):
		"""Of who answers and of who carries the datagrams."""
		return sum(cpu_s(pid) for pid in {who, self.pid()})

	def until(self, condition):
		end = time.monotonic() + LIMIT_S
		while not condition():
			if time.monotonic() > end:
				raise SystemExit('the subnet is not up in time')
			time.sleep(0.1)

	def is_up(self):
		said = subprocess.run(self.at('h2', 'ibstat'), env=self.env, capture_output=True, text=True, check=False).stdout
		return 'State: Active' in said and not re.search(r'SM lid: 0$', said, re.M)

	def measure(self, who):
		said = subprocess.run(self.at('h2', 'ibstat'), env=self.env, capture_output=True, text=True, check=True).stdout
		own, sm = (re.search(rf'{name} lid: (\d+)', said)[1] for name in ('Base', 'SM'))
		nodes = json.loads(self.weft('fabric', 'show', '--json'))['nodes']
		lids = [p['lid'] for n in nodes if n['type'] == 'host' for p in n['ports'] if p['lid']]
		words = self.at('h2', self.args.asker, sm, own, str(min(lids)), str(max(lids)), str(self.args.window))
		# what is asked for the first time is measured no more than what is asked again
		subprocess.run([*words, '1'], env=self.env, capture_output=True, check=True)
		before, all_before = cpu_s(who), self.all_s(who)
		rate = float(subprocess.run([*words, str(self.args.seconds)], env=self.env, capture_output=True, text=True,
					    check=True).stdout)
		asked = rate * self.args.seconds
		return rate, asked / (cpu_s(who) - before), asked / (self.all_s(who) - all_before)


def by_weft(args, home, kind):
	with Fabric(args, home, kind) as fabric:
		fabric.until(fabric.is_up)
		return fabric.measure(fabric.pid())


def by_opensm(args, home, kind):
	log = os.path.join(home, 'log')
	with Fabric(args, home, kind, '--routing', 'none') as fabric, \
	     subprocess.Popen(fabric.at('h1', 'opensm', '-s', '0', '-d', '2', '-f', log), env=fabric.env,
			      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as manager:
		try:
			fabric.until(lambda: 'SUBNET UP' in read(log) and fabric.is_up())
			return fabric.measure(manager.pid)
		finally:
			manager.kill()


WAYS = {'weft': by_weft, 'OpenSM': by_opensm}


def measure(kind, args):
	ways = {name: lambda home, way=way: way(args, home, kind) for name, way in WAYS.items()}
	for name, (rate, own, every) in medians(ways, args.rounds).items():
		print(f'{kind:24} {name:8} {rate:8.0f} answers/s; for each second of a processor: {own:8.0f}, with all of weftd '
		      f'{every:8.0f}', flush=True)


def main():
	parser = arguments(__doc__)
	parser.add_argument('--asker', default=os.path.join(TREE, 'build/bench/sa_rate'))
	parser.add_argument('--seconds', type=int, default=3)
	parser.add_argument('--window', type=int, default=16)
	args = parser.parse_args()
	if not shutil.which('opensm') or not shutil.which('ibstat') or not os.path.exists(args.asker):
		print('SKIP: no opensm, no ibstat, or no libibumad to build with here: scripts/setup test')
		return 77
	args.weft, args.asker = os.path.abspath(args.weft), os.path.abspath(args.asker)
	for kind in args.kinds:
		measure(kind, args)
	return 0


sys.exit(main())
