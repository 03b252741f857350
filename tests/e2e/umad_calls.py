#!/usr/bin/env python3
"""The calls of libibumad, as their pages tell them, at a host of a fabric: descriptors, agents, timeouts, long datagrams.

usage: umad_calls.py WEFT"""
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from errno import EAGAIN, EBUSY, EINVAL, EIO, ENOENT, ENOSPC, EPERM, ETIMEDOUT

HEAD, MAD = 64, 256
SA, PERF, GET, GET_TABLE = 3, 4, 1, 0x12
QKEY = 0x80010000
failures = 0


def check(what, got, wanted):
	global failures
	if got != wanted:
		print(f'FAILED: {what}: {got}, not {wanted}')
		failures += 1


class Library:
	def __init__(self):
		self.lib = ctypes.CDLL('libibumad.so.3')

	def __getattr__(self, name):
		return getattr(self.lib, 'umad_' + name)

	def send(self, port, agent, mad, lid, timeout_ms=1000, retries=0, path_bits=0, qpn=1):
		"""mad: its bytes."""
		buffer = ctypes.create_string_buffer(HEAD + max(len(mad), MAD))
		self.lib.umad_set_addr(buffer, lid, qpn, 0, ctypes.c_int(QKEY - (1 << 32) if qpn else 0))
		buffer[31] = path_bits
		ctypes.memmove(ctypes.addressof(buffer) + HEAD, mad, len(mad))
		return self.lib.umad_send(port, agent, buffer, len(mad), timeout_ms, retries)

	def receive(self, port, timeout_ms=20000, room=MAD):
		"""What umad_recv returns, the length, status and bytes of what has come, and who sent it."""
		buffer = ctypes.create_string_buffer(HEAD + room)
		length = ctypes.c_int(room)
		got = self.lib.umad_recv(port, buffer, ctypes.byref(length), timeout_ms)
		status, = struct.unpack_from('=I', buffer.raw, 4)
		lid, = struct.unpack_from('>H', buffer.raw, 28)
		return got, length.value, status, buffer.raw[HEAD:HEAD + length.value], lid


def make(mgmt_class, method, tid, version=1, attribute=0x10, length=MAD, active=False):
	head = struct.pack('>BBBBHHQHHI', 1, mgmt_class, version, method, 0, 0, tid, attribute, 0, 0)
	return (head + struct.pack('>BBB', 1, 0, active) + bytes(i % 251 for i in range(length)))[:length]


def mask(*methods):
	longs = (ctypes.c_long * 2)()
	for m in methods:
		longs[m // 64] |= 1 << m % 64
	return longs


class Attributes(ctypes.Structure):
	_fields_ = [('mgmt_class', ctypes.c_uint8), ('version', ctypes.c_uint8), ('flags', ctypes.c_uint32),
		    ('methods', ctypes.c_uint64 * 2), ('oui', ctypes.c_uint32), ('rmpp', ctypes.c_uint8)]


def test_descriptor(lib):
	port = lib.open_port(b'weft0', 1)
	check('the port is a descriptor', port > 2 and lib.get_fd(port), port)
	check('nothing has come', lib.poll(port, 20), -ETIMEDOUT)
	check('nothing can be read', lib.receive(port, 0)[0], -EAGAIN)
	check('nothing comes', lib.receive(port, 20)[0], -ETIMEDOUT)
	check('a buffer too small for a MAD', lib.receive(port, 0, MAD - 1)[0], -EINVAL)
	check('no such device', lib.open_port(b'weft9', 1) < 0, True)
	check('a device without datagrams', lib.open_port(b'weft1', 1) < 0, True)
	check('no such port', lib.open_port(b'weft0', 7) < 0, True)
	check('no agent', lib.send(port, 3, make(PERF, GET, 1), 1), -EIO)
	check('its end', lib.close_port(port), 0)
	check('a port that is closed', lib.receive(port, 0)[0], -EINVAL)
	check('a port that is closed takes no agent', lib.register(port, PERF, 1, 0, None), -EPERM)


def test_agents(lib):
	a, b = (lib.open_port(b'weft0', 1) for i in range(2))
	first = lib.register(a, SA, 2, 1, mask(GET))
	check('an agent', first, 0)
	check('the same method again', lib.register(b, SA, 2, 1, mask(GET, GET_TABLE)), -EPERM)
	attributes = Attributes(SA, 2, 0, (ctypes.c_uint64 * 2)(1 << GET, 0), 0, 1)
	agent = ctypes.c_uint32(99)
	check('the same method by attributes', lib.register2(b, ctypes.byref(attributes), ctypes.byref(agent)), EBUSY)
	attributes.flags = 6
	check('flags that there are not', lib.register2(b, ctypes.byref(attributes), ctypes.byref(agent)), EINVAL)
	check('which there are', attributes.flags, 1)
	check('another class', lib.register_oui(b, SA, 0, b'abc', None), -EINVAL)
	check("a vendor's class", lib.register_oui(b, 0x32, 0, b'abc', mask(GET)), 0)
	check('its end', lib.unregister(a, first), 0)
	check('its second end', lib.unregister(a, first), -ENOENT)
	check('the method is free', lib.register(b, SA, 2, 1, mask(GET)), 1)
	# closing a port ends its agents, but for those that weftd has not heard of yet
	lib.close_port(b)
	while lib.register(a, SA, 2, 1, mask(GET)) == -EPERM:
		pass
	lib.close_port(a)


def test_answers(lib, lid):
	server, client = (lib.open_port(b'weft0', 1) for i in range(2))
	answers = lib.register(server, SA, 2, 1, mask(GET, GET_TABLE))
	asks = lib.register(client, SA, 2, 1, None)
	tid = 0x123456789abcdef0
	check('a question', lib.send(client, asks, make(SA, GET, tid, 2), lid), 0)
	check('it has come', select.select([server], [], [], 20)[0], [server])
	agent, length, status, mad, sender = lib.receive(server)
	check('the question', (agent, length, status, sender), (answers, MAD, 0, lid))
	check('its upper half is the sender\'s agent', mad[8:12] != make(SA, GET, tid)[8:12] and mad[12:16],
	      make(SA, GET, tid)[12:16])
	check('an answer', lib.send(server, answers, mad[:3] + b'\x81' + mad[4:], lid, 0), 0)
	agent, length, status, mad, sender = lib.receive(client)
	check('the answer', (agent, length, status, sender, mad[3]), (asks, MAD, 0, lid, 0x81))
	check('its transaction id', struct.unpack_from('>Q', mad, 8)[0], tid)
	check('a question as from another LID', lib.send(client, asks, make(SA, GET, tid, 2), lid, 0, path_bits=1), 0)
	check('its sender', lib.receive(server)[4], lid)
	# a table, in pieces and segments
	for bytes_ in (300, 5000, 100000):
		lib.send(client, asks, make(SA, GET_TABLE, tid, 2), lid)
		question = lib.receive(server)[3]
		table = question[:3] + b'\x92' + question[4:24] + make(SA, 0, 0, 2, 0, bytes_, True)[24:]
		check('a table', lib.send(server, answers, table, lid), 0)
		check('there is no room', lib.receive(client)[:2], (-ENOSPC, bytes_))
		agent, length, status, got, sender = lib.receive(client, room=200000)
		check('the table', (agent, length, status, got[56:] == table[56:]), (asks, bytes_, 0, True))
	lib.close_port(server)
	lib.close_port(client)


def test_long_answer(lib, lid):
	"""Who answers a Get with a table has not answered: the program goes on, and its next question has its answer."""
	server, client = (lib.open_port(b'weft0', 1) for i in range(2))
	answers = lib.register(server, SA, 2, 1, mask(GET, GET_TABLE))
	asks = lib.register(client, SA, 2, 1, None)
	for bytes_ in (300, 100000):
		lib.send(client, asks, make(SA, GET, bytes_, 2), lid)
		question = lib.receive(server)[3]
		table = question[:3] + b'\x81' + question[4:24] + make(SA, 0, 0, 2, 0, bytes_, True)[24:]
		check('a table that nobody wants', lib.send(server, answers, table, lid), 0)
		agent, length, status, mad, _ = lib.receive(client)
		got = agent, length, status, struct.unpack_from('>Q', mad, 8)[0]
		check('it is no answer', got, (asks, MAD, ETIMEDOUT, bytes_))
	for method, answer in ((GET, b'\x81'), (GET_TABLE, b'\x92')):
		lib.send(client, asks, make(SA, method, 77, 2), lid)
		question = lib.receive(server)[3]
		lib.send(server, answers, question[:3] + answer + question[4:], lid, 0)
		check('the next answer', lib.receive(client)[:3], (asks, MAD, 0))
	lib.close_port(server)
	lib.close_port(client)


def late_word(lib, port, agent, weftd, receive):
	"""What is received of a request with 50 ms whose wait takes 50 ms, while weftd stands still for longer."""
	os.kill(weftd, signal.SIGSTOP)
	goes_on = threading.Timer(0.3, os.kill, (weftd, signal.SIGCONT))
	goes_on.start()
	lib.send(port, agent, make(SA, GET, 8, 2), 0x3fff, 50, 0)
	got = receive()
	goes_on.join()
	return got


def test_silence(lib, weftd):
	port = lib.open_port(b'weft0', 1)
	agent = lib.register(port, SA, 2, 1, None)
	lib.send(port, agent, make(SA, GET, 7, 2), 0x3fff, 30, 2)
	got, length, status, mad, sender = lib.receive(port)
	check('silence', (got, length, status, sender, mad), (agent, 24, ETIMEDOUT, 0x3fff, make(SA, GET, 7, 2)[:24]))
	# programs wait as long as their request has time, and are told all the same
	got, length, status, mad, sender = late_word(lib, port, agent, weftd, lambda: lib.receive(port, 50))
	check('silence that weftd tells late', (got, length, status), (agent, 24, ETIMEDOUT))
	check('the wait for it', late_word(lib, port, agent, weftd, lambda: lib.poll(port, 50)), 0)
	check('and what came', lib.receive(port, 0)[:3], (agent, 24, ETIMEDOUT))
	started = time.monotonic()
	lib.send(port, agent, make(SA, GET, 9, 2), 0x3fff, 20000, 0)
	check('a request has more time than the wait', lib.receive(port, 50)[0], -ETIMEDOUT)
	check('the wait is short', time.monotonic() - started < 10, True)
	lib.close_port(port)


READERS, QUESTIONS, UNDER_WAY = 3, 12000, 8


def test_readers(lib, lid):
	"""Several wait for ever at one port: each datagram is one reader's, whole and for its own agent."""
	server, client = (lib.open_port(b'weft0', 1) for i in range(2))
	methods = {lib.register(server, SA, 2, 1, mask(m)): m for m in (GET, GET_TABLE)}
	asks = lib.register(client, SA, 2, 1, None)
	come, wrong, room = [], [], threading.Semaphore(UNDER_WAY)

	def read():
		while True:
			agent, length, status, mad, _ = lib.receive(server, -1)
			if agent == -EAGAIN:	# another reader was faster
				continue
			tid, = struct.unpack_from('>I', mad, 12)
			if agent < 0 or methods.get(agent) != mad[3] or (length, status) != (MAD, 0):
				wrong.append((agent, length, status, mad[3]))
			if agent < 0 or tid >= QUESTIONS:
				return
			come.append(tid)
			room.release()
	readers = [threading.Thread(target=read) for _ in range(READERS)]
	for reader in readers:
		reader.start()
	for tid in range(QUESTIONS + READERS):
		if not room.acquire(timeout=20):
			break
		lib.send(client, asks, make(SA, (GET, GET_TABLE)[tid % 2], tid, 2), lid, 0)
	for reader in readers:
		reader.join()
	check('what several readers got', (sorted(come) == list(range(QUESTIONS)), wrong[:3]), (True, []))
	lib.close_port(server)
	lib.close_port(client)


def test_return(lib, lid, weftd):
	"""weftd is killed: descriptors, agents, and requests that await an answer, go on with the next one."""
	server, client = (lib.open_port(b'weft0', 1) for i in range(2))
	first = lib.register(client, PERF, 1, 0, None)
	asks = lib.register(client, SA, 2, 1, None)
	lib.unregister(client, first)
	answers = lib.register(server, SA, 2, 1, mask(GET))
	check('agents', (asks, answers), (1, 0))
	# one that is answered, one that awaits its answer, one that nobody hears
	lib.send(client, asks, make(SA, GET, 31, 2), lid)
	lib.send(server, answers, lib.receive(server)[3][:3] + b'\x81' + make(SA, GET, 31, 2)[4:], lid, 0)
	check('a question before', lib.receive(client)[3][12:16], make(SA, GET, 31)[12:16])
	lib.send(client, asks, make(SA, GET, 32, 2), lid, 3000, 5)
	question = lib.receive(server)[3]
	lib.send(client, asks, make(SA, GET, 33, 2), 0x3fff, 200)
	os.kill(weftd, signal.SIGKILL)
	check('the descriptor tells', select.select([server], [], [], 20)[0], [server])
	got, length, status, mad, _ = lib.receive(client)
	check('silence', (got, length, status, mad[15]), (asks, 24, ETIMEDOUT, 33))
	# who is asked comes back later, and is not refused meanwhile
	agent, length, status, again, sender = lib.receive(server)
	check('the question again', (agent, length, status, again[12:], sender), (answers, MAD, 0, question[12:], lid))
	lib.send(server, answers, again[:3] + b'\x81' + again[4:], lid, 0)
	got, length, status, mad, _ = lib.receive(client)
	check('an answer', (got, length, status, mad[15]), (asks, MAD, 0, 32))
	check('an agent of the number that is free', lib.register(client, PERF, 1, 0, None), first)
	check('which asks', lib.send(client, first, make(PERF, GET, 34, attribute=1), lid), 0)
	check('and is answered', lib.receive(client)[:3], (first, MAD, 0))
	# nothing of it is left: what is answered is not asked again
	check('nothing else has come', (lib.receive(server, 0)[0], lib.receive(client, 0)[0]), (-EAGAIN, -EAGAIN))
	lib.close_port(server)
	lib.close_port(client)


def test_agents_that_go(lib):
	"""What an agent has asked that is gone is not asked again by the next weftd, in the name of another agent."""
	port = lib.open_port(b'weft0', 1)
	first = lib.register(port, SA, 2, 0, None)
	lib.send(port, first, make(SA, GET, 51, 2), 0x3fff, 300)
	check('the end of an agent', lib.unregister(port, first), 0)
	second = lib.register(port, PERF, 1, 0, None)
	check('its number is free', second, first)
	os.kill(weftd_of(port), signal.SIGKILL)
	lib.send(port, second, make(PERF, GET, 52), 0x3fff, 600)
	got, length, status, mad, _ = lib.receive(port)
	check("the second agent's silence", (got, length, status, mad[1], mad[15]), (second, 24, ETIMEDOUT, PERF, 52))
	lib.close_port(port)


def test_agents_that_are_displaced(lib):
	"""Who registers at the next weftd first has the methods. Nobody asks again what the other agent has asked."""
	port, other = (lib.open_port(b'weft0', 1) for i in range(2))
	serves = lib.register(port, SA, 2, 0, mask(GET))
	asks = lib.register(port, PERF, 1, 0, None)
	check('the method is taken', lib.register(other, SA, 2, 0, mask(GET)), -EPERM)
	lib.send(port, serves, make(SA, GET_TABLE, 53, 2), 0x3fff, 300)
	os.kill(weftd_of(port), signal.SIGKILL)
	check('the method is free', lib.register(other, SA, 2, 0, mask(GET)), 0)
	check('who has lost it', lib.send(port, serves, make(SA, GET_TABLE, 55, 2), 0x3fff, 300), -EIO)
	check('the other agent goes on', lib.send(port, asks, make(PERF, GET, 54), 0x3fff, 600), 0)
	got, length, status, mad, _ = lib.receive(port)
	check("the other agent's silence", (got, length, status, mad[1], mad[15]), (asks, 24, ETIMEDOUT, PERF, 54))
	check('who has lost it is gone', lib.unregister(port, serves), -ENOENT)
	lib.close_port(port)
	lib.close_port(other)


def weftd_of(port):
	"""Whom a port is open at."""
	with socket.socket(fileno=os.dup(port)) as s:
		return struct.unpack('3i', s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def woken(watch, port, what):
	"""The events of the port, which is told of within 20 s; another port may be told of before."""
	until, events = time.monotonic() + 20, {}
	while port not in events and time.monotonic() < until:
		events = dict(watch.poll(until - time.monotonic()))
	check(what, port in events, True)
	return events.get(port, 0)


def test_epoll(lib, lid):
	"""Who waits by epoll(7) is woken when weftd is killed, and by what comes from the next one."""
	server, client, other = (lib.open_port(b'weft0', 1) for i in range(3))
	asks = lib.register(client, SA, 2, 1, None)
	answers = lib.register(server, SA, 2, 1, mask(GET))
	watch, second = select.epoll(), select.epoll()
	watch.register(server, select.EPOLLIN | select.EPOLLET)
	watch.register(client, select.EPOLLIN)
	second.register(server, select.EPOLLIN)
	check('nothing is there', watch.poll(0), [])
	os.kill(weftd_of(server), signal.SIGKILL)
	for port, whom in (server, 'the server'), (client, 'the client'):
		check('the kill wakes ' + whom, bool(woken(watch, port, whom) & (select.EPOLLIN | select.EPOLLHUP)), True)
	check('nothing has come to the server', lib.receive(server, 0)[0], -EAGAIN)
	check('nothing has come to the client', lib.receive(client, 0)[0], -EAGAIN)
	check('nothing is there after the kill', (watch.poll(0.1), second.poll(0)), ([], []))
	lib.send(client, asks, make(SA, GET, 41, 2), lid)
	check('a question wakes', woken(watch, server, 'the server') & select.EPOLLIN, select.EPOLLIN)
	check('by both', second.poll(20), [(server, select.EPOLLIN)])
	check('once by edge', dict(watch.poll(0)), {})
	question = lib.receive(server, 0)[3]
	lib.send(server, answers, question[:3] + b'\x81' + question[4:], lid, 0)
	check('an answer wakes', woken(watch, client, 'the client'), select.EPOLLIN)
	check('which it is', lib.receive(client, 0)[3][15], 41)
	# what the program has not watched is not watched
	lib.receive(other, 0)
	check('another port', (watch.poll(0), second.poll(0)), ([], []))
	watch.unregister(client)
	for port in (server, client, other):
		lib.close_port(port)


def inside(lid, weftd):
	lib = Library()
	test_descriptor(lib)
	test_agents(lib)
	test_answers(lib, lid)
	test_long_answer(lib, lid)
	test_readers(lib, lid)
	test_silence(lib, weftd)
	test_return(lib, lid, weftd)
	test_agents_that_go(lib)
	test_agents_that_are_displaced(lib)
	test_epoll(lib, lid)
	sys.exit(failures != 0)


def outside(weft):
	home = tempfile.mkdtemp(prefix='weft-e2e.')
	os.environ['WEFT_DIR'] = os.path.join(home, 'run')
	net = os.path.join(home, 'net')
	try:
		with open(net, 'w', encoding='utf-8') as f:
			subprocess.run([weft, 'fabric', 'make', 'line', 'switches=2'], stdout=f, check=True)
		subprocess.run([weft, 'fabric', 'load', net], check=True)
		run = [weft, 'run', '--node', 'h2', '--']
		lid = subprocess.run([*run, 'cat', '/sys/class/infiniband/weft0/ports/1/lid'], capture_output=True, text=True,
				     check=True).stdout
		python = '/usr/bin/python3'
		said = subprocess.run([weft, 'status', '--json'], capture_output=True, text=True, check=True).stdout
		calls = [*run, python, '-B', __file__, '--inside', lid.strip(), str(json.loads(said)['pid'])]
		status = subprocess.run(calls, timeout=100, check=False).returncode
	finally:
		subprocess.run([weft, 'down', '--force'], stdout=subprocess.DEVNULL, check=False)
		shutil.rmtree(home, ignore_errors=True)
	print('failed' if status else 'all as expected')
	sys.exit(status != 0)


if __name__ == '__main__':
	if sys.argv[1] == '--inside':
		inside(int(sys.argv[2], 16), int(sys.argv[3]))
	outside(os.path.abspath(sys.argv[1]))
