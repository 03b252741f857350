#!/usr/bin/env python3
"""Multicast over a fabric: rdma_cm joins at OpenSM, data follows the trees that OpenSM writes, and leaving shrinks them. A
manager that is started anew, a link that was down and a new weftd take nobody out.

subnet_multicast.py --list                  one line a test: name, label, timeout
subnet_multicast.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import re
import signal
import sys

import subnet_lab
from subnet_lab import Wrong
import run	# of abi/, whose place subnet_lab tells

ADDR = '127.0.0.1'
MESSAGES = 20
MLID = '0xc001'		# the first that OpenSM gives after that of its broadcast group
MCKEY = ('mckey', '-m', '239.2.3.4', '-b', ADDR, '-C')
OTHER = ('mckey', '-m', '239.2.3.5', '-b', ADDR, '-C')
QKEY = '0x1234567'	# rdma_cm's
ALL = [f'h{i}' for i in range(1, 9)]
HERE = os.path.dirname(os.path.abspath(__file__))
EVENT = 'IBV_EVENT_CLIENT_REREGISTER'
HEARS = {'h2': 0, 'h3': 1, 'h4': 0, 'h5': 1, 'h7': 0, 'h8': 0}	# 1: the port is a member, and is not the sender's


def states(lab, mlid=MLID):
	"""The JoinState of each port that is a member of the group, as the manager says."""
	text = lab.try_at('h2', 'saquery', '--smkey', '1', '-m')[1]
	blocks = [block for block in text.split('MCMemberRecord member dump:')
		  if re.search(rf'Mlid\.+{mlid}', block, re.IGNORECASE)]
	return {re.search(r'NodeDescription\.+(\S+)', block)[1]: int(re.search(r'ScopeState\.+(\S+)', block)[1], 0) & 15
		for block in blocks}


def members(lab, mlid=MLID):
	"""The ports that are members of the group."""
	return sorted(states(lab, mlid))


def switches_of_tree(lab):
	"""Those whose forwarding tables have ports for the group."""
	switches = re.split(r'Multicast mlids', lab.try_at('h2', 'dump_fts', '-M')[1])
	return sorted(re.search(r'\((s\d+)\)', text)[1] for text in switches if re.search(rf'^ *{MLID} ', text, re.MULTILINE))


def counters(lab, node):
	"""Multicast packets that the port of a host has received and sent."""
	text = lab.at('h2', 'perfquery', '-x', lab.lid(node), '1')
	return [int(re.search(rf'PortMulticast{way}Pkts:\.*(\d+)', text)[1]) for way in ('Rcv', 'Xmit')]


def start(lab, nodes, messages=MESSAGES, words=MCKEY):
	"""Receivers; each says that it has joined when it hears: lines are written as they come."""
	receivers = [lab.start(node, 'stdbuf', '-oL', *words, str(messages)) for node in nodes]
	lab.within('all have joined', lambda: all('joined dgid' in r.text() or not r.is_alive() for r in receivers))
	return receivers


def send(lab):
	"""From h7, whose port is a member."""
	lab.at('h7', *MCKEY, str(MESSAGES), '-s')


def have_ended(lab, receivers):
	"""After one more sending: a tree may be written anew while data is on its way."""
	send(lab)
	return not any(r.is_alive() for r in receivers)


def finish(lab, receivers):
	lab.within('the receivers end', lambda: have_ended(lab, receivers))
	for r in receivers:
		if 'return status 0' not in r.text():
			raise Wrong(f'a receiver failed: {r.text()}')


def sends_to_members_alone(lab):
	before = {node: counters(lab, node) for node in HEARS}
	send(lab)
	grown = {node: [b - a for a, b in zip(before[node], counters(lab, node))] for node in HEARS}
	return grown == {node: [MESSAGES * HEARS[node], MESSAGES * (node == 'h7')] for node in HEARS}


def test_manager(lab):
	"""mckey at leaf switches of OpenSM's fabric: ports that joined get all of it, and no other port does. What is sent while
	OpenSM writes a tree may get lost, as on hardware, so that some of these hear more than they need."""
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h1'))
	h2 = start(lab, ('h2', 'h3', 'h5', 'h7'), 4000)[0]
	lab.within('OpenSM knows all', lambda: members(lab) == ['h2', 'h3', 'h5', 'h7'])
	lab.within('their leaves are of the tree', lambda: {'s1', 's2', 's3', 's4'} <= set(switches_of_tree(lab)))
	h2.end(signal.SIGKILL)
	lab.within('h2 has left', lambda: members(lab) == ['h3', 'h5', 'h7'])
	lab.within('its leaf is of the tree no more', lambda: 's1' not in switches_of_tree(lab))
	lab.within('members and nobody else hear it', lambda: sends_to_members_alone(lab))
	receivers = start(lab, ('h3', 'h5'))
	finish(lab, receivers)
	for program in lab.programs[1:]:
		if program.is_alive():
			program.end(signal.SIGKILL)
	lab.within('all have left', lambda: not members(lab) and not switches_of_tree(lab))


def test_no_manager(lab):
	"""In a fabric that weft routes, groups have trees, too; where no link leads there is no data."""
	lab.load('fat-tree', 'ports=4')
	lab.weft('fabric', 'link', 'h8:1', 'down')
	receivers = start(lab, ('h3', 'h5', 'h8'))
	finish(lab, receivers[:2])
	if not receivers[2].is_alive():
		raise Wrong(f'h8 behind a link that was down has heard: {receivers[2].text()}')
	lab.weft('fabric', 'link', 'h8:1', 'up')
	finish(lab, receivers[2:])


def again(lab, what):
	"""All are members, and data reaches them and nobody else."""
	lab.within(f'{what}: all are members', lambda: members(lab) == ['h3', 'h5', 'h7'])
	lab.within(f'{what}: members hear it', lambda: sends_to_members_alone(lab))


def test_again(lab):
	"""Programs in groups that a manager does not know join again by themselves: when OpenSM was killed, and the next one
	has no memory of it; when a link was down; when a manager comes to where none was."""
	lab.load('fat-tree', 'ports=4')
	start(lab, ('h3', 'h5', 'h7'), 4000)
	# the first of the next manager to ask has the second LID
	start(lab, ('h1', 'h8'), 4000, OTHER)
	lab.up(lab.start_manager('h2'))
	again(lab, 'the first manager')
	lab.within('the other group, too', lambda: members(lab, '0xc002') == ['h1', 'h8'])
	watch = lab.start('h5', 'stdbuf', '-oL', 'ibv_asyncwatch', '-d', 'weft0')
	lab.within('events are awaited', lambda: 'async event' in watch.text())
	for turn in range(2):
		lab.programs[-1 - (turn == 0)].end(signal.SIGKILL)
		lab.up(lab.start_manager('h2'))
		again(lab, f'manager {turn + 2}')
		lab.within('a LID that programs know stays', lambda: members(lab, '0xc002') == ['h1', 'h8'])
	lab.within('programs are told', lambda: EVENT in watch.text())
	for _ in range(4):	# none of these overtakes another
		lab.programs[0].end(signal.SIGKILL)
		lab.programs[0] = start(lab, ('h3',), 4000)[0]
	again(lab, 'after leaving and joining')
	lab.weft('fabric', 'link', 'h3:1', 'down')
	lab.within('the manager takes it out', lambda: members(lab) == ['h5', 'h7'])
	lab.weft('fabric', 'link', 'h3:1', 'up')
	again(lab, 'after the link was down')


def test_weftd(lab):
	"""weftd is killed, and with it OpenSM: with new ones of both, data flows again to programs that have gone on."""
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h2'))
	manager = lab.programs[-1]
	start(lab, ('h3', 'h5', 'h7'), 4000)
	again(lab, 'the first weftd')
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	if manager.is_alive():
		manager.end(signal.SIGKILL)
	lab.up(lab.start_manager('h2'))
	again(lab, 'the next weftd')


def sends(lab, node, words, heard):
	"""What is sent at a host gets to these ports, and to no others."""
	before = {n: counters(lab, n) for n in ALL}
	lab.at(node, *words)
	grown = {n: [b - a for a, b in zip(before[n], counters(lab, n))] for n in ALL}
	return grown == {n: [MESSAGES * (n in heard), MESSAGES * (n == node)] for n in ALL}


def senders(lab, is_opensm):
	"""In a group of h3 and h5, h1 and h7 are full members that only send, and then h8 is a non-member that only sends: data
	from them gets to the members by the tables, and their programs hear nothing. OpenSM's tables lead to them, too."""
	listeners = start(lab, ('h3', 'h5'), 4000)
	lab.within('both are members', lambda: members(lab) == ['h3', 'h5'])
	mute = start(lab, ('h1', 'h7'), 1, (*MCKEY[:-1], '-o', '-C'))
	lab.within('two only send', lambda: states(lab) == {'h1': 8, 'h3': 1, 'h5': 1, 'h7': 8})
	lab.within('their leaves are of the tree', lambda: {'s1', 's2', 's3', 's4'} <= set(switches_of_tree(lab)))
	extra = {'h7'} if is_opensm else set()
	mckey = (*MCKEY[:-1], '-o', '-s', '-C', str(MESSAGES))
	lab.within('members hear who only sends', lambda: sends(lab, 'h1', mckey, {'h3', 'h5'} | extra))
	if not all(r.is_alive() for r in mute + listeners):
		raise Wrong(f'who only sends has heard: {[r.text() for r in mute]}')
	for r in mute:
		r.end(signal.SIGKILL)
	lab.within('they have left', lambda: members(lab) == ['h3', 'h5'])
	lab.within('their leaves are of the tree no more', lambda: {'s2', 's3'} >= set(switches_of_tree(lab)) - {'s5', 's6'})
	# the program of h8 joins nothing: who is no member sends into nothing
	mgid = re.search(r'dgid: (\S+)', listeners[0].text())[1]
	post = (sys.executable, '-B', os.path.join(HERE, 'group_send.py'), MLID, mgid, QKEY, str(MESSAGES))
	lab.within('nobody hears who is no member', lambda: sends(lab, 'h8', post, set()))
	join = (sys.executable, '-B', os.path.join(HERE, 'sa_member.py'))
	answer = lab.at('h8', *join, 'join', '4', mgid)
	if answer != f'{MLID} {QKEY} 4\n':
		raise Wrong(f'the administration answers {answer}')
	lab.within('a non-member only sends', lambda: states(lab) == {'h3': 1, 'h5': 1, 'h8': 4})
	lab.within('members hear it', lambda: sends(lab, 'h8', post, {'h3', 'h5'}))
	lab.at('h8', *join, 'leave', '4', mgid)
	lab.within('nobody hears it', lambda: sends(lab, 'h8', post, set()))
	for r in listeners:
		r.end(signal.SIGKILL)
	lab.within('all have left', lambda: not members(lab) and not switches_of_tree(lab))


def test_senders(lab):
	"""Memberships that only send, at OpenSM."""
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h2'))
	senders(lab, True)


def test_own_senders(lab):
	"""Memberships that only send, at weft's manager."""
	lab.change('load', '--routing', 'sm', lab.make('fat-tree', 'ports=4'))
	lab.within('the subnet is up', lambda: all('State: Active' in lab.at(node, 'ibstat') for node in ALL))
	senders(lab, False)


def tests():
	rows = (('manager', test_manager), ('no-manager', test_no_manager), ('again', test_again), ('weftd', test_weftd),
		('senders', test_senders), ('own-senders', test_own_senders))
	return {name: ('e2e', 300, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'saquery', 'perfquery', 'ibstat', 'dump_fts', 'mckey', 'stdbuf',
					 'ibv_asyncwatch')))
