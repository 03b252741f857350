#!/usr/bin/env python3
"""Receive buffers of QP1 at a host of a fabric, live: what a program does not read is held, costs it its own and nobody else
anything, and is told by weft mad; tunables at run time; the fixed depth of old.

usage: mad_buffers.py WEFT"""
import json
import os
import subprocess
import sys
import time

import subnet_lab
from umad_calls import ETIMEDOUT, GET, PERF, Library, make, mask

SMP, DEVICE, BOARD, CONFIGURED = 1, 6, 5, 0x21	# management classes
TRAP = 5


def own(weft, qpn=1):
	"""What weft mad says of QP1 at h2, of the first program of each class, and of all clients by name."""
	said = json.loads(subprocess.run([weft, 'mad', '--json'], capture_output=True, text=True, check=True).stdout)
	qp = next(q for q in said['qps'] if q.get('node') == 'h2' and q['qpn'] == qpn)
	return qp, {c['class']: c for c in reversed(qp['clients']) if 'pid' in c}, {c['program']: c for c in qp['clients']}


def tune(weft, *settings):
	return subprocess.run([weft, 'mad', 'set', *settings], capture_output=True, text=True, check=False)


def expect(what, got, wanted):
	if got != wanted:
		print(f'FAILED: {what}: {got}, not {wanted}')
		sys.exit(1)


def until(what, condition):
	end = time.monotonic() + 20
	while not condition():
		if time.monotonic() > end:
			print(f'FAILED: {what}: not within 20 s')
			sys.exit(1)


def reads(lib, port, count):
	for i in range(count):
		expect(f'datagram {i} is there', lib.receive(port)[2], 0)


def test_qp0(weft, lib, deaf, asker, lid):
	"""QP0 has its own: what is held there takes nothing from the port's agent, nor from QP1."""
	hears, asks = lib.register(deaf, SMP, 1, 0, mask(TRAP)), lib.register(asker, SMP, 1, 0, None)
	qp, _, everybody = own(weft, 0)
	expect('posted at QP0', (qp['posted'], qp['target']), (48, 48))
	answered = everybody['subnet management agent']['arrivals']
	for i in range(80):
		lib.send(asker, asks, make(SMP, TRAP, i), lid, 0, qpn=0)
	until('80 are held at QP0', lambda: own(weft, 0)[0]['held'] == 80)
	expect('none at QP1', own(weft)[0]['held'], 0)
	lib.send(asker, asks, make(SMP, GET, 99), lid, 2000, qpn=0)
	expect('the agent of the port answers', lib.receive(asker)[2], 0)
	expect('it had a buffer', own(weft, 0)[2]['subnet management agent']['arrivals'], answered + 1)
	reads(lib, deaf, 80)
	expect('nothing was lost', own(weft, 0)[0]['drops'], 0)
	lib.unregister(deaf, hears)
	lib.unregister(asker, asks)
	until('its share has gone', lambda: own(weft, 0)[0]['target'] == 16)


def inside(weft, lid):
	lib = Library()
	deaf, other, asker = (lib.open_port(b'weft0', 1) for i in range(3))
	agent = lib.register(deaf, DEVICE, 1, 0, mask(GET))
	lib.register(other, BOARD, 1, 0, mask(GET))
	asks, asks_other, asks_perf = (lib.register(asker, c, 1, 0, None) for c in (DEVICE, BOARD, PERF))
	qp, clients, everybody = own(weft)
	# the performance agent, the connection manager, and five agents of this program
	expect('posted', (qp['posted'], qp['target'], qp['low'], qp['high']), (112, 112, 28, 224))
	expect('who is always there', 'performance agent' in everybody and 'connection manager' in everybody, True)
	expect('its own number', clients[DEVICE]['asked'], None)

	test_qp0(weft, lib, deaf, asker, lid)

	# an answer to nothing is nobody's
	lib.send(asker, asks, make(DEVICE, GET | 0x80, 1), lid, 0)
	until('it is counted', lambda: own(weft)[0]['unknown'] == 1)
	expect('and takes no buffer', own(weft)[0]['posted'], 112)

	# what is not read is held, and what is read is not, but for what was not told of yet
	for i in range(40):
		lib.send(asker, asks, make(DEVICE, GET, i), lid, 0)
	until('40 are held', lambda: own(weft)[1][DEVICE]['held'] == 40)
	reads(lib, deaf, 40)
	until('none is held', lambda: own(weft)[1][DEVICE]['held'] == 0)
	lib.send(asker, asks, make(DEVICE, GET, 99), lid, 0)
	reads(lib, deaf, 1)
	until('one that was read is held', lambda: own(weft)[1][DEVICE]['held'] == 1)
	lib.send(deaf, agent, make(DEVICE, GET | 0x80, 99), lid, 0)
	until('what is sent says that it was read', lambda: own(weft)[1][DEVICE]['held'] == 0)

	# memory for 128: 16 are kept for each of six others
	expect('set', tune(weft, 'most=128').returncode, 0)
	for i in range(100):
		lib.send(asker, asks, make(DEVICE, GET, i), lid, 0)
	until('all have come', lambda: own(weft)[1][DEVICE]['arrivals'] == 141)
	expect('over its quota', (own(weft)[1][DEVICE]['held'], own(weft)[1][DEVICE]['discards']), (32, 68))
	lib.send(asker, asks_other, make(BOARD, GET, 1), lid, 0)
	reads(lib, other, 1)
	lib.send(asker, asks_perf, make(PERF, GET, 1, attribute=1), lid, 2000)
	expect('the agent of the port answers', lib.receive(asker)[2], 0)
	expect('nothing was dropped', own(weft)[0]['drops'], 0)

	# by the fixed depth of old the same flood costs everybody
	reads(lib, deaf, 32)
	expect('set', tune(weft, 'fixed=16', 'most=65536').returncode, 0)
	for i in range(300):
		lib.send(asker, asks, make(DEVICE, GET, i), lid, 0)
	until('all have come', lambda: own(weft)[0]['drops'] > 150)
	expect('whose they were', own(weft)[1][DEVICE]['drops'] > 150, True)
	lib.send(asker, asks_perf, make(PERF, GET, 2, attribute=1), lid, 50)
	expect('the agent of the port does not answer', lib.receive(asker)[2], ETIMEDOUT)
	expect('set', tune(weft, 'fixed=0').returncode, 0)
	lib.send(asker, asks_perf, make(PERF, GET, 3, attribute=1), lid, 2000)
	expect('it answers again', lib.receive(asker)[2], 0)

	# more by the program's own call, and back
	expect('84 more', lib.lib.weft_umad_buffers(deaf, agent, 84), 0)
	expect('as many', own(weft)[1][DEVICE]['asked'], 100)
	expect('too many fewer', lib.lib.weft_umad_buffers(deaf, agent, -101), -22)
	expect('84 fewer', lib.lib.weft_umad_buffers(deaf, agent, -84), 0)
	expect('no such agent', lib.lib.weft_umad_buffers(deaf, 9, 1), -2)

	# a number of its own at registration, of those that come behind it alone
	for number, asked in ((100, 100), (0, None)):
		expect('a number before there is an agent', lib.lib.weft_umad_buffers(other, -1, number), 0)
		late = lib.register(other, CONFIGURED, 1, 0, mask(GET))
		clients = own(weft)[1]
		expect('it has its number', (clients[CONFIGURED]['asked'], clients[CONFIGURED]['target']), (asked, asked or 16))
		expect('and another one not', clients[BOARD]['asked'], None)
		lib.unregister(other, late)
	expect('no number', lib.lib.weft_umad_buffers(other, -1, -1), -22)
	expect('no port', lib.lib.weft_umad_buffers(9999, -1, 1), -22)
	expect('more than there is memory for', lib.lib.weft_umad_buffers(other, -1, 70000), 0)
	expect('is refused', lib.register(other, CONFIGURED, 1, 0, mask(GET)) < 0, True)
	expect('the default again', lib.lib.weft_umad_buffers(other, -1, 0), 0)

	for settings, says in ((('nothing=1',), 'there is no tunable'), (('each=0',), 'refused'), (('growth',), 'refused')):
		said = tune(weft, *settings)
		expect(f'{settings}', (said.returncode, says in said.stderr), (1, True))
	expect('set', tune(weft, 'each=40').returncode, 0)
	expect('each has so many', own(weft)[1][BOARD]['target'], 40)
	qp = own(weft)[0]
	expect('memory', qp['bytes'], (qp['posted'] + qp['held']) * (40 + 256))
	sys.exit(0)


def test(lab):
	lab.load('line', 'switches=2')
	lid = lab.lid('h2')
	said = lab.at('h2', '/usr/bin/python3', '-B', os.path.abspath(__file__), '--inside', lab.weft_path, lid)
	print(said, end='')
	lab.within('the port has no clients', lambda: not json.loads(lab.weft('mad', '--json'))['qps'])
	subnet_lab.says(lab.weft('mad'), 'each=40 .*\nnobody receives management datagrams')


if sys.argv[1] == '--inside':
	inside(sys.argv[2], int(sys.argv[3]))
subnet_lab.script(test, 'ibstat')
