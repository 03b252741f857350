#!/usr/bin/python3
"""Runs unmodified programs over weft, as the table in programs.py says.

run.py --list                       one line a test: name, label, timeout
run.py --weft PROGRAM NAME...       runs these tests; a test is PROGRAM-OF-THE-TABLE@DEVICE, and @user to give root up first
       --under COMMAND              for the programs: 'valgrind -q', 'gdb -q -batch -return-child-result -ex run --args',
                                    'strace -f -o /tmp/calls'
       --path NAME, --engine NAME   as weft run has them
"""

import argparse
import dataclasses
import filecmp
import os
import re
import shutil
import subprocess
import sys
import time

import programs
from session import NOBODY, POLL_S, Ended, Failure, Finding, Session, explain, free_port, identity, tcp_listening

SKIP = 77

# What perftest's and the pingpongs' clients say when they find no server. scripts/run-tests looks for the mark.
NOT_MET = re.compile(r"Couldn't connect to |Unable to connect|Unexpected CM event bl blka|Failed to connect RDMA CM client")
WRAPPED_PATIENCE = 4

# What we wrote for other people's libraries.
OURS = {name: os.environ.get(name.upper(), name) for name in ('mpi_check', 'mpich_check', 'gloo_check')}
OURS['qemu_migrate'] = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'qemu_migrate.py')

# Suites with many rows a program: on the short list the second device has the plain rows only.
WIDE = ('pingpong', 'perftest', 'ucx')


def is_long(pair, device, user):
	"""The short list has every row that is not long itself on its first device, and one of each program on the second and for
	a user who gives root up."""
	first = device == pair.devices[0]
	plain = pair.name.split('/')[0] not in WIDE or pair.name.endswith(('-plain', '-cm'))
	return pair.long or (user and not (first and plain)) or not (first or plain)


def variants(pair):
	"""Every test of a row: (name, device, gives root up, label)."""
	for device in pair.devices:
		for user in (False, True) if os.geteuid() == 0 else (False,):
			label = 'long' if is_long(pair, device, user) else 'abi'
			yield f'{pair.name}@{device}' + ('@user' if user else ''), device, user, label


def fill_in(words, pair, session, port):
	gid = [] if session.device == 'weft0' else ['-g', '0']
	known = dict(port=port, dev=session.device, tmp=session.tmp, **OURS)
	for name in OURS:
		if f'{{{name}}}' in words:
			known[name] = session.reach(known[name])
	filled = []
	for word in words:
		filled += gid if word == '@gid' else [word.format(**known)]
	return filled


def ready(session, server, pair, port):
	if pair.ready == 'tcp':
		return tcp_listening(port)
	return session.cm_listening() if pair.ready == 'cm' else re.search(pair.ready, server.text)


def await_server(session, server, pair, port, deadline):
	"""Returns once the server takes clients, as far as that can be seen from outside."""
	while not ready(session, server, pair, port):
		if not server.running():
			raise Failure(f'the server ended with {server.wait(deadline)} before any client came')
		if time.monotonic() > deadline:
			raise Failure('the server is not ready in time')
		time.sleep(POLL_S)


def run_client(session, argv, env, pair, server, deadline):
	"""Runs the client to its end, or to what it prints. Its status is None when neither came in time, or the server
	failed."""
	client = session.run(argv, env, pair.run)
	if pair.client_ends == 'stopped':
		expected = pair.expect.format(dev=session.device)
		while not re.search(expected, client.text) and client.running() and time.monotonic() < deadline:
			time.sleep(POLL_S)
		return client, 0 if client.running() else client.wait(deadline)
	while time.monotonic() < deadline:
		status = client.wait(time.monotonic() + 1)
		if status is not None:
			return client, status
		if server and not server.running() and server.wait(deadline) != 0:
			raise Ended(f'the server ended with {server.wait(deadline)} before the client', server)
	return client, None


def is_mapped(pair, session):
	"""Rows of memory that both ends map, --shared-heap and --remap: the programs' last line has the counters. Packets reach
	no memory directly, and a sanitizer's malloc comes before ours."""
	packets = 'WEFT_IMPAIR' in pair.env or '--path=packet' in pair.run
	asked = any(option.startswith(('--shared-heap', '--remap')) for option in pair.run)
	return asked and not packets and not session.sanitized


def check_ends(pair, session, client, status, server, deadline):
	if status is None:
		raise Failure('the client did not end in time')
	if status != 0:
		raise Ended(f'the client ended with {status}', client)
	if server and pair.server_ends == 'itself':
		status = server.wait(deadline)
		if status is None:
			raise Failure('the server did not end by itself')
		if status != 0:
			raise Ended(f'the server ended with {status}', server)
	elif server and not server.running():
		raise Failure(f'the server ended with {server.wait(deadline)}')
	for program, pattern in ((client, pair.expect), (server, pair.expect_server)):
		if program and not re.search(pattern.format(dev=session.device), program.text):
			raise Failure(f'{program.argv[program.argv.index("--") + 1]} did not print what matches {pattern!r}')
	ran = server and [server, client] or [client]
	if is_mapped(pair, session) and not any(re.search(r' direct_mapped=[1-9]', program.text) for program in ran):
		raise Failure('nothing went through mapped memory: no counter direct_mapped')
	if pair.files and not filecmp.cmp(*(os.path.join(session.tmp, f) for f in pair.files), shallow=False):
		raise Failure(f'{pair.files[0]} and {pair.files[1]} differ')


def run_pair(pair, session):
	port = free_port()
	env = {k: v.format(dev=session.device, tmp=session.tmp) for k, v in pair.env.items()}
	if is_mapped(pair, session):
		env['WEFT_LOG'] = 'info'
	deadline = time.monotonic() + pair.timeout * (WRAPPED_PATIENCE if session.wrapper else 1)
	server = None
	if pair.setup:
		subprocess.run(pair.setup, shell=True, cwd=session.tmp, check=True, **identity(session.user))
	if pair.server:
		server = session.run(fill_in(pair.server, pair, session, port), env, pair.run)
		await_server(session, server, pair, port, deadline)
	client, status = run_client(session, fill_in(pair.client, pair, session, port), env, pair, server, deadline)
	check_ends(pair, session, client, status, server, deadline)


def met_too_early(pair, failure, session):
	return pair.own_race and not isinstance(failure, Finding) and len(session.programs) == 2 and \
		re.search(pair.own_race, session.programs[1].text)


def run_test(weft, pair, device, user, wrapper, attempts=3):
	"""Runs one test; returns its exit status and prints why it failed. Programs that met too early meet again."""
	for program in (pair.client[0], *pair.needs):
		program = program.format(**OURS)
		if not shutil.which(program):
			print(f'SKIP: {program} is not installed')
			return SKIP
	session = Session(weft, device, NOBODY if user else None, wrapper)
	try:
		with session:
			run_pair(pair, session)
	except Failure as failure:
		if attempts > 1 and met_too_early(pair, failure, session):
			print(f'again: {pair.own_race}')
			return run_test(weft, pair, device, user, wrapper, attempts - 1)
		if not isinstance(failure, Finding) and len(session.programs) == 2 and NOT_MET.search(session.programs[1].text):
			print('not met: the client found no server')
		explain(session, failure)
		return 1
	return 0


def run_table(tests, needs):
	"""The command line of a script whose tests are {name: (label, timeout, function of weft)}. An exit status."""
	parser = argparse.ArgumentParser()
	parser.add_argument('--list', action='store_true')
	parser.add_argument('--weft', default='build/bin/weft')
	parser.add_argument('names', nargs='*')
	args = parser.parse_args()
	if args.list:
		for name, (label, timeout, function) in tests.items():
			print(name, label, timeout)
		return 0
	for program in needs:
		if not shutil.which(program):
			print(f'SKIP: {program} is not installed')
			return SKIP
	return max(tests[name][2](os.path.abspath(args.weft)) for name in args.names)


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument('--list', action='store_true')
	parser.add_argument('--weft', default='build/bin/weft')
	parser.add_argument('--under', default='')
	parser.add_argument('--path', action='append', default=[])
	parser.add_argument('--engine', action='append', default=[])
	parser.add_argument('names', nargs='*')
	args = parser.parse_args()
	tests = {name: (pair, device, user, label) for pair in programs.TABLE for name, device, user, label in variants(pair)}
	if args.list:
		for name, (pair, device, user, label) in tests.items():
			print(name, label, pair.timeout + 30)
		return 0
	wrapper = args.under.split()
	if wrapper and not shutil.which(wrapper[0]):
		print(f'SKIP: {wrapper[0]} is not installed: scripts/setup memcheck')
		return SKIP
	worst = 0
	for name in args.names:
		pair, device, user, label = tests[name]
		options = (*(f'--path={path}' for path in args.path), *(f'--engine={engine}' for engine in args.engine))
		pair = dataclasses.replace(pair, run=(*pair.run, *options))
		worst = max(worst, run_test(os.path.abspath(args.weft), pair, device, user, wrapper))
	return worst


if __name__ == '__main__':
	sys.exit(main())
