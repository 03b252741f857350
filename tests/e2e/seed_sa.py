#!/usr/bin/env python3
"""The seed's subnet administration of a fabric, live: tables, all tables and Configs by weft sa and by a program's call, over
links that lose, while the fabric changes, and beside OpenSM, which answers the other class version.

usage: seed_sa.py WEFT"""
import ctypes
import json
import os
import struct
import subprocess
import sys
import time

import subnet_lab
from subnet_lab import Wrong
from umad_calls import Library

EDIT, ADD = 72, 1
NODES = 44		# of a fat tree of switches with 8 ports
RESPONSE_19_S = 4.096e-6 * (2 * 2 ** 19 + 2 ** 16)


class Question(ctypes.Structure):
	_fields_ = [('version', ctypes.c_uint8), ('method', ctypes.c_uint8), ('attribute', ctypes.c_uint16),
		    ('window', ctypes.c_uint16), ('lid', ctypes.c_uint16), ('key', ctypes.c_uint64), ('records', ctypes.c_char_p),
		    ('bytes', ctypes.c_uint32), ('timeout_ms', ctypes.c_uint32)]


class Options(ctypes.Structure):
	_fields_ = [('retries', ctypes.c_uint8), ('lsb_first', ctypes.c_uint8), ('reserved', ctypes.c_uint8 * 6)]


class Answer(ctypes.Structure):
	_fields_ = [('status', ctypes.c_uint16), ('record_bytes', ctypes.c_uint16), ('data', ctypes.c_void_p),
		    ('bytes', ctypes.c_size_t)]


def expect(what, got, wanted):
	if got != wanted:
		raise Wrong(f'{what}: {got}, not {wanted}')


def ask(lab, node, *words):
	return json.loads(lab.weft('sa', '--json', '--node', node, *words))


def edit(lab, node, text, *settings):
	"""The exit status, and what became of each edit."""
	path = lab.write('edits', text)
	status, said = lab.try_run(lab.weft_path, 'sa', '--json', '--node', node, 'config', path, *settings)
	return status, [e['status'] for e in json.loads(said)['edits']]


def kept(lab, *settings):
	return [(r['id'], r['text']) for r in ask(lab, 'h2', 'gettable', 'kept', *settings)['records']]


def test_tables(lab):
	nodes = ask(lab, 'h2', 'gettable', 'nodes', 'window=3')
	names = sorted(r['name'] for r in nodes['records'])
	expect('all nodes', (len(names), 'h1' in names, 's1' in names), (NODES, True, True))
	expect('a record is as it must be', next(r for r in nodes['records'] if r['name'] == 'h2')['type'], 'host')
	expect('bytes', nodes['bytes'], NODES * 112)
	# 26 packets by windows of 3
	expect('packets', (nodes['sent'], nodes['received']), (1 + 9, 26))
	# there is no memory for so many buffers, and it goes without
	expect('a window as large as can be', ask(lab, 'h2', 'gettable', 'nodes', 'window=65535')['records'], nodes['records'])
	paths = ask(lab, 'h2', 'gettable', 'paths')['records']
	expect('all paths', sorted(r['dlid'] for r in paths), sorted(r['lid'] for r in nodes['records']))
	bulk = ask(lab, 'h2', 'getbulk')
	expect('all tables', bulk['records'], nodes['records'] + paths)
	expect('what it does not give', lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'gettable', '0x99')[0], 1)


def test_configs(lab):
	expect('two are added', edit(lab, 'h2', 'add 7 seven\nadd 3 three\n'), (0, [0, 0]))
	expect('they are there', kept(lab), [(3, 'three'), (7, 'seven')])
	expect('a bad one in the middle', edit(lab, 'h3', 'add 9 nine\nadd 3 again\ndelete 7\n'), (1, [1, 2, 1]))
	expect('nothing has changed', kept(lab), [(3, 'three'), (7, 'seven')])
	expect('one with a key', edit(lab, 'h3', 'add 9 nine\n', 'key=77'), (0, [0]))
	expect('which is not another one\'s', edit(lab, 'h2', 'delete 9\n', 'key=78'), (1, [4]))
	expect('of that key', kept(lab, 'key=77'), [(9, 'nine')])
	expect('in all', [i for i, _ in kept(lab)], [3, 7, 9])
	many = ''.join(f'add {i} number {i}\n' for i in range(100, 600))
	expect('500 at once', edit(lab, 'h2', many), (0, [0] * 500))
	expect('and all of them gone', edit(lab, 'h2', ''.join(f'delete {i}\n' for i in range(100, 600))), (0, [0] * 500))


def test_loss(lab):
	"""A link that loses a tenth in each direction: what comes is whole."""
	whole, before = ask(lab, 'h3', 'getbulk'), len(kept(lab))
	lab.weft('fabric', 'link', 'h2:1', 'loss=10%,seed=5')
	lossy = ask(lab, 'h2', 'getbulk', 'window=16')
	expect('as many bytes', lossy['bytes'], whole['bytes'])
	expect('something was sent again', lossy['received'] + lossy['sent'] > whole['received'] + whole['sent'], True)
	expect('200 at once', edit(lab, 'h2', ''.join(f'add {i} x\n' for i in range(1000, 1200))), (0, [0] * 200))
	lab.weft('fabric', 'link', 'h2:1', 'up')
	lab.weft('fabric', 'link', 'h2:1', 'loss=0%')
	expect('all are there', len(kept(lab)), before + 200)


def buffers(lab):
	"""Receive buffers that programs at h2 have asked for with their agents of the administration's class."""
	qps = json.loads(lab.weft('mad', '--json'))['qps']
	return [c['asked'] for q in qps if q.get('node') == 'h2' for c in q['clients'] if c['class'] == 3 and 'agent' in c]


def test_silence(lab):
	"""A link that loses all: as many packets as the retries say, and receive buffers of the window meanwhile (X-01)."""
	lab.weft('fabric', 'link', 'h2:1', 'loss=100%,seed=5')
	for retries in (0, 2):
		status, said = lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'gettable', 'nodes', f'retries={retries}')
		expect(f'retries={retries}', (status, f'packets sent: {1 + retries}\n' in said), (1, True))
	path = lab.write('edits', 'add 1 one\n')
	status, said = lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'config', path, 'retries=1')
	expect('a Config', (status, 'packets sent: 2\n' in said), (1, True))
	expect('too many', lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'getbulk', 'retries=8')[0], 2)
	for words, wanted in (('gettable', 'nodes', 'window=100'), 116), (('getbulk',), 80), (('config', path, 'window=100'), 80):
		asker = subprocess.Popen([lab.weft_path, 'sa', '--node', 'h2', *words], env=lab.env, stdout=subprocess.DEVNULL,
					 stderr=subprocess.DEVNULL)
		lab.within(f'buffers of {words}', lambda n=wanted: buffers(lab) == [n])
		asker.kill()
		asker.wait()
		lab.within(f'they go with it: {words}', lambda: buffers(lab) == [])
	asker = lab.start('h2', sys.executable, '-B', os.path.abspath(__file__), '--silence')
	lab.within('buffers of a program', lambda: buffers(lab) == [25])
	status = asker.process.wait(subnet_lab.LIMIT_S)
	expect(f'a program: {asker.text()}', status, 0)
	lab.weft('fabric', 'link', 'h2:1', 'loss=0%')


def silence():
	"""A program whose packets are lost: what its port has sent."""
	def sent():
		with open('/sys/class/infiniband/weft0/ports/1/counters/port_xmit_packets', encoding='ascii') as f:
			return int(f.read())

	lib, answer = ctypes.CDLL('libibumad.so.3'), Answer()
	question, before = Question(1, 0x12, 0x35, 9, 0, 0, None, 0, 0), sent()
	asks = lib.weft_sa_ask_with
	unknown = Options(7, 0, (ctypes.c_uint8 * 6)(0, 0, 0, 0, 0, 1))
	for options, wanted in ((Options(8), -22), (Options(7, 2), -22), (unknown, -22), (Options(6), -110)):
		expect('a call', asks(b'weft0', 1, ctypes.byref(question), ctypes.byref(options), ctypes.byref(answer)), wanted)
	expect('packets', sent() - before, 7)


def load_with_timeout(lab, subnet_timeout, *words):
	"""A fabric of weft's own manager, which gives ports this SubnetTimeOut."""
	options = lab.write('options', f'subnet_timeout {subnet_timeout}\n')
	lab.change('load', '--options', options, lab.make('fat-tree', 'ports=8'))
	lab.within('its manager knows all', lambda: len(ask(lab, 'h2', 'gettable', 'links', *words)['records']) == 2 * (32 + 32))


def test_timeouts(lab):
	"""RMP-33: who asks waits as long as the manager's SubnetTimeOut says, twice 2.1 s and the 0.3 s of RespTimeValue; of the
	one that ports have else, 1.1 s. It never waits less, however busy the host is."""
	load_with_timeout(lab, 19)

	def waits():
		lab.weft('fabric', 'link', 'h2:1', 'loss=100%,seed=5')
		begin = time.monotonic()
		status, _ = lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'gettable', 'nodes', 'retries=0')
		took = time.monotonic() - begin
		lab.weft('fabric', 'link', 'h2:1', 'loss=0%')
		expect('nobody answers', status, 1)
		return took >= RESPONSE_19_S
	lab.within('weft sa waits', waits)
	lab.weft('fabric', 'link', 'h2:1', 'loss=100%,seed=5')
	lab.at('h2', sys.executable, '-B', os.path.abspath(__file__), '--timeout')
	lab.weft('fabric', 'link', 'h2:1', 'loss=0%')
	expect('all is as ever', len(ask(lab, 'h2', 'gettable', 'nodes')['records']), NODES)


def timeout():
	"""A program's own call, whose packets are lost."""
	lib, question, answer = ctypes.CDLL('libibumad.so.3'), Question(1, 0x12, 0x11, 2, 0, 0, None, 0, 0), Answer()
	begin = time.monotonic()
	expect('a call',
	       lib.weft_sa_ask_with(b'weft0', 1, ctypes.byref(question), ctypes.byref(Options(0)), ctypes.byref(answer)), -110)
	expect('it waits', time.monotonic() - begin >= RESPONSE_19_S, True)


def keys(lab, trusted):
	"""What each key shows, 0 for none, and what a Config of that key may delete."""
	lab.weft('mad', 'set', f'sa-trusted-key={trusted}')
	shown = [[i for i, _ in kept(lab, f'key={key}')] for key in (0, 77, 78, 99)]
	status, _ = edit(lab, 'h2', 'delete 9\n', 'key=99')
	if not status:
		expect('it is there again', edit(lab, 'h2', 'add 9 nine\n', 'key=77'), (0, [0]))
	return shown, status


def test_keys(lab):
	"""Which records a key leads to: by the seed's rule and by today's (RMP-61)."""
	expect("the seed's rule", keys(lab, 0), ([[3, 7, 9], [9], [], []], 1))
	expect("today's rule", keys(lab, 99), ([[3, 7], [3, 7, 9], [3, 7], [3, 7, 9]], 0))
	expect('another key is trusted', keys(lab, 78), ([[3, 7], [3, 7, 9], [3, 7, 9], [3, 7]], 1))
	expect("the seed's rule again", keys(lab, 0), ([[3, 7, 9], [9], [], []], 1))
	expect('a key that is none', lab.try_run(lab.weft_path, 'mad', 'set', 'sa-trusted-key=x')[0], 1)


def test_bits(lab):
	"""Which bit of the flags is number 0, at both sides and at one (RMP-12)."""
	whole = ask(lab, 'h2', 'gettable', 'nodes')['records']
	for sa in (1, 0):
		lab.weft('mad', 'set', f'sa-lsb-first={sa}')
		same, other = ('lsb', 'msb') if sa else ('msb', 'lsb')
		expect(f'{same} at both sides', ask(lab, 'h2', 'gettable', 'nodes', f'bits={same}', 'window=3')['records'], whole)
		many = ''.join(f'add {i} x\n' for i in range(1000, 1100))
		expect(f'a Config, {same}', edit(lab, 'h2', many, f'bits={same}'), (0, [0] * 100))
		expect('it is away again', edit(lab, 'h2', many.replace('add', 'delete').replace(' x', ''), f'bits={same}'),
		       (0, [0] * 100))
		status, _ = lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'gettable', 'nodes', f'bits={other}', 'retries=0')
		expect(f'{other} of who asks', status, 1)
		lab.at('h2', sys.executable, '-B', os.path.abspath(__file__), '--bits', str(sa))
	expect('no such order', lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'getbulk', 'bits=2')[0], 2)


def bits(sa):
	"""A program's own call, by this order and by the other one."""
	lib, question, answer = ctypes.CDLL('libibumad.so.3'), Question(1, 0x12, 0x11, 2, 0, 0, None, 0, 0), Answer()
	for lsb_first in (sa, 1 - sa):
		got = lib.weft_sa_ask_with(b'weft0', 1, ctypes.byref(question), ctypes.byref(Options(0, lsb_first)),
					   ctypes.byref(answer))
		expect(f'lsb_first={lsb_first}', got, 0 if lsb_first == sa else -110)


def test_window(lab):
	"""An Ack of who asks says another window than the question: it is ignored, or heeded (RMP-31)."""
	for heeds in (0, 1, 0):
		lab.weft('mad', 'set', f'sa-heeds-window={heeds}')
		lab.at('h2', sys.executable, '-B', os.path.abspath(__file__), '--window', str(heeds), lab.lid('h1'))


def window(heeds, lid):
	"""Segments that come till the last one comes again: of the question's window of 2, and of an Ack that says 5."""
	lib = Library()
	port = lib.open_port(b'weft0', 1)
	agent = lib.register(port, 3, 1, 0, None)

	def say(segment, flags, size):
		head = struct.pack('>BBBBHHQHHI', 1, 3, 1, 0x12, 0, 0, 5, 0x11, 0, 0)
		mad = head + struct.pack('>QIIBBHHHII', 0, segment, 0, flags, 0, size, 0, 0, 0, 0)
		lib.send(port, agent, mad.ljust(256, b'\0'), lid, 0)

	def hear(acked):
		heard = []
		while not heard or heard[-1] not in heard[:-1]:
			_, _, status, mad, _ = lib.receive(port)
			expect('something comes', (status, len(mad)), (0, 256))
			segment, = struct.unpack_from('>I', mad, 32)
			heard += [segment] if segment > acked else []
		return heard[:-1]

	say(0, 0, 2)
	expect('the first window', hear(0), [1, 2])
	say(2, 4, 5)
	expect('the next one', hear(2), [3, 4, 5, 6, 7] if heeds else [3, 4])
	lib.close_port(port)


def test_killed(lab):
	"""Who sends a Config is killed somewhere in it: it is done, or nothing of it is."""
	before, all_or_none = len(kept(lab)), 0
	path = lab.write('edits', ''.join(f'add {i} x\n' for i in range(2000, 3000)))
	lab.weft('fabric', 'link', 'h2:1', 'loss=20%,seed=7')	# it takes a second or more
	for ms in (10, 30, 60, 90):
		asker = subprocess.Popen([lab.weft_path, 'sa', '--node', 'h2', 'config', path], env=lab.env,
					 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
		time.sleep(ms / 1000)
		asker.kill()
		asker.wait()
		now = len(ask(lab, 'h3', 'gettable', 'kept')['records'])
		expect(f'killed after {ms} ms: all or none', now - before in (0, 1000), True)
		all_or_none += now == before
		if now != before:
			break
	lab.weft('fabric', 'link', 'h2:1', 'loss=0%')
	expect('one was killed in it', all_or_none > 0, True)
	lab.within('nothing of it comes later, or all', lambda: len(kept(lab)) - before in (0, 1000))
	if len(kept(lab)) != before:
		edit(lab, 'h2', ''.join(f'delete {i}\n' for i in range(2000, 3000)))


def test_change(lab):
	"""A host goes while tables are asked for: each answer is whole, before or after."""
	programs = [lab.start('h3', sys.executable, '-B', os.path.abspath(__file__), '--inside', '40')]
	for state in ('down', 'up') * 10:
		lab.weft('fabric', 'link', 'h4:1', state)
	for program in programs:
		expect(f'a program that asks: {program.text()}', program.process.wait(subnet_lab.LIMIT_S), 0)


def inside(rounds):
	"""A program's own call: paths of h3, one fewer while h4 is away."""
	lib = ctypes.CDLL('libibumad.so.3')
	free = ctypes.CDLL(None).free
	for _ in range(rounds):
		question, answer = Question(1, 0x12, 0x35, 2, 0, 0, None, 0, 0), Answer()
		expect('the call', lib.weft_sa_ask(b'weft0', 1, ctypes.byref(question), ctypes.byref(answer)), 0)
		expect('status and bytes', (answer.status, answer.bytes % 64, NODES - 2 <= answer.bytes / 64 <= NODES),
		       (0, 0, True))
		free(ctypes.c_void_p(answer.data))
	add = bytes([ADD]) + bytes(7) + (4711).to_bytes(8, 'big') + bytes(8) + b'by a program'.ljust(48, b'\0')
	question, answer = Question(1, 0x15, 0, 0, 0, 0, add, EDIT, 0), Answer()
	expect('a Config', lib.weft_sa_ask(b'weft0', 1, ctypes.byref(question), ctypes.byref(answer)), 0)
	expect('it is done', (answer.status, ctypes.string_at(answer.data, answer.bytes)), (0, b'\0\0'))
	question = Question(3, 0x12, 0x35, 2, 0, 0, None, 0, 0)
	expect('no such version', lib.weft_sa_ask(b'weft0', 1, ctypes.byref(question), ctypes.byref(answer)), -22)


def test_manager(lab):
	"""Beside OpenSM: class version 2 is its, version 1 weftd's, at the same LID."""
	lab.load_bare(lab.make('fat-tree', 'ports=8'))
	lab.up(lab.start_manager('h1'))
	today = ask(lab, 'h2', 'gettable', 'nodes', '--profile', 'standard')['records']
	seed = ask(lab, 'h2', 'gettable', 'nodes')['records']
	key = ('lid', 'guid', 'type', 'name')
	expect('both say the same', sorted([[r[k] for k in key] for r in today]), sorted([[r[k] for k in key] for r in seed]))
	expect('and it is all', len(seed), NODES)
	expect('what was added went with its fabric', kept(lab), [])


def test_longest(lab):
	"""How long an answer may be: at once, for this fabric and the next one."""
	tables = 'nodes', 'ports'
	load_with_timeout(lab, 10)
	whole = [ask(lab, 'h2', 'gettable', table)['records'] for table in tables]
	lab.weft('mad', 'set', 'sa-longest-kb=1')
	for reload in (False, True):
		if reload:
			load_with_timeout(lab, 10, '--profile', 'standard')
		for table in tables:
			status, said = lab.try_run(lab.weft_path, 'sa', '--node', 'h2', 'gettable', table)
			expect(f'{table} is too long', (status, 'status 0x0400' in said), (1, True))
		expect('links are 1024 bytes', ask(lab, 'h2', 'gettable', 'links')['bytes'], 1024)
	lab.weft('mad', 'set', 'sa-longest-kb=8192')
	expect('all of them again', [len(ask(lab, 'h2', 'gettable', table)['records']) for table in tables],
	       [len(records) for records in whole])
	for wrong in ('0', '131073', 'x'):
		expect(f'sa-longest-kb={wrong}', lab.try_run(lab.weft_path, 'mad', 'set', f'sa-longest-kb={wrong}')[0], 1)


def test_live(lab):
	"""Of a fabric that weft's own manager manages: what its administration knows, by both protocols the same."""
	lab.weft('mad', 'set', 'sa-lsb-first=1')
	lab.change('load', lab.make('fat-tree', 'ports=8'))
	words = lab.weft_path, 'sa', '--node', 'h2', 'gettable', 'nodes', 'bits=lsb', 'retries=1'
	lab.within('settings hold for the next fabric', lambda: lab.try_run(*words)[0] == 0)
	lab.weft('mad', 'set', 'sa-lsb-first=0')
	lab.within('its manager knows all', lambda: len(ask(lab, 'h2', 'gettable', 'links')['records']) == 2 * (32 + 32))
	for table, number in (('nodes', '0x11'), ('ports', '0x12'), ('switches', '0x14'), ('lfts', '0x15'), ('links', '0x20'),
			      ('managers', '0x18'), ('mfts', '0x17'), ('paths', '0x35')):
		seed = ask(lab, 'h2', 'gettable', table)['records']
		today = ask(lab, 'h2', 'gettable', number, '--profile', 'standard')['records']
		if table == 'paths':
			own = int(lab.lid('h2'))
			today = [r for r in today if r['slid'] == own]
		if table == 'managers':
			# how often it was asked is in it
			seed, today = ([r['record'][:40] for r in rows] for rows in (seed, today))
		expect(f'{table}: some', bool(seed), table != 'mfts')
		expect(table, seed, today)
	others = ask(lab, 'h3', 'gettable', 'paths')['records']
	expect('paths of who asks', {r['slid'] for r in others}, {int(lab.lid('h3'))})
	bulk = ask(lab, 'h2', 'getbulk')['records']
	expect('links in a bulk', sum(r.get('attribute') == 0x20 for r in bulk), 128)
	expect('no forwarding tables in a bulk', sum(r.get('attribute') in (0x15, 0x17) for r in bulk), 0)
	lab.weft('fabric', 'link', 'h4:1', 'down')
	lab.within('one host fewer', lambda: len(ask(lab, 'h2', 'gettable', 'nodes')['records']) == NODES - 1)
	expect('two links fewer', len(ask(lab, 'h2', 'gettable', 'links')['records']), 126)
	lab.weft('fabric', 'link', 'h4:1', 'up')
	opensm = lab.start_manager('h1', '-p', '15')
	lab.up(opensm)
	lab.within('links are told by the master alone', lambda: not ask(lab, 'h2', 'gettable', 'links')['records'])
	expect('nodes by the fabric', len(ask(lab, 'h2', 'gettable', 'nodes')['records']), NODES)
	opensm.end()


def test(lab):
	lab.load('fat-tree', 'ports=8')
	test_tables(lab)
	test_configs(lab)
	test_keys(lab)
	test_bits(lab)
	test_window(lab)
	load_with_timeout(lab, 10)
	test_loss(lab)
	test_silence(lab)
	test_killed(lab)
	test_change(lab)
	expect('what the program added', (4711, 'by a program') in kept(lab), True)
	for program in lab.programs:
		program.process.wait(subnet_lab.LIMIT_S)
	test_timeouts(lab)
	test_live(lab)
	test_longest(lab)
	test_manager(lab)


if sys.argv[1] == '--inside':
	inside(int(sys.argv[2]))
	sys.exit(0)
if sys.argv[1] == '--bits':
	bits(int(sys.argv[2]))
	sys.exit(0)
if sys.argv[1] == '--window':
	window(int(sys.argv[2]), int(sys.argv[3]))
	sys.exit(0)
if sys.argv[1] == '--timeout':
	timeout()
	sys.exit(0)
if sys.argv[1] == '--silence':
	silence()
	sys.exit(0)
subnet_lab.script(test, 'opensm')
