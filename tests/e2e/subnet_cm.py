#!/usr/bin/env python3
"""rdma_cm between hosts of a fabric: each host has its own address and port numbers, paths are those of the administration, which
is OpenSM's or weft's own, and programs that we did not write connect by them: rping, udaddy, cmtime, perftest, UCX, libfabric,
rsockets.

subnet_cm.py --list                  one line a test: name, label, timeout
subnet_cm.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import re
import signal
import sys

import subnet_lab
from subnet_lab import Wrong, need, says
import run	# of abi/, whose place subnet_lab tells
from session import free_port, tcp_listening

SL = 3	# of paths, where the administration says another one than 0
UCX_SL = f'UCX_IB_SL={SL}'	# rdma_cm tells UCX none
UCX = ('env', 'UCX_TLS=rc_v,self', 'UCX_NET_DEVICES=weft0:1', 'UCX_SOCKADDR_TLS_PRIORITY=rdmacm', UCX_SL)


def address(host, port=1):
	"""As man weft-fabric has it: of a fat tree, whose hosts are h1, h2 and so on in this order."""
	number = int(host[1:])
	return f'127.{port}.{number >> 8}.{number & 255}'


def prepare(lab, *options):
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	manager = lab.start_manager('h1', *options)
	lab.up(manager)
	return manager


def prepare_own(lab, *options):
	"""Under weft's manager, at s1."""
	lab.change('load', *options, lab.make('fat-tree', 'ports=4'))
	for host in ('h2', 'h3', 'h8'):
		lab.within(f'{host} knows the manager', lambda at=host: 'SM lid: 1\n' in lab.at(at, 'ibstat'))


def prepare_level(lab):
	"""The same, where only service level SL has a lane: nothing gets through but by a path of the administration."""
	lanes = ','.join('0' if level == SL else '15' for level in range(16))
	prepare_own(lab, '--options', lab.write('options', f'qos_sl2vl {lanes}\n'))


def client(lab, node, *words):
	"""Whose server may listen a moment later: it is asked again until it does."""
	said = ['']

	def is_done():
		status, said[0] = lab.try_at(node, *words)
		return not status
	try:
		lab.within(words[0], is_done)
	except Wrong as wrong:
		raise Wrong(f'{wrong}: {said[0]}') from wrong
	return said[0]


def ended(server):
	status = server.process.wait(subnet_lab.LIMIT_S)
	if status:
		raise Wrong(f'{server.words[0]} exits with {status}: {server.text()}')
	return server.text()


def connect(lab, a, b, service):
	"""rping at two hosts, by a's address."""
	server = lab.start(a, 'rping', '-s', '-a', address(a), '-p', service, '-C', '2')
	client(lab, b, 'rping', '-c', '-a', address(a), '-p', service, '-C', '2')
	ended(server)


def test_addresses(lab):
	"""In a fabric that weft routes: hosts have addresses and ports of their own, and a host that is not there has none."""
	lab.load('fat-tree', 'ports=4')
	service = str(free_port())
	everywhere = ('rping', '-s', '-p', service, '-C', '2')
	servers = {host: lab.start(host, *everywhere) for host in ('h7', 'h8')}
	for host, server in servers.items():
		client(lab, 'h1', 'rping', '-c', '-a', address(host), '-p', service, '-C', '2', '-v')
		ended(server)
	status, text = lab.try_at('h1', 'rping', '-c', '-a', address('h9'), '-p', service, '-C', '2')
	if not status or 'ADDR_ERROR' not in text:
		raise Wrong(f'h9 is there: {text}')
	# a host's own address, and loop-back, are the host's; nobody binds another one's, or the machine's
	connect(lab, 'h3', 'h3', service)
	machines = [a for a in lab.run('hostname', '-I').split() if '.' in a]
	for taken in (address('h4'), *machines):
		status, text = lab.try_at('h3', 'rping', '-s', '-a', taken, '-p', service)
		if not status:
			raise Wrong(f'h3 has bound {taken}')
	# which getifaddrs() tells
	if [a for a in lab.at('h3', 'hostname', '-I').split() if '.' in a] != [address('h3'), *machines]:
		raise Wrong(f'h3 has {lab.at("h3", "hostname", "-I")}')


def sent_packets(lab):
	"""Of the port of h3."""
	return int(re.search(r'PortXmitPkts:\.*(\d+)', lab.at('h3', 'perfquery', '-x'))[1])


def service_levels(lab):
	"""Of connected queue pairs."""
	return {qp['sl'] for p in json.loads(lab.weft('qp', '--json'))['processes'] for qp in p['qps'] if 'sl' in qp}


def paths(lab, answers):
	"""Connections have SL; answers(lab, False) leaves h3 without an administration."""
	service = str(free_port())
	server = lab.start('h8', 'udaddy')
	client(lab, 'h3', 'udaddy', '-s', address('h8'))
	says(ended(server), 'return status 0')
	connect(lab, 'h8', 'h2', service)
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-R', '-D', '1', '--run_infinitely', '-p', service)
	server = lab.start('h8', *words)
	other = [lab.start('h3', *words, address('h8'))]

	def runs():
		if not other[0].is_alive():
			other[0] = lab.start('h3', *words, address('h8'))
		return 'BW average' in other[0].text()
	lab.within('it runs', runs)
	if service_levels(lab) != {SL}:
		raise Wrong(f'connections have the service levels {service_levels(lab)}')
	for program in (server, *other):
		program.end(signal.SIGKILL)
	answers(lab, False)
	server = lab.start('h8', 'rping', '-s', '-a', address('h8'), '-p', service)
	status, text = lab.try_at('h3', 'rping', '-c', '-a', address('h8'), '-p', service, '-C', '2')
	server.end(signal.SIGKILL)
	if not status or not re.search(r'ROUTE_ERROR, error -110', text):
		raise Wrong(f'a path is found while nobody answers: {text}')
	answers(lab, True)
	connect(lab, 'h8', 'h3', service)


def test_paths(lab):
	"""Paths are OpenSM's: their service level is the partition's, and without its answer there is none."""
	conf = lab.write('partitions.conf', f'Default=0x7fff, sl={SL}:ALL=full;\n')
	manager = prepare(lab, '-P', conf, '-Q', '-F', lab.write('opensm.conf', 'qos TRUE\n'))
	paths(lab, lambda lab, on: manager.process.send_signal(signal.SIGCONT if on else signal.SIGSTOP))


def reach_manager(lab, on):
	"""Both links of s1 to other switches; h3 and h8 reach each other without."""
	for link in ('s1:1', 's1:2'):
		lab.weft('fabric', 'link', link, 'up' if on else 'down')
	wrong = not on and lab.pingpong('h8', 'h3', '-l', str(SL))
	if wrong:
		raise Wrong(wrong)


def test_paths_own(lab):
	"""Paths are those of weft's administration: their service level is the one that has a lane. Ports tell programs that
	questions to it have the same."""
	prepare_level(lab)
	says(lab.at('h3', 'ibv_devinfo', '-v', '-d', 'weft0'), rf'sm_sl:\s+{SL}\n')
	says(lab.at('h3', 'cat', '/sys/class/infiniband/weft0/ports/1/sm_sl'), rf'^{SL}\n')
	paths(lab, reach_manager)


def perftest(lab, program, *options):
	service = str(free_port())
	words = (program, '-d', 'weft0', '-F', '-n', '100', '-p', service, *options)
	server = lab.start('h8', *words)
	text = client(lab, 'h3', *words, address('h8'))
	ended(server)
	return text


def test_perftest(lab, begin=prepare):
	"""Connections by rdma_cm."""
	begin(lab)
	for program, options in (('ib_write_bw', ('-R',)), ('ib_send_bw', ('-R', '-c', 'UD')), ('ib_read_lat', ('-R',))):
		perftest(lab, program, *options)


def test_groups(lab, begin=prepare):
	"""Multicast, which perftest joins by MADs of its own, of service level 0."""
	begin(lab)
	says(perftest(lab, 'ib_send_bw', '-c', 'UD', '-g'), r'remote address: LID 0xc00\d QPN 0xffffff')
	says(perftest(lab, 'ib_send_bw', '-c', 'UD', '-g', '-M', '255:1:0:0:0:2:201:133:0:0:0:0:0:0:0:9'),
	     r'MGID: 255:01:00:00:00:02:201:133:00:00:00:00:00:00:00:09')


RSPRELOAD = '/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so'


def test_rsockets(lab, begin=prepare):
	"""rstream and riostream, whose data they check; and a program of sockets that librspreload makes one of rsockets."""
	if not os.path.exists(RSPRELOAD):
		print(f'SKIP: no {RSPRELOAD} here: scripts/setup test')
		sys.exit(77)
	begin(lab)
	by_sockets = ('env', f'LD_PRELOAD={RSPRELOAD}', 'rstream', '-T', 's')
	for words in (('rstream',), ('riostream',), by_sockets):
		words = (*words, '-p', str(free_port()), '-T', 'v', '-S', '4096', '-C', '1000')
		before = sent_packets(lab)
		server = lab.start('h8', *words, '-b', address('h8'))
		says(client(lab, 'h3', *words, '-s', address('h8')), r'4k\s+1k\s')
		ended(server)
		if sent_packets(lab) < before + 1000:
			raise Wrong(f'{words} did not go by the fabric')


def test_cmtime(lab, begin=prepare):
	"""A hundred connections. Its server of before rdma-core 52 serves for ever."""
	begin(lab)
	words = ('cmtime', '-p', str(free_port()), '-c', '100')
	server = lab.start('h8', *words, '-b', address('h8'))
	says(client(lab, 'h3', *words, '-s', address('h8')), r'\nconnect +: +\d')
	if server.is_alive():
		server.end(signal.SIGKILL)


def test_ucx(lab, begin=prepare):
	"""io_demo, which checks the data that it reads and writes. UCX connects by sockets otherwise."""
	need('io_demo')
	begin(lab)
	service = str(free_port())
	words = (*UCX, 'io_demo', '-q', '-d', '1:100000', '-o', 'read,write')
	server = lab.start('h8', *words, '-p', service)
	before = sent_packets(lab)
	said = lab.at('h3', *words, '-i', '200', '-c', 'inf', '-y', '0.1', f'{address("h8")}:{service}')
	says(said, rf'local address {address("h3")}:\d+ remote address {address("h8")}:{service}')
	says(said, r"Client exit with status 'OK'")
	if tcp_listening(int(service)) or sent_packets(lab) < before + 200:
		raise Wrong(f'it was not by rdma_cm and the fabric: {server.text()}')
	server.end(signal.SIGKILL)


def test_libfabric(lab, begin=prepare):
	"""fi_pingpong, which tells its client the address that it has bound: that of the host, not of the machine."""
	need('fi_pingpong')
	begin(lab)
	for options in (('-p', 'verbs', '-e', 'msg'), ('-p', 'verbs;ofi_rxm', '-e', 'rdm')):
		service = str(free_port())
		words = ('fi_pingpong', *options, '-c')
		server = lab.start_server('h8', service, *words, '-B', service)
		before = sent_packets(lab)
		says(lab.at('h3', *words, '-P', service, address('h8')), r'(?m)^1m ')
		ended(server)
		if sent_packets(lab) < before + 1000:
			raise Wrong(f'{words} did not go by the fabric')


def tests():
	by_paths = (('perftest', test_perftest), ('ucx', test_ucx), ('cmtime', test_cmtime), ('rsockets', test_rsockets),
		    ('libfabric', test_libfabric))
	own = tuple((f'{name}-own', lambda lab, test=test: test(lab, prepare_level)) for name, test in by_paths)
	rows = (('addresses', test_addresses), ('paths', test_paths), ('paths-own', test_paths_own), *by_paths, *own,
		('groups', test_groups), ('groups-own', lambda lab: test_groups(lab, prepare_own)))
	return {name: ('e2e', 300, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'rping', 'udaddy', 'ib_write_bw', 'ib_send_bw', 'ib_read_lat',
					 'cmtime', 'rstream', 'riostream', 'perfquery', 'hostname', 'ibstat', 'ibv_devinfo')))
