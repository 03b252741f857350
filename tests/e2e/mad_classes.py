#!/usr/bin/env python3
"""General services, live: programs at h1 register one client for each class, programs at h2 ask them all at once, and each
hears what is its class's, by QP1 alone; weft mad lists who serves what. Names of hosts are looked up at the administration.

usage: mad_classes.py WEFT"""
import ipaddress
import json
import os
import re
import sys

import subnet_lab
from subnet_lab import Wrong
from umad_calls import GET, MAD, Library, make, mask

# of communication, devices, baseboards, SNMP, a vendor's, an application's: the subnet's own managers have the others
CLASSES = 0x05, 0x06, 0x07, 0x08, 0x09, 0x10
VERSION, RESPONSE = 1, 0x80


def expect(what, got, wanted):
	if got != wanted:
		raise Wrong(f'{what}: {got}, not {wanted}')


def queues(weft, lab=None):
	"""Of h1 and h2, by node and queue pair: clients of programs by class, and how much has come."""
	text = lab.weft('mad', '--json') if lab else os.popen(f'{weft} mad --json').read()
	return {(q.get('node'), q['qpn']): (sorted(c['class'] for c in q['clients'] if 'agent' in c), q['arrivals'])
		for q in json.loads(text)['qps'] if q.get('node') in ('h1', 'h2')}


def inside(weft, lid):
	"""At h1 and h2; ends when all have asked and been answered."""
	lib, servers, askers = Library(), {}, {}
	for node, ports in (('h1', servers), ('h2', askers)):
		os.environ['WEFT_NODE'] = node
		for mgmt_class in CLASSES:
			port = lib.open_port(b'weft0', 1)
			ports[mgmt_class] = port, lib.register(port, mgmt_class, VERSION, 0, mask(GET) if node == 'h1' else None)
	before = queues(weft)
	for node in 'h1', 'h2':
		expect(f'classes at QP1 of {node}', [c for c in before[node, 1][0] if c in CLASSES], list(CLASSES))
	for mgmt_class, (port, agent) in askers.items():
		lib.send(port, agent, make(mgmt_class, GET, mgmt_class, VERSION), lid)
	for mgmt_class, (port, agent) in reversed(servers.items()):
		got, _, status, mad, sender = lib.receive(port)
		expect(f'the client of class {mgmt_class} hears', (got, status, mad[1]), (agent, 0, mgmt_class))
		lib.send(port, agent, mad[:3] + bytes([GET | RESPONSE]) + mad[4:24] + bytes([mgmt_class] * (MAD - 24)), sender, 0)
	for mgmt_class, (port, agent) in askers.items():
		got, _, status, mad, sender = lib.receive(port)
		expect(f'who asked class {mgmt_class} hears', (got, status, sender, mad[1], mad[3], mad[24], mad[-1]),
		       (agent, 0, lid, mgmt_class, GET | RESPONSE, mgmt_class, mgmt_class))
	after = queues(weft)
	for node in 'h1', 'h2':
		expect(f'all came by QP1 of {node}', after[node, 1][1] - before[node, 1][1] >= len(CLASSES), True)
		expect(f'nobody of {node} is at its QP0', after.get((node, 0), ([], 0))[0], [])


def test(lab):
	lab.change('load', lab.make('fat-tree', 'ports=4'))
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	print(lab.at('h1', '/usr/bin/python3', '-B', os.path.abspath(__file__), '--inside', lab.weft_path, lab.lid('h1')), end='')
	nodes = {n['name']: n for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']}
	for name in 'h3', 'h8', 's2':
		port = nodes[name]['ports'][0]
		expect(f'the LID of {name}', int(lab.at('h2', 'saquery', '-L', name)), port['lid'])
		guid = int(lab.at('h2', 'saquery', '-G', name), 16)
		expect(f'the GUID of {name}', guid, int(ipaddress.IPv6Address(port['gid'])) % 2 ** 64)
	if re.search(r'(?m)^\d+$', lab.try_at('h2', 'saquery', '-L', 'nobody')[1]):
		raise Wrong('a name that there is not has a LID')


if sys.argv[1] == '--inside':
	try:
		inside(sys.argv[2], int(sys.argv[3]))
	except Wrong as wrong:
		sys.exit(f'FAILED: {wrong}')
	sys.exit(0)
subnet_lab.script(test, 'ibstat', 'saquery')
