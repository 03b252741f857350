#!/usr/bin/env python3
"""Hosts of several adapters: a verbs device for each, and unmodified programs at all of them.

subnet_adapters.py --list                  one line a test: name, label, timeout
subnet_adapters.py --weft PROGRAM NAME...  runs these tests
"""
import re
import signal
import sys

import subnet_lab
from subnet_lab import Wrong, mpi_check, says
from subnet_ports import gone_by, multicast, pair
from subnet_tools import links
import run	# of abi/, whose place subnet_lab tells
from programs import UCX_PERFTEST
from session import free_port

# As ibnetdiscover prints hosts of several adapters: h1 has two of two ports, h2 two of one port; h3 has one.
HOSTS = '''
switchguid=0x200001(200001)
Switch	8 "S-0000000000200001"		# "s1" base port 0 lid 1 lmc 0
[1]	"H-0000000000100000"[1](100001) 		# "h1 HCA-1" lid 3 4xQDR
[2]	"H-0000000000100010"[1](100011) 		# "h2 HCA-1" lid 6 4xQDR
[3]	"H-0000000000100008"[1](100009) 		# "h1 HCA-2" lid 5 4xQDR
[8]	"S-0000000000200002"[8]		# "s2" lid 2 4xQDR

switchguid=0x200002(200002)
Switch	8 "S-0000000000200002"		# "s2" base port 0 lid 2 lmc 0
[1]	"H-0000000000100000"[2](100002) 		# "h1 HCA-1" lid 4 4xQDR
[2]	"H-0000000000100018"[1](100019) 		# "h2 HCA-2" lid 7 4xQDR
[3]	"H-0000000000100020"[1](100021) 		# "h3 HCA-1" lid 8 4xQDR
[4]	"H-0000000000100008"[2](10000a) 		# "h1 HCA-2" lid 9 4xQDR
[8]	"S-0000000000200001"[8]		# "s1" lid 1 4xQDR

caguid=0x100018
Ca	1 "H-0000000000100018"		# "h2 HCA-2"
[1](100019) 	"S-0000000000200002"[2]		# lid 7 lmc 0 "s2" lid 2 4xQDR

caguid=0x100008
Ca	2 "H-0000000000100008"		# "h1 HCA-2"
[1](100009) 	"S-0000000000200001"[3]		# lid 5 lmc 0 "s1" lid 1 4xQDR
[2](10000a) 	"S-0000000000200002"[4]		# lid 9 lmc 0 "s2" lid 2 4xQDR

caguid=0x100000
Ca	2 "H-0000000000100000"		# "h1 HCA-1"
[1](100001) 	"S-0000000000200001"[1]		# lid 3 lmc 0 "s1" lid 1 4xQDR
[2](100002) 	"S-0000000000200002"[1]		# lid 4 lmc 0 "s2" lid 2 4xQDR

caguid=0x100010
Ca	1 "H-0000000000100010"		# "h2 HCA-1"
[1](100011) 	"S-0000000000200001"[2]		# lid 6 lmc 0 "s1" lid 1 4xQDR

caguid=0x100020
Ca	1 "H-0000000000100020"		# "h3 HCA-1"
[1](100021) 	"S-0000000000200002"[3]		# lid 8 lmc 0 "s2" lid 2 4xQDR
'''
CLASS = '/sys/class/infiniband'
# LID and number of h1's ports but the last, of h2's, and that one
PORTS = [(3, 1), (4, 2), (5, 1), (6, 1), (7, 1), (9, 2)]


def load(lab, *options):
	lab.devices = ()
	lab.change('load', *options, lab.write('hosts', HOSTS))


def lids(lab, node, device):
	return [int(lid) for lid in re.findall(r'Base lid:\s+(\d+)', lab.at(node, 'ibstat', device))]


def test_devices(lab):
	"""Each tool sees a device for each adapter, with its GUIDs, ports and LIDs; weft1 is where it was."""
	load(lab)
	listed = lab.at('h1', 'ibv_devices')
	found = re.findall(r'(weft\d)\s+([0-9a-f]{16})', listed)
	if [name for name, _ in found] != ['weft0', 'weft1', 'weft2'] or int(found[0][1], 16) != 0x100000 or \
	   int(found[2][1], 16) != 0x100008:
		raise Wrong(listed)
	if lids(lab, 'h1', 'weft0') != [3, 4] or lids(lab, 'h1', 'weft2') != [5, 9] or lids(lab, 'h2', 'weft2') != [7]:
		raise Wrong(lab.at('h1', 'ibstat') + lab.at('h2', 'ibstat'))
	info = lab.at('h1', 'ibv_devinfo', '-v', '-d', 'weft2')
	says(info, r'node_guid:\s+0000:0000:0010:0008\n')
	says(info, r'phys_port_cnt:\s+2\n(?:.*\n)*\s+port_lid:\s+5\n(?:.*\n)*'
	     r'\s+GID\[ *0\]:\s+fe80:0000:0000:0000:0000:0000:0010:0009\n(?:.*\n)*\s+port_lid:\s+9\n')
	files = lab.at('h1', 'sh', '-c', f'grep . {CLASS}/weft2/node_desc {CLASS}/weft0/node_desc {CLASS}/weft2/ports/1/lid '
		       '/sys/class/infiniband_mad/umad*/ibdev /sys/class/infiniband_mad/umad2/port '
		       '/sys/class/infiniband_verbs/*/ibdev')
	for line in ('weft2/node_desc:h1 HCA-2', 'weft0/node_desc:h1 HCA-1', 'weft2/ports/1/lid:0x5', 'umad1/ibdev:weft0',
		     'umad2/ibdev:weft2', 'umad2/port:1', 'umad3/ibdev:weft2', 'uverbs3/ibdev:weft2'):
		says(files, re.escape(line))
	if links(lab.at('h1', 'ibnetdiscover', '-C', 'weft2')) != links(HOSTS):
		raise Wrong('ibnetdiscover at weft2 finds other links')
	# one adapter of the host, the only one of another; one that nobody has
	for node, device, lid in (('h1 HCA-2', 'weft0', [5, 9]), ('h3', 'weft0', [8])):
		text = lab.at(node, 'ibv_devices')
		if lids(lab, node, device) != lid or 'weft2' in text:
			raise Wrong(f'{node}: {text}')
	if lab.try_at('h3', 'ibstat', 'weft2')[0] == 0:
		raise Wrong('h3 has a second adapter')
	says(lab.weft('run', '--node', 'h1', '--device', 'weft2', '--', 'ibv_devices'), r'weft2')
	if re.search('weft[01]', lab.weft('run', '--node', 'h1', '--device', 'weft2', '--', 'ibstat', '-l')):
		raise Wrong('--device weft2 shows others')
	status, text = lab.try_run(lab.weft_path, 'run', '--node', 'h3', '--device', 'weft2', '--', 'true')
	if not status or 'has not all of these devices' not in text:
		raise Wrong(f'weft2 of h3: {status}, {text}')


def expect_moved(lab, least, where, what):
	"""At least so many words go by these of PORTS, and no more than those who ask by the others."""
	moved = gone_by(lab, what, *PORTS)
	for i, (sent, received) in enumerate(moved):
		if (i in where) != (sent + received >= least) or (i not in where and sent + received > 3000):
			raise Wrong(f'{where} were to move {least} words; of {PORTS}: {moved}')


def between(lab, one, other, *command):
	return lambda: pair(lab, ('h1', '-d', one), ('h2', '-d', other), *command)


def test_data(lab):
	"""Each device sends by its own port, directly and as packets, and reaches each adapter of the other host."""
	load(lab)
	write = ('ib_write_bw', '-n', '100', '-s', '65536')
	expect_moved(lab, 100 * 16384, (0, 3), between(lab, 'weft0', 'weft0', *write))
	expect_moved(lab, 100 * 16384, (2, 4), between(lab, 'weft2', 'weft2', *write))
	expect_moved(lab, 100 * 16384, (2, 3), between(lab, 'weft2', 'weft0', *write))
	expect_moved(lab, 1000 * 1024, (2, 4), between(lab, 'weft2', 'weft2', 'ibv_rc_pingpong'))
	expect_moved(lab, 1000 * 512, (2, 4), between(lab, 'weft2', 'weft2', 'ibv_ud_pingpong'))
	second_ports = ('h1', '-d', 'weft2', '-i', '2'), ('h2', '-d', 'weft0')
	expect_moved(lab, 100 * 16384, (5, 3), lambda: pair(lab, *second_ports, *write))
	pair(lab, ('h1', '-d', 'weft0', '-i', '2'), ('h1', '-d', 'weft2'), 'ibv_uc_pingpong')
	pair(lab, ('h2', '-d', 'weft2', '-g', '0'), ('h1', '-d', 'weft2', '-g', '0'), 'ibv_srq_pingpong')
	pair(lab, ('h2 HCA-2', '-d', 'weft0'), ('h1', '-d', 'weft2'), 'ibv_rc_pingpong')
	# a link that is slow has no direct path: packets are for the port of their address
	lab.weft('fabric', 'link', 's1:3', 'slow', '10Gbit')
	expect_moved(lab, 100 * 2048 // 4, (2, 4),
		     between(lab, 'weft2', 'weft2', 'ib_send_bw', '-n', '100', '-s', '2048', '-c', 'UD'))
	pair(lab, ('h1', '-d', 'weft2'), ('h2', '-d', 'weft2'), 'ib_write_bw', '-n', '20', '-s', '65536')
	pair(lab, ('h1', '-d', 'weft0', '-i', '2'), ('h1', '-d', 'weft2'), 'ibv_rc_pingpong')


def test_both(lab):
	"""Programs at both adapters at once."""
	load(lab)
	servers = []
	def run_both():
		for device, times in (('weft0', '500'), ('weft2', '200')):
			port = str(free_port())
			words = ['ib_write_bw', '-d', device, '-p', port, '-n', times, '-s', '65536']
			servers.append((lab.start_server('h1', port, *words), words))
		clients = [lab.start('h2', *words, '127.0.0.1') for _, words in servers]
		for running in clients + [server for server, _ in servers]:
			if running.process.wait(subnet_lab.LIMIT_S):
				raise Wrong(running.text())
	expect_moved(lab, 200 * 16384, (0, 2, 3, 4), run_both)
	words = lab.at('h1', 'sh', '-c', f'cat {CLASS}/weft0/ports/1/counters/port_rcv_data '
		       f'{CLASS}/weft0/ports/2/counters/port_rcv_data {CLASS}/weft2/ports/1/counters/port_rcv_data').split()
	expected = (500 * 16384, 700 * 16384), (0, 5000), (200 * 16384, 400 * 16384)
	if not all(least <= int(word) < most for word, (least, most) in zip(words, expected)):
		raise Wrong(f'the files of the counters of weft0, port 1 and 2, and weft2: {words}')


def test_rails(lab):
	"""One program, UCX, sends each long message by both adapters."""
	load(lab)
	port = str(free_port())
	words = ('env', 'UCX_TLS=rc_v', 'UCX_NET_DEVICES=weft0:1,weft2:1', 'UCX_MAX_RNDV_RAILS=2', *UCX_PERFTEST, '-t', 'tag_bw',
		 '-s', '4194304', '-n', '50', '-w', '5', '-p', port)
	def send():
		server = lab.start_server('h1', port, *words)
		says(lab.at('h2', *words, '127.0.0.1'), r'Final:\s+50')
		if server.process.wait(subnet_lab.LIMIT_S):
			raise Wrong(server.text())
	expect_moved(lab, 50 * 1048576 // 4, (0, 2, 3, 4), send)


def test_management(lab):
	"""umad of each adapter: its own port, LID and agents; what listens at one hears nothing of the other."""
	load(lab)
	says(lab.at('h1', 'smpquery', '-C', 'weft2', '-D', 'portinfo', '0'), r'\nLid:\.+5\n')
	says(lab.at('h1', 'smpquery', '-C', 'weft2', 'nodedesc', '7'), r'h2 HCA-2')
	says(lab.at('h2', 'ibaddr', '-C', 'weft2', '-L'), r'LID start 7 ')
	server = lab.start('h2', 'ibping', '-S', '-C', 'weft2')
	lab.within('ibping answers', lambda: ' 0% packet loss' in
		   lab.try_at('h1', 'ibping', '-C', 'weft2', '-c', '1', '7')[1])
	if ' 0% packet loss' in lab.try_at('h1', 'ibping', '-c', '1', '6')[1]:
		raise Wrong('what answers at weft2 of h2 answers at its weft0')
	server.end()
	status, text = lab.try_at('h3', 'smpquery', '-C', 'weft2', 'nodeinfo', '8')
	if status == 0:
		raise Wrong(f'h3 opens weft2: {text}')


def test_link(lab):
	"""The link of one adapter goes down: the event is of its device, its QPs time out, and the other's go on."""
	load(lab)
	watchers = {device: lab.start('h2', 'stdbuf', '-oL', 'ibv_asyncwatch', '-d', device) for device in ('weft0', 'weft2')}
	for w in watchers.values():
		lab.within('it watches', lambda: 'async event' in w.text() or not w.is_alive())
	lab.weft('fabric', 'link', 'h2 HCA-2', 'down')
	lab.within('the event is told', lambda: 'PORT_ERR' in watchers['weft2'].text())
	if 'PORT_ERR' in watchers['weft0'].text():
		raise Wrong(f'weft0 has the event of weft2: {watchers["weft0"].text()}')
	says(lab.at('h2', 'cat', f'{CLASS}/weft2/ports/1/state'), '1: DOWN')
	pair(lab, ('h1', '-d', 'weft0'), ('h2', '-d', 'weft0'), 'ibv_rc_pingpong')
	lab.weft('fabric', 'link', 'h2 HCA-2', 'up')
	lab.within('it comes back', lambda: 'PORT_ACTIVE' in watchers['weft2'].text())
	for w in watchers.values():
		w.end(signal.SIGKILL)
	pair(lab, ('h1', '-d', 'weft2'), ('h2', '-d', 'weft2'), 'ibv_rc_pingpong')


def test_managers(lab):
	"""weft's manager and OpenSM give each adapter's ports their LIDs, OpenSM also from the second adapter."""
	where = ('h1', 'weft0'), ('h1', 'weft2'), ('h2', 'weft0'), ('h2', 'weft2'), ('h3', 'weft0')
	def all_lids():
		return [lid for node, device in where for lid in lids(lab, node, device)]
	def expect(whose):
		found = all_lids()
		if len(set(found)) != 7 or 0 in found:
			raise Wrong(f'{whose} gives the LIDs {found}')
		for device in ('weft0', 'weft2'):
			pair(lab, ('h1', '-d', device), ('h2', '-d', device), 'ibv_rc_pingpong')
	load(lab, '--routing', 'sm')
	lab.within('weft gives LIDs', lambda: 0 not in all_lids())
	expect("weft's manager")
	for guid in ('0x100001', '0x100009'):
		load(lab, '--routing', 'none')
		manager = lab.start_manager('h1', '-g', guid)
		lab.up(manager)
		expect(f'OpenSM at {guid}')
		device = 'weft0' if guid[-1] == '1' else 'weft2'
		says(lab.at('h3', 'sminfo'), rf'sm lid {lids(lab, "h1", device)[0]} sm guid {guid},')
		if lab.at('h3', 'saquery', 'NR').count('NodeRecord dump') != 9:
			raise Wrong('OpenSM knows fewer ends')
		manager.end()


def test_partitions(lab):
	"""A host that is a member of a partition is so at all ports of all its adapters; one adapter is one."""
	members = lab.write('partitions', 'Default=0x7fff : ALL=full;\nred=0x0001 : h1=full, h2 HCA-2=full;\n')
	load(lab, '--partitions', members)
	for node, device, port, key in (('h1', 'weft0', 1, '0x8001'), ('h1', 'weft0', 2, '0x8001'), ('h1', 'weft2', 1, '0x8001'),
					('h2', 'weft0', 1, '0x0000'), ('h2', 'weft2', 1, '0x8001')):
		found = lab.at(node, 'cat', f'{CLASS}/{device}/ports/{port}/pkeys/1').strip()
		if found != key:
			raise Wrong(f'P_Key 1 of port {port} of {device} of {node}: {found}')


def test_multicast(lab):
	"""perftest joins at a second adapter: what is sent from one comes there, and to no other port of the host."""
	load(lab, '--routing', 'sm')
	where = ('h1', 'weft0'), ('h1', 'weft2'), ('h2', 'weft0'), ('h2', 'weft2')
	lab.within('weft gives LIDs', lambda: all(0 not in lids(lab, *device) for device in where))
	pair(lab, ('h1', '-d', 'weft2'), ('h2', '-d', 'weft2'), 'ib_send_bw', '-c', 'UD', '-g', '-M',
	     '255:18:64:27:255:255:0:0:0:0:0:0:0:0:0:9', '-n', '50', '-s', '1024')
	counts = [multicast(lab, lid, n + 1) for device in where for n, lid in enumerate(lids(lab, *device))]
	if counts != [[0, 0], [0, 0], [50, 0], [0, 0], [0, 0], [0, 50]]:
		raise Wrong(f'multicast packets received and sent by ports of {where}: {counts}')


def test_addresses(lab):
	"""rdma_cm at the address of the second adapter: the connection is at its device."""
	load(lab)
	# 127.1.0.N is the host channel adapter N of the file, from 1 on: h2 HCA-2, h1 HCA-2, h1 HCA-1, ...
	says(lab.at('h1', 'hostname', '-I'), r'^127\.1\.0\.3 127\.2\.0\.3 127\.1\.0\.2 127\.2\.0\.2 ')
	says(lab.weft('run', '--node', 'h1', '--device', 'weft2', '--', 'hostname', '-I'), r'^127\.1\.0\.2 127\.2\.0\.2 (?!127)')
	server = lab.start('h1', 'stdbuf', '-oL', 'ucmatose', '-b', '127.1.0.2', '-C', '50', '-S', '4096')
	lab.within('it listens', lambda: 'starting server' in server.text() or not server.is_alive())
	def connect():
		lab.within('it is reached', lambda: lab.try_at('h2', 'ucmatose', '-b', '127.1.0.1', '-s', '127.1.0.2', '-C', '50',
			   '-S', '4096')[0] == 0)
	expect_moved(lab, 50 * 1024, (2, 4), connect)
	if server.process.wait(subnet_lab.LIMIT_S):
		raise Wrong(server.text())


def many():
	"""Two hosts of four adapters of two ports, one of ten adapters of one port; first ports are at s1, second ones at s2."""
	lines = {'s1': [], 's2': []}
	cas, numbers = [], {'s1': 1, 's2': 1}
	def plug(ca, port):
		switch = f's{port}'
		number, numbers[switch] = numbers[switch], numbers[switch] + 1
		lines[switch].append(f'[{number}] "{ca}"[{port}]')
		return f'[{port}] "{switch}"[{number}]'
	for host, adapters, ports in (('h1', 4, 2), ('h2', 4, 2), ('h3', 10, 1)):
		for a in range(adapters, 0, -1):
			ca = f'{host}c{a}'
			cas.append('\n'.join([f'Ca {ports} "{ca}" # "{host} HCA-{a}"'] + [plug(ca, p + 1) for p in range(ports)]))
	switches = [f'Switch 36 "{name}"\n' + '\n'.join(lines[name] + [f'[36] "s{3 - int(name[1])}"[36]']) for name in lines]
	return '\n\n'.join(switches + cas) + '\n'


def test_many(lab):
	"""Hosts of eight ports and of ten adapters: all are there, in the order of their numbers, and each carries its data."""
	lab.devices = ()
	lab.change('load', lab.write('many', many()))
	found = re.findall(r'(weft\d+)\s+[0-9a-f]{16}', lab.at('h1', 'ibv_devices'))
	if found != ['weft0', 'weft1', 'weft2', 'weft3', 'weft4']:
		raise Wrong(f'h1 has {found}')
	if lab.at('h3', 'ibstat', '-l').split() != [f'weft{n}' for n in range(11)]:
		raise Wrong(lab.at('h3', 'ibstat', '-l'))
	for device, n in [('weft0', 1)] + [(f'weft{n}', n) for n in range(2, 11)]:
		says(lab.at('h3', 'cat', f'{CLASS}/{device}/node_desc'), f'^h3 HCA-{n}\n$')
	last = lids(lab, 'h1', 'weft4')
	ends = [(lid, port + 1) for node in ('h1', 'h2') for port, lid in enumerate(lids(lab, node, 'weft4'))]
	if len(set(last)) != 2 or 0 in last:
		raise Wrong(f'weft4 of h1 has the LIDs {last}')
	moved = gone_by(lab, lambda: pair(lab, ('h1', '-d', 'weft4', '-i', '2'), ('h2', '-d', 'weft4', '-i', '2'), 'ib_write_bw',
					  '-n', '100', '-s', '65536'), *ends)
	if [sent + received >= 100 * 16384 for sent, received in moved] != [False, True, False, True]:
		raise Wrong(f'by both ports of weft4 of h1 and h2 have gone {moved}')
	pair(lab, ('h3', '-d', 'weft10'), ('h1', '-d', 'weft3'), 'ibv_rc_pingpong')
	pair(lab, ('h3', '-d', 'weft9'), ('h2', '-d', 'weft2', '-i', '2'), 'ibv_ud_pingpong')
	says(lab.weft('run', '--node', 'h3', '--device', 'weft10', '--', 'ibv_devices'), r'weft10')
	says(lab.at('h3', 'smpquery', '-C', 'weft10', '-D', 'nodedesc', '0'), r'h3 HCA-10')
	watcher = lab.start('h3', 'stdbuf', '-oL', 'ibv_asyncwatch', '-d', 'weft10')
	lab.within('it watches', lambda: 'async event' in watcher.text() or not watcher.is_alive())
	lab.weft('fabric', 'link', 'h3 HCA-10', 'down')
	lab.within('the event is told', lambda: 'PORT_ERR' in watcher.text())
	says(lab.weft('run', '--node', 'h3', '--device', 'weft10', '--', 'cat', f'{CLASS}/weft10/ports/1/state'), '1: DOWN')
	watcher.end(signal.SIGKILL)


def test_ranks(lab):
	"""Ranks at hosts of several adapters: each is at its own host, and UCX sends by the adapter that it is told."""
	load(lab)
	def run_ranks(device):
		text = lab.at('h1,h2', *mpi_check(2, settings=(f'UCX_NET_DEVICES={device}:1',)))
		says(text, 'all collectives agree')
	expect_moved(lab, 1000, (0, 3), lambda: run_ranks('weft0'))
	expect_moved(lab, 1000, (2, 4), lambda: run_ranks('weft2'))
	job = lab.weft('run', '--nodes', 'h1,h2', '--device', 'weft2', '--',
		       *mpi_check(2, settings=('UCX_NET_DEVICES=weft2:1',)))
	says(job, 'all collectives agree')


def test_places(lab):
	"""Where ranks are to be, --device names further adapters, which all of these hosts have."""
	load(lab)
	found = re.findall(r'weft\d', lab.weft('run', '--nodes', 'h1,h2', '--device', 'weft2', '--', 'ibv_devices'))
	if found != ['weft2']:
		raise Wrong(f'--device weft2 shows {found}')
	status, text = lab.try_at('h1,h3', 'true')
	if status:
		raise Wrong(f'ranks at hosts with and without a second adapter: {text}')
	status, text = lab.try_run(lab.weft_path, 'run', '--nodes', 'h1,h3', '--device', 'weft2', '--', 'true')
	if not status or 'has not all of these devices' not in text:
		raise Wrong(f'weft2 of h1 and h3: {status}, {text}')


def test_trace(lab):
	"""What a program does at two adapters over links that lose packets is in a trace, which is replayed."""
	load(lab)
	lab.weft('fabric', 'link', 'h1 HCA-2:1', 'loss=10%,seed=3')
	lab.weft('fabric', 'link', 'h1 HCA-1:2', 'loss=10%,seed=4')
	for number, (device, port) in enumerate((('weft2', '1'), ('weft0', '2'), ('weft2', '2'))):
		trace, service = lab.path(f'trace{number}'), str(free_port())
		words = ('ib_write_bw', '-n', '50', '-s', '4096', '-p', service)
		server = lab.start_server('h2', service, *words, '-d', 'weft2')
		lab.weft('run', '--trace', trace, '--node', 'h1', '--', *words, '-d', device, '-i', port, '127.0.0.1')
		server.process.wait(subnet_lab.LIMIT_S)
		said = lab.weft('replay', trace)
		if ('lost in the fabric' in said) != ((device, port) != ('weft2', '2')):
			raise Wrong(f'port {port} of {device}: {said}')
		lab.weft('replay', '--quiet', trace)


def tests():
	rows = (('devices', test_devices), ('data', test_data), ('both', test_both), ('rails', test_rails),
		('management', test_management), ('link', test_link), ('managers', test_managers),
		('partitions', test_partitions), ('multicast', test_multicast), ('addresses', test_addresses),
		('many', test_many), ('ranks', test_ranks), ('places', test_places), ('trace', test_trace))
	return {name: ('e2e', 240, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'saquery', 'perfquery', 'ibstat', 'ibnetdiscover', 'ibv_devinfo',
					 'ibv_devices', 'ibaddr', 'smpquery', 'ibping', 'ibv_rc_pingpong', 'ib_write_bw',
					 'ucmatose', 'ucx_perftest', 'stdbuf', 'ibv_asyncwatch', 'mpirun', 'hostname')))
