#!/usr/bin/python3
"""Where the engine runs, as weft run's --engine and WEFT_ENGINE choose and weft qp tells.

engine.py --weft PROGRAM
"""

import argparse
import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'abi'))
from session import POLL_S, Failure, Session, explain, free_port

SKIP = 77
DEVICE = 'weft0'
PATIENCE_S = 60


def expect(fact, what):
	if not fact:
		raise Failure(what)


def engines(session, server):
	"""Of the server's queue pairs, once it has any."""
	deadline = time.monotonic() + PATIENCE_S
	while time.monotonic() < deadline:
		expect(server.running(), f'{server.argv[-1]} has ended')
		status, text = session.command('qp', '--json', str(server.process.pid))
		processes = json.loads(text)['processes'] if status == 0 else []
		found = [qp['engine'] for process in processes for qp in process.get('qps', [])]
		if found:
			return found
		time.sleep(POLL_S)
	raise Failure('no queue pair')


def run_all(session):
	by_env = {'WEFT_ENGINE': 'thread'}
	for options, env, engine in (((), {}, 'caller'), (('--engine', 'thread'), {}, 'thread'), ((), by_env, 'thread'),
				     (('--engine', 'caller'), by_env, 'caller')):
		server = session.run(['ibv_rc_pingpong', '-d', DEVICE, '-p', str(free_port())], env, options)
		found = engines(session, server)
		expect(found == [engine], f'{options} {env}: the engine is {found}')
		server.process.terminate()
		server.wait(time.monotonic() + PATIENCE_S)
	status, text = session.command('run', '--engine', 'elsewhere', '--', 'true')
	expect(status == 2 and 'unknown engine' in text and 'thread and caller' in text, f'elsewhere: {status}: {text}')


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument('--weft', default='build/bin/weft')
	args = parser.parse_args()
	if not shutil.which('ibv_rc_pingpong'):
		print('SKIP: ibv_rc_pingpong is not installed: scripts/setup test')
		return SKIP
	session = Session(os.path.abspath(args.weft), DEVICE)
	try:
		with session:
			run_all(session)
	except Failure as failure:
		explain(session, failure)
		return 1
	return 0


if __name__ == '__main__':
	sys.exit(main())
