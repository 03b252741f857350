#!/usr/bin/env python3
"""Each of OpenSM's ways to route writes the tables of bare fabrics; weft walks all paths of them.

subnet_routing.py --list                  one line a test: name, label, timeout
subnet_routing.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import re
import sys
import tempfile
import time

import subnet_lab
from subnet_lab import Wrong, says
from subnet_tools import IBSIM
import run	# of abi/, whose place subnet_lab tells

FAT_TREE = ('fat-tree', 'ports=4')
TORUS = ('torus', 'size=4x4', 'hosts=1')
MESH = ('mesh', 'size=3x3', 'hosts=1')
LINE = ('line', 'switches=5', 'hosts=1')
SMALL = (FAT_TREE, TORUS, MESH, LINE)
# 128 hosts; a director of 648 ports, as 54 switches of 36
LARGE = (('fat-tree', 'ports=16'), ('fat-tree', 'ports=36'))

# Where an engine's tables have no credit loop on one lane. lash and dfsssp need the lanes that they give to paths.
WITHOUT_LOOP = {
	'minhop': (FAT_TREE, LINE), 'updn': SMALL, 'ftree': (FAT_TREE,), 'dor': (FAT_TREE, MESH, LINE), 'lash': (FAT_TREE, LINE),
	'file': SMALL, 'dnup': (), 'nue': SMALL, 'sssp': (FAT_TREE, LINE), 'dfsssp': (FAT_TREE, LINE),
}
# An engine that does not know this topology says so, and min-hop routes.
REFUSED = {'ftree': (TORUS, MESH, LINE)}


def configure(lab, engine, *options, host='h1'):
	"""A manager that has configured the subnet once, and is gone. The engine that routed, and seconds."""
	begin = time.monotonic()
	manager = lab.start_manager(host, '-R', engine, *options)
	lab.up(manager)
	took = time.monotonic() - begin
	used = re.search(r'osm_ucast_mgr_process: (\S+) tables configured', manager.logged())
	manager.end()
	return used[1] if used else 'none', took


# The root of up/down is the first switch: OpenSM finds none by itself where all switches have as many hosts.
def options_of(lab, engine, kind, net):
	if engine == 'file':
		configure(lab, 'updn', '-D', '0x43', *options_of(lab, 'updn', kind, net))
		lab.load_bare(net)
		return ('-U', lab.path('opensm-lfts.dump'))
	if engine not in ('updn', 'dnup') or kind[0] == 'fat-tree':
		return ()
	with open(net, encoding='utf-8') as f:
		guid = re.search(r'^Switch\s+\d+ "S-(\w+)"', f.read(), re.M)[1]
	return ('-a', lab.write('roots', f'0x{guid}\n'))


def test_engine(lab, engine, kind):
	net = lab.make(*kind)
	lab.load_bare(net)
	before = lab.check()
	if before['reached']:
		raise Wrong(f'{kind}: {before["reached"]} paths reach before a manager came')
	used, took = configure(lab, engine, *options_of(lab, engine, kind, net))
	expected = 'minhop' if kind in REFUSED.get(engine, ()) else engine
	if used != expected:
		raise Wrong(f'{kind}: {used} routes in place of {expected}')
	found = lab.check()
	if found['reached'] != found['paths'] or not found['paths'] or found['looping'] or found['lost']:
		raise Wrong(f'{kind}: {engine}: {found}')
	if kind in WITHOUT_LOOP[engine] and found['credit_loop']:
		raise Wrong(f'{kind}: {engine} has a credit loop')
	print(f'{engine:8} {" ".join(kind):28} {found["paths"]:8} paths, {found["mean_links"]:.2f} links, {took:6.2f} s')


def test_ibsim(lab):
	"""ibsim's example nets: what an engine does not know is routed by min-hop, as OpenSM says."""
	if not os.path.isdir(IBSIM):
		print(f'part skipped: no {IBSIM} here: scripts/setup test, with documentation')
		return
	for name in sorted(n for n in os.listdir(IBSIM) if n.startswith('net')):
		net = os.path.join(IBSIM, name)
		lab.load_bare(net)
		nodes = json.loads(lab.weft('fabric', 'show', '--json'))['nodes']
		host = next(n['name'] for n in nodes if n['type'] == 'host' and n['ports'])
		for engine in WITHOUT_LOOP:
			# OpenSM keeps LIDs of nets before for ever
			lab.env['OSM_CACHE_DIR'] = tempfile.mkdtemp(dir=lab.home)
			lab.load_bare(net)
			options = ()
			if engine == 'file':
				configure(lab, 'minhop', '-D', '0x43', host=host)
				lab.load_bare(net)
				options = ('-U', lab.path('opensm-lfts.dump'))
			used, took = configure(lab, engine, *options, host=host)
			found = lab.check()
			if found['reached'] != found['paths'] or not found['paths'] or found['looping'] or found['lost']:
				lab.fail(f'{name}: {engine}: {found}')
			print(f'{name:22} {engine:8} {used:8} {found["paths"]:6} paths, {took:5.2f} s')


def guid_of(net, name):
	"""Of a switch, in a file of weft fabric make."""
	with open(net, encoding='utf-8') as f:
		return '0x' + re.search(rf'^Switch\s+\d+ "S-(\w+)"\s+# "{name}" ', f.read(), re.M)[1]


def test_torus(lab):
	"""torus-2QoS knows a torus of weft fabric make by the links of its first switch: along x to the next one, along y to the
	next row, along z to the next plane."""
	net = lab.make('torus', 'size=3x3x3', 'hosts=1')
	lab.load_bare(net)
	links = ''.join(f'{axis}p_link {guid_of(net, "s1")} {guid_of(net, to)}\n' for axis, to in
			(('x', 's2'), ('y', 's4'), ('z', 's10')))
	conf = lab.write('torus-2QoS.conf', f'torus 3 3 3\n{links}')
	used, took = configure(lab, 'torus-2QoS', '--torus_config', conf, '-Q')
	found = lab.check()
	if used != 'torus-2QoS' or not found['paths'] or found['reached'] != found['paths'] or found['credit_loop']:
		raise Wrong(f'{used}: {found}')
	print(f'torus-2QoS: {found["paths"]} paths, {found["mean_links"]:.2f} links, {took:.2f} s')


QOS = '''qos TRUE
qos_max_vls 4
qos_high_limit 2
qos_vlarb_high 0:4,1:64
qos_vlarb_low 0:16,1:16,2:16,3:16
qos_sl2vl 0,1,2,15,0,1,2,3,0,1,2,3,0,1,2,7
'''


def test_qos(lab):
	"""Lanes and weights are at each port as opensm.conf has them, and data of a service level without a lane is lost."""
	lab.load_bare(lab.make(*FAT_TREE))
	lab.up(lab.start_manager('h1', '-F', lab.write('qos.conf', QOS), '-Q'))
	lid = lab.lid('h8')
	says(lab.at('h2', 'smpquery', 'sl2vl', lid, '1'), r'\| 0\| 1\| 2\|15\| 0\| 1\| 2\| 3\|')
	low = r'(?s)Low priority.*WEIGHT: \|0x10\|0x10\|0x10\|0x10\|0x0'
	says(lab.at('h2', 'smpquery', 'vlarb', lid, '1'), low)
	for level, reach in (('0', True), ('2', True), ('3', False)):
		wrong = lab.pingpong('h8', 'h1', '-l', level)
		if reach and wrong:
			raise Wrong(f'service level {level}: {wrong}')
		if not reach:
			says(wrong or f'service level {level} reaches', r'transport retry counter exceeded')


def tests():
	found = {'torus-2QoS': ('e2e', 120, subnet_lab.row(test_torus)),
		 'ibsim': ('long', 300, subnet_lab.row(test_ibsim)),
		 'qos': ('e2e', 120, subnet_lab.row(test_qos))}
	for engine in WITHOUT_LOOP:
		for name, label, kinds in ((engine, 'e2e', SMALL), (f'{engine}-large', 'long', LARGE)):
			def test(lab, e=engine, k=kinds):
				for kind in k:
					test_engine(lab, e, kind)
			found[name] = (label, 300, subnet_lab.row(test))
	return found


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm',)))
