#!/usr/bin/env python3
"""How long a table of subnet administration takes over a link that loses, by class version 2 (RMPP) and by version 1.

usage: gettable.py [--weft PROGRAM] [--rounds N] [--seed N] [--windows N,...] [--loss PERCENT,...] [KIND[:NAME=VALUE]...]
KIND is one of weft fabric make, fat-tree:ports=24:levels=3 where none is named. weft sa at h2 asks for the table 0x12, while the
link of h2 loses so much in each direction; each run begins its losses with the seed. Printed are medians of the seconds until
the answer is printed, and what version 1 received and sent."""
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

from trial import Fabric, arguments

PORTS = '0x12'


def ask(fabric, seconds, *words):
	"""The answer as JSON; the time that it took is added to the seconds."""
	begun = time.monotonic()
	said = fabric.weft('sa', 'gettable', PORTS, '--node', 'h2', '--json', *words)
	seconds.append(time.monotonic() - begun)
	return json.loads(said)


def all_records(fabric):
	"""How many there are when the manager has found all."""
	found = []

	def is_whole():
		found.append(len(ask(fabric, [], '--profile', 'standard')['records']))
		return found[-1:] == found[-2:-1]
	fabric.until(is_whole)
	return found[-1]


def measure(fabric, window, loss, args):
	standard, seed = [], []
	fabric.weft('mad', 'set', f'window={window}')
	for _ in range(args.rounds):
		for seconds, words in ((standard, ('--profile', 'standard')), (seed, (f'window={window}',))):
			fabric.weft('fabric', 'link', 'h2:1', f'loss={loss}%,seed={args.seed}')
			answer = ask(fabric, seconds, *words)
			if len(answer['records']) != args.records:
				raise SystemExit(f'{len(answer["records"])} records, not {args.records}: {words}')
	print(f'window {window:5} loss {loss:>4} % {args.records} records: standard {statistics.median(standard):6.2f} s; '
	      f'seed {statistics.median(seed):6.2f} s, {answer["received"]} packets came, {answer["sent"] - 1} Acks and Resends',
	      flush=True)


def main():
	parser = arguments(__doc__, ('fat-tree:ports=24:levels=3',))
	parser.add_argument('--seed', type=int, default=1)
	parser.add_argument('--windows', default='64,1024')
	parser.add_argument('--loss', default='0,1,10')
	args = parser.parse_args()
	if not shutil.which('ibstat'):
		print('SKIP: no ibstat here: scripts/setup test')
		return 77
	args.weft = os.path.abspath(args.weft)
	for kind in args.kinds:
		with tempfile.TemporaryDirectory(prefix='weft-bench.') as home, Fabric(args.weft, home, kind) as fabric:
			fabric.until(fabric.is_up)
			args.records = all_records(fabric)
			for window in args.windows.split(','):
				for loss in args.loss.split(','):
					measure(fabric, window, loss, args)
	return 0


sys.exit(main())
