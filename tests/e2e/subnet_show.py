#!/usr/bin/env python3
"""weft fabric show, as a table, as JSON and as a picture, and weft fabric top: each link of the fabric as it stands, with what it
has carried, which is what perfquery says.

subnet_show.py --list                  one line a test: name, label, timeout
subnet_show.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import re
import signal
import sys
import xml.etree.ElementTree

import subnet_lab
from counted import pair
from subnet_lab import Wrong, says
from session import free_port
import run	# of abi/, whose place subnet_lab tells

HOT, COLD = '#a50026', '#cccccc'
SVG = '{http://www.w3.org/2000/svg}'
KEYS = 9	# lines of the legend


def nodes_of(lab):
	return {node['name']: node for node in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']}


def links_of(nodes):
	return {frozenset({(name, p['port']), (p['to'], p['to_port'])}) for name, node in nodes.items() for p in node['ports']}


def links_of_text(path):
	found, names, node = set(), {}, None
	with open(path, encoding='utf-8') as f:
		for line in f:
			head = re.match(r'(?:Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s+# "([^"]*)"', line)
			if head:
				node, names[head[1]] = head[1], head[2]
			port = re.match(r'\[(\d+)\](?:\(\w+\))?\s+"([^"]+)"\[(\d+)\]', line)
			if port:
				found.add(frozenset({(node, int(port[1])), (port[2], int(port[3]))}))
	return {frozenset((names[n], p) for n, p in ends) for ends in found}


def test_links(lab):
	"""Each link of the topology, also where the counters of all ports come in several messages; a link that is down is so."""
	for kind in (('torus', 'size=3x3', 'hosts=1'), ('fat-tree', 'ports=36')):
		path = lab.make(*kind)
		lab.change('load', path)
		nodes = nodes_of(lab)
		if links_of(nodes) != links_of_text(path) or len(links_of(nodes)) < 9:
			raise Wrong(f'{kind}: show names other links than were loaded')
	lab.weft('fabric', 'link', 's54:36', 'down')
	lab.weft('fabric', 'link', 's54:35', 'loss=5%,rate=10Gbit')
	ports = {p['port']: p for p in nodes_of(lab)['s54']['ports']}
	if (ports[36]['state'], ports[35]['state'], ports[35]['loss_ppm'], ports[35]['rate_kbps']) != \
	   ('unplugged', 'active', 50000, 10000000):
		raise Wrong(f'the links of s54: {ports[35]}, {ports[36]}')
	says(lab.weft('fabric', 'show', 's54'), r's54\[35\] +\d+ +active .*loses 5%, 10000 Mbit/s')
	status, text = lab.try_run(lab.weft_path, 'fabric', 'show', 'nobody')
	if status != 1:
		raise Wrong(f'a node that is not there: {text}')


def test_names(lab):
	"""A host by its name: its GUID, LID and GID are those that its programs have."""
	lab.load('fat-tree', 'ports=4')
	said = lab.weft('fabric', 'show', 'h8')
	says(said, rf'^h8: a host, GUID 0x\w+\nport 1: LID {lab.lid("h8")}, GID ')
	own = lab.at('h8', 'cat', '/sys/class/infiniband/weft0/ports/1/gids/0').strip()
	gid = ':'.join(f'{int(part, 16):04x}' for part in re.search(r'GID ([^\s,]+)', said)[1].split(':'))
	if gid != own or lab.at('h8', 'ibstat', '-p').strip().replace('0x', '') != gid.replace(':', '')[16:]:
		raise Wrong(f'show tells {gid}, and h8 has {own}')


def test_ping(lab):
	"""weft ping finds a host of the fabric by its name, and hears from it what the links let through."""
	lab.load('fat-tree', 'ports=4')
	said = lab.weft('ping', '-c', '3', '-s', '0.1', '--node', 'h1', 'h8')
	says(said, rf'^h8 from h1, over the fabric: GUID 0x\w+, LID {lab.lid("h8")}, GID fe80:.*, address 127\.1\.0\.8\n')
	says(said, r'256 bytes from h8: seq=3 time=\d+\.\d+ ms\n3 sent, 3 answered, 0% lost; round trip')
	found = json.loads(lab.weft('ping', '-c', '1', '--json', 'h8'))
	if (found['peer'], found['from'], found['answered'], found['lid']) != ('h8', 'h1', 1, int(lab.lid('h8'))):
		raise Wrong(f'as JSON: {found}')
	before = sent_by(lab, 's4')
	lab.weft('ping', '-c', '20', '-s', '0.01', '--node', 'h1', 'h8')
	if sent_by(lab, 's4') < before + 40:
		raise Wrong('the leaf of h8 has not carried twenty questions and answers')
	lab.weft('fabric', 'link', 'h8:1', 'down')
	status, text = lab.try_run(lab.weft_path, 'ping', '-c', '1', '--node', 'h1', 'h8')
	if status != 1 or 'h8 does not answer h1' not in text:
		raise Wrong(f'h8 without a link: {status}, {text}')
	status, text = lab.try_run(lab.weft_path, 'ping', '-c', '1', '--size', '512', 'h8')
	if status != 2:
		raise Wrong(f'a datagram of 512 bytes: {text}')


def sent_by(lab, name):
	nodes = {n['name']: n for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']}
	return sum(p['sent_packets'] for p in nodes[name]['ports'])


def perfquery(lab, lid):
	found = dict(re.findall(r'(Port\w+):\.*(\d+)', lab.at('h2', 'perfquery', '-x', lid, '1')))
	return 4 * int(found['PortXmitData']), int(found['PortXmitPkts']), 4 * int(found['PortRcvData'])


def test_counts(lab):
	"""What a port has carried is what perfquery says of it, but for the datagrams of the question itself."""
	lab.load('fat-tree', 'ports=4')
	pair(lab, ('ib_write_bw', '-d', 'weft0', '-n', '50', '-s', '65536'), ('--node', 'h8'), ('--node', 'h1'))
	lid, first = lab.lid('h1'), nodes_of(lab)['h1']['ports'][0]
	asked, after = perfquery(lab, lid), nodes_of(lab)['h1']['ports'][0]
	for got, before, then in zip(asked, *([p[name] for name in ('sent_bytes', 'sent_packets', 'received_bytes')]
					      for p in (first, after))):
		if not before <= got <= then or then - before > 1000 or not before:
			raise Wrong(f'perfquery says {asked}, show {first} before and {after} after it')


def read_all(lab):
	lid = lab.lid('h1')
	wide = lab.at('h2', 'perfquery', '-x', lid, '1')
	found = re.findall(r'(Port\w+):\.*(\d+)', wide)
	return {name: int(n) for name, n in found if 'Select' not in name}


def kill_weftd(lab):
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)


def test_restart(lab):
	"""A weftd that takes over from one that was killed goes on counting, of data too, and from where counters were set."""
	lab.load('fat-tree', 'ports=4')
	words = ('ib_write_bw', '-d', 'weft0', '-n', '50', '-s', '65536')
	pair(lab, words, ('--node', 'h8'), ('--node', 'h1'))
	before = read_all(lab)
	kill_weftd(lab)
	after = read_all(lab)
	if before['PortXmitData'] < 50 * 65536 // 4 or any(not 0 <= after[name] - n <= 3000 for name, n in before.items()):
		raise Wrong(f'before {before}, after {after}')
	pair(lab, words, ('--node', 'h8'), ('--node', 'h1'))
	if read_all(lab)['PortXmitData'] < 2 * 50 * 65536 // 4:
		raise Wrong(f'new data adds nothing: {read_all(lab)}')
	lab.at('h2', 'perfquery', '-x', '-R', lab.lid('h1'), '1')
	kill_weftd(lab)
	after = read_all(lab)
	if any(n > 3000 for n in after.values()):
		raise Wrong(f'counters that were cleared are {after}')
	lab.load('fat-tree', 'ports=4')
	if nodes_of(lab)['h1']['ports'][0]['sent_bytes']:
		raise Wrong('a fabric that was loaded anew has counted already')


def picture(lab):
	root = xml.etree.ElementTree.fromstring(lab.weft('fabric', 'show', '--svg', '-'))
	lines = [line for line in root.iter(f'{SVG}line') if line.find(f'{SVG}title') is not None]
	if len(list(root.iter(f'{SVG}line'))) != len(lines) + KEYS - 1:
		raise Wrong('the legend of the picture has other lines')
	places = [(float(r.get('x')), float(r.get('y'))) for r in root.iter(f'{SVG}rect') if r.get('rx')]
	places += [(float(c.get('cx')), float(c.get('cy'))) for c in root.iter(f'{SVG}circle')]
	width, height = float(root.get('width')), float(root.get('height'))
	if len(set(places)) != len(places) or not all(0 < x < width and 0 < y < height for x, y in places):
		raise Wrong(f'nodes lie upon each other or outside: {sorted(places)}')
	return {line.find(f'{SVG}title').text: line for line in lines}, len(places)


def test_picture(lab):
	"""Each node and each link once, those that carried most in the hottest colour, idle ones in none; down is dotted."""
	for kind, nodes, links in ((('torus', 'size=4x4', 'hosts=2'), 48, 64), (('star', 'hosts=9'), 10, 9),
				   (('fat-tree', 'ports=4'), 14, 16)):
		lab.load(*kind)
		found, places = picture(lab)
		if (len(found), places) != (links, nodes):
			raise Wrong(f'{kind}: a picture of {places} nodes and {len(found)} links')
	pair(lab, ('ib_write_bw', '-d', 'weft0', '-n', '50', '-s', '65536'), ('--node', 'h8'), ('--node', 'h1'))
	lab.weft('fabric', 'link', 'h5:1', 'down')
	found, _ = picture(lab)
	hot = {title for title, line in found.items() if line.get('stroke') == HOT}
	if len(hot) != 4 or not any('h1[1]' in t for t in hot) or not any('h8[1]' in t for t in hot):
		raise Wrong(f'the hottest links are {hot}')
	for title, line in found.items():
		is_dotted = line.get('stroke-dasharray') == '2 4'
		if ('h3[1]' in title and line.get('stroke') != COLD) or ('h5[1]' in title) != is_dotted:
			raise Wrong(f'{title}: {line.attrib}')


def test_escapes(lab):
	"""Names of nodes are text in a picture, whatever they are."""
	path = lab.make('star', 'hosts=2')
	with open(path, encoding='utf-8') as f:
		text = f.read().replace('"h1"', '"<h&1>"')
	lab.change('load', lab.write('net', text))
	found, _ = picture(lab)
	if not any('<h&1>[1]' in title for title in found):
		raise Wrong(f'the links are {list(found)}')


def test_top(lab):
	"""The links that a program keeps busy are the first, in both forms; without it there is nothing."""
	lab.load('fat-tree', 'ports=4')
	quiet = json.loads(lab.weft('fabric', 'top', '--json', '--count', '1', '--interval', '0.1'))
	if quiet['directions'] != 32 or any(link['bytes_per_s'] for link in quiet['links']):
		raise Wrong(f'without programs: {quiet}')
	port = str(free_port())
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-s', '65536', '-D', '1', '--run_infinitely', '-p', port)
	server = lab.start_server('h8', port, *words)
	client = lab.start('h1', *words, '127.0.0.1')

	def busiest():
		rates = json.loads(lab.weft('fabric', 'top', '--json', '--count', '1', '--interval', '0.1'))
		# acknowledgements go back
		most = max(rates['links'][0]['bytes_per_s'], 1000000)
		return [link['from'] for link in rates['links'] if link['bytes_per_s'] > most / 10]
	lab.within('h1 is among the busiest', lambda: 'h1[1]' in busiest())
	if 'h3[1]' in busiest() or len(busiest()) > 4:
		raise Wrong(f'busy are {busiest()}')
	says(lab.weft('fabric', 'top', '--batch', '--count', '1', '--interval', '0.2'),
	     r'(?s)^weft fabric top: 16 links, .*\nFROM +TO +STATE .*\n\S+ +\S+ +active')
	for program in (client, server):
		program.end(signal.SIGKILL)
	lab.within('nothing is busy', lambda: not json.loads(lab.weft(
		'fabric', 'top', '--json', '--count', '1', '--interval', '0.1'))['links'][0]['bytes_per_s'])


def tests():
	rows = (('links', test_links), ('names', test_names), ('ping', test_ping), ('counts', test_counts),
		('restart', test_restart), ('picture', test_picture), ('escapes', test_escapes), ('top', test_top))
	return {name: ('e2e', 240, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('perfquery', 'ibstat', 'ib_write_bw')))
