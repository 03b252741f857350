#!/usr/bin/env python3
"""Debian's infiniband-diags at a host of a fabric: what they find is what was loaded, link by link.

usage: subnet_tools.py WEFT"""
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
	test_discovery(lab, 'fat-tree', 'ports=4')
	test_queries(lab)
	test_refusals(lab)


script(test, 'ibnetdiscover', 'smpquery', 'ibstat', 'ibaddr')
