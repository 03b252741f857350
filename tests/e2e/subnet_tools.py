#!/usr/bin/env python3
"""Debian's infiniband-diags at a host of a fabric: what they find is what was loaded, link by link.

usage: subnet_tools.py WEFT"""
import json
import os
import re

from subnet_lab import Wrong, says, script


def links(topology):
	"""Each link of a topology as {(name, port), (name, port)} with its width and speed."""
	found, names, node = set(), {}, None
	for line in topology.splitlines():
		head = re.match(r'(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s+# "([^"]*)"', line)
		if head:
			names[head[2]] = head[3]
			node = head[2]
		port = re.match(r'\[(\d+)\](?:\(\w+\))?\s+"([^"]+)"\[(\d+)\].* (\d+x\w+)', line)
		if port:
			found.add((frozenset({(node, port[1]), (port[2], port[3])}), port[4]))
	return {(frozenset((names[n], p) for n, p in ends), rate) for ends, rate in found}, set(names.values())


def test_discovery(lab, *kind):
	path = lab.make(*kind)
	with open(path, encoding='utf-8') as f:
		topology = f.read()
	lab.change('load', path)
	for node in ('h1', 'h2'):
		output = lab.at(node, 'ibnetdiscover')
		if links(output) != links(topology) or len(links(output)[0]) < 4:
			lab.fail(f'{kind}: ibnetdiscover at {node} finds another topology: {output}')


IBSIM = '/usr/share/doc/ibsim-utils/net-examples'


def ends_by_name(text):
	"""Each link of a file of ibsim, or of ibnetdiscover's output, as {(name, port), (name, port)}."""
	found, names, node = set(), {}, None
	for line in text.splitlines():
		head = re.match(r'(?:Switch|Ca|Hca|Rt)\s+\d+\s+"([^"]+)"(?:\s+# "([^"]*)")?', line)
		if head:
			node, names[head[1]] = head[1], head[2] or head[1]
		port = re.match(r'\[(\d+)\](?:\(\w+\))?\s+"([^"]+)"\s*\[(\d+)\]', line)
		if port:
			found.add(frozenset({(node, port[1]), (port[2], port[3])}))
	return {frozenset((names[n], p) for n, p in ends) for ends in found}


def test_ibsim(lab):
	"""The example nets of ibsim: from the first host, all that hosts are linked with is found as it stands in the file."""
	if not os.path.isdir(IBSIM):
		print(f'part skipped: no {IBSIM} here: scripts/setup test, with documentation')
		return
	for name in sorted(os.listdir(IBSIM)):
		if not name.startswith('net'):
			continue
		path = os.path.join(IBSIM, name)
		lab.change('load', path)
		nodes = json.loads(lab.weft('fabric', 'show', '--json'))['nodes']
		host = next(node['name'] for node in nodes if node['type'] == 'host' and node['ports'])
		with open(path, encoding='utf-8') as f:
			expected = ends_by_name(f.read())
		found = ends_by_name(lab.at(host, 'ibnetdiscover'))
		if found != expected or not found:
			lab.fail(f'{name}: {sorted(map(sorted, found))}, not {sorted(map(sorted, expected))}')


TWO_PORTS = '''Switch 8 "s1"
[1] "two"[1]
[2] "two"[2]
[3] "one"[1]

Ca 2 "two"
[1] "s1"[1]
[2] "s1"[2]

Ca 1 "one"
[1] "s1"[3]
'''


def test_ports(lab):
	"""A host with two ports: each program is at one of them, and both reach each other and the other host."""
	lab.change('load', lab.write('two', TWO_PORTS))
	lids = {node: lab.lid(node) for node in ('two', 'two:1', 'two:2', 'one')}
	if lids['two'] != lids['two:1'] or len(set(lids.values())) != 3:
		raise Wrong(f'the ports have the LIDs {lids}')
	for a, b in (('two:1', 'two:2'), ('two:2', 'one'), ('one', 'two')):
		wrong = lab.pingpong(a, b)
		if wrong:
			raise Wrong(f'{a}, {b}: {wrong}')
	lab.weft('fabric', 'link', 'two:2', 'down')
	if lab.pingpong('two:1', 'one') or not lab.pingpong('two:2', 'one'):
		raise Wrong('with the second port down programs at the first do not go on alone')
	lab.weft('fabric', 'link', 'two:2', 'up')


ROUTER = '''Switch 4 "s1"
[1] "h1"
[2] "h2"
[3] "r1"[2]

Rt 2 "r1"

Ca 1 "h1"
Ca 1 "h2"
'''


def test_router(lab):
	"""A router is a node with a LID, which OpenSM and weft's manager find; nothing leaves the subnet by it."""
	for routing in ('sm', 'none'):
		lab.change('load', '--routing', routing, lab.write('router', ROUTER))
		managers = [lab.start_manager('h1')] if routing == 'none' else []
		lab.within('all reach each other', lambda: lab.check()['reached'] == lab.check()['paths'] == 6)
		says(lab.at('h2', 'ibrouters'), r'^Rt\s+: \S+ ports 2 "r1"\n$')
		found = re.search(r'^Rt\s.*\n\[2\].*# lid (\d+) ', lab.at('h2', 'ibnetdiscover'), re.M)
		if not found:
			raise Wrong('ibnetdiscover does not find the router')
		says(lab.at('h2', 'smpquery', 'nodeinfo', found[1]), r'NodeType:\.+Router')
		for manager in managers:
			manager.end()


def test_queries(lab):
	h1, h8 = lab.lid('h1'), lab.lid('h8')
	says(lab.at('h1', 'smpquery', 'nodedesc', '-D', '0'), r'Node Description:\.+h1\b')
	says(lab.at('h1', 'smpquery', 'nodeinfo', h8), r'NodeType:\.+Channel Adapter')
	says(lab.at('h1', 'smpquery', 'nodedesc', h8), r'Node Description:\.+h8\b')
	says(lab.at('h1', 'smpquery', 'portinfo', h8, '1'), r'LinkState:\.+Active')
	says(lab.at('h1', 'smpquery', 'switchinfo', '-D', '0,1'), r'LinearFdbTop:\.+[1-9]')
	says(lab.at('h1', 'ibaddr'), rf'LID start {hex(int(h1))}')


def fails(status_and_text):
	status, text = status_and_text
	if status != 255:
		raise Wrong(f'the exit status is {status}: {text}')
	says(text, 'failed')


def test_refusals(lab):
	"""Nobody hears a MAD that leads nowhere; without a fabric there is nobody else."""
	fails(lab.try_at('h1', 'smpquery', '-t', '50', 'nodeinfo', '-D', '0,1,99'))
	lab.change('unload')
	fails(lab.try_run(lab.weft_path, 'run', '--', 'smpquery', '-t', '50', 'nodeinfo', '-D', '0'))
	says(lab.weft('run', '--', 'ibstat'), r'State: Active')


def test(lab):
	test_discovery(lab, 'torus', 'size=3x3', 'hosts=1')
	test_discovery(lab, 'fat-tree', 'ports=16')
	test_ibsim(lab)
	test_ports(lab)
	test_router(lab)
	test_discovery(lab, 'fat-tree', 'ports=4')
	test_queries(lab)
	test_refusals(lab)


if __name__ == '__main__':
	script(test, 'ibnetdiscover', 'ibrouters', 'smpquery', 'ibstat', 'ibaddr', 'opensm', 'ibv_rc_pingpong')
