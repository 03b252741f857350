"""What bench/opensm.py and bench/sa.py measure with: a directory of its own for each trial, processor time, medians."""
import argparse
import contextlib
import os
import statistics
import tempfile

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
LIMIT_S = 120
KINDS = ['fat-tree:ports=16', 'fat-tree:ports=36']
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


def arguments(doc):
	"""A parser for a program with this docstring, and what both take."""
	parser = argparse.ArgumentParser(usage=doc.split('\n')[2][7:], description=doc.split('\n', maxsplit=1)[0])
	parser.add_argument('--weft', default=os.path.join(TREE, 'build/bin/weft'))
	parser.add_argument('--rounds', type=int, default=5)
	parser.add_argument('kinds', nargs='*', default=KINDS)
	return parser


def medians(ways, rounds):
	"""Of the three figures that each way gives for a directory, by its name; the ways take turns in each round."""
	found = {name: [] for name in ways}
	for _ in range(rounds):
		for name, way in ways.items():
			with tempfile.TemporaryDirectory(prefix='weft-bench.') as home:
				found[name].append(way(home))
	return {name: [statistics.median(row[i] for row in rows) for i in range(3)] for name, rows in found.items()}
