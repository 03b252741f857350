#!/usr/bin/env python3
"""A flood of management datagrams, live: a host sends to an agent at another one, whose program does not read, while a third one
asks the performance agent of the same port. The agent keeps its bound of one sender; no other question is lost; when the
program reads at last, all is as it was.

usage: mad_flood.py WEFT [QUESTIONS [FLOOD_PER_S...]]: prints the table of docs/management.md; 0 a second: as fast as it can"""
import json
import os
import signal
import subprocess
import sys
import time
from errno import ETIMEDOUT

import subnet_lab
from umad_calls import GET, PERF, Library, make, mask

DEVICE = 6		# management class
HELD_OF_ONE = 1024	# mgmt/mad_clients.h
TIMEOUT_MS = 500
LIMIT_S = 60


def counted(weft):
	"""QP1 at h2, and the agent of the program that does not read."""
	said = json.loads(subprocess.run([weft, 'mad', '--json'], capture_output=True, text=True, check=True).stdout)
	qp = next(q for q in said['qps'] if q.get('node') == 'h2' and q['qpn'] == 1)
	return qp, next(c for c in qp['clients'] if c['class'] == DEVICE)


def fail(text):
	print(f'FAILED: {text}')
	sys.exit(1)


def until(what, condition):
	end = time.monotonic() + LIMIT_S
	while not condition():
		if time.monotonic() > end:
			fail(f'{what}: not within {LIMIT_S} s')


def open_at(lib, node):
	os.environ['WEFT_NODE'] = node
	return lib.open_port(b'weft0', 1)


def until_killed(what):
	"""A process of its own that does this again and again, until it is killed, or who asks has ended."""
	owner, pid = os.getpid(), os.fork()
	if pid:
		return pid
	todo = what()
	while os.getppid() == owner and todo():
		pass
	os._exit(0)


def end(pid):
	os.kill(pid, signal.SIGKILL)
	os.waitpid(pid, 0)


def flood(lid, per_s):
	"""At h3."""
	lib = Library()
	port = open_at(lib, 'h3')
	agent, mad, began, sent = lib.register(port, DEVICE, 1, 0, None), make(DEVICE, GET, 1), time.monotonic(), 0

	def send_one():
		nonlocal sent
		sent += 1
		while per_s and sent > (time.monotonic() - began) * per_s:
			time.sleep(0.001)
		return lib.send(port, agent, mad, lid, 0) == 0
	return send_one


def ask(lib, asker, agent, lid, questions):
	"""Microseconds that each answer took, in order, and how many did not come."""
	took, lost = [], 0
	for i in range(questions):
		began = time.perf_counter()
		lib.send(asker, agent, make(PERF, GET, i, attribute=1), lid, TIMEOUT_MS)
		lost += lib.receive(asker)[2] == ETIMEDOUT
		took.append((time.perf_counter() - began) * 1e6)
	return sorted(took), lost


def row(name, took, lost, came):
	print(f'| {name} | {took[len(took) // 2]:.0f} | {took[len(took) * 99 // 100]:.0f} | {lost} | {came} |')


def read_all(lib, port):
	while lib.receive(port, 0)[0] >= 0:
		pass
	return True


def run(weft, lib, world, name, per_s, fixed):
	"""Asks while the flood runs. How many questions were lost."""
	deaf, asker, asks, lid, questions = world
	subprocess.run([weft, 'mad', 'set', f'fixed={fixed}'], check=True, stdout=subprocess.DEVNULL)
	qp, before = counted(weft)
	pid = until_killed(lambda: flood(lid, per_s))
	until('the flood fills what it may', lambda: counted(weft)[0]['drops'] > qp['drops'] if fixed else
	      counted(weft)[1]['discards'] > before['discards'])
	took, lost = ask(lib, asker, asks, lid, 10 if fixed else questions)
	end(pid)
	qp, client = counted(weft)
	row(name, took, lost, client['arrivals'] - before['arrivals'])
	if not fixed and (client['held'] > HELD_OF_ONE or qp['drops'] or not client['discards']):
		fail(f'{client["held"]} are held, {qp["drops"]} were dropped, {client["discards"]} discarded')
	until('the program reads, and all is as before', lambda: read_all(lib, deaf) and counted(weft)[1]['held'] < 4)
	return lost


def inside(weft, lid, questions, rates):
	lib = Library()
	deaf, asker = open_at(lib, 'h2'), open_at(lib, 'h4')
	lib.register(deaf, DEVICE, 1, 0, mask(GET))
	world = deaf, asker, lib.register(asker, PERF, 1, 0, None), lid, questions
	print('| flood | median, us | 99 of 100, us | questions lost | datagrams of the flood |\n|---|---|---|---|---|')
	row('none', *ask(lib, asker, world[2], lid, questions), 0)
	# what a flood costs the machine, and not weftd
	busy = until_killed(lambda: lambda: True)
	row('none, beside a process that computes', *ask(lib, asker, world[2], lid, questions), 0)
	end(busy)
	for per_s in rates:
		name = f'{per_s:,} in a second' if per_s else 'as fast as it goes'
		if run(weft, lib, world, name, per_s, 0):
			fail('a flood costs others their questions')
	if not run(weft, lib, world, f'{rates[0]:,} in a second, 16 fixed', rates[0], 16):
		fail('by the fixed depth no question is lost')


def test(lab):
	questions = int(sys.argv[2]) if len(sys.argv) > 2 else 100
	rates = sys.argv[3:] or ['2000', '0']
	lab.load('line', 'switches=4')
	lid = lab.lid('h2')
	print(lab.run(*lab.command('h2', '/usr/bin/python3', '-B', os.path.abspath(__file__), '--inside', lab.weft_path, lid,
				   str(questions), *rates), limit_s=4 * LIMIT_S), end='')


if sys.argv[1] == '--inside':
	inside(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), [int(r) for r in sys.argv[5:]])
	sys.exit(0)
subnet_lab.script(test, 'ibstat')
