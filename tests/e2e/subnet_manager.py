#!/usr/bin/env python3
"""Debian's OpenSM brings up a fabric that was loaded without addresses and tables; Debian's tools and data use what it wrote.

usage: subnet_manager.py WEFT"""
import re
import signal

from subnet_lab import LIMIT_S, says, script


def ping(lab, a, b):
	wrong = lab.pingpong(a, b)
	if wrong:
		lab.fail(wrong)


def test_bring_up(lab):
	"""Nobody has a LID, and nothing is active; the manager comes, and all are."""
	says(lab.at('h1', 'ibstat'), r'State: Initializing\n.*\n.*\n\s+Base lid: 0\n')
	manager = lab.start_manager('h1')
	lab.up(manager)
	for node in ('h1', 'h8'):
		says(lab.at(node, 'ibstat'), r'State: Active\n.*\n.*\n\s+Base lid: [1-9]')
	says(lab.at('h8', 'sminfo'), r'SMINFO_MASTER')
	return manager


def query(lab, *words):
	"""saquery sends once; the manager may be busy for longer than its second."""
	return lab.at('h2', 'saquery', '-t', str(1000 * LIMIT_S // 2), *words)


def test_tables(lab):
	"""Tables of many segments come whole: each node, and a path for each pair of end ports."""
	descriptions = re.findall(r'NodeDescription\.+(\S+)', query(lab, '-N'))
	ends = {f'h{i}' for i in range(1, 9)} | {f's{i}' for i in range(1, 7)}
	if sorted(descriptions) != sorted(ends):
		lab.fail(f'saquery -N names {sorted(descriptions)}')
	paths = query(lab, '-p').count('PathRecord dump')
	if paths != 14 * 14:
		lab.fail(f'saquery -p has {paths} paths')
	says(query(lab, '-p', '--src-to-dst', 'h1:h8'), rf'dlid\.+{lab.lid("h8")}\b')
	says(query(lab, '-g'), r'Mlid\.+0xC000')


def test_ways(lab):
	h1, h8 = lab.lid('h1'), lab.lid('h8')
	way = lab.at('h3', 'ibtracert', h1, h8)
	if way.count('-> switch port') != 3 or not re.search(r'-> ca port .* "h8"', way):
		lab.fail(f'ibtracert finds {way}')
	says(lab.at('h1', 'ibnetdiscover'), rf'"h8" lid {h8} ')
	ping(lab, 'h8', 'h1')


def test_ping(lab):
	server = lab.start('h8', 'ibping', '-S')
	lid = lab.lid('h8')
	# it listens some time after it was started
	lab.within('ibping answers', lambda: '1 received' in lab.try_at('h1', 'ibping', '-c', '1', lid)[1])
	server.end()


def probe(lab, *words):
	status, text = lab.try_at('h1', *words)
	return '' if status else text


def leads_around(lab, port, h1, h8):
	"""Do ways lead from h1 to h8 and back, and not by this port of s1, the switch of h1?"""
	there, back = probe(lab, 'ibtracert', h1, h8), probe(lab, 'ibtracert', h8, h1)
	return ('To ca' in there and not re.search(rf'"s1"\n\[{port}\]', there) and
		'To ca' in back and not re.search(rf'\[{port}\] lid \d+-\d+ "s1"', back))


def is_active(lab, lid, port):
	return re.search(r'LinkState:\.+Active', probe(lab, 'smpquery', 'portinfo', lid, port)) is not None


def test_link_down(lab):
	"""Each of two ways from h1 to h8 is taken away, and given back; the manager leads around it."""
	h1, h8 = lab.lid('h1'), lab.lid('h8')
	s1 = re.search(r'lid (\d+)-\d+ "s1"', probe(lab, 'ibtracert', h1, h8))[1]
	for port in ('1', '2'):
		lab.weft('fabric', 'link', f's1:{port}', 'down')
		lab.within('the manager leads around', lambda p=port: leads_around(lab, p, h1, h8))
		# a sweep that began before the change may write its tables yet
		lab.within('a connection by the other way', lambda: not lab.pingpong('h8', 'h1'))
		lab.weft('fabric', 'link', f's1:{port}', 'up')
		lab.within('the manager takes the link up', lambda p=port: is_active(lab, s1, p))


def is_manager(lab, lid):
	return re.search(r'IsSM\b', lab.at('h2', 'smpquery', 'portinfo', lid, '1')) is not None


def test_end(lab, manager):
	"""Its port is a manager's as long as it lives, however it ends."""
	h1 = lab.lid('h1')
	if not is_manager(lab, h1):
		lab.fail('the port of OpenSM is no manager\'s')
	manager.end(signal.SIGKILL)
	lab.within('the port is no manager\'s', lambda: not is_manager(lab, h1))
	ping(lab, 'h8', 'h1')


def test(lab):
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	manager = test_bring_up(lab)
	test_tables(lab)
	test_ways(lab)
	test_ping(lab)
	test_link_down(lab)
	test_end(lab, manager)


if __name__ == '__main__':
	script(test, 'opensm', 'saquery', 'sminfo', 'ibtracert', 'ibroute', 'ibping', 'ibnetdiscover', 'smpquery',
	       'ibv_rc_pingpong')
