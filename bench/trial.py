"""What bench/opensm.py, sa.py, all_paths.py and gettable.py measure with: a directory of its own for each trial, a fabric,
processor time, medians."""
import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
LIMIT_S = 120
KINDS = 'fat-tree:ports=16', 'fat-tree:ports=36'
TICKS = os.sysconf('SC_CLK_TCK')


def cpu_s(pid):
	"""Of the process alone, without its children."""
	with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as f:
		fields = f.read().rsplit(')', 1)[1].split()
	return (int(fields[11]) + int(fields[12])) / TICKS


def read(path):
	with contextlib.suppress(FileNotFoundError):
		with open(path, encoding='utf-8', errors='replace') as f:
			return f.read()
	return ''


class Fabric:
	"""A network of its own that is the fabric."""
	def __init__(self, weft, home, kind, *options):
		self.program, self.home, self.kind, self.options = weft, home, kind, options
		self.env = dict(os.environ, WEFT_DIR=os.path.join(home, 'run'), OSM_TMP_DIR=home, OSM_CACHE_DIR=home)

	def weft(self, *words):
		return subprocess.run([self.program, *words], env=self.env, check=True, capture_output=True, text=True).stdout

	def __enter__(self):
		net = os.path.join(self.home, 'net')
		with open(net, 'w', encoding='utf-8') as f:
			f.write(self.weft('fabric', 'make', *self.kind.split(':')))
		self.weft('up')
		self.weft('fabric', 'load', *self.options, net)
		return self

	def __exit__(self, *what):
		subprocess.run([self.program, 'down', '--force'], env=self.env, stdout=subprocess.DEVNULL, check=False)

	def at(self, node, *words):
		return [self.program, 'run', '--node', node, '--device', 'weft0', '--', *words]

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


@contextlib.contextmanager
def by_opensm(weft, home, kind):
	"""The fabric that OpenSM at h1 has brought up, and OpenSM's process id."""
	log = os.path.join(home, 'log')
	with Fabric(weft, home, kind, '--routing', 'none') as fabric, \
	     subprocess.Popen(fabric.at('h1', 'opensm', '-s', '0', '-d', '2', '-f', log), env=fabric.env,
			      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as manager:
		try:
			fabric.until(lambda: 'SUBNET UP' in read(log) and fabric.is_up())
			yield fabric, manager.pid
		finally:
			manager.kill()


def arguments(doc, kinds=KINDS):
	"""A parser for a program with this docstring, and what all of them take."""
	parser = argparse.ArgumentParser(usage=doc.split('\n')[2][7:], description=doc.split('\n', maxsplit=1)[0])
	parser.add_argument('--weft', default=os.path.join(TREE, 'build/bin/weft'))
	parser.add_argument('--rounds', type=int, default=5)
	parser.add_argument('kinds', nargs='*', default=kinds)
	return parser


def medians(ways, rounds):
	"""Of the three figures that each way gives for a directory, by its name; the ways take turns in each round."""
	found = {name: [] for name in ways}
	for _ in range(rounds):
		for name, way in ways.items():
			with tempfile.TemporaryDirectory(prefix='weft-bench.') as home:
				found[name].append(way(home))
	return {name: [statistics.median(row[i] for row in rows) for i in range(3)] for name, rows in found.items()}
