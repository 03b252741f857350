#!/usr/bin/env python3
"""Hosts whose adapter has two ports, each at a switch of its own: one verbs device with both, and unmodified programs at each.

subnet_ports.py --list                  one line a test: name, label, timeout
subnet_ports.py --weft PROGRAM NAME...  runs these tests
"""
import json
import re
import signal
import sys

import subnet_lab
from subnet_lab import Wrong, says
from subnet_tools import links
from session import free_port
import run	# of abi/, whose place subnet_lab tells

# h1 and h2 have a port on each rail, h3 one alone; the rails are linked once.
TWO_RAILS = '''
switchguid=0x200001(200001)
Switch	8 "S-0000000000200001"		# "s1" base port 0 lid 1 lmc 0
[1]	"H-0000000000100000"[1](100001) 		# "h1" lid 3 4xQDR
[2]	"H-0000000000100010"[1](100011) 		# "h2" lid 5 4xQDR
[8]	"S-0000000000200002"[8]		# "s2" lid 2 4xQDR

switchguid=0x200002(200002)
Switch	8 "S-0000000000200002"		# "s2" base port 0 lid 2 lmc 0
[1]	"H-0000000000100000"[2](100002) 		# "h1" lid 4 4xQDR
[2]	"H-0000000000100010"[2](100012) 		# "h2" lid 6 4xQDR
[3]	"H-0000000000100020"[1](100021) 		# "h3" lid 7 4xQDR
[8]	"S-0000000000200001"[8]		# "s1" lid 1 4xQDR

caguid=0x100000
Ca	2 "H-0000000000100000"		# "h1"
[1](100001) 	"S-0000000000200001"[1]		# lid 3 lmc 0 "s1" lid 1 4xQDR
[2](100002) 	"S-0000000000200002"[1]		# lid 4 lmc 0 "s2" lid 2 4xQDR

caguid=0x100010
Ca	2 "H-0000000000100010"		# "h2"
[1](100011) 	"S-0000000000200001"[2]		# lid 5 lmc 0 "s1" lid 1 4xQDR
[2](100012) 	"S-0000000000200002"[2]		# lid 6 lmc 0 "s2" lid 2 4xQDR

caguid=0x100020
Ca	1 "H-0000000000100020"		# "h3"
[1](100021) 	"S-0000000000200002"[3]		# lid 7 lmc 0 "s2" lid 2 4xQDR
'''
PORTS = '/sys/class/infiniband/weft0/ports'
GID = 'fe80:0000:0000:0000:0000:0000:0010:%04x'


def load(lab, *options):
	lab.change('load', *options, lab.write('two-rails', TWO_RAILS))


def lids(lab, node):
	"""Of each port, as ibstat says."""
	return [int(lid) for lid in re.findall(r'Port \d:.*?Base lid:\s+(\d+)', lab.at(node, 'ibstat', 'weft0'), re.DOTALL)]


def test_device(lab):
	"""Each tool sees one device with two ports, and what is found in the fabric is what was loaded."""
	load(lab)
	if lids(lab, 'h1') != [3, 4] or lids(lab, 'h2') != [5, 6] or lids(lab, 'h3') != [7]:
		raise Wrong(f'LIDs: {lids(lab, "h1")}, {lids(lab, "h2")}, {lids(lab, "h3")}')
	says(lab.at('h1', 'ibstat'), r'Number of ports: 2\n')
	info = lab.at('h1', 'ibv_devinfo', '-v')
	says(info, r'phys_port_cnt:\s+2\n')
	for port, lid, guid in ((1, 3, 1), (2, 4, 2)):
		says(info, rf'port:\s+{port}\n\s+state:\s+PORT_ACTIVE(?:.*\n)*?\s+port_lid:\s+{lid}\n(?:.*\n)*?'
		     rf'\s+GID\[ *0\]:\s+{GID % guid}')
	files = lab.at('h1', 'sh', '-c', f'grep . {PORTS}/2/lid {PORTS}/2/state {PORTS}/2/rate {PORTS}/2/gids/0 '
		       '/sys/class/infiniband_mad/umad1/* /sys/class/infiniband_mad/issm1/port')
	for line in ('2/lid:0x4', '2/state:4: ACTIVE', '2/rate:40 Gb/sec (4X QDR)', f'2/gids/0:{GID % 2}', 'umad1/ibdev:weft0',
		     'umad1/port:2', 'issm1/port:2'):
		says(files, re.escape(line))
	if lab.try_at('h3', 'ls', f'{PORTS}/2')[0] == 0:
		raise Wrong('h3 has a second port')
	for options in ((), ('-P', '1'), ('-P', '2')):
		found = links(lab.at('h1', 'ibnetdiscover', *options))
		if found != links(TWO_RAILS):
			raise Wrong(f'ibnetdiscover {options}: {found}')
	# a port alone is a device of one port, as hosts with one have it
	says(lab.at('h1:2', 'ibstat'), r'Number of ports: 1\n(?:.*\n)*\s+Base lid: 4\n')
	place = json.loads(lab.weft('fabric', 'show', '--json'))['nodes']
	if sorted(p['lid'] for node in place if node['name'] == 'h1' for p in node['ports']) != [3, 4]:
		raise Wrong(f'weft fabric show: {place}')


def words(lab, lid, port):
	"""What the port has sent and received, without the datagrams that ask."""
	text = lab.at('h3', 'perfquery', '-x', str(lid), str(port))
	return [int(n) for n in re.findall(r'Port(?:Xmit|Rcv)Data:\.*(\d+)', text)]


def gone_by(lab, what, *ports):
	"""4-byte words that each port (LID, number) has sent and received while `what` ran; those that ask are 144 of them."""
	before = [words(lab, *port) for port in ports]
	what()
	return [[b - a for a, b in zip(old, words(lab, *port))] for old, port in zip(before, ports)]


def pair(lab, server, client, *command):
	port = str(free_port())
	words_of = [[command[0], '-p', port, *part] for part in (server[1:], client[1:])]
	running = lab.start_server(server[0], port, *words_of[0], *command[1:])
	lab.at(client[0], *words_of[1], *command[1:], '127.0.0.1')
	if running.process.wait(subnet_lab.LIMIT_S):
		raise Wrong(f'{command}: the server says {running.text()}')


def expect_rail(lab, rail, least, *command):
	"""Between h1 and h2, both at this port: all of it goes there, and nothing by the other one."""
	i = ('-i', str(rail))
	ports = [(3, 1), (4, 2), (5, 1), (6, 2)]
	moved = gone_by(lab, lambda: pair(lab, ('h1', *i), ('h2', *i), *command), *ports)
	for (lid, number), (sent, received) in zip(ports, moved):
		if number == rail and sent + received < least:
			raise Wrong(f'{command} on port {rail}: port {number} of LID {lid} has moved {sent} and {received} words')
		if number != rail and sent + received > 2000:
			raise Wrong(f'{command} on port {rail}: port {number} of LID {lid} has moved {sent} and {received} words')


def test_data(lab):
	"""Connections and datagrams by the second port alone, by packets and directly; from a port of one number to another."""
	load(lab)
	for rail in (2, 1):
		expect_rail(lab, rail, 1000 * 4096 // 4, 'ibv_rc_pingpong', '-d', 'weft0')
	expect_rail(lab, 2, 100 * 65536 // 4, 'ib_write_bw', '-d', 'weft0', '-n', '100', '-s', '65536')
	expect_rail(lab, 2, 100 * 2048 // 4, 'ib_send_bw', '-d', 'weft0', '-n', '100', '-s', '2048', '-c', 'UD')
	expect_rail(lab, 2, 1000 * 1024 // 4, 'ibv_ud_pingpong', '-d', 'weft0')
	pair(lab, ('h1', '-i', '2'), ('h2', '-i', '1'), 'ibv_rc_pingpong', '-d', 'weft0')
	pair(lab, ('h1', '-i', '1'), ('h1', '-i', '2'), 'ibv_uc_pingpong', '-d', 'weft0')
	pair(lab, ('h2', '-i', '2', '-g', '0'), ('h3', '-i', '1', '-g', '0'), 'ibv_ud_pingpong', '-d', 'weft0')
	pair(lab, ('h2', '-i', '2'), ('h1:2', '-i', '1'), 'ibv_srq_pingpong', '-d', 'weft0')
	if lab.try_at('h3', 'ibv_rc_pingpong', '-d', 'weft0', '-i', '2', '127.0.0.1')[0] == 0:
		raise Wrong('h3 sends by a port that it does not have')


def test_queues(lab):
	"""What waits at one port of an adapter holds up nothing at the other one (SAN-45)."""
	def sent():
		# perfquery's questions would wait behind the stream
		return int(lab.at('h1', 'cat', f'{PORTS}/1/counters/port_xmit_data'))

	load(lab)
	lab.weft('fabric', 'link', 'h1:1', 'rate=1Mbit')
	lab.weft('fabric', 'link', 'h1:2', 'rate=1Gbit')
	stream = ('-d', 'weft0', '-i', '1', '-n', '1000', '-s', '65536', '-Q', '1', '-p')
	port = str(free_port())
	lab.start_server('h2', port, 'ib_write_bw', *stream, port)
	before = sent()
	sender = lab.start('h1', 'ib_write_bw', *stream, port, '127.0.0.1')
	lab.within('the first port sends', lambda: sent() - before > 4096)
	pair(lab, ('h1', '-i', '2'), ('h2', '-i', '2'), 'ib_write_bw', '-d', 'weft0', '-n', '1000', '-s', '65536')
	# 64 MB of which a link of 1 Mbit/s carries 8 in a minute
	if not sender.is_alive() or sent() - before > 1000 * 65536 // 4 // 2:
		raise Wrong(f'the first port was not full: {sender.text()}')


def test_counters(lab):
	"""Each port's files say what perfquery says of it, also of packets that --impair keeps from the direct path."""
	load(lab)
	server = ('h1', '-i', '2')
	pair(lab, server, ('h2', '-i', '2'), 'ib_write_bw', '-d', 'weft0', '-n', '50', '-s', '4096')
	files = lab.at('h1', 'sh', '-c', f'cat {PORTS}/1/counters/port_rcv_data {PORTS}/2/counters/port_rcv_data').split()
	if int(files[0]) > 2000 or int(files[1]) < 50 * 1024 or abs(words(lab, 4, 2)[1] - int(files[1])) > 2000:
		raise Wrong(f'the files say {files}, perfquery {words(lab, 3, 1)} and {words(lab, 4, 2)}')


def test_management(lab):
	"""Datagrams go out by the port that a program names, and the agents answer for each."""
	load(lab)
	for port, lid in ((1, 5), (2, 6)):
		says(lab.at('h1', 'smpquery', '-P', str(port), 'nodeinfo', str(lid)),
		     rf'NumPorts:\.+2\n(?:.*\n)*LocalPort:\.+{port}\n')
		says(lab.at('h1', 'smpquery', '-P', str(port), 'portinfo', str(lid), str(port)), rf'\nLid:\.+{lid}\n')
		says(lab.at('h1', 'smpquery', '-P', str(port), '-D', 'nodedesc', f'0,{port}'), rf's{port}\s')
	sender = lab.start('h2', 'ibping', '-S', '-P', '2')
	lab.within('ibping answers', lambda: ' 0% packet loss' in lab.try_at('h1', 'ibping', '-P', '2', '-c', '1', '6')[1])
	if ' 0% packet loss' in lab.try_at('h1', 'ibping', '-P', '1', '-c', '1', '5')[1]:
		raise Wrong('what answers at port 2 of h2 answers at its port 1')
	sender.end()
	status, text = lab.try_at('h3', 'smpquery', '-P', '2', 'nodeinfo', '7')
	if status == 0:
		raise Wrong(f'h3 opens a port 2: {text}')


def test_link(lab):
	"""The link of one port goes down: its event names it, its QPs time out, and the other port's go on."""
	load(lab)
	watcher = lab.start('h2', 'stdbuf', '-oL', 'ibv_asyncwatch', '-d', 'weft0')
	lab.within('it watches', lambda: 'async event' in watcher.text() or not watcher.is_alive())
	lab.weft('fabric', 'link', 'h2:2', 'down')
	lab.within('the event is told', lambda: re.search(r'PORT_ERR.*port 2', watcher.text()))
	if 'port 1' in watcher.text():
		raise Wrong(f'port 1 has events: {watcher.text()}')
	states = re.findall(r'port:\s+(\d)\n\s+state:\s+PORT_(\w+)', lab.at('h2', 'ibv_devinfo', '-d', 'weft0'))
	if states != [('1', 'ACTIVE'), ('2', 'DOWN')]:
		raise Wrong(f'ports: {states}')
	wrong = lab.pingpong('h1', 'h2', '-i', '1')
	if wrong:
		raise Wrong(wrong)
	if not lab.pingpong('h1', 'h2', '-i', '2'):
		raise Wrong('a port whose link is down sends')
	lab.weft('fabric', 'link', 'h2:2', 'up')
	lab.within('it comes back', lambda: re.search(r'PORT_ACTIVE.*port 2', watcher.text()))
	wrong = lab.pingpong('h1', 'h2', '-i', '2')
	watcher.end(signal.SIGKILL)
	if wrong:
		raise Wrong(wrong)


def expect_lids(lab, whose):
	all_lids = lids(lab, 'h1') + lids(lab, 'h2') + lids(lab, 'h3')
	if len(all_lids) != 5 or 0 in all_lids or len(set(all_lids)) != 5:
		raise Wrong(f'{whose} gives the LIDs {all_lids}')
	for rail in ('1', '2'):
		wrong = lab.pingpong('h1', 'h2', '-i', rail)
		if wrong:
			raise Wrong(f'{whose}, port {rail}: {wrong}')


def test_managers(lab):
	"""OpenSM and weft's own manager give each port its LID, OpenSM also from a second port."""
	load(lab, '--routing', 'sm')
	lab.within('weft gives LIDs', lambda: 0 not in lids(lab, 'h1') + lids(lab, 'h2') + lids(lab, 'h3'))
	expect_lids(lab, "weft's manager")
	load(lab, '--routing', 'none')
	manager = lab.start_manager('h3')
	lab.up(manager)
	expect_lids(lab, 'OpenSM')
	if lab.at('h3', 'saquery', 'NR').count('NodeRecord dump') != 7:
		raise Wrong('OpenSM knows fewer ends')
	manager.end()
	load(lab, '--routing', 'none')
	manager = lab.start_manager('h1', '-g', '0x100002')
	lab.up(manager)
	expect_lids(lab, 'OpenSM at port 2')
	says(lab.at('h3', 'sminfo'), rf'sm lid {lids(lab, "h1")[1]} sm guid 0x100002,')
	manager.end()


def multicast(lab, lid, port):
	"""Packets that the port has received and sent."""
	text = lab.at('h3', 'perfquery', '-x', str(lid), str(port))
	return [int(re.search(rf'PortMulticast{way}Pkts:\.*(\d+)', text)[1]) for way in ('Rcv', 'Xmit')]


def test_multicast(lab):
	"""perftest joins at port 2 by its own datagrams: what is sent from port 2 of h2 comes there, and to no other port."""
	load(lab, '--routing', 'sm')
	lab.within('weft gives LIDs', lambda: 0 not in lids(lab, 'h1') + lids(lab, 'h2') + lids(lab, 'h3'))
	pair(lab, ('h1', '-i', '2'), ('h2', '-i', '2'), 'ib_send_bw', '-d', 'weft0', '-c', 'UD', '-g', '-M',
	     '255:18:64:27:255:255:0:0:0:0:0:0:0:0:0:9', '-n', '50', '-s', '1024')
	ports = [(lid, n + 1) for host in ('h1', 'h2') for n, lid in enumerate(lids(lab, host))]
	counts = [multicast(lab, *port) for port in ports]
	if counts != [[0, 0], [50, 0], [0, 0], [0, 50]]:
		raise Wrong(f'multicast packets received and sent by {ports}: {counts}')


def test_addresses(lab):
	"""rdma_cm at the address of port 2: its connection is at that port."""
	load(lab)
	gid = GID % 2
	server = lab.start('h1', 'stdbuf', '-oL', 'ucmatose', '-f', 'gid', '-b', gid, '-C', '5')
	lab.within('it listens', lambda: 'starting server' in server.text() or not server.is_alive())
	lab.within('it is reached', lambda: lab.try_at('h1', 'ucmatose', '-f', 'gid', '-s', gid, '-C', '5')[0] == 0 or
		   not server.is_alive())
	server.process.wait(subnet_lab.LIMIT_S)
	says(server.text(), 'return status 0')
	# 127.2.0.1 is port 2 of the first host, 127.2.0.2 that of the second (fabric/host.h)
	for source, leaves in (((), None), (('-b', '127.2.0.2'), 2)):
		server = lab.start('h1', 'stdbuf', '-oL', 'ucmatose', '-b', '127.2.0.1', '-C', '50', '-S', '4096')
		lab.within('it listens', lambda: 'starting server' in server.text() or not server.is_alive())
		ports = [(3, 1), (4, 2), (5, 1), (6, 2)]
		def connect():
			lab.within('it is reached', lambda: lab.try_at('h2', 'ucmatose', *source, '-s', '127.2.0.1', '-C', '50',
				   '-S', '4096')[0] == 0)
		moved = gone_by(lab, connect, *ports)
		if server.process.wait(subnet_lab.LIMIT_S) or moved[1][0] + moved[1][1] < 50 * 1024 or \
		   moved[0][0] + moved[0][1] > 5000 or (leaves and sum(moved[2]) > 5000):
			raise Wrong(f'words by each port of {ports} with {source}: {moved}; {server.text()}')


def tests():
	rows = (('device', test_device), ('data', test_data), ('queues', test_queues), ('counters', test_counters),
		('management', test_management), ('link', test_link), ('managers', test_managers), ('multicast', test_multicast),
		('addresses', test_addresses))
	return {name: ('e2e', 240, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'saquery', 'perfquery', 'ibstat', 'ibnetdiscover', 'ibv_devinfo',
					 'smpquery', 'ibping', 'ibv_rc_pingpong', 'ib_write_bw', 'ucmatose', 'stdbuf',
					 'ibv_asyncwatch')))
