#!/usr/bin/env python3
"""Fabrics that lie, and who sends lies by management datagrams: what cannot be is refused, with the reason, and changes nothing;
what can be, though nobody wants it, harms those alone that it is about.

subnet_hostile.py --list                  one line a test: name, label, timeout
subnet_hostile.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import random
import re
import sys

import subnet_lab
from subnet_lab import Wrong, says
from subnet_manager import query
from subnet_routing import configure
from subnet_sweep import M_KEY
from subnet_tools import ends_by_name
import run	# of abi/, whose place subnet_lab tells

MOST_LIDS, MOST_NODES, MOST_MB = 49151, 49152, 512

# (what is wrong, the file, what weft says); lines count from 1
LIES = (
	('a port linked with itself', 'Switch 2 "s"\n[1] "s"[1]\n', ':2: port 1 of "s" is linked with itself'),
	('two links at one port', 'Switch 2 "s"\n[1] "a"\n[2] "a"\nCa 1 "a"\n',
	 ':3: port 1 of "a" is linked with another port'),
	('ends that say another', 'Switch 2 "s"\n[1] "a"\nCa 1 "a"\n[1] "s"[2]\n', ' is linked with another port'),
	('a port with two links', 'Switch 2 "s"\n[1] "a"\n[1] "b"\nCa 1 "a"\nCa 1 "b"\n',
	 ':3: port 1 has a link already, in line 2'),
	('a link to nobody', 'Switch 2 "s"\n[1] "a"[1]\n', ':2: there is no node "a"'),
	('a link to a port that is not there', 'Switch 2 "s"\n[1] "a"[2]\nCa 1 "a"\n', ':2: "a" has 1 ports, no port 2'),
	('a link to port 0', 'Switch 2 "s"\n[1] "t"[0]\nSwitch 2 "t"\n', ':2: expected the number of the port at the other end'),
	('more ports than there are', 'Switch 255 "s"\n', ':1: expected a number of ports, 1 to 254'),
	('a port of nobody', '[1] "s"[1]\n', ':1: a port before any node'),
	('one id twice', 'Switch 1 "s"\nCa 1 "s"\n', ':2: "s" is also the id of the node in line 1'),
	('one GUID of two nodes', 'caguid=7\nCa 1 "a"\ncaguid=7\nCa 1 "b"\n',
	 ':4: its GUID 0x7 is also that of the node in line 2'),
	('one GUID of two ports', 'Switch 2 "s"\nCa 1 "a"\n[1](77) "s"[1]\nCa 1 "b"\n[1](77) "s"[2]\n',
	 ':5: its GUID 0x77 is also that of another port'),
	('a host with the GUID of a switch', 'switchguid=0x77\nSwitch 2 "s"\nCa 1 "a"\n[1](77) "s"[1]\n',
	 ':4: its GUID 0x77 is also that of another port'),
	('one LID of two ports', 'Switch 2 "s" # "" base port 0 lid 7\nCa 1 "a"\n[1] "s"[1] # lid 7\n',
	 ':3: lid 7 is another port\'s'),
	('a LID of a group', 'Switch 2 "s" # "" base port 0 lid 0xc000\n', ':1: expected a LID below 0xc000'),
	('LIDs across a boundary', 'Switch 2 "s"\nCa 1 "a"\n[1] "s"[1] # lid 6 lmc 2\n',
	 ':3: lid 6 is no multiple of the 4 LIDs'),
	('LIDs that meet', 'Switch 2 "s" # "" base port 0 lid 6\nCa 1 "a"\n[1] "s"[1] # lid 4 lmc 2\n',
	 ':3: lid 4 is another port\'s'),
	(f'{MOST_LIDS + 1} LIDs', ''.join(f'Ca 1 "a{i}"\n[1] "b{i}" # lid 0 lmc 7\nCa 1 "b{i}"\n[1] "a{i}" # lid 0 lmc 7\n'
					  for i in range(192)), f': its ports need more than the {MOST_LIDS} LIDs of a subnet'),
	(f'{MOST_NODES + 1} nodes', ''.join(f'Ca 1 "{i}"\n' for i in range(MOST_NODES + 1)),
	 f':{MOST_NODES + 1}: there are more than {MOST_NODES} nodes'),
	('a short text for much memory', ''.join(f'Switch 254 "{i}"\n' for i in range(900)), f' MB, of at most {MOST_MB}'),
	('no node', '# nothing\n', ': there is no node in it'),
	('another file', 'include "/etc/passwd"\n', ":1: 'include' is an order to ibsim"),
	('what a terminal obeys', 'Switch 2 "s"\n[1] "\x1b]0;x\x07"\n', ':2: there is no node "?]0;x?"'),
	('a line without an end', 'Switch 2 "s"\n[1] "' + '[' * (1 << 24), ':2: expected the id of the node at the other end'),
)


def state_of(lab):
	"""All that counts: nodes, links, LIDs and states, and what the tables make of them; without what was carried."""
	nodes = json.loads(lab.weft('fabric', 'show', '--json'))['nodes']
	return [[(n['name'], n['type'], [(p['port'], p['to'], p['to_port'], p['lid'], p['state']) for p in n['ports']])
		 for n in nodes], lab.check(), json.loads(lab.weft('status', '--json'))['pid']]


def refuses(lab, what, path, said, *options):
	status, heard = lab.try_run(lab.weft_path, 'fabric', 'load', *options, path)
	if status != 1 or said not in heard or 'next:' not in heard or '\x1b' in heard or len(heard) > 1000:
		lab.fail(f'{what}: {status}, {heard[:1000]}')


def test_files(lab):
	"""The fabric that is there stays as it is, and its programs go on."""
	lab.change('load', lab.make('fat-tree', 'ports=4'))
	lab.within('its manager has come', lambda: 'SMINFO_MASTER' in lab.try_at('h1', 'sminfo')[1])
	before = state_of(lab)
	*programs, _ = lab.start_datagrams('h1', 'h8')
	for what, text, said in LIES:
		for options in ((), ('--routing', 'none')):
			refuses(lab, what, lab.write('lie', text), said, *options)
	rand = random.Random(7)
	with open(lab.path('lie'), 'wb') as f:
		f.write(rand.randbytes(1 << 20))
	for what, path, said in (('bytes at random', lab.path('lie'), ': '), ('a program', lab.weft_path, ': '),
				 ('no end', '/dev/zero', 'is larger than any topology'),
				 ('a folder', lab.home, 'Is a directory'), ('no file', lab.path('none'), 'No such file')):
		refuses(lab, what, path, said)
	refuses(lab, 'more LIDs than there are by an option', lab.make('fat-tree', 'ports=36'),
		f'its ports need more than the {MOST_LIDS} LIDs of a subnet', '--lmc', '7')
	if state_of(lab) != before:
		lab.fail('what was refused has changed the fabric')
	if not all(program.is_alive() for program in programs):
		lab.fail('a program has ended')


# Links of a switch with itself, two of them beside each other, and a circle
CIRCLES = '''Switch 6 "s1"
[1] "s1"[2]
[3] "s2"[1]
[4] "s2"[2]
[5] "s3"[1]
[6] "h1"[1]
Switch 6 "s2"
[3] "s3"[2]
[4] "h2"[1]
Switch 6 "s3"
[3] "h3"[1]
Ca 1 "h1"
Ca 1 "h2"
Ca 1 "h3"
'''


def test_circles(lab):
	"""What links make circles can be: it is found as it was loaded, all reach each other, and copies for a group end."""
	net = lab.write('circles', CIRCLES)
	for options, manager in (((), False), (('--routing', 'sm'), False), (('--routing', 'none'), True)):
		lab.change('load', *options, net)
		if manager:
			lab.up(lab.start_manager('h1'))
		lab.within('all reach each other', lambda: lab.check()['paths'] == 6 == lab.check()['reached'])
		if lab.check()['looping'] or ends_by_name(lab.at('h2', 'ibnetdiscover')) != ends_by_name(CIRCLES):
			raise Wrong(f'{options}: {lab.check()}')
		receivers = [lab.start(node, 'stdbuf', '-oL', *MCKEY, '5') for node in ('h2', 'h3')]
		lab.within('both have joined', lambda r=receivers: all('joined dgid' in p.text() or not p.is_alive() for p in r))
		lab.within('both hear it', lambda r=receivers: hear(lab, r))


def hear(lab, receivers):
	lab.at('h1', *MCKEY, '5', '-s')
	return not any(r.is_alive() for r in receivers)


MCKEY = ('mckey', '-m', '239.2.3.4', '-b', '127.0.0.1', '-C')


def leads_in_circles(lab, dump, lid):
	"""OpenSM's tables as it has written them, but that two leaves and two spines send what is for this LID round. Of two
	switches alone the second sends nothing back."""
	nodes = {n['name']: n for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']}
	port = {name: next(p['port'] for p in nodes[name]['ports'] if p['to'] == other) for name, other in
		(('s1', 's5'), ('s5', 's2'), ('s2', 's6'), ('s6', 's1'))}
	lines, at = [], None
	with open(dump, encoding='utf-8') as f:
		for line in f:
			head = re.match(r'Unicast lids .*\b(s\d)\b', line)
			at = head[1] if head else at
			if at in port:
				line = re.sub(rf'^{int(lid):#06x} \d+ ', f'{int(lid):#06x} {port[at]:03} ', line)
			lines.append(line)
	return lab.write('circles.lfts', ''.join(lines))


def test_tables(lab):
	"""OpenSM writes tables by which packets for one host go round and round: they get lost after 64 switches, who sends
	them is told by its timeouts, and all others go on."""
	net = lab.make('fat-tree', 'ports=4')
	lab.load_bare(net)
	configure(lab, 'updn', '-D', '0x43')
	lid = lab.lid('h8')
	tables = leads_in_circles(lab, lab.path('opensm-lfts.dump'), lid)
	lab.load_bare(net)
	manager = lab.start_manager('h3', '-R', 'file', '-U', tables)
	lab.up(manager)
	found = lab.check()
	if not found['looping'] or found['looping'] + found['reached'] + found['lost'] != found['paths']:
		raise Wrong(f'{found}')
	says(lab.pingpong('h8', 'h1') or 'packets get out of a circle', 'transport retry counter exceeded')
	if not lab.try_at('h1', 'smpquery', '-t', '100', 'nodedesc', lid)[0]:
		raise Wrong('a question by LIDs gets out of a circle')
	says(lab.at('h1', 'smpquery', 'nodedesc', lab.lid('h5')), 'h5')
	for a, b in (('h1', 'h3'), ('h5', 'h7'), ('h8', 'h7')):
		wrong = lab.pingpong(a, b)
		if wrong:
			raise Wrong(wrong)
	if not manager.is_alive():
		raise Wrong(manager.text())


STORM = (sys.executable, '-B', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'smp_storm.py'))
SEEDS, PACKETS = (1, 2, 3), 4000


def violations(lab, lid):
	return int(re.search(r'MkeyViolations:\.+(\d+)', lab.at('h2', 'smpquery', '-y', M_KEY, 'portinfo', lid, '1'))[1])


def storm_changes_nothing(lab):
	"""All ports have the M_Key. Wrong keys are counted; the way from h1 to h6 stays."""
	lab.within('all reach each other', lambda: lab.check()['reached'] == 56)
	lid, before = lab.lid('h6'), state_of(lab)
	lab.within('a question without the key is not answered',
		   lambda: lab.try_at('h2', 'smpquery', '-t', '100', 'portinfo', lid, '1')[0])
	counted = violations(lab, lid)
	for seed in SEEDS:
		says(lab.at('h3', *STORM, str(seed), str(PACKETS), lid), f'{PACKETS} sent')
	if violations(lab, lid) <= counted:
		raise Wrong('h6 has counted no wrong M_Key')
	after = state_of(lab)
	if after != before:
		raise Wrong(f'packets that lie have made {after} of {before}')
	says(query(lab, '-p', '--src-to-dst', 'h1:h6'), rf'dlid\.+{lid}\n')
	wrong = lab.pingpong('h6', 'h3')
	if wrong:
		raise Wrong(wrong)


KEYS = f'm_key {M_KEY}\nm_key_protection_level 2\nm_key_lease_period 0\n'


def test_packets(lab):
	"""Packets of QP0 that lie, while OpenSM has given all ports its M_Key: nothing changes, and wrong keys are counted."""
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	manager = lab.start_manager('h1', '-F', lab.write('opensm.conf', KEYS))
	lab.up(manager)
	storm_changes_nothing(lab)
	lab.within('a trap of the bad M_Key', lambda: 'num:256 ' in manager.logged())
	if not manager.is_alive():
		raise Wrong(manager.text())


def test_packets_own(lab):
	"""The same beside weft's own manager."""
	lab.change('load', '--options', lab.write('options', KEYS), lab.make('fat-tree', 'ports=4'))
	lab.within('its manager has come', lambda: 'SMINFO_MASTER' in lab.try_at('h1', 'sminfo', '-y', M_KEY)[1])
	storm_changes_nothing(lab)
	lab.within('it manages still', lambda: 'SMINFO_MASTER' in lab.try_at('h1', 'sminfo', '-y', M_KEY)[1])
	lab.weft('fabric', 'link', 's1:1', 'down')
	lab.within('ways lead around a link', lambda: lab.check()['reached'] == 56)


def tests():
	rows = (('files', test_files), ('circles', test_circles), ('tables', test_tables), ('packets', test_packets),
		('packets_own', test_packets_own))
	return {name: ('e2e', 240, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'sminfo', 'smpquery', 'saquery', 'ibnetdiscover', 'ibstat', 'mckey', 'stdbuf',
					 'ibv_rc_pingpong', 'ibv_ud_pingpong')))
