#!/usr/bin/env python3
"""perfquery at each port of a way tells exactly what perftest sent over it, directly and as packets, and what came back; also
of the way by which OpenSM leads around a link that went down.

usage: port_counters.py WEFT"""
import re

from counted import pair, undisturbed
from subnet_lab import script

N, BYTES, MTU = 50, 65536, 4096
ACKS = 'at most one a message'	# the first messages may be packets, which share some; the same at each port


def ports_of_way(lab, source, target):
	"""(LID, port) of each port that a packet leaves by, and of the one at the other end of each link."""
	leaving, entering = [], []
	for line in lab.at('h1', 'ibtracert', source, target).splitlines():
		step = re.match(r'\[(\d+)\] -> \S+ port \{\w+\}\[(\d+)\] lid (\d+)', line)
		if step:
			leaving.append((entering[-1][0] if entering else source, step[1]))
			entering.append((step[3], step[2]))
	return leaving, entering


def read(lab, ports):
	"""The counters of each port, all asked by one shell."""
	asking = '; '.join(f'echo "port {lid} {number}"; perfquery -x {lid} {number}' for lid, number in ports)
	found, port = {}, None
	for line in lab.at('h2', 'sh', '-c', asking).splitlines():
		if line.startswith('port '):
			port = tuple(line.split()[1:])
		field = re.match(r'(Port\w+):\.*(\d+)$', line)
		if field:
			found[port, field[1]] = int(field[2])
	return found


def measure(lab, name, there, back, expected_there, expected_back, *options, size=BYTES):
	"""Each value less what reading it costs, which is the same each time."""
	ports = sorted({port for way in (*there, *back) for port in way})
	words = (name, '-d', 'weft0', '-n', str(N), '-s', str(size), '-u', '22')
	(first, before), (after, _) = undisturbed(
		lab, f'{name} {options}', lambda: (read(lab, ports), read(lab, ports)),
		lambda: pair(lab, words, ('--node', 'h8', *options), ('--node', 'h1', *options)))
	grown = {key: after[key] - 2 * before[key] + first[key] for key in after}
	for (leaving, entering), expected in ((there, expected_there), (back, expected_back)):
		for ends, direction in ((leaving, 'Xmit'), (entering, 'Rcv')):
			for port in ends:
				got = (grown[port, f'Port{direction}Pkts'], grown[port, f'Port{direction}Data'])
				if expected is ACKS:
					expected = got if 0 < got[0] <= N and got[1] == got[0] * 28 // 4 else (N, N * 28 // 4)
				if got != expected:
					lab.fail(f'{name} {options}: port {port} has {direction} {got}, not {expected}')


def sysfs_agrees(lab, h1, h8):
	files = 'port_xmit_data', 'port_xmit_packets', 'port_rcv_data', 'unicast_xmit_packets', 'symbol_error'
	words = lab.at('h1', 'sh', '-c', f'perfquery -x {h8} 1 >/dev/null; perfquery -x {h1} 1; for f in {" ".join(files)}; do '
		       'cat /sys/class/infiniband/weft0/ports/1/counters/$f; done').splitlines()
	asked = {line.split(':')[0]: int(line.rsplit('.', 1)[1]) for line in words if re.match(r'Port\w+:\.*\d+$', line)}
	# what a port asks itself crosses no link
	expected = [asked['PortXmitData'], asked['PortXmitPkts'], asked['PortRcvData'], asked['PortUnicastXmitPkts'], 0]
	if [int(word) for word in words[-len(files):]] != expected:
		lab.fail(f'/sys shows {words[-len(files):]} for {files}, not {expected}')


def test_rerouted(lab, expected):
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	manager = lab.start_manager('h3')
	lab.up(manager)
	h1, h8 = lab.lid('h1'), lab.lid('h8')
	there, back = ports_of_way(lab, h1, h8), ports_of_way(lab, h8, h1)
	measure(lab, 'ib_write_bw', there, back, expected, ACKS)
	sweeps = manager.logged().count('SUBNET UP')
	lid, number = there[0][1]
	switch = re.search(rf'"(s\d)" base port 0 lid {lid} ', lab.at('h1', 'ibswitches'))[1]
	lab.weft('fabric', 'link', f'{switch}:{number}', 'down')
	lab.within('OpenSM leads around the link', lambda: manager.logged().count('SUBNET UP') > sweeps and
		   lab.check()['reached'] == lab.check()['paths'])
	around = ports_of_way(lab, h1, h8)
	if there[0][1] in around[0] or len(around[0]) != 4:
		lab.fail(f'the way is {around}, and was {there}')
	measure(lab, 'ib_write_bw', around, ports_of_way(lab, h8, h1), expected, ACKS)


def test(lab):
	lab.load('fat-tree', 'ports=4')
	h1, h8 = lab.lid('h1'), lab.lid('h8')
	there, back = ports_of_way(lab, h1, h8), ports_of_way(lab, h8, h1)
	if len(there[0]) != 4 or len(back[0]) != 4:
		lab.fail(f'the ways between h1 and h8 are {there} and {back}')
	packets = N * BYTES // MTU
	# LRH, BTH, ICRC: 24 bytes; RETH: 16; AETH: 4
	payload = (packets * 24 + N * BYTES) // 4
	measure(lab, 'ib_write_bw', there, back, (packets, payload + N * 16 // 4), ACKS)
	measure(lab, 'ib_read_bw', there, back, (N, N * 40 // 4), (packets, payload + 2 * N))
	measure(lab, 'ib_send_bw', there, back, (packets, payload), ACKS)
	measure(lab, 'ib_send_bw', there, back, (N, N * (24 + 256) // 4), ACKS, size=256)
	measure(lab, 'ib_read_bw', there, back, (N, N * 40 // 4), (packets, payload + 2 * N), '--path', 'packet')
	sysfs_agrees(lab, h1, h8)
	errors = lab.at('h1', 'ibqueryerrors', '--data')
	if re.search(r'(Discards|Relay|Errors|Recovers|Downed) == [1-9]', errors):
		lab.fail(f'ibqueryerrors finds errors: {errors}')
	test_rerouted(lab, (packets, payload + N * 16 // 4))


script(test, 'opensm', 'perfquery', 'ibstat', 'ibtracert', 'ibqueryerrors', 'ibswitches', 'ib_write_bw', 'ib_read_bw',
       'ib_send_bw')
