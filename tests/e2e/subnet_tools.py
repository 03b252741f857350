#!/usr/bin/env python3
"""Debian's infiniband-diags at a host of a fabric: what they find is what was loaded, link by link.

usage: subnet_tools.py WEFT"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

WEFT = os.path.abspath(sys.argv[1])
NEEDED = ('ibnetdiscover', 'smpquery', 'ibstat', 'ibaddr', 'ibroute', 'ibtracert', 'sminfo')
LIMIT_S = 60

for program in NEEDED:
	if not shutil.which(program):
		print(f'SKIP: no {program} here: scripts/setup test')
		sys.exit(77)

home = tempfile.mkdtemp(prefix='weft-e2e.')
os.environ['WEFT_DIR'] = os.path.join(home, 'run')
os.environ['WEFT_IDLE_S'] = '0.2'
failures = 0


def fail(text):
	global failures
	print('FAILED:', text)
	failures += 1


def weft(*words, status=0):
	r = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
	if r.returncode != status:
		fail(f'{words} exits with {r.returncode}: {r.stdout}{r.stderr}')
	return r.stdout + r.stderr


# A fabric is changed once weftd has noticed that those who were at its ports are gone.
def change(*words):
	end = time.monotonic() + LIMIT_S
	while True:
		r = subprocess.run([WEFT, 'fabric', *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
		if not r.returncode:
			return
		if 'processes are at ports' not in r.stderr or time.monotonic() > end:
			fail(f'{words} exits with {r.returncode}: {r.stderr}')
			return
		time.sleep(0.05)


def at(node, *words, status=0):
	return weft('run', '--node', node, '--device', 'weft0', '--', *words, status=status)


def says(output, pattern):
	if not re.search(pattern, output):
		fail(f'"{pattern}" is missing in: {output}')


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


def test_discovery(kind, *options):
	topology = weft('fabric', 'make', kind, *options)
	path = os.path.join(home, 'net')
	with open(path, 'w', encoding='utf-8') as f:
		f.write(topology)
	change('load', path)
	for node in ('h1', 'h2'):
		output = at(node, 'ibnetdiscover')
		if links(output) != links(topology) or len(links(output)[0]) < 4:
			fail(f'{kind}: ibnetdiscover at {node} finds another topology: {output}')
	os.unlink(path)


def lid_of(node):
	return re.search(r'Base lid:\s+(\d+)', at(node, 'ibstat'))[1]


def test_queries():
	says(at('h1', 'smpquery', 'nodedesc', '-D', '0'), r'Node Description:\.+h1\b')
	says(at('h1', 'smpquery', 'nodeinfo', lid_of('h8')), r'NodeType:\.+Channel Adapter')
	says(at('h1', 'smpquery', 'nodedesc', lid_of('h8')), r'Node Description:\.+h8\b')
	says(at('h1', 'smpquery', 'portinfo', lid_of('h8'), '1'), r'LinkState:\.+Active')
	says(at('h1', 'smpquery', 'switchinfo', '-D', '0,1'), r'LinearFdbTop:\.+[1-9]')
	says(at('h1', 'ibaddr'), rf'LID start {hex(int(lid_of("h1")))}')


# Nobody hears a MAD that leads nowhere; without a fabric there is nobody else.
def test_refusals():
	says(at('h1', 'smpquery', '-t', '50', 'nodeinfo', '-D', '0,1,99', status=255), 'failed')
	change('unload')
	says(weft('run', '--', 'smpquery', '-t', '50', 'nodeinfo', '-D', '0', status=255), 'failed')
	says(weft('run', '--', 'ibstat'), r'State: Active')


try:
	weft('up')
	test_discovery('torus', 'size=3x3', 'hosts=1')
	test_discovery('fat-tree', 'ports=4')
	test_queries()
	test_refusals()
finally:
	weft('down', '--force')
	shutil.rmtree(home, ignore_errors=True)
print('all as expected' if not failures else f'{failures} failures')
sys.exit(failures != 0)
