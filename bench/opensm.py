#!/usr/bin/env python3
"""How long OpenSM takes to bring up a bare subnet over weft, over ibsim, and over no simulator at all: an answer in the caller.

usage: opensm.py [--weft PROGRAM] [--floor LIBRARY] [--rounds N] [--options WORDS] KIND[:NAME=VALUE]...
A KIND is one of weft fabric make, as fat-tree:ports=16. The three take turns in each round; what is printed is the median of the
seconds between "Entering DISCOVERING state" and "SUBNET UP" in OpenSM's log, and of the processor time of OpenSM and of the
simulator until then. OpenSM has the same options over all three. Needs opensm, and ibsim (Debian: ibsim-utils)."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

from trial import LIMIT_S, TREE, arguments, cpu_s, medians, read

IBSIM_LIBRARY = '/usr/lib/*/umad2sim/libumad2sim.so'


def second_of(line):
	hours, minutes, seconds, micros = map(int, re.match(r'\w+ +\d+ (\d+):(\d+):(\d+) (\d+)', line).groups())
	return hours * 3600 + minutes * 60 + seconds + micros / 1e6


class Trial:
	"""One OpenSM in a directory of its own, until the subnet is up."""
	def __init__(self, home, options):
		self.home, self.log = home, os.path.join(home, 'log')
		self.words = ['opensm', '-s', '0', '-d', '2', '-f', self.log, *options]
		self.env = dict(os.environ, OSM_TMP_DIR=home, OSM_CACHE_DIR=home)

	def measure(self, words, env, simulator):
		before, late = cpu_s(simulator), time.monotonic() + LIMIT_S
		# umad2sim makes folders where it is started
		with subprocess.Popen(words, env=env, cwd=self.home, stdout=subprocess.DEVNULL,
				      stderr=subprocess.DEVNULL) as manager:
			try:
				while 'SUBNET UP' not in read(self.log):
					if manager.poll() is not None or time.monotonic() > late:
						raise SystemExit(f'{" ".join(words)}: no subnet: {read(self.log)[-2000:]}')
					time.sleep(0.01)
				own, others = cpu_s(manager.pid), cpu_s(simulator) - before
			finally:
				manager.kill()
		lines = read(self.log).splitlines()
		begin = next(x for x in lines if 'DISCOVERING' in x)
		end = next(x for x in lines if 'SUBNET UP' in x)
		return (second_of(end) - second_of(begin)) % 86400, own, others


def over_weft(trial, home, net, args, floor=False):
	env = dict(trial.env, WEFT_DIR=os.path.join(home, 'run'))
	for words in (('up',), ('fabric', 'load', '--routing', 'none', net)):
		subprocess.run([args.weft, *words], env=env, check=True, stdout=subprocess.DEVNULL)
	try:
		said = subprocess.run([args.weft, 'status', '--json'], env=env, check=True, stdout=subprocess.PIPE).stdout
		words = [args.weft, 'run', '--node', 'h1', '--device', 'weft0', '--']
		if floor:
			words += ['env', f'LD_PRELOAD={args.floor}', f'FLOOR_FABRIC={net}']
		return trial.measure([*words, *trial.words], env, json.loads(said)['pid'])
	finally:
		subprocess.run([args.weft, 'down', '--force'], env=env, stdout=subprocess.DEVNULL, check=False)


def over_nothing(trial, home, net, args):
	return over_weft(trial, home, net, args, floor=True)


def over_ibsim(trial, home, net, args):
	host = re.search(r'^Ca\s+\d+\s+"([^"]+)"', read(net), re.M)[1]
	words = ['ibsim', '-s', '-n', '-N', '20000', '-S', '3000', '-P', '200000', net]
	said = os.path.join(home, 'ibsim')
	with open(said, 'w', encoding='utf-8') as out, \
	     subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as simulator:
		try:
			while 'Network simulator ready' not in read(said):
				time.sleep(0.05)
			env = dict(trial.env, LD_PRELOAD=glob.glob(IBSIM_LIBRARY)[0], SIM_HOST=host)
			return trial.measure(trial.words, env, simulator.pid)
		finally:
			simulator.kill()


WAYS = {'weft': over_weft, 'ibsim': over_ibsim, 'no simulator': over_nothing}


def try_one(way, kind, home, args):
	net = os.path.join(home, 'net')
	with open(net, 'w', encoding='utf-8') as f:
		subprocess.run([args.weft, 'fabric', 'make', *kind.split(':')], stdout=f, check=True)
	return way(Trial(home, args.options.split()), home, net, args)


def measure(kind, args):
	ways = {name: lambda home, way=way: try_one(way, kind, home, args) for name, way in WAYS.items()}
	for name, (seconds, own, others) in medians(ways, args.rounds).items():
		print(f'{kind:24} {name:12} {seconds:8.3f} s; processor time: OpenSM {own:.2f} s, simulator {others:.2f} s',
		      flush=True)


def main():
	parser = arguments(__doc__)
	parser.add_argument('--floor', default=os.path.join(TREE, 'build/bench/libumad_floor.so'))
	parser.add_argument('--options', default='', help="OpenSM's, in one word")
	args = parser.parse_args()
	if not shutil.which('opensm') or not shutil.which('ibsim') or not glob.glob(IBSIM_LIBRARY):
		print('SKIP: no opensm or no ibsim here: scripts/setup test')
		return 77
	args.weft, args.floor = os.path.abspath(args.weft), os.path.abspath(args.floor)
	for kind in args.kinds:
		measure(kind, args)
	return 0


sys.exit(main())
