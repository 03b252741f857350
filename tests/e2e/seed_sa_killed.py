#!/usr/bin/env python3
"""weftd is killed while the seed's subnet administration answers, by weft sa: who asks hears what has happened, and what to do,
and has no part of an answer; the next weftd answers. What Configs had added has gone with the weftd that was killed.

usage: seed_sa_killed.py WEFT"""
import json
import os
import signal
import subprocess

import subnet_lab
from subnet_lab import Wrong, says

NODES = 44		# of a fat tree of switches with 8 ports


def expect(what, got, wanted):
	if got != wanted:
		raise Wrong(f'{what}: {got}, not {wanted}')


def ask(lab, *words, node='h2'):
	"""Records in an order of their own: the next manager's is another one."""
	return sorted(json.loads(lab.weft('sa', '--json', '--node', node, *words))['records'], key=json.dumps)


def names(records):
	return sorted(r['name'] for r in records)


def arrivals(lab, pid):
	"""Datagrams that came to a process."""
	clients = [c for q in json.loads(lab.weft('mad', '--json'))['qps'] for c in q['clients']]
	return sum(c['arrivals'] for c in clients if c.get('pid') == pid)


def kill_in(lab, packets, *words):
	"""What weft sa prints and says when weftd is killed while so many packets at least have come of a slow answer."""
	lab.weft('fabric', 'link', 'h2:1', 'rate=100Kbit')
	with subprocess.Popen([lab.weft_path, 'sa', '--node', 'h2', *words], env=lab.env, text=True, stdout=subprocess.PIPE,
			      stderr=subprocess.PIPE) as asker:
		lab.within('it is under way', lambda: arrivals(lab, asker.pid) >= packets or asker.poll() is not None)
		expect('it goes on when weftd is killed', asker.poll(), None)
		os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
		out, said = asker.communicate(timeout=subnet_lab.LIMIT_S)
	expect('its exit status, and what it prints', (asker.returncode, out), (1, ''))
	return said


def comes_back(lab, nodes):
	"""Whoever asks first starts the next weftd, and has all of them at once: four packets go within a second, and the next
	weftd waits for two until programs that the last one served are back."""
	first = ask(lab, 'gettable', 'nodes', 'retries=3', node='h3')
	expect('the first answer of the next weftd', names(first), names(nodes))
	lab.weft('fabric', 'link', 'h2:1', 'loss=0%')


def test(lab):
	lab.change('load', '--options', lab.write('options', 'subnet_timeout 10\n'), lab.make('fat-tree', 'ports=8'))
	lab.within('all nodes are known', lambda: len(ask(lab, 'gettable', 'nodes')) == NODES)
	# a port's state is in its record
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	before = []

	def is_still():
		before.append(ask(lab, 'gettable', 'ports'))
		return before[-1:] == before[-2:-1]
	lab.within('ports stay as they are', is_still)
	nodes, ports = ask(lab, 'gettable', 'nodes'), ask(lab, 'gettable', 'ports')

	# 300 packets of a table
	for words in (('gettable', 'ports', 'window=2'), ('getbulk',), ('gettable', '0x12', '--profile', 'standard')):
		said = kill_in(lab, 5, *words)
		says(said, r'^weft: weftd has ended before the answer was whole\n  next: ask again')
		comes_back(lab, nodes)
		lab.within('the next manager knows all', lambda: ask(lab, 'gettable', 'ports') == ports)
		expect('the same nodes', ask(lab, 'gettable', 'nodes'), nodes)

	# a Config that was answered, and one that was not
	path = lab.write('edits', ''.join(f'add {i} x\n' for i in range(500)))
	lab.weft('sa', '--node', 'h2', 'config', path)
	expect('they are kept', len(ask(lab, 'gettable', 'kept')), 500)
	more = lab.write('more', ''.join(f'add {i} x\n' for i in range(1000, 1500)))
	said = kill_in(lab, 1, 'config', more)
	says(said, r'^weft: weftd has ended before the Config was answered\n  next: nothing of it is kept')
	comes_back(lab, nodes)
	expect('neither is kept', ask(lab, 'gettable', 'kept'), [])
	for file in (path, more):
		lab.weft('sa', '--node', 'h2', 'config', file)
	expect('both, as they are sent again', len(ask(lab, 'gettable', 'kept')), 1000)


subnet_lab.script(test)
