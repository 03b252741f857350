#!/usr/bin/env python3
"""A subnet begins, live: NODES hosts of a fabric ask an administration at once, a program at one of them, which reads when all
have asked; with the fixed depth, with buffers that are added, and with a number that was announced.

usage: mad_storm.py WEFT [NODES]: prints the table of docs/management.md"""
import json
import os
import subprocess
import sys

import subnet_lab
from umad_calls import ETIMEDOUT, GET, SA, Library, make, mask

TIMEOUT_MS, RETRIES = 200, 7


def tune(weft, *settings):
	subprocess.run([weft, 'mad', 'set', *settings], check=True, stdout=subprocess.DEVNULL)


def counted(weft):
	"""Drops and arrivals of QP1 at h1."""
	said = json.loads(subprocess.run([weft, 'mad', '--json'], capture_output=True, text=True, check=True).stdout)
	qp = next(q for q in said['qps'] if q.get('node') == 'h1' and q['qpn'] == 1)
	return qp['drops'] + qp['discards'], qp['arrivals']


def open_at(lib, node):
	os.environ['WEFT_NODE'] = node
	return lib.open_port(b'weft0', 1)


def storm(weft, lib, lid, nodes, hint):
	"""How many nodes had an answer, how many queries were lost, and how many came, until each node has one or gives up."""
	server = open_at(lib, 'h1')
	agent = lib.register(server, SA, 2, 1, mask(GET))
	askers = [open_at(lib, f'h{i}') for i in range(2, nodes + 2)]
	agents = [lib.register(a, SA, 2, 1, None) for a in askers]
	if hint:
		lib.lib.weft_umad_buffers(server, agent, nodes)
	before = counted(weft)
	for asker, who in zip(askers, agents):
		lib.send(asker, who, make(SA, GET, asker, 2), lid, TIMEOUT_MS, RETRIES)
	waiting, gave_up = set(askers), 0
	while waiting:
		got, _, status, mad, sender = lib.receive(server, 100)
		if got >= 0 and not status:
			lib.send(server, agent, mad[:3] + b'\x81' + mad[4:], sender, 0)
		if got < 0 or len(waiting) < 16:
			heard = {a: lib.receive(a, 0) for a in waiting}
			gave_up += sum(what[0] >= 0 and what[2] == ETIMEDOUT for what in heard.values())
			waiting -= {a for a, what in heard.items() if what[0] >= 0}
	after = counted(weft)
	for port in (server, *askers):
		lib.close_port(port)
	return nodes - gave_up, after[0] - before[0], after[1] - before[1]


def inside(weft, lid, nodes):
	lib = Library()
	print('| buffers | nodes with an answer | queries lost | queries that came |\n|---|---|---|---|')
	lost = []
	for name, hint, settings in (('16, fixed', False, ('fixed=16',)), ('adaptive', False, ('fixed=0',)),
				     ('adaptive, announced', True, ('fixed=0',))):
		tune(weft, *settings)
		answered, dropped, came = storm(weft, lib, lid, nodes, hint)
		lost.append(dropped)
		print(f'| {name} | {answered} | {dropped} | {came} |')
		if settings == ('fixed=0',) and answered != nodes:
			print('FAILED: not all nodes have an answer')
			sys.exit(1)
	if not lost[0] > lost[1] == lost[2] == 0:
		print(f'FAILED: lost by the fixed depth, adaptive, announced: {lost}')
		sys.exit(1)


def test(lab):
	nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 512
	lab.load('fat-tree', 'ports=16', 'levels=3')
	lid = lab.lid('h1')
	print(lab.at('h1', '/usr/bin/python3', '-B', os.path.abspath(__file__), '--inside', lab.weft_path, lid, str(nodes)),
	      end='')


if sys.argv[1] == '--inside':
	inside(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
	sys.exit(0)
subnet_lab.script(test, 'ibstat')
