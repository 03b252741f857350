#!/usr/bin/env python3
"""A subnet begins, live: NODES hosts of a fabric ask a subnet administration for a path at once, with the fixed depth, with
buffers that are added, and with a number that was announced. The administration is a program at another host that only answers,
weft's own, or OpenSM. weftd stands still until all have asked.

usage: mad_storm.py WEFT [NODES]: prints the table of docs/management.md"""
import json
import os
import select
import signal
import statistics
import struct
import sys
import time

import subnet_lab
from subnet_lab import Wrong
from umad_calls import ETIMEDOUT, GET, SA, Library, make, mask

PYTHON = '/usr/bin/python3'
TIMEOUT_MS, RETRIES = 200, 7
PATH, DLID_AND_SLID = 0x35, 1 << 4 | 1 << 5	# IBA 15.2.5.16
RECORD = 56	# where a PathRecord begins


# ---- programs at hosts ----

def open_at(lib, node):
	os.environ['WEFT_NODE'] = node
	return lib.open_port(b'weft0', 1)


def answer(announced):
	"""Each question with itself, until killed."""
	lib = Library()
	port = lib.open_port(b'weft0', 1)
	agent = lib.register(port, SA, 2, 1, mask(GET))
	if announced:
		lib.lib.weft_umad_buffers(port, agent, announced)
	print('answers', flush=True)
	while True:
		got, _, status, mad, sender = lib.receive(port, -1)
		if got >= 0 and not status:
			lib.send(port, agent, mad[:3] + b'\x81' + mad[4:], sender, 0)


def path(slid, dlid):
	mad = bytearray(make(SA, GET, slid, 2, PATH)[:36].ljust(256, b'\0'))
	struct.pack_into('>Q', mad, RECORD - 8, DLID_AND_SLID)
	struct.pack_into('>HH', mad, RECORD + 40, dlid, slid)
	return bytes(mad)


def ask(weftd, administration, lids):
	"""Prints after how many ms each node had its answer, for a path to the next one; who gives up has none."""
	lib = Library()
	ports = {open_at(lib, f'h{i}'): question for i, question in enumerate(zip(lids, lids[1:] + lids[:1]), 2)}
	agents = {port: lib.register(port, SA, 2, 1, None) for port in ports}
	watch, took = select.poll(), []
	for port in ports:
		watch.register(port, select.POLLIN)
	os.kill(weftd, signal.SIGSTOP)
	try:
		for port, question in ports.items():
			lib.send(port, agents[port], path(*question), administration, TIMEOUT_MS, RETRIES)
		begun = time.monotonic()
	finally:
		os.kill(weftd, signal.SIGCONT)
	while agents:
		for port, _ in watch.poll():
			got, _, status, mad, _ = lib.receive(port, 0)
			if got < 0:
				continue
			dlid, = struct.unpack_from('>H', mad.ljust(256, b'\0'), RECORD + 40)
			if status != ETIMEDOUT and (status or mad[3:6] != b'\x81\0\0' or dlid != ports[port][1]):
				sys.exit(f'status {status}, answer {mad.hex()}')
			if not status:
				took.append(1000 * (time.monotonic() - begun))
			watch.unregister(port)
			del agents[port]
	print(json.dumps(took))


# ---- what runs them ----

def here(*words):
	return (PYTHON, '-B', os.path.abspath(__file__), *(str(word) for word in words))


def shown(lab):
	return json.loads(lab.weft('fabric', 'show', '--json'))['nodes']


def counted(lab, node):
	"""Drops and arrivals of QP1 there."""
	qp = next(q for q in json.loads(lab.weft('mad', '--json'))['qps'] if q.get('node') == node and q['qpn'] == 1)
	return qp['drops'] + qp['discards'], qp['arrivals']


def storm(lab, who, node, lids, mode):
	"""Prints a row; returns how many nodes had an answer, and how many queries were lost."""
	lid = next(p['lid'] for n in shown(lab) if n['name'] == node for p in n['ports'] if p['lid'])
	before = counted(lab, node)
	weftd = json.loads(lab.weft('status', '--json'))['pid']
	took = json.loads(lab.at('h1', *here('--ask', weftd, lid, *lids)))
	lost, came = (a - b for a, b in zip(counted(lab, node), before))
	times = f'{statistics.median(took):.1f} | {max(took):.1f}' if took else '| '
	print(f'| {who} | {mode} | {len(took)} | {lost} | {came} | {came - len(lids)} | {times} |', flush=True)
	return len(took), lost


MODES = ('16, fixed', 'adaptive', 'adaptive, announced')


def tune(lab, mode, *settings):
	lab.weft('mad', 'set', 'fixed=16' if mode == MODES[0] else 'fixed=0', *settings)


def storms_of_program(lab, lids):
	for mode in MODES:
		tune(lab, mode)
		program = lab.start('h1', *here('--answer', len(lids) if mode == MODES[2] else 0))
		lab.within('it answers', lambda said=program.text: 'answers' in said())
		yield storm(lab, 'a program', 'h1', lids, mode)
		program.end(signal.SIGKILL)


def storms_of(lab, who, node, lids):
	"""Of one that announces nothing: an administrator does."""
	for mode in MODES:
		tune(lab, mode, f'each={len(lids) if mode == MODES[2] else 16}')
		yield storm(lab, who, node, lids, mode)
	tune(lab, MODES[1], 'each=16')


def check(who, found, nodes):
	if [answered for answered, _ in found[1:]] != [nodes] * 2 or any(lost for _, lost in found[1:]):
		raise Wrong(f'{who}: answered and lost by the fixed depth, adaptive, announced: {found}')


def askers(lab, nodes):
	"""Their LIDs: all hosts but h1."""
	lids = {n['name']: n['ports'][0]['lid'] for n in shown(lab) if n['type'] == 'host'}
	return [lids[f'h{i}'] for i in range(2, nodes + 2)]


def test(lab):
	nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 512
	net = lab.make('fat-tree', 'ports=34')
	lab.change('load', net)
	lab.within('hosts know the manager', lambda: 'SM lid: 1\n' in lab.at(f'h{nodes + 1}', 'ibstat'))
	lids = askers(lab, nodes)
	print('| administration | buffers | nodes with an answer | queries lost | queries that came | asked again | median, ms '
	      '| last answer, ms |\n|---|---|---|---|---|---|---|---|')
	found = list(storms_of_program(lab, lids))
	check('a program', found, nodes)
	if not found[0][1]:
		raise Wrong('nothing is lost by the fixed depth')
	check("weft's", list(storms_of(lab, "weft's", 's1', lids)), nodes)
	lab.load_bare(net)
	lab.up(lab.start_manager('h1'))
	check('OpenSM', list(storms_of(lab, 'OpenSM', 'h1', askers(lab, nodes))), nodes)


if sys.argv[1] == '--answer':
	answer(int(sys.argv[2]))
if sys.argv[1] == '--ask':
	ask(int(sys.argv[2]), int(sys.argv[3]), [int(lid) for lid in sys.argv[4:]])
	sys.exit(0)
subnet_lab.script(test, 'ibstat', 'opensm')
