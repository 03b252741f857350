#!/usr/bin/python3
"""rdma-core's own test suite, unmodified, over weft: every generic test on both link layers, each skip listed with its reason.

pyverbs_suite.py [--weft PROGRAM] [--user] [--remap MINSIZE] [--engine WHERE] [--device DEV]... [--verbose] [PATTERN...]. Without
a pattern also demands that LEAST tests pass on one device or the other.
"""

import argparse
import gzip
import os
import re
import shutil
import sys
import time

from session import NOBODY, Failure, Session

SUITE = '/usr/share/doc/rdma-core/tests'
HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = 150
LEAST_AS_USER = 140	# the suite itself refuses to run eleven unless it is root
SUITE_S = 900
SKIP = 77

# (pattern of the test's id, pattern of the reason it gives, why it is right that it skips)
ALLOWED = (
	(r'test_mr\.DmaBuf', r'dma-?buf|renderD',
	 'the suite makes dmabufs of graphics memory alone, and this machine has no such device'),
	(r'huge', r'no huge pages', 'the administrator has reserved none (vm.nr_hugepages)'),
	(r'test_tag_matching\.', r'Extended CQ is not supported', 'tag matching is refused'),
	(r'test_rdmacm\.', r"Device weft0 doesn't have net interface", 'weft0 has LIDs, weft1 has the IP addresses'),
	(r'test_flow\.|test_rss_traffic\.|raw_qp', r'[Mm]ust be (run|done) by root on Ethernet',
	 'raw packets are Ethernet frames; the suite itself wants root for them'),
	(r'test_qpex\..*_flush', r'IBV_ACCESS_FLUSH_GLOBAL access flag is not supported', 'FLUSH is not built'),
	(r'test_addr\.', r'is InfiniBand , skip RoCE test', 'of RoCE alone'),
)


def unpack(to):
	"""Copies the suite, which Debian ships with its longer files packed."""
	os.mkdir(to)
	for name in os.listdir(SUITE):
		source = os.path.join(SUITE, name)
		if name.endswith('.gz'):
			with gzip.open(source) as packed, open(os.path.join(to, name[:-3]), 'wb') as plain:
				shutil.copyfileobj(packed, plain)
		else:
			shutil.copy(source, to)


def stand_in(folder):
	"""A PATH with an rdma(8) that knows no device, made in a new folder. The newer suite asks that program for a device's
	network interface, and the program asks the kernel's RDMA: weft is no part of it, and a kernel without it makes it
	fail. Told of no device, the suite looks in /sys, as the older one does."""
	os.mkdir(folder)
	path = os.path.join(folder, 'rdma')
	with open(path, 'w') as f:
		f.write("#!/bin/sh\necho '[]'\n")
	os.chmod(path, 0o755)
	return f'{folder}:{os.environ["PATH"]}'


def read_results(path):
	"""Status and detail by test id. A test that started and never ended crashed."""
	found = {}
	try:
		with open(path) as f:
			for line in f:
				test, status, *detail = line.rstrip('\n').split(' ', 2)
				if found.get(test, ('',))[0] != 'failed':
					found[test] = (status, detail[0] if detail else '')
	except FileNotFoundError:
		pass
	return {t: ('failed', 'crashed') if s == 'started' else (s, d) for t, (s, d) in found.items()}


def run_suite(args, device):
	options = [f'--{name}={value}' for name, value in (('remap', args.remap), ('engine', args.engine)) if value]
	with Session(os.path.abspath(args.weft), device, NOBODY if args.user else None) as session:
		unpack(os.path.join(session.tmp, 'tests'))
		results = os.path.join(session.tmp, 'results')
		runner = session.reach(os.path.join(HERE, 'pyverbs_process.py'))
		program = session.run(['/usr/bin/python3', runner, session.tmp, results, device, *args.patterns],
				      {'PATH': stand_in(os.path.join(session.tmp, 'bin'))}, options)
		status = program.wait(time.monotonic() + SUITE_S)
		found = read_results(results)
		if status != 0:
			print(f'{device}: the suite ended with {status}:\n{program.text[-4000:]}')
			found['the suite'] = ('failed', f'ended with {status}')
		return found


def why_skipped(test, reason):
	return next((why for test_pattern, pattern, why in ALLOWED
		     if re.search(test_pattern, test) and re.search(pattern, reason)), None)


def report(found, verbose):
	"""Prints what is not as it should be; returns how many such there are."""
	wrong = 0
	for device, results in found.items():
		for test, (status, detail) in sorted(results.items()):
			why = why_skipped(test, detail) if status == 'skipped' else None
			bad = status == 'failed' or (status == 'skipped' and not why)
			wrong += bad
			if why:
				print(f'part skipped: {device} {test}: {why}')
			elif bad or verbose:
				note = ' [not on the list]' if status == 'skipped' else ''
				print(f'{device} {test}: {status} {detail[-400:]}{note}')
		count = [sum(s == want for s, d in results.values()) for want in ('passed', 'skipped', 'failed')]
		print('{}: {} passed, {} skipped, {} failed'.format(device, *count))
	return wrong


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument('--weft', default='build/bin/weft')
	parser.add_argument('--user', action='store_true')
	parser.add_argument('--remap', metavar='MINSIZE', help="weft run's option")
	parser.add_argument('--engine', metavar='WHERE', help="weft run's option")
	parser.add_argument('--verbose', action='store_true')
	parser.add_argument('--device', action='append')
	parser.add_argument('patterns', nargs='*')
	args = parser.parse_args()
	if not os.path.isdir(SUITE):
		print(f'SKIP: {SUITE} is not there (package rdma-core, with its documentation)')
		return SKIP
	found = {}
	for device in args.device or ('weft0', 'weft1'):
		try:
			found[device] = run_suite(args, device)
		except Failure as failure:
			found.setdefault(device, {})['afterwards'] = ('failed', str(failure))
	wrong = report(found, args.verbose)
	passed = {test for results in found.values() for test, (status, detail) in results.items() if status == 'passed'}
	print(f'{len(passed)} tests pass on one device or another')
	least = LEAST_AS_USER if args.user or os.geteuid() else LEAST
	return 1 if wrong or (not args.patterns and not args.device and len(passed) < least) else 0


if __name__ == '__main__':
	sys.exit(main())
