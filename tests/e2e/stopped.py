#!/usr/bin/python3
"""Unmodified programs whose server stands still for a while: by a signal, as ^Z and docker pause do it, or in a debugger; or
that is stopped and then killed, where weftd, stopped too, cannot tell.

stopped.py --list                  one line a test: name, label, timeout
stopped.py --weft PROGRAM NAME...  runs these tests
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'abi'))
import run
from programs import ADDR, UCX_PERFTEST
from session import POLL_S, Failure, Session, explain, free_port, tcp_listening

STANDARD = ('--profile', 'standard,timeout=standard', '--path', 'direct')
GAVE_UP = r'transport retry counter exceeded|Failed status 12|syndrome 0x81|status 12'
DEVICE = 'weft0'
FLOWING = 2000		# messages of one QP: well within the programs' main part


def perftest(program, seconds, *options):
	"""Runs for so long beside the time it is stopped."""
	argv = [program, '-d', DEVICE, '-p', '{port}', '-D', str(seconds + 2), *options]
	return argv, argv + [ADDR]


def ucx(seconds, *options):
	argv = [*UCX_PERFTEST, '-p', '{port}']
	return argv, argv + [ADDR, '-n', str(1 << 30), '-w', '10', *options]


# name: server and client of so many seconds, options of weft run, does the client end by itself
ROWS = {
	'ib_send_bw': (lambda s: perftest('ib_send_bw', s), (), True),
	'ib_send_bw-packet': (lambda s: perftest('ib_send_bw', s), ('--path', 'packet'), True),
	'ib_write_bw': (lambda s: perftest('ib_write_bw', s), (), True),
	'ib_write_bw-packet': (lambda s: perftest('ib_write_bw', s), ('--path', 'packet'), True),
	'ucx-rc_verbs': (lambda s: ucx(s, '-t', 'am_bw', '-d', DEVICE + ':1', '-x', 'rc_verbs'), (), False),
	'ucx-ud_verbs': (lambda s: ucx(s, '-t', 'am_bw', '-d', DEVICE + ':1', '-x', 'ud_verbs'), (), False),
	'ucp-rc_v': (lambda s: ucx(s, '-t', 'tag_bw'), (), False),
	'standard': (lambda s: perftest('ib_send_bw', s), STANDARD, True),
	'impaired': (lambda s: perftest('ib_send_bw', s, '-s', '64'), ('--impair', 'delay=1us'), True),
	'killed': (lambda s: perftest('ib_send_bw', s), (), True),
}
ONCE = {'standard': ('stop', 3), 'impaired': ('stop', 3), 'killed': ('kill', 1)}	# their clients give up


def is_long(name, how, seconds):
	return seconds > 1 or how == 'gdb' or name not in ('ib_send_bw', 'ib_send_bw-packet', 'ucx-rc_verbs')


def wait_until(what, deadline, *programs):
	while not what():
		for program in programs:
			if not program.running():
				raise Failure(f'{program.argv[-1]} ended with {program.wait(deadline)} too soon')
		if time.monotonic() > deadline:
			raise Failure('not ready in time')
		time.sleep(POLL_S)


def messages(session):
	"""Of the QP that has sent and received the most."""
	status, text = session.command('qp', '--json')
	counts = re.findall(r'"messages_(?:sent|received)": *(\d+)', text) if status == 0 else []
	return max(map(int, counts), default=0)


def kill_unseen(session, pid, seconds):
	"""weftd goes on when the client has ended."""
	weftd = json.loads(session.command('status', '--json')[1])['pid']
	os.kill(weftd, signal.SIGSTOP)
	os.kill(pid, signal.SIGSTOP)
	time.sleep(seconds)
	os.kill(pid, signal.SIGKILL)
	return weftd


def stand_still(pid, how, seconds):
	if how == 'gdb':
		done = subprocess.run(['gdb', '-p', str(pid), '-batch', '-ex', f'shell sleep {seconds}', '-ex', 'detach'],
				      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + 60)
		if 'Inferior 1' not in done.stdout:
			raise Failure(f'gdb did not attach: {done.stdout}{done.stderr}')
		return
	os.kill(pid, signal.SIGSTOP)
	time.sleep(seconds)	# what is tested: the clock of the program that is not stopped
	os.kill(pid, signal.SIGCONT)


def run_pair(session, name, how, seconds):
	pair, options, ends = ROWS[name]
	port = str(free_port())
	server, client = ([word.format(port=port) for word in argv] for argv in pair(seconds))
	deadline = time.monotonic() + 60 + seconds
	env = {'UCX_TLS': 'rc_v,self', 'UCX_NET_DEVICES': DEVICE + ':1'} if name.startswith('ucp') else {}
	if name == 'ucx-ud_verbs':
		env['UCX_UD_VERBS_TIMEOUT'] = '5m'	# UCX ends a program whose peer is silent for so long: else 30 s
	server = session.run(server, env, options)
	wait_until(lambda: tcp_listening(int(port)), deadline, server)
	client = session.run(client, env, options)
	wait_until(lambda: messages(session) > FLOWING, deadline, server, client)
	if how == 'kill':
		weftd = kill_unseen(session, server.process.pid, seconds)
	else:
		stand_still(server.process.pid, how, seconds)
	deadline = time.monotonic() + 60
	if name in ONCE:
		status = client.wait(deadline)
		if how == 'kill':
			os.kill(weftd, signal.SIGCONT)
		if status in (0, None) or not re.search(GAVE_UP, client.text):
			raise Failure('the client did not end by an exhausted retry count')
	elif ends:
		for program in (client, server):
			status = program.wait(deadline)
			if status != 0:
				raise Failure(f'{program.argv[-1]} ended with {status}')
	else:
		before = messages(session)
		wait_until(lambda: messages(session) > before + FLOWING, deadline, server, client)


def run_test(weft, name, how, seconds):
	session = Session(weft, DEVICE)
	try:
		with session:
			run_pair(session, name, how, seconds)
	except Failure as failure:
		explain(session, failure)
		return 1
	return 0


def tests():
	"""name: (label, timeout, function of weft)"""
	found = {}
	for name in ROWS:
		for how, times in (('stop', (1, 2, 3, 10)), ('gdb', (60,)), ('kill', (1,))):
			for seconds in times:
				if ONCE.get(name, (how, seconds)) != (how, seconds) or (how == 'kill') != (name == 'killed'):
					continue
				label = 'long' if is_long(name, how, seconds) and name not in ONCE else 'e2e'
				found[f'{name}-{how}-{seconds}'] = (
					label, 120 + 2 * seconds, lambda weft, n=name, h=how, s=seconds: run_test(weft, n, h, s))
	return found


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('ib_send_bw', 'ucx_perftest', 'gdb')))
