#!/usr/bin/env python3
"""What weft's own subnet manager gives ports by its options, and subnet administration by request: lanes, M_Keys, GUIDs, ways.
Debian's programs look, and OpenSM does the same beside it.

subnet_options.py --list                  one line a test: name, label, timeout
subnet_options.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import re
import signal
import struct
import sys

import subnet_lab
from subnet_lab import Wrong, says
from subnet_own import OPENSM, OWN, load, takes_over
from session import free_port
from umad_calls import SA, Library
import run	# of abi/, whose place subnet_lab tells

KEY, OTHER = '0x1111222233334444', '0x5555666677778888'
LANES = '''# as opensm.conf
qos_max_vls 4
qos_high_limit 5
qos_vlarb_high 0:4,1:2
qos_vlarb_low 0:1,1:1,2:3,3:64
qos_sl2vl 0,1,2,3,4,5,6,7,8,15,10,11,12,13,14,7
'''
SET, DELETE, GUIDS = 2, 0x15, 0x30
BYTES = 16384
ONE, TWO = 0x0200000000abcd01, 0x0200000000abcd11


def load_with(lab, options, *words):
	lab.change('load', '--options', lab.write('options', options), *words, lab.make('fat-tree', 'ports=4'))
	takes_over(lab, OWN)
	lab.within('the subnet is up', lambda: 'State: Active' in lab.at('h1', 'ibstat'))


# ---- lanes ----

def numbers(line):
	return [int(word, 0) for word in re.findall(r'0x[0-9a-fA-F]+|\d+', line.split(':', 1)[1])]


def of_ports(lab, lid, port, host=None):
	"""What the port says by SMPs: levels by input port, and pairs of lanes and weights, low priority first. Of a host's port
	output and input have the number 0."""
	levels = {}
	for line in lab.at('h1', 'smpquery', 'sl2vl', lid, port).splitlines():
		found = re.match(r'ports: in +(\d+), out +(\d+): (.*)', line)
		if found and (int(found[2]) == int(port) or lid == host):
			levels[int(found[1])] = numbers(':' + found[3])
	lines = lab.at('h1', 'smpquery', 'vlarb', lid, port).splitlines()
	lanes = [numbers(line) for line in lines if line.startswith('VL')]
	weights = [numbers(line) for line in lines if line.startswith('WEIGHT')]
	turns = list(zip(sum(lanes, []), sum(weights, [])))
	return levels, turns


def of_administration(lab, lid, port):
	levels, turns, texts = {}, [], lab.at('h1', 'saquery', 'SL2VL', lid).split('SL2VLTableRecord dump:')[1:]
	for text in texts:
		found = re.search(r'InPort\.+(\d+)\s+OutPort\.+(\d+)\s+SL:.*\n\s*VL(:.*)', text)
		if int(found[2]) == int(port) or found[1] == found[2] == '0' and len(texts) == 1:
			levels[int(found[1])] = numbers(found[3])
	for text in lab.at('h1', 'saquery', 'VLAR', f'{lid}/{port}').split('VLArbTableRecord dump:')[1:]:
		lanes, weights = (sum((numbers(line) for line in re.findall(rf'(?m)^\s*{word}\s*(:.*)', text)), [])
				  for word in ('VL', 'Weight'))
		turns += list(zip(lanes, weights))
	return levels, turns


def test_lanes(lab):
	"""The administration says of each port what the port says; paths have a level with a lane, and data flows by it."""
	load_with(lab, LANES)
	h1, h8, s2 = lab.lid('h1'), lab.lid('h8'), re.search(r'lid (\d+)', lab.at('h1', 'ibswitches').splitlines()[1])[1]
	says(lab.at('h1', 'smpquery', 'portinfo', h8, '1'), r'OperVLs:\.+VL0-3\n(.*\n)*VLHighLimit:\.+5\n|'
	     r'VLHighLimit:\.+5\n(.*\n)*OperVLs:\.+VL0-3\n')
	for lid, port in ((h8, '1'), (s2, '1'), (s2, '3')):
		by_smp, by_sa = of_ports(lab, lid, port, h8), of_administration(lab, lid, port)
		if by_smp != by_sa or not by_smp[0] or len(by_smp[1]) != 128:
			lab.fail(f'LID {lid}, port {port}: by SMPs {by_smp}; by the administration {by_sa}')
	for level in range(16):
		said = lab.try_at('h1', 'saquery', 'PR', '--slid', h1, '--dlid', h8, '--sl', str(level))[1]
		if (level != 9) != bool(re.search(rf'\bsl\.+0x{level:X}\b', said)):
			lab.fail(f'a path with level {level}: {said}')
		wrong = lab.pingpong('h8', 'h1', '-l', str(level)) if level in (0, 5, 14) else ''
		if wrong:
			lab.fail(f'level {level}: {wrong}')
	for words, said in (('qos_max_vls 0\n', 'one lane'), ('\nqos_levels 3\n', ':2: '), ('qos_sl2vl 1,2\n', 'sixteen'),
			    ('qos_vlarb_low 15:1\n', '64 of'), ('m_key 1 2\n', 'number')):
		status, heard = lab.try_run(lab.weft_path, 'fabric', 'load', '--options', lab.write('bad', words),
					    lab.path('net'))
		if status != 1 or said not in heard:
			lab.fail(f'{words}: {status}, {heard}')


def test_opensm(lab):
	"""OpenSM with QoS gives a host and a link between switches the same tables, which its administration tells."""
	load(lab, 'fat-tree', 'ports=4')
	h8, s2 = lab.lid('h8'), re.search(r'lid (\d+)', lab.at('h1', 'ibswitches').splitlines()[1])[1]
	own = [(at, of_ports(lab, *at, h8), of_administration(lab, *at)) for at in ((h8, '1'), (s2, '1'))]
	opensm = lab.start_manager('h1', '-p', '15', '-Q')
	takes_over(lab, OPENSM)
	lab.up(opensm)
	for at, (levels, turns), (sa_levels, sa_turns) in own:
		theirs, their_turns = of_ports(lab, *at, h8)
		if turns != their_turns or any(levels[i] != theirs[i] for i in levels if i or len(levels) == 1):
			lab.fail(f'{at}: {levels, turns}, by OpenSM {theirs, their_turns}')
		theirs, their_turns = of_administration(lab, *at)
		if sa_turns != their_turns or any(sa_levels[i] != theirs.get(i) for i in sa_levels if i or len(sa_levels) == 1):
			lab.fail(f'{at}, as told: {sa_levels, sa_turns}, by OpenSM {theirs, their_turns}')
	opensm.end()
	takes_over(lab, OWN)


TURNS = 'qos_vlarb_high 0:4\nqos_vlarb_low 1:64,2:192\n'


def rates_of(lab, to, senders):
	"""MB/s of streams that run at the same time, from these hosts by these levels."""
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-s', str(BYTES), '-t', '4', '-D', '4', '-f', '1')
	clients = []
	for node, level in senders:
		port = str(free_port())
		lab.start_server(to, port, *words, '-S', str(level), '-p', port)
		clients.append((node, (*words, '-S', str(level), '-p', port, '127.0.0.1')))
	clients = [lab.start(node, *command) for node, command in clients]
	for client in clients:
		if client.process.wait(subnet_lab.LIMIT_S):
			lab.fail(client.text())
	return [float(re.search(rf'(?m)^ *{BYTES} +\d+ +[\d.]+ +([\d.]+)', client.text())[1]) for client in clients]


def test_arbitration(lab):
	"""Streams of two levels share a slow link by the weights of their lanes; one of them alone has all of it."""
	load_with(lab, TURNS)
	lab.weft('fabric', 'link', 'h1:1', 'slow', '50Mbit')
	few, many = rates_of(lab, 'h1', (('h5', 1), ('h7', 2)))
	if not 2.2 < many / few < 4 or not 2.5 < few + many < 6.2:
		lab.fail(f'{few} and {many} MB/s, where 64 and 192 are the weights')
	alone, = rates_of(lab, 'h1', (('h5', 1),))
	# a quarter of the link would be 1.5; a busy machine does not fill it
	if not 2.5 < alone < 6.2:
		lab.fail(f'{alone} MB/s alone')
	same, other = rates_of(lab, 'h1', (('h5', 1), ('h7', 1)))
	if not 0.6 < same / other < 1.7:
		lab.fail(f'{same} and {other} MB/s by one lane')


# ---- M_Keys ----

def portinfo(lab, lid, *options):
	return lab.try_at('h2', 'smpquery', '-t', '100', *options, 'portinfo', lid, '1')


def test_keys(lab):
	"""Nobody reads or changes a port without the key; the manager does, also the one of the next weftd."""
	load_with(lab, f'm_key {KEY}\nm_key_protection_level 2\nm_key_lease_period 20\n')
	h3, h5 = lab.lid('h3'), lab.lid('h5')
	lab.within('a question without the key is not answered', lambda: portinfo(lab, h3)[0])
	if not portinfo(lab, h3, '-y', OTHER)[0]:
		lab.fail('another key opens a port')
	status, said = portinfo(lab, h3, '-y', KEY, '-K')
	if status or not re.search(rf'(?i)Mkey:\.+{KEY}\n(.*\n)*MkeyLeasePeriod:\.+20\n(.*\n)*ProtectBits:\.+2\n', said):
		lab.fail(f'with the key: {status}, {said}')
	says(said, r'MkeyViolations:\.+[1-9]')
	status, said = lab.try_at('h2', 'ibportstate', '-t', '100', h5, '1', 'disable')
	if not status or 'State: Active' not in lab.at('h5', 'ibstat'):
		lab.fail(f'a port is disabled without the key: {said}')
	lids = [lab.lid(f'h{i}') for i in range(1, 9)]
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	takes_over(lab, OWN)
	lab.weft('fabric', 'link', 's1:1', 'down')
	lab.within('the next manager leads around', lambda: lab.check()['reached'] == 56)
	lab.weft('fabric', 'link', 'h5:1', 'down')
	lab.weft('fabric', 'link', 'h5:1', 'up')
	lab.within('it takes a host up', lambda: 'State: Active' in lab.at('h5', 'ibstat'))
	if lids != [lab.lid(f'h{i}') for i in range(1, 9)] or not portinfo(lab, h3)[0] or portinfo(lab, h3, '-y', KEY)[0]:
		lab.fail('LIDs or keys change with weftd')
	wrong = lab.pingpong('h8', 'h1')
	if wrong:
		lab.fail(wrong)


def test_counters(lab):
	"""perfquery reads counters of ports without their M_Key, and needs it to ask how many ports there are. For a GUID it asks
	the manager at the LID that it is told."""
	load_with(lab, f'm_key {KEY}\nm_key_protection_level 2\nm_key_lease_period 20\n')
	h3, guid = lab.lid('h3'), lab.at('h3', 'cat', '/sys/class/infiniband/weft0/ports/1/gids/0').strip()
	guid = '0x' + guid[-19:].replace(':', '')
	manager = re.search(r'SM lid:\s+(\d+)', lab.at('h1', 'ibstat'))[1]
	switch = re.search(r'base port 0 lid (\d+)', lab.at('h1', 'ibswitches', '-y', KEY))[1]
	lab.within('a question without the key is not answered', lambda: portinfo(lab, h3)[0])
	def ask(*words):
		return lab.try_at('h2', 'perfquery', '-t', '100', *words)
	keys = (), ('-y', KEY), ('--m_key', OTHER)
	for words in ((h3, '1'), ('-x', h3, '1'), ('-a', switch), ('-l', switch, '1-4'), ('-r', h3, '1'),
		      ('--rcverr', switch, '1'), ('-G', guid, '1'), ('-G', '--sm_port', manager, guid, '1')):
		for key in keys:
			status, said = ask(*key, *words)
			if status or not re.match(r'# Port.* counters: Lid ', said):
				lab.fail(f'perfquery {" ".join((*key, *words))}: {status}, {said}')
	for key in keys:
		status, said = ask(*key, '-l', '-a', switch)
		ports = said.count('# Port counters: ')
		if (status, ports) != (0, 4) if KEY in key else (not status or ports):
			lab.fail(f'perfquery {key} -l -a: {status}, {said}')
		status, said = ask(*key, '-G', '--sm_port', h3, guid, '1')
		if not status or "can't resolve" not in said:
			lab.fail(f'perfquery asks h3, which is no manager, for a GUID: {status}, {said}')


def is_master_by_key(lab, guid):
	"""OpenSM, too, says who it is to those alone who have the key."""
	return re.search(rf'sm guid {guid}, .*SMINFO_MASTER', lab.try_at('h2', 'sminfo', '-y', KEY)[1])


def test_key_of_opensm(lab):
	"""OpenSM with the same key takes the place, and gives it back."""
	options = f'm_key {KEY}\nm_key_protection_level 2\nm_key_lease_period 0\n'
	load_with(lab, options)
	opensm = lab.start_manager('h1', '-p', '15', '-F', lab.path('options'))
	lab.within('OpenSM is the master', lambda: is_master_by_key(lab, OPENSM))
	lab.up(opensm)
	h3 = lab.lid('h3')
	if not portinfo(lab, h3)[0] or portinfo(lab, h3, '-y', KEY)[0]:
		lab.fail("keys are others by OpenSM's management")
	opensm.end()
	takes_over(lab, OWN)
	lab.weft('fabric', 'link', 's1:1', 'down')
	lab.within('ways lead around a link', lambda: lab.check()['reached'] == 56)


# ---- GUIDs ----

def ask_guids(method, sm_lid, lid, place, guid, key):
	"""At a host: the status that is answered, and the GUIDs of its record."""
	lib = Library()
	port = lib.open_port(b'weft0', 1)
	agent = lib.register(port, SA, 2, 1, None)
	guids = [guid if i == place else 0 for i in range(8)]
	mad = struct.pack('>BBBBHHQHHI', 1, SA, 2, method, 0, 0, 0x1234567, GUIDS, 0, 0) + bytes(12)
	mad += struct.pack('>QHHQ', key, 0, 0, 3 | 1 << (4 + place)) + struct.pack('>HBBI8Q', lid, 0, 0, 0, *guids)
	lib.send(port, agent, mad.ljust(256, b'\0'), sm_lid)
	answer = lib.receive(port)[3]
	print(json.dumps({'status': struct.unpack_from('>H', answer, 4)[0],
			  'guids': [f'{g:#x}' for g in struct.unpack_from('>8Q', answer, 64)]}))


def guids_at(lab, node, method, lid, place, guid, key=0):
	sm_lid = re.search(r'SM lid:\s+(\d+)', lab.at(node, 'ibstat'))[1]
	words = [str(word) for word in (method, sm_lid, lid, place, guid, key)]
	said = json.loads(lab.at(node, sys.executable, '-B', os.path.abspath(__file__), '--ask-guids', *words))
	return said['status'], said['guids']


def change_guids(lab, host, other, first):
	"""What is answered to all that is tried: statuses, and places of GUIDs; some are first and those behind it."""
	lid = lab.lid(host)
	said = [guids_at(lab, host, SET, lid, 3, first), guids_at(lab, host, SET, lid, 1, first + 1),
		guids_at(lab, host, SET, lid, 0, 5), guids_at(lab, host, DELETE, lid, 1, 0),
		guids_at(lab, other, SET, lab.lid(other), 2, first), guids_at(lab, host, DELETE, lid, 0, 0),
		guids_at(lab, host, SET, lid, 3, first)]
	chosen = guids_at(lab, host, SET, lid, 5, 0)[1][5]
	for words in (('saquery', 'GIR', lid), ('smpquery', 'guidinfo', lid)):
		for guid in (first, int(chosen, 0)):
			says(lab.at(host, *words), rf'(?i)0x0*{guid:x}')
	return [(status, [int(guid, 0) and int(guid, 0) - first for guid in guids[1:]]) for status, guids in said]


def test_guids(lab):
	"""A port adds GUIDs, programs there have their GIDs, and the subnet knows the port by them; as by OpenSM."""
	load(lab, 'fat-tree', 'ports=4')
	own = change_guids(lab, 'h3', 'h4', ONE)
	says(lab.at('h3', 'ibv_devinfo', '-v', '-d', 'weft0'), r'GID\[\s*3\]:\s+fe80.*:0200:0000:00ab:cd01|'
	     r'GID\[\s*3\]:\s+fe80::200:0:ab:cd01')
	says(lab.at('h3', 'cat', '/sys/class/infiniband/weft0/ports/1/gids/3'), 'fe80:0000:0000:0000:0200:0000:00ab:cd01')
	if guids_at(lab, 'h4', SET, lab.lid('h3'), 6, TWO)[0] == 0:
		lab.fail('a port has GUIDs that another one gives it')
	if guids_at(lab, 'h4', SET, lab.lid('h3'), 6, TWO, 1)[0]:
		lab.fail('the SM_Key does not let another port give GUIDs')
	says(lab.at('h8', 'saquery', 'PR', '--sgid', 'fe80::200:0:10:f', '--dgid', 'fe80::200:0:ab:cd01'),
	     rf'dlid\.+{lab.lid("h3")}\n')
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	takes_over(lab, OWN)
	lab.within('the next manager knows the GUID', lambda: f'{ONE:x}' in lab.at('h8', 'saquery', 'GIR', lab.lid('h3')))
	opensm = lab.start_manager('h1', '-p', '15')
	takes_over(lab, OPENSM)
	lab.up(opensm)
	for i, (a, b) in enumerate(zip(own, change_guids(lab, 'h5', 'h6', TWO))):
		if a != b:
			lab.fail(f'question {i}: {a}, of OpenSM {b}')


# ---- ways ----

ENGINES = ('(null)', 'auto'), ('updn,minhop', 'up-down'), ('updn', 'up-down'), ('minhop,updn', 'min-hop'), ('minhop', 'min-hop')
RING, TREE = ('torus', 'size=6', 'hosts=1'), ('fat-tree', 'ports=4')


def figures(said, of_loads=True):
	"""What weft fabric check says of paths: circles, how many, how long, and how many share a link."""
	busiest = max(link['paths'] for link in said['link_loads']) if of_loads else 0
	return [said[name] for name in ('credit_loop', 'reached', 'mean_links', 'longest_links')] + [busiest]


def is_as(said, wanted):
	"""weft's manager gives LIDs in another order, by which the busiest link may carry more: a quarter at most."""
	found = figures(said)
	return found[:-1] == wanted[:-1] and found[-1] <= wanted[-1] + wanted[-1] // 4


def warnings(lab):
	with open(os.path.join(lab.env['WEFT_DIR'], 'weftd.log'), encoding='utf-8') as f:
		return f.read().count('routing_engine minhop asks for')


def goes_and_comes_back(lab, wanted):
	"""A link of a ring, after which the manager has computed all anew."""
	lab.weft('fabric', 'link', 's1:1', 'down')
	lab.within('a line is led along', lambda: figures(lab.check())[:2] == [False, 30] and lab.check()['longest_links'] == 7)
	lab.weft('fabric', 'link', 's1:1', 'up')
	lab.within('the ring is led as before', lambda: figures(lab.check(), False) == wanted)


def test_routing(lab):
	"""A ring and a tree have the ways that were asked for, with circles or detours, when a link comes back and by the next
	weftd's manager as well; the log warns of circles."""
	status, said = lab.try_run(lab.weft_path, 'fabric', 'load', '--options', lab.write('bad', 'routing_engine updn,lash\n'),
				   lab.make(*TREE))
	if status != 1 or ":1: minhop, updn or both are wanted, or (null): 'lash'" not in said:
		lab.fail(f'lash: {status}, {said}')
	says(lab.weft('fabric', 'load', '--options', lab.write('options', 'routing_engine minhop\n'), lab.make(*RING)),
	     'routed by min-hop')
	seen = {}
	for kind in (TREE, RING):
		net = lab.make(*kind)
		for engine, way in ENGINES:
			wanted = json.loads(lab.weft('fabric', 'check', '--json', '--routing', way, net))
			for words in ((), ('--routing', 'sm')):
				before = warnings(lab)
				lab.change('load', '--options', lab.write('options', f'routing_engine {engine}\n'), *words, net)
				takes_over(lab, OWN)
				lab.within(f'{kind} by {engine} {words}', lambda: is_as(lab.check(), figures(wanted)))
				if wanted['credit_loop']:
					lab.within(f'a warning of {engine}', lambda: warnings(lab) == before + 1)
				elif warnings(lab) != before:
					lab.fail(f'{kind} by {engine}: a warning of a circle that is not there')
			seen[kind, way] = figures(wanted)
			if kind == RING:
				goes_and_comes_back(lab, figures(wanted, False))
	# as they are to differ: fewest paths by a link of the tree, and no detours on the ring but a circle
	if not (seen[TREE, 'auto'] == seen[TREE, 'min-hop'] < seen[TREE, 'up-down'] and seen[RING, 'min-hop'][0] and
		seen[RING, 'auto'] == seen[RING, 'up-down'] and seen[RING, 'min-hop'][2] < seen[RING, 'up-down'][2]):
		lab.fail(f'ways do not differ as they should: {seen}')
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	takes_over(lab, OWN)
	goes_and_comes_back(lab, figures(wanted, False))


def tests():
	rows = (('lanes', test_lanes), ('arbitration', test_arbitration), ('opensm', test_opensm), ('keys', test_keys),
		('key_of_opensm', test_key_of_opensm), ('guids', test_guids), ('counters', test_counters),
		('routing', test_routing))
	return {name: ('e2e', 300, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	if sys.argv[1:2] == ['--ask-guids']:
		ask_guids(*(int(word, 0) for word in sys.argv[2:]))
		sys.exit(0)
	sys.exit(run.run_table(tests(), ('opensm', 'saquery', 'sminfo', 'ibstat', 'smpquery', 'ibswitches', 'ibportstate',
					 'ibv_devinfo', 'ibv_rc_pingpong', 'ib_write_bw')))
