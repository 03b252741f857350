#!/usr/bin/env python3
"""OpenSM at work: two of them take turns, sweeps see what has changed, traps reach the one that is master.

subnet_sweep.py --list                  one line a test: name, label, timeout
subnet_sweep.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import re
import signal
import sys
import time

import subnet_lab
from subnet_lab import Wrong, says
import run	# of abi/, whose place subnet_lab tells

BARE = ('fat-tree', 'ports=4')
LONG_LIMIT_S = 240	# for one of osmtest's flows
M_KEY = '0x1234'
RETRIES_RAN_OUT = r'transport retry counter exceeded \(12\)'


def state(lab, node):
	"""What the manager at a node says of itself; its priority."""
	text = lab.try_at('h2', 'sminfo', lab.lid(node))[1]
	found = re.search(r'priority (\d+) state \d (\w+)', text)
	return found.groups() if found else ('none', text)


def is_master(lab, node, priority):
	return state(lab, node) == (str(priority), 'SMINFO_MASTER')


def holds_whole(lab):
	found = lab.check()
	return found['reached'] == found['paths'] and found['paths'] > 0


def test_standby(lab):
	"""One that stands by takes over from one that was killed, and gives way to one of higher priority."""
	lab.load_bare(lab.make(*BARE))
	options = ('-F', lab.write('opensm.conf', 'sminfo_polling_timeout 200\npolling_retry_number 2\n'))
	first = lab.start_manager('h1', '-p', '10', *options)
	lab.up(first)
	second = lab.start_manager('h8', '-p', '5', *options)
	lab.within('the second stands by', lambda: state(lab, 'h8') == ('5', 'SMINFO_STANDBY'))
	if not is_master(lab, 'h1', 10):
		raise Wrong(f'the first is {state(lab, "h1")}')
	first.end(signal.SIGKILL)
	lab.within('the second takes over', lambda: is_master(lab, 'h8', 5))
	# h2 is told the LID of the master later
	lab.within('h2 asks the second', lambda: re.search(r'priority 5 state 3', lab.try_at('h2', 'sminfo')[1]))
	lab.up(second)
	third = lab.start_manager('h4', '-p', '14', *options)
	lab.within('the third takes over', lambda: is_master(lab, 'h4', 14))
	lab.within('the second stands by again', lambda: state(lab, 'h8') == ('5', 'SMINFO_STANDBY'))
	lab.up(third)
	third.end()
	lab.within('the second takes over again', lambda: is_master(lab, 'h8', 5))
	lab.within('all paths reach', lambda: holds_whole(lab))
	wrong = lab.pingpong('h1', 'h5')
	if wrong:
		raise Wrong(wrong)


def lid_of_switch(lab, name):
	return re.search(rf'"{name}" base port 0 lid (\d+) ', lab.at('h2', 'ibswitches'))[1]


def is_active(lab, lid, port):
	return re.search(r'LinkState:\.+Active', lab.try_at('h2', 'smpquery', 'portinfo', lid, port)[1])


def sweeps(manager, kind):
	return manager.logged().count(f'{kind} SWEEP COMPLETE')


def test_sweep(lab):
	"""A light sweep finds nothing; traps and a signal make heavy ones."""
	lab.load_bare(lab.make(*BARE))
	lab.weft('fabric', 'link', 'h5:1', 'down')
	# -s 1: a light sweep each second; -D 7: sweeps are told
	manager = lab.start_manager('h1', '-s', '1', '-D', '7')
	lab.up(manager)
	found = lab.check()
	if found['paths'] != 7 * 6 or found['reached'] != found['paths']:
		raise Wrong(f'without h5: {found}')
	lab.within('a light sweep', lambda: sweeps(manager, 'LIGHT'))
	heavy = sweeps(manager, 'HEAVY')
	manager.process.send_signal(signal.SIGHUP)
	lab.within('a heavy sweep on request', lambda: sweeps(manager, 'HEAVY') > heavy)
	lab.weft('fabric', 'link', 'h5:1', 'up')
	lab.within('the host that appears is configured', lambda: re.search(
		r'State: Active\n.*\n.*\n\s+Base lid: [1-9]', lab.at('h5', 'ibstat')))
	lab.within('all reach it', lambda: lab.check()['paths'] == 8 * 7 and holds_whole(lab))
	says(manager.logged(), r'num:128 ')
	wrong = lab.pingpong('h5', 'h1')
	if wrong:
		raise Wrong(wrong)
	for port in ('s1:3', 's2:3', 's5:1'):
		name, number = port.split(':')
		lid = lid_of_switch(lab, name)
		lab.weft('fabric', 'link', port, 'down')
		lab.within('the manager leads around', lambda: holds_whole(lab))
		lab.weft('fabric', 'link', port, 'up')
		lab.within(f'the manager makes {port} active', lambda at=(lid, number): is_active(lab, *at))
		lab.within('the manager takes the link up', lambda: holds_whole(lab))


def test_traps(lab):
	"""128 of a switch whose link changes, 144 of a manager that comes, 256 of a key that is not the manager's."""
	lab.load_bare(lab.make(*BARE))
	conf = lab.write('opensm.conf', f'm_key {M_KEY}\nm_key_protection_level 2\nm_key_lease_period 0\n')
	manager = lab.start_manager('h1', '-F', conf)
	lab.up(manager)
	lab.weft('fabric', 'link', 'h5:1', 'down')
	lab.within('a trap of the link', lambda: 'num:128 ' in manager.logged())
	other = lab.start_manager('h8', '-p', '0', '-F', conf)
	lab.within('a trap of the other manager', lambda: 'num:144 ' in manager.logged())
	other.end()
	lid = lab.lid('h3')
	status, text = lab.try_at('h2', 'smpquery', '-t', '100', 'nodeinfo', lid)
	if not status:
		raise Wrong(f'without the M_Key: {text}')
	lab.within('a trap of the bad M_Key', lambda: 'num:256 ' in manager.logged())
	says(lab.at('h2', 'smpquery', '-y', M_KEY, 'portinfo', lid, '1'), r'MkeyViolations:\.+[1-9]')


def test_errors(lab):
	"""129 to 131: a port whose link has more errors than OpenSM's thresholds of 8 allow, and perfquery counts them."""
	lab.load_bare(lab.make(*BARE))
	manager = lab.start_manager('h1')
	lab.up(manager)
	# without effect but for the symbol errors
	lab.weft('fabric', 'link', 's1:1', 'errors', '8')
	for words, trap in ((('errors', '18'), 129), (('overruns', '8'), 130), (('silence',), 131)):
		if f'num:{trap} ' in manager.logged():
			raise Wrong(f'trap {trap} comes before its time')
		lab.weft('fabric', 'link', 's1:1', *words)
		lab.within(f'trap {trap}', lambda number=trap: f'num:{number} ' in manager.logged())
	said = lab.at('h2', 'perfquery', lid_of_switch(lab, 's1'), '1')
	for name, count in (('SymbolErrorCounter', 26), ('LinkErrorRecoveryCounter', 4), ('LocalLinkIntegrityErrors', 2),
			    ('ExcessiveBufferOverrunErrors', 1)):
		says(said, rf'{name}:\.+{count}\n')
	# a host's port tells of itself
	lab.weft('fabric', 'link', 'h5:1', 'silence')
	lab.within('a trap of h5', lambda: re.search(rf'num:131 .*lid:? ?{lab.lid("h5")}\b', manager.logged(), re.IGNORECASE))
	lab.weft('fabric', 'link', 'h5:1', 'down')
	status, text = lab.try_run(lab.weft_path, 'fabric', 'link', 'h5:1', 'silence')
	if not status or 'the link is down' not in text:
		raise Wrong(f'the port of a link that is down notices something: {text}')


def test_partitions(lab):
	"""Limited members reach full ones, not each other; a change of membership changes what reaches. Programs have the first
	P_Key of their port. Ports of switches do not look at P_Keys here: adapters do."""
	lab.load_bare(lab.make(*BARE))
	members = 'Default=0x7fff:ALL=limited,SELF=full'
	conf = lab.write('partitions.conf', members + ';\n')
	manager = lab.start_manager('h1', '-P', conf, '-Z', 'off')
	lab.up(manager)
	for a, b, reach in (('h2', 'h1', True), ('h2', 'h3', False), ('h4', 'h3', False)):
		wrong = lab.pingpong(a, b)
		if reach and wrong:
			raise Wrong(wrong)
		if not reach:
			says(wrong or f'{a} and {b} reach each other', RETRIES_RAN_OUT)
	h2 = lab.lid('h2')
	lab.write('partitions.conf', f'{members},{lab.at("h2", "ibstat", "-p").strip()}=full;\n')
	manager.process.send_signal(signal.SIGHUP)
	lab.within('h2 is a full member', lambda: ' 0xffff ' in lab.at('h1', 'smpquery', 'pkeys', h2))
	lab.within('h2 and h3 reach each other', lambda: not lab.pingpong('h2', 'h3'))
	says(lab.pingpong('h4', 'h3') or 'h4 and h3 reach each other', RETRIES_RAN_OUT)
	lab.write('partitions.conf', members + ';\n')
	manager.process.send_signal(signal.SIGHUP)
	lab.within('h2 is a limited member', lambda: ' 0x7fff ' in lab.at('h1', 'smpquery', 'pkeys', h2))
	lab.within('h2 and h3 are cut', lambda: re.search(RETRIES_RAN_OUT, lab.pingpong('h2', 'h3')))
	wrong = lab.pingpong('h2', 'h1')
	if wrong:
		raise Wrong(wrong)


def kill_weftd(lab):
	"""The one that runs, or the next one, which a program that has lost its own starts."""
	found = []

	def runs():
		status, text = lab.try_run(lab.weft_path, 'status', '--json')
		found[:] = [] if status else [json.loads(text)['pid']]
		return found
	lab.within('a weftd runs', runs)
	os.kill(found[0], signal.SIGKILL)


KILLS, STEP_S = 12, 0.03	# a bring-up takes a third of a second


def test_kills(lab):
	"""OpenSM, weftd or both are killed at any moment of a bring-up: the next ones make a subnet of what is left, with the
	LIDs that there were."""
	net = lab.make('fat-tree', 'ports=8')
	lab.load_bare(net)
	lids = {}
	for i in range(KILLS):
		killed = lab.start_manager('h1')
		# from the first datagram on
		lab.within('OpenSM begins', lambda m=killed: 'DISCOVERING' in m.logged() or not m.is_alive())
		time.sleep(i * STEP_S)
		if i % 3 != 1:
			killed.end(signal.SIGKILL)
		if i % 3:
			kill_weftd(lab)
		killed.end(signal.SIGKILL)
		after = lab.start_manager('h2')
		lab.up(after)
		lab.within('all paths reach', lambda: lab.check()['reached'] == 32 * 31)
		now = {node: lab.lid(node) for node in ('h1', 'h2', 'h32')}
		if lids and now != lids:
			raise Wrong(f'after {i + 1} kills the LIDs are {now}, not {lids}')
		lids = now
		wrong = lab.pingpong('h1', 'h32')
		if wrong:
			raise Wrong(f'after {i + 1} kills: {wrong}')
		after.end()
		if i % 2:
			lab.load_bare(net)


def reaches_all(lab):
	"""Of 32 hosts; weft does not start a weftd that was killed."""
	text = lab.try_run(lab.weft_path, 'fabric', 'check', '--json')[1]
	return text.startswith('{') and json.loads(text)['reached'] == 32 * 31


def test_weftd(lab):
	"""weftd is killed under OpenSM and ibping's server, in the midst of a bring-up and after it: both go on with the next
	one, and the port is a manager's."""
	lab.load_bare(lab.make('fat-tree', 'ports=8'))
	manager = lab.start_manager('h1')
	lab.within('OpenSM begins', lambda: 'DISCOVERING' in manager.logged())
	for _ in range(3):
		time.sleep(2 * STEP_S)
		kill_weftd(lab)
	lab.up(manager)
	lab.within('all paths reach', lambda: reaches_all(lab))
	server = lab.start('h32', 'ibping', '-S')
	lid, h1 = lab.lid('h32'), lab.lid('h1')
	for down in (True, False):
		lab.within('ibping is answered', lambda: not lab.try_at('h2', 'ibping', '-c', '1', lid)[0])
		kill_weftd(lab)
		lab.within('OpenSM answers', lambda: 'SMINFO_MASTER' in lab.try_at('h2', 'sminfo', h1)[1])
		lab.weft('fabric', 'link', 's1:1', 'down' if down else 'up')
		lab.within('the manager leads around', lambda: reaches_all(lab))
		says(lab.at('h2', 'saquery', '-t', '30000', '--src-to-dst', 'h2:h32'), rf'dlid\.+{lid}\n')
		says(lab.at('h2', 'smpquery', 'portinfo', h1, '1'), r'IsSM\n')
	lab.within('the link is used again', lambda: is_active(lab, lid_of_switch(lab, 's1'), '1'))
	if not manager.is_alive() or not server.is_alive():
		raise Wrong(f'a program has ended: {manager.text()}{server.text()}')


def test_flows(lab, flows, limit_s=subnet_lab.LIMIT_S):
	"""osmtest: OpenSM's own questions to its subnet administration; -f c writes what the others compare with."""
	lab.load_bare(lab.make(*BARE))
	lab.up(lab.start_manager('h1'))
	for flow in flows:
		words = ('osmtest', '-f', flow, '-i', lab.path('inventory'), '-l', lab.path('osmtest.log'))
		said = lab.run(*lab.command('h2', *words), limit_s=limit_s)
		says(said, r'OSMTEST: TEST ".*" PASS')


def tests():
	rows = {name: ('e2e', 300, subnet_lab.row(test)) for name, test in (
		('standby', test_standby), ('sweep', test_sweep), ('traps', test_traps), ('errors', test_errors),
		('partitions', test_partitions), ('kills', test_kills), ('weftd', test_weftd),
		('osmtest', lambda lab: test_flows(lab, 'ceqt')))}
	rows['osmtest-long'] = ('long', 600, subnet_lab.row(lambda lab: test_flows(lab, 'cavsfm', LONG_LIMIT_S)))
	return rows


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'osmtest', 'sminfo', 'smpquery', 'perfquery', 'ibstat', 'ibswitches',
					 'ibping', 'saquery', 'ibv_rc_pingpong')))
