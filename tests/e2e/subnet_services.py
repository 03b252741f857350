#!/usr/bin/env python3
"""Services of a subnet under OpenSM and under weft's own manager: ibacm finds a host by its name and the path to it; srp_daemon
asks for storage targets; OpenSM as a daemon, and its console. Paths that ibacm has found are those of librdmacm.

subnet_services.py --list                  one line a test: name, label, timeout
subnet_services.py --weft PROGRAM NAME...  runs these tests
"""
import os
import re
import signal
import socket
import sys

import subnet_lab
from subnet_cm import address, client, ended, prepare, prepare_own
from subnet_lab import Wrong, need, says
from session import free_port, tcp_listening
import run	# of abi/, whose place subnet_lab tells

# ibacm tells its port here if it may write it, and ib_acme looks here; 6125 otherwise (rdma-core's ibacm/CMakeLists.txt).
PORT_FILES = ('/run/ibacm-tcp.port', '/run/ibacm.port')
PORT = 6125

CQE = 'get_trap_notices: Got CQE'	# of srp_daemon, which a report has come to

PROMPT = b'OpenSM $ '	# of the console


class Alone:
	"""A with block that no other test of this machine is in, whichever CTest runs it: for programs that lock a file of /run
	or have a port of their own. An abstract socket is gone with whoever has it."""
	def __init__(self, lab, what):
		self.lab, self.name, self.socket = lab, f'\0weft-e2e.{what}', socket.socket(socket.AF_UNIX)

	def is_mine(self):
		try:
			self.socket.bind(self.name)
		except OSError:
			return False
		return True

	def __enter__(self):
		self.lab.within(f'no other test has {self.name[1:]}', self.is_mine)

	def __exit__(self, *what):
		self.socket.close()


def start_acm(lab, node, port):
	log = lab.path(f'{node}.log')
	options = lab.write(f'{node}.opts', f'log_file {log}\nlog_level 2\nlock_file {lab.path(node)}.pid\nserver_mode loop\n'
			    f'server_port {port}\nprovider ibacmp default\naddr_prot acm\nroute_prot sa\nloopback_prot none\n'
			    'support_ips_in_addr_cfg 1\n')
	names = lab.write(f'{node}.names', ''.join(f'{name} weft0 1 default\n' for name in (f'name-of-{node}', address(node))))
	lab.start(node, 'ibacm', '-P', '-A', names, '-O', options)

	def has_joined():
		try:
			with open(log, encoding='utf-8') as f:
				return 'join successful' in f.read()
		except FileNotFoundError:
			return False
	lab.within(f'{node} is in the group of ibacm', has_joined)


def connect(lab):
	service = str(free_port())
	server = lab.start('h8', 'rdma_server', '-s', address('h8'), '-p', service)
	client(lab, 'h2', 'rdma_client', '-s', address('h8'), '-p', service)
	ended(server)


def acm_beside(lab, manager):
	"""librdmacm asks for a path between addresses, and needs nobody else then: it connects while OpenSM is stopped. It does
	not at h3, whose address ibacm does not have."""
	connect(lab)
	if not manager:
		return
	manager.process.send_signal(signal.SIGSTOP)
	connect(lab)
	status, said = lab.try_at('h3', 'rping', '-c', '-a', address('h8'), '-p', str(free_port()), '-C', '1')
	if not status or 'ROUTE_ERROR' not in said:
		raise Wrong(f'a path is found while OpenSM is stopped: {said}')
	manager.process.send_signal(signal.SIGCONT)


def acm(lab, manager):
	start_acm(lab, 'h8', free_port())
	start_acm(lab, 'h2', PORT)
	h2, h8 = lab.lid('h2'), lab.lid('h8')
	for kind, source, destination in (('n', 'name-of-h2', 'name-of-h8'), ('l', h2, h8), ('i', address('h2'), address('h8'))):
		said = lab.at('h2', 'ib_acme', '-S', '127.0.0.1', '-f', kind, '-s', source, '-d', destination, '-v')
		for name, lid in (('dlid', h8), ('slid', h2)):
			says(said, rf'{name}: {lid}\n')
		says(said, r'pkey: 0xffff\n')
		says(said, r'SA verification: success')
	status, said = lab.try_at('h2', 'ib_acme', '-S', '127.0.0.1', '-f', 'n', '-s', 'name-of-h2', '-d', 'name-of-h7')
	if not status:
		raise Wrong(f'a name that nobody has is found: {said}')
	acm_beside(lab, manager)


def test_acm(lab, begin=prepare):
	"""A name is asked for by multicast, and a path of the administration; by LIDs too."""
	need('ibacm', 'ib_acme', 'rdma_server', 'rdma_client')
	with Alone(lab, 'ibacm'):
		if tcp_listening(PORT):
			print('SKIP: another ibacm serves this machine')
			sys.exit(77)
		found = [path for path in PORT_FILES if os.path.lexists(path)]
		manager = begin(lab)
		try:
			acm(lab, manager)
		finally:
			lab.end_all()
			for path in PORT_FILES:
				if path not in found and os.path.lexists(path):
					os.unlink(path)


def test_srp(lab):
	"""There are no storage targets: all ports are asked, and none says that it is one."""
	need('srp_daemon', 'ibsrpdm')
	prepare(lab)
	says(lab.at('h2', 'ibsrpdm', '-v'), r'performing a capability query')
	says(lab.at('h2', 'srp_daemon', '-o', '-c', '-v', '-i', 'weft0', '-p', '1'), r'Query did not find any targets')


def srp_traps(lab):
	daemon = lab.start('h2', 'stdbuf', '-oL', 'srp_daemon', '-V', '-i', 'weft0', '-p', '1')

	def subscribed():
		return 'InformInfoRecord dump' in lab.at('h8', 'saquery', '-t', '30000', 'IIR') or not daemon.is_alive()
	lab.within('it has subscribed', subscribed)
	before = daemon.text().count(CQE)
	for state in ('down', 'up'):
		lab.weft('fabric', 'link', 'h5:1', state)
		lab.within(f'all see h5 {state}', lambda s=state: lab.check()['reached'] == (56 if s == 'up' else 42))
	lab.within('it hears of h5', lambda: daemon.text().count(CQE) > before or not daemon.is_alive())
	said = daemon.text()
	if not daemon.is_alive() or 'Fail to register' in said:
		raise Wrong(said)
	daemon.end()


def test_srp_traps(lab, begin=prepare):
	"""srp_daemon subscribes to traps 64 and 144 by a UD queue pair of its own, which asks QP1 of the manager's port and gets
	its reports: it looks for targets at a port that appears."""
	need('srp_daemon')
	lock = '/run/srp_daemon_weft0_1'
	with Alone(lab, 'srp_daemon'):
		found = os.path.lexists(lock)
		begin(lab)
		try:
			srp_traps(lab)
		finally:
			lab.end_all()
			if not found and os.path.lexists(lock):
				os.unlink(lock)


def daemon_of(lab):
	"""The process that has become a daemon, known by its directory."""
	mark = f'OSM_TMP_DIR={lab.home}\0'.encode()
	for pid in filter(str.isdigit, os.listdir('/proc')):
		try:
			with open(f'/proc/{pid}/comm', encoding='utf-8') as comm, open(f'/proc/{pid}/environ', 'rb') as environ:
				if comm.read().strip() == 'opensm' and mark in environ.read():
					return int(pid)
		except OSError:
			continue
	raise Wrong('there is no daemon')


def test_daemon(lab):
	"""opensm -B: what was started ends, and its child manages the subnet."""
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	log = lab.path('daemon.log')
	lab.at('h1', 'opensm', '-B', '-f', log, '-d', '2', '-s', '0')
	pid = daemon_of(lab)
	try:
		def is_up():
			return os.path.exists(log) and 'SUBNET UP' in open(log, encoding='utf-8', errors='replace').read()
		lab.within('the subnet is up', is_up)
		says(lab.at('h2', 'sminfo'), r'SMINFO_MASTER')
		lab.weft('fabric', 'link', 's1:1', 'down')
		lab.within('it leads around', lambda: lab.check()['reached'] == lab.check()['paths'])
		wrong = lab.pingpong('h1', 'h8')
		if wrong:
			raise Wrong(wrong)
	finally:
		os.kill(pid, signal.SIGKILL)


def hear(console):
	"""What OpenSM's console says until it asks for the next command."""
	text = b''
	while not text.endswith(PROMPT):
		part = console.recv(4096)
		if not part:
			raise Wrong(f'the console ends after {text!r}')
		text += part
	return text.decode()


def ask(console, command):
	"""One command at a time: OpenSM reads with stdio and polls the socket, so it misses a line that came with another."""
	console.sendall(command.encode() + b'\n')
	return hear(console)


def test_console(lab):
	"""opensm --console: counts the ports of the subnet, and sees a link that goes down."""
	port = free_port()
	prepare(lab, '--console', 'loopback', '--console-port', str(port))
	with socket.create_connection(('127.0.0.1', port), timeout=60) as console:
		hear(console)
		if 'portstatus' not in ask(console, 'help'):
			raise Wrong('the console has no portstatus')
		says(ask(console, 'portstatus'), r'\b32 active\b')
		# how many LIDs of hosts leave by each port of a leaf, and of a spine
		balance = ask(console, 'switchbalance verbose')
		says(balance, r'\(s1\)\s+Port 1: 3\s+Port 2: 3\s')
		says(balance, r'\(s6\)\s+Port 1: 2\s+Port 2: 2\s+Port 3: 2\s+Port 4: 2\s')
		# it names what is out of balance, and nothing is
		if ask(console, 'lidbalance') != PROMPT.decode():
			raise Wrong(f'lidbalance says {ask(console, "lidbalance")}')
		lab.weft('fabric', 'link', 's1:1', 'down')
		lab.within('the console tells of the link', lambda: re.search(r'\b30 active\b', ask(console, 'portstatus')))


def tests():
	rows = (('acm', test_acm), ('acm-own', lambda lab: test_acm(lab, prepare_own)), ('srp', test_srp),
		('srp-traps', test_srp_traps), ('srp-traps-own', lambda lab: test_srp_traps(lab, prepare_own)),
		('daemon', test_daemon), ('console', test_console))
	return {name: ('e2e', 240, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'sminfo', 'ibstat', 'ibv_rc_pingpong')))
