#!/usr/bin/env python3
"""Who subscribes to notices at a subnet administration, OpenSM's or weft's own, hears of ports that come and go (traps 64 and 65)
and of groups that are made and end (66 and 67), until it ends its subscriptions.

subnet_reports.py --list                  one line a test: name, label, timeout
subnet_reports.py --weft PROGRAM NAME...  runs these tests
"""
import ipaddress
import os
import re
import signal
import sys

import subnet_lab
from subnet_lab import Wrong
from subnet_multicast import MCKEY
import run	# of abi/, whose place subnet_lab tells

SCRIPT = (sys.executable, '-B', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sa_reports.py'))
HERE, GONE, MADE, ENDED = 64, 65, 66, 67


def subscribe(lab, node, *traps):
	listener = lab.start(node, *SCRIPT, *map(str, traps))
	lab.within('it has subscribed', lambda: 'subscribed' in listener.text() or not listener.is_alive())
	if not listener.is_alive():
		raise Wrong(listener.text())
	return listener


def subscriptions(lab):
	return lab.at('h8', 'saquery', '-t', '30000', 'IIR').count('InformInfoRecord dump:')


def gid(lab, node):
	return str(ipaddress.ip_address(lab.at(node, 'cat', '/sys/class/infiniband/weft0/ports/1/gids/0').strip()))


def hears(lab, what, listener, *lines):
	"""Each of these reports, and no others, in any order; one may come more than once."""
	lab.within(f'{what} is reported', lambda: set(lines) <= set(heard(listener)))
	if set(heard(listener)) != set(lines):
		raise Wrong(f'{what}: {heard(listener)} are reported in place of {lines}')


def heard(listener):
	return [line for line in listener.text().splitlines() if re.match(r'\d+ ', line)]


def hears_all(lab, listener):
	"""What a host, a link between switches and a group have reported at the end."""
	said = []
	for state, trap in (('down', GONE), ('up', HERE)):
		lab.weft('fabric', 'link', 'h5:1', state)
		said.append(f'{trap} {gid(lab, "h5")}')
		hears(lab, f'h5 {state}', listener, *said)
	# whose ends stay where they are
	lab.weft('fabric', 'link', 's1:1', 'down')
	lab.within('ways lead around it', lambda: lab.check()['reached'] == lab.check()['paths'])
	lab.weft('fabric', 'link', 's1:1', 'up')
	member = lab.start('h7', 'stdbuf', '-oL', *MCKEY, '1')
	lab.within('h7 joins', lambda: 'joined dgid' in member.text() or not member.is_alive())
	group = str(ipaddress.ip_address(re.search(r'dgid: (\S+)', member.text())[1]))
	said.append(f'{MADE} {group}')
	hears(lab, 'a group', listener, *said)
	member.end(signal.SIGKILL)
	said.append(f'{ENDED} {group}')
	hears(lab, 'its end', listener, *said)


def ends(lab, listener):
	"""It hears nothing more, and another one, of some traps, does."""
	other = subscribe(lab, 'h3', GONE)
	if subscriptions(lab) != 5:
		raise Wrong(f'there are {subscriptions(lab)} subscriptions, not 4 and 1')
	listener.process.send_signal(signal.SIGTERM)
	lab.within('it ends its subscriptions', lambda: not listener.is_alive())
	if listener.process.returncode or 'ended' not in listener.text() or subscriptions(lab) != 1:
		raise Wrong(f'{subscriptions(lab)} subscriptions are left, not 1: {listener.text()}')
	before = heard(listener)
	lab.weft('fabric', 'link', 'h5:1', 'down')
	hears(lab, 'h5 down', other, f'{GONE} {gid(lab, "h5")}')
	if heard(listener) != before:
		raise Wrong(f'who ended its subscriptions has heard {heard(listener)[len(before):]}')
	return other


def test_opensm(lab):
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h1'))
	listener = subscribe(lab, 'h2', HERE, GONE, MADE, ENDED)
	hears_all(lab, listener)
	ends(lab, listener)


def test_own(lab):
	"""Who does not answer, as it was killed, is subscribed no more."""
	lab.change('load', '--routing', 'sm', lab.make('fat-tree', 'ports=4'))
	lab.within('all hosts are up', lambda: lab.check()['reached'] == 8 * 7)
	listener = subscribe(lab, 'h2', HERE, GONE, MADE, ENDED)
	hears_all(lab, listener)
	other = ends(lab, listener)
	other.end(signal.SIGKILL)
	lab.weft('fabric', 'link', 'h5:1', 'up')
	lab.within('h5 is there', lambda: lab.check()['reached'] == 8 * 7)
	lab.weft('fabric', 'link', 'h5:1', 'down')
	lab.within('who was killed is subscribed no more', lambda: not subscriptions(lab))


def tests():
	return {name: ('e2e', 240, subnet_lab.row(test)) for name, test in (('opensm', test_opensm), ('own', test_own))}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'saquery', 'mckey', 'stdbuf')))
