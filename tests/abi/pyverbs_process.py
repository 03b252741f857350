"""Runs inside `weft run`: loads rdma-core's test package from a folder and runs its tests in this one process.

pyverbs_process.py SUITE_DIR RESULTS DEVICE [PATTERN...]: one line `id status detail` a test goes to the file RESULTS as it ends,
and `id started` before, so that a crash is seen to belong to its test.
"""

import importlib
import os
import re
import signal
import sys
import unittest

TEST_S = 60
HARDWARES_OWN = re.compile(r'tests\.test_(mlx5|efa|cuda)')


class Results(unittest.TestResult):
	def __init__(self, out):
		super().__init__()
		self.out = out
		self.status = {}

	def note(self, test, status, detail=''):
		self.out.write(f'{test.id()} {status} {" ".join(str(detail).split())}\n')
		self.out.flush()

	def startTest(self, test):
		super().startTest(test)
		self.note(test, 'started')
		signal.alarm(TEST_S)

	def stopTest(self, test):
		signal.alarm(0)
		super().stopTest(test)

	def addSuccess(self, test):
		self.note(test, 'passed')

	def addSkip(self, test, reason):
		self.note(test, 'skipped', reason)

	def addFailure(self, test, error):
		self.note(test, 'failed', self._exc_info_to_string(error, test))

	addError = addFailure

	def addSubTest(self, test, subtest, error):
		if error:
			self.note(test, 'failed', self._exc_info_to_string(error, test))


def overdue(signum, frame):
	raise TimeoutError(f'no end after {TEST_S} s')


def flat(suite):
	for test in suite:
		if isinstance(test, unittest.TestSuite):
			yield from flat(test)
		else:
			yield test


def main():
	suite_dir, results, device, *patterns = sys.argv[1:]
	sys.path[:0] = [suite_dir, os.path.join(suite_dir, 'tests')]
	sys.argv[1:] = ['--dev', device]
	from args_parser import parser
	parser.parse_args()
	importlib.import_module('tests')
	signal.signal(signal.SIGALRM, overdue)
	loader = unittest.defaultTestLoader
	files = os.listdir(os.path.join(suite_dir, 'tests'))
	names = sorted(f[:-3] for f in files if f.startswith('test_') and f.endswith('.py'))
	tests = [t for name in names for t in flat(loader.loadTestsFromName('tests.' + name)) if not HARDWARES_OWN.match(t.id())]
	tests = [t for t in tests if not patterns or any(re.search(p, t.id()) for p in patterns)]
	with open(results, 'w') as out:
		unittest.TestSuite(tests).run(Results(out))


main()
