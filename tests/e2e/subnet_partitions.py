#!/usr/bin/env python3
"""Partitions of OpenSM: programs see all P_Keys of their port and choose one, who is no member is cut off, and the manager hears
of it by traps.

subnet_partitions.py --list                  one line a test: name, label, timeout
subnet_partitions.py --weft PROGRAM NAME...  runs these tests
"""
import os
import re
import signal
import sys

import subnet_lab
from subnet_lab import Wrong, says
from subnet_leaf import have_moved, messages
from session import free_port, tcp_listening
import run	# of abi/, whose place subnet_lab tells

RED, BLUE = 0x0001, 0x0002
FULL = 0x8000
PKEYS = 32
RETRIES_RAN_OUT = r'Failed status 12'
# Each error ends within a second: 16 ms, 8 times.
RC = ('ib_write_bw', '-n', '50', '-u', '12')
UD = ('ib_send_bw', '-c', 'UD', '-n', '50')
SEND = (sys.executable, '-B', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'group_send.py'))
OTHER_QKEY, DATAGRAMS = '0x2222222', 20		# not that of ibv_ud_pingpong


def table(lab, node):
	"""What programs at the node see of its P_Keys."""
	files = [f'/sys/class/infiniband/weft0/ports/1/pkeys/{i}' for i in range(PKEYS)]
	return [int(word, 16) for word in lab.at(node, 'cat', *files).split()]


def index(lab, node, pkey):
	found = [i for i, own in enumerate(table(lab, node)) if own & ~FULL == pkey]
	if not found:
		raise Wrong(f'{node} has no P_Key {pkey:#x}: {table(lab, node)}')
	return str(found[0])


def start_server(lab, node, words, pkey):
	port = str(free_port())
	command = (*words, '-d', 'weft0', '-F', '-p', port)
	server = lab.start(node, *command, '--pkey_index', index(lab, node, pkey))
	lab.within('a server listens', lambda: tcp_listening(int(port)) or not server.is_alive())
	return server, command


def wrong_between(lab, a, b, pkey, words=RC, pkey_of_a=None):
	"""perftest's server at a, client at b, in one partition: what went wrong, or nothing."""
	server, command = start_server(lab, a, words, pkey_of_a or pkey)
	status, text = lab.try_at(b, *command, '--pkey_index', index(lab, b, pkey), '127.0.0.1')
	if status:
		server.end(signal.SIGKILL)
		return f'the client at {b} exits with {status}: {text}'
	status = server.process.wait(subnet_lab.LIMIT_S)
	return f'the server at {a} exits with {status}: {server.text()}' if status else ''


def reach(lab, a, b, pkey, **options):
	wrong = wrong_between(lab, a, b, pkey, **options)
	if wrong:
		raise Wrong(f'{a} and {b}: {wrong}')


def are_cut(lab, a, b, pkey, **options):
	says(wrong_between(lab, a, b, pkey, **options) or f'{a} and {b} reach each other', RETRIES_RAN_OUT)


class Partitions:
	"""partitions.conf, of which OpenSM is told."""
	def __init__(self, lab):
		self.lab = lab
		self.guid = {f'h{i}': lab.at(f'h{i}', 'ibstat', '-p').strip() for i in range(1, 9)}
		self.manager = None

	def write(self, red, blue):
		"""Full members with a capital letter."""
		text = 'Default=0x7fff:ALL=limited,SELF=full;\n'
		for name, pkey, members in (('red', RED, red), ('blue', BLUE, blue)):
			words = (f'{self.guid[m.lower()]}={"full" if m[0] == "H" else "limited"}' for m in members.split())
			text += f'{name}={pkey:#x}:{",".join(words)};\n'
		path = self.lab.write('partitions.conf', text)
		if self.manager:
			self.manager.process.send_signal(signal.SIGHUP)
		return path


def prepare(lab, red, blue, *options):
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	partitions = Partitions(lab)
	partitions.manager = lab.start_manager('h1', '-P', partitions.write(red, blue), *options)
	lab.up(partitions.manager)
	return partitions


def has(lab, node, pkey):
	return any(own & ~FULL == pkey for own in table(lab, node))


def violations(lab, node, key='Pkey'):
	return int(re.search(rf'{key}Violations:\.+(\d+)', lab.at('h1', 'smpquery', 'portinfo', lab.lid(node), '1'))[1])


def test_members(lab):
	"""Switches look at P_Keys too, as OpenSM has it unless told otherwise."""
	prepare(lab, 'H2 H3 h4 h5', 'H3 H6')
	if table(lab, 'h4')[:3] != [0x7fff, RED, 0] or sorted(table(lab, 'h3'))[-3:] != [0x7fff, FULL | RED, FULL | BLUE]:
		raise Wrong(f'h4 has {table(lab, "h4")}, h3 {table(lab, "h3")}')
	says(lab.at('h3', 'ibv_devinfo', '-v', '-d', 'weft0'), rf'max_pkeys:\s+{PKEYS}\n')
	for words in (RC, UD):
		reach(lab, 'h2', 'h3', RED, words=words)
		reach(lab, 'h4', 'h2', RED, words=words)
	reach(lab, 'h3', 'h6', BLUE)
	are_cut(lab, 'h4', 'h5', RED)
	# both are in both, and their queue pairs are not: the port of the one that gets the packets counts them
	before = violations(lab, 'h2')
	are_cut(lab, 'h2', 'h3', RED, pkey_of_a=0x7fff)
	if violations(lab, 'h2') == before:
		raise Wrong('h2 counts no packet whose P_Key was not its queue pair\'s')
	# without an index it is the first: the default partition, of which h1 alone is a full member
	if lab.pingpong('h1', 'h4'):
		raise Wrong('h4 does not reach h1')
	if not lab.pingpong('h2', 'h4'):
		raise Wrong('h2 and h4 reach each other by their first P_Key')


def test_change(lab):
	"""A member that is put out is cut off in the midst, and comes back."""
	partitions = prepare(lab, 'H2 H3 H4', '')
	server, command = start_server(lab, 'h2', (*RC, '-D', '1', '--run_infinitely'), RED)
	client = lab.start('h3', *command, '--pkey_index', index(lab, 'h3', RED), '127.0.0.1')
	lab.within('it runs', lambda: 'BW average' in client.text())
	reach(lab, 'h4', 'h3', RED)
	partitions.write('H3 H4', '')
	lab.within('h2 is no member', lambda: not has(lab, 'h2', RED))
	lab.within('it is cut off', lambda: not client.is_alive())
	says(client.text(), RETRIES_RAN_OUT)
	server.end(signal.SIGKILL)
	reach(lab, 'h4', 'h3', RED)
	partitions.write('H2 H3 H4', '')
	lab.within('h2 is a member again', lambda: has(lab, 'h2', RED))
	lab.within('h2 and h3 reach each other', lambda: not wrong_between(lab, 'h2', 'h3', RED))


def test_traps(lab):
	"""257 of the port that a packet came to; 259 of a switch."""
	partitions = prepare(lab, 'H2 H3', 'H4', '-Z', 'off')
	are_cut(lab, 'h4', 'h2', RED, pkey_of_a=BLUE)
	lab.within('a trap of the port', lambda: 'num:257 ' in partitions.manager.logged())
	if not violations(lab, 'h4') or violations(lab, 'h2') or violations(lab, 'h3'):
		raise Wrong(f'h2, h3, h4 count {[violations(lab, f"h{i}") for i in (2, 3, 4)]} violations')
	if 'num:259 ' in partitions.manager.logged():
		raise Wrong('a switch has told of a bad P_Key')
	partitions.manager.end()
	manager = lab.start_manager('h1', '-P', lab.path('partitions.conf'))
	lab.up(manager)
	before = violations(lab, 'h4')
	are_cut(lab, 'h4', 'h2', RED, pkey_of_a=BLUE)
	lab.within('a trap of the switch', lambda: 'num:259 ' in manager.logged())
	if violations(lab, 'h4') != before:
		raise Wrong('what the switch has stopped came to the port')


def test_qkeys(lab):
	"""258: datagrams come to a queue pair that has another Q_Key, between processes and as packets. The port counts each,
	those that come within 5 ms with the next one, and the program goes on."""
	lab.keep_weftd_in_session()
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	manager = lab.start_manager('h1')
	lab.up(manager)
	*programs, qpn = lab.start_datagrams('h3', 'h5')
	lid = lab.lid('h3')
	for path, datagrams in (((), DATAGRAMS), (('--path', 'packet'), DATAGRAMS), ((), 1)):
		lab.run(lab.weft_path, 'run', '--node', 'h6', '--device', 'weft0', *path, '--',
			*SEND, lid, '-', OTHER_QKEY, str(datagrams), qpn)
	lab.within('each is counted', lambda: violations(lab, 'h3', 'Qkey') == 2 * DATAGRAMS + 1)
	lab.within('a trap of the port', lambda: 'num:258 ' in manager.logged())
	if violations(lab, 'h3') or violations(lab, 'h6', 'Qkey') or violations(lab, 'h5', 'Qkey'):
		raise Wrong('violations are counted that were none, or elsewhere')
	before = messages(lab)
	lab.within('both programs go on', lambda: have_moved(lab, before, programs))


def tests():
	rows = (('members', test_members), ('change', test_change), ('traps', test_traps), ('qkeys', test_qkeys))
	return {name: ('e2e', 300, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	needed = ('opensm', 'smpquery', 'ibstat', 'ibv_devinfo', 'ibv_rc_pingpong', 'ibv_ud_pingpong', 'ib_write_bw',
		  'ib_send_bw', 'stdbuf')
	sys.exit(run.run_table(tests(), needed))
