#!/usr/bin/env python3
"""Ports with four LIDs (LMC 2): ib_write_bw over weft0 goes by the four routes that the subnet administration names, goes on when
a link of one of them is taken down, and uses four again after the sweep; under OpenSM and under weft's own manager, without
packets and with them, by the profile multipath and of XRC. saquery hears of the same four.

subnet_lmc.py --list                  one line a test: name, label, timeout
subnet_lmc.py --weft PROGRAM NAME...  runs these tests
"""
import json
import re
import signal
import sys

import subnet_lab
from subnet_lab import Wrong
import run	# of abi/, whose place subnet_lab tells
from session import free_port

# in a fat tree of ports=8, h1 to h4 are behind s1, h29 to h32 behind s8, and each leaf has a link to each of four spines
NODES = ('h1', 'h32')
LEAF = 's1'
ROUTES = 4
BUSY_BYTES = 1 << 22	# more than what goes on beside data
BUSY = 20		# messages or packets


def uplinks(lab):
	"""Bytes that the links of h1's leaf to the spines have carried upwards."""
	nodes = {n['name']: n for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']}
	return {p['port']: p['sent_bytes'] for p in nodes[LEAF]['ports'] if p['to'].startswith('s')}


def paths(lab, program):
	"""Of the queue pair that sends most: state, both LIDs, and what went by it."""
	found = [[]]
	for p in json.loads(lab.weft('qp', '--json'))['processes']:
		for qp in p['qps'] if p['pid'] == program.process.pid else ():
			found.append([(qp[f'path{i}_state'], qp[f'path{i}_from'], qp[f'path{i}_to'],
				       qp[f'path{i}_sent'] + qp.get(f'path{i}_messages', 0)) for i in range(qp.get('paths', 0))])
	return max(found, key=lambda ways: sum(sent for *_, sent in ways))


def named(lab):
	"""The pairs of LIDs that the administration names to saquery."""
	gids = [re.search(r'GID (\S+)', lab.at(node, 'ibaddr'))[1] for node in NODES]
	text = lab.at(NODES[0], 'saquery', 'PR', '--sgid', gids[0], '--dgid', gids[1], '--numb_path', '100')
	return set(zip(*([f'LID {lid}' for lid in re.findall(rf'{end}\.+(\d+)', text)] for end in ('slid', 'dlid'))))


def are_up(lab, program):
	found = paths(lab, program)
	lids = {to for _, _, to, _ in found}
	return len(found) == len(lids) == ROUTES and all(state == lab.up_state for state, *_ in found)


def all_carry(lab, links, before):
	now = uplinks(lab)
	return all(now[i] > before[i] + BUSY_BYTES for i in links)


def all_are_used(lab, program, before):
	return all(now[3] > then[3] + BUSY for now, then in zip(paths(lab, program), before))


class Spread(subnet_lab.Lab):
	"""Whose programs go by several paths, without packets or with them."""
	way = 'auto'
	profile = 'standard'
	up_state = 'up'
	connection = 'RC'

	def command(self, node, *words):
		return [self.weft_path, 'run', '--node', node, '--device', 'weft0', '--path', self.way, '--profile',
			f'{self.profile},paths={ROUTES}', '--', *words]


def start(lab):
	port = str(free_port())
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-c', lab.connection, '-D', '1', '--run_infinitely', '-p', port)
	return [lab.start_server(NODES[1], port, *words), lab.start(NODES[0], *words, '127.0.0.1')]


def goes_on(lab, way, link):
	lab.way = way
	programs = start(lab)
	client = programs[1]
	links = sorted(uplinks(lab))
	if len(links) != ROUTES:
		raise Wrong(f'{LEAF} has the links {links} to spines')
	lab.within(f'{way}: four paths are up', lambda: are_up(lab, client))
	used = {(a, b) for _, a, b, _ in paths(lab, client)}
	if not used <= named(lab):
		raise Wrong(f'{way}: {used} are used, {named(lab)} are named')
	before = uplinks(lab)
	lab.within(f'{way}: all four links carry data', lambda: all_carry(lab, links, before))
	lab.weft('fabric', 'link', f'{LEAF}:{link}', 'down')
	before = uplinks(lab)
	lab.within(f'{way}: the other links go on', lambda: all_carry(lab, [i for i in links if i != link], before))
	lab.within(f'{way}: four paths after the sweep', lambda: are_up(lab, client))
	used = paths(lab, client)
	lab.within(f'{way}: all of them are used', lambda: all_are_used(lab, client, used))
	lab.weft('fabric', 'link', f'{LEAF}:{link}', 'up')
	before = uplinks(lab)
	lab.within(f'{way}: all four links carry data again', lambda: all_carry(lab, links, before))
	if not all(p.is_alive() for p in programs):
		raise Wrong('it has ended: ' + ''.join(p.text() for p in programs))
	for p in programs:
		p.end(signal.SIGKILL)


def test_own(lab):
	lab.change('load', '--lmc', '2', lab.make('fat-tree', 'ports=8'))
	goes_on(lab, 'auto', 1)
	goes_on(lab, 'packet', 2)


def test_multipath(lab):
	lab.profile, lab.up_state = 'multipath', 'good'
	lab.change('load', '--lmc', '2', lab.make('fat-tree', 'ports=8'))
	goes_on(lab, 'auto', 3)


def test_xrc(lab):
	lab.connection = 'XRC'
	lab.change('load', '--lmc', '2', lab.make('fat-tree', 'ports=8'))
	goes_on(lab, 'auto', 3)


def under_opensm(lab):
	# tables with room for the LIDs
	lab.change('load', '--routing', 'none', '--lmc', '2', lab.make('fat-tree', 'ports=8'))
	lab.up(lab.start_manager('h2', '-l', '2'))


def test_opensm(lab):
	under_opensm(lab)
	goes_on(lab, 'auto', 1)
	goes_on(lab, 'packet', 2)


def test_opensm_multipath(lab):
	lab.profile, lab.up_state = 'multipath', 'good'
	under_opensm(lab)
	goes_on(lab, 'auto', 3)


def tests():
	return {
		'own': ('e2e', 300, lambda weft: subnet_lab.tried(weft, test_own, Spread)),
		'multipath': ('e2e', 300, lambda weft: subnet_lab.tried(weft, test_multipath, Spread)),
		'xrc': ('e2e', 300, lambda weft: subnet_lab.tried(weft, test_xrc, Spread)),
		'opensm': ('e2e', 300, lambda weft: subnet_lab.tried(weft, test_opensm, Spread)),
		'opensm-multipath': ('e2e', 300, lambda weft: subnet_lab.tried(weft, test_opensm_multipath, Spread)),
	}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'ib_write_bw', 'saquery')))
