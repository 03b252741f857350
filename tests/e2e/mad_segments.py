#!/usr/bin/env python3
"""weft's reliable multi-packet protocol meets another one (rmpp_peer.py), segment by segment: at h1 weft's subnet administration,
and agents of libibumad whose segments weftd cuts and puts together; at h2 a program that does so by itself.

mad_segments.py --list                  one line a test: name, label, timeout
mad_segments.py --weft PROGRAM NAME...  runs these tests
"""
import contextlib
import functools
import os
import random
import subprocess
import sys
from errno import EAGAIN, ETIMEDOUT

import subnet_lab
from rmpp_peer import (ABORT, ACK, ACTIVE, BAD_TYPE, BAD_VERSION, BIG_SEGMENT, DATA, FIRST, FIRST_AND_SEGMENT, HEAD,
		       ILLEGAL_STATUS, LAST, LAST_AND_LENGTH, MANY_TRIES, RESOURCES, RESPONSE, RMPP_END, SMALL_WINDOW, STOP,
		       TOO_LONG, TRANSFERRED, UNSPECIFIED, VERSION, Ended, Packet, Receiver, Sender, Wire, packet, reply, tid_of)
from subnet_lab import Wrong
from umad_calls import GET_TABLE, MAD, SA, Library, make, mask
import run	# of abi/, whose place subnet_lab tells

GET_MULTI = 0x14
VENDOR, OUI = 0x32, b'abc'
SA_END, VENDOR_END = 56, 40	# of a class's header, behind which the data is
NODE_RECORD, PATH_RECORD = 0x11, 0x35
FOR_EVER_MS = 60000		# a request has more time than a test waits
WINDOW = 64			# of weft's side
TRIES = 8			# of weft's side, for one window
MANY = 200			# segments
EARLY = 5			# segments of an answer that go before the first ACK of one


def expect(what, got, wanted):
	if got != wanted:
		raise Wrong(f'{what}: {got}, not {wanted}')


@contextlib.contextmanager
def told(what):
	"""What was tried is told beside what is wrong."""
	try:
		yield
	except (Wrong, Ended) as wrong:
		raise Wrong(f'{what}: {wrong!r}') from wrong


class Side:
	"""The agents of one class: weft segments for that of h1; that of h2 does so by itself."""
	def __init__(self, lib, mgmt_class, version, end):
		self.lib, self.mgmt_class, self.version, self.end = lib, mgmt_class, version, end
		self.oui = OUI if mgmt_class == VENDOR else b''
		methods = mask(GET_TABLE, GET_MULTI)
		os.environ['WEFT_NODE'] = 'h1'
		self.port = lib.open_port(b'weft0', 1)
		self.agent = lib.register_oui(self.port, mgmt_class, 1, OUI, methods) if self.oui else \
			lib.register(self.port, mgmt_class, version, 1, methods)
		os.environ['WEFT_NODE'] = 'h2'
		self.wire = Wire(lib, mgmt_class, version, (GET_TABLE, GET_MULTI), int.from_bytes(self.oui, 'big'))


class World:
	def __init__(self, weft, lid, own_lid):
		self.weft, self.lid, self.own_lid = weft, lid, own_lid	# LIDs of h1 and h2
		self.lib, self.tid, self.random = Library(), 0, random.Random(1)
		self.sides = Side(self.lib, SA, 2, SA_END), Side(self.lib, VENDOR, 1, VENDOR_END)

	def datagram(self, side, data, method, question=None):
		"""With so many bytes of data; of a transaction of its own, or an answer to this question."""
		if not question:
			self.tid += 1
		head = make(side.mgmt_class, method, self.tid, side.version, active=True)[:RMPP_END]
		if question:
			head = head[:8] + question[8:16] + head[16:]
		own = b'\0' + side.oui if side.oui else bytes(range(100, 100 + side.end - RMPP_END))
		return head + own + self.random.randbytes(data)

	def send_by_weft(self, side, whole, timeout_ms):
		expect('umad_send', self.lib.send(side.port, side.agent, whole, self.own_lid, timeout_ms), 0)

	def ask_by_weft(self, side, data):
		"""A request in segments, from h1: its transaction and the datagram."""
		whole = self.datagram(side, data, GET_MULTI)
		self.send_by_weft(side, whole, FOR_EVER_MS)
		return self.tid, whole

	def answer_by_weft(self, side, data):
		"""An answer in segments, to a question of one MAD that h2 asks."""
		question = self.datagram(side, 0, GET_TABLE)
		side.wire.send(question[:HEAD] + bytes(RMPP_END - HEAD) + question[RMPP_END:].ljust(TRANSFERRED, b'\0'), self.lid)
		whole = self.datagram(side, data, GET_TABLE | RESPONSE, self.lib.receive(side.port)[3])
		self.send_by_weft(side, whole, 0)
		return self.tid, whole

	def comes_whole(self, side, whole):
		"""To h1; what is in the header of its segments is not the datagram's. Its head is returned."""
		got, length, status, mad, lid = self.lib.receive(side.port, room=len(whole) + MAD)
		expect('a datagram', (got, length, status, lid), (side.agent, len(whole), 0, self.own_lid))
		for begin, end in (0, 8), (12, HEAD), (RMPP_END, len(whole)):
			expect(f'bytes {begin} to {end}', mad[begin:end] == whole[begin:end], True)
		return mad[:HEAD]

	def nothing_comes(self, side):
		expect('nothing comes to h1', self.lib.receive(side.port, 0)[0], -EAGAIN)

	def request_ends(self, side, tid):
		"""Who has asked at h1 hears that there is no answer, and no segment of it comes any more."""
		got, _, status, mad, _ = self.lib.receive(side.port)
		expect('the end of a request', (got, status, tid_of(mad)), (side.agent, ETIMEDOUT, tid))
		side.wire.is_over(tid)


def sizes(end):
	"""Bytes of data: a segment is nearly full, full, and more than full; there are several, and more than three windows."""
	room = MAD - end
	return 1, room - 1, room, room + 1, 2 * room, 7 * room + 13, MANY * room - 1


def take_whole(receiver, tid, whole):
	expect('its bytes', receiver.run(tid) == whole[RMPP_END:], True)


RECEIVERS = ({'window': 1}, {'window': 3}, {'window': 3, 'slides': True}, {'window': 40, 'late': 2},
	     {'window': 7, 'misses': (1, 2, 8, 9, 20)}, {'misses': (5, 64, 66, 129, MANY)}, {'misses': range(2, MANY, 3)},
	     {'window': 8, 'misses': range(1, MANY, 10), 'keeps': False})


def test_from_weft(world):
	"""What weft's side cuts, and whatever the receiver's windows and losses are."""
	for side in world.sides:
		for begin in world.ask_by_weft, world.answer_by_weft:
			for data in sizes(side.end):
				take_whole(Receiver(side.wire, side.end), *begin(side, data))
			for how in RECEIVERS:
				take_whole(Receiver(side.wire, side.end, **how), *begin(side, sizes(side.end)[-1]))


SENDERS = ({'twice': range(1, MANY + 1)}, {'backwards': True}, {'leaves_out': (5,)}, {'leaves_out': range(3, MANY, 3)},
	   {'leaves_out': (1, 65, MANY), 'twice': (3, 70), 'patience_s': 0.1}, {'reserved': 200})


def test_to_weft(world):
	"""What weft's side puts together, and whatever the sender loses and repeats; by windows that weft mad set tells."""
	for side in world.sides:
		for data in sizes(side.end):
			for says_length in True, False:
				whole = world.datagram(side, data, GET_MULTI)
				Sender(side.wire, world.lid, whole, side.end, says_length=says_length).run().finish_again()
				world.comes_whole(side, whole)
		for how in SENDERS:
			whole = world.datagram(side, sizes(side.end)[-1], GET_MULTI)
			with told(how):
				sender = Sender(side.wire, world.lid, whole, side.end, **how).run()
			world.comes_whole(side, whole)
			if 'patience_s' not in how:
				in_order = {number - 1 for number in how.get('leaves_out', ())}
				expect('what is not acknowledged', in_order.difference(ack for ack, _ in sender.acks), set())
		for window in 1, 3, WINDOW:
			subprocess.run([world.weft, 'mad', 'set', f'window={window}'], check=True, stdout=subprocess.DEVNULL)
			whole = world.datagram(side, sizes(side.end)[-1], GET_MULTI)
			sender = Sender(side.wire, world.lid, whole, side.end).run()
			world.comes_whole(side, whole)
			ends = range(1, MANY, window)
			expect('ends of windows', sender.acks[:-1], [(end, end + window) for end in ends])
		world.nothing_comes(side)


def ask_in_segments(world, side, data):
	"""By h2; h1 has it. The Sender, and the question's head there."""
	whole = world.datagram(side, data, GET_MULTI)
	sender = Sender(side.wire, world.lid, whole, side.end).run()
	return sender, world.comes_whole(side, whole)


def lets_answer(sender, side, window):
	"""The ACK of segment 0 (13.6.6.3): the answer may begin, with so many segments."""
	said = packet(ACK, data1=0, data2=window).bytes()
	side.wire.send(sender.head + said + sender.parts[0][:side.end - RMPP_END].ljust(TRANSFERRED, b'\0'), sender.lid)


def test_answers_of_weft(world):
	"""A request of h2 in segments has an answer in segments. h2 says before that it may begin, or then, or never."""
	for side in world.sides:
		for data in sizes(side.end):
			for before, then in ((None, None), (1, None), (EARLY, None), (None, EARLY)):
				sender, question = ask_in_segments(world, side, data)
				receiver = Receiver(side.wire, side.end, window=EARLY)
				tid = tid_of(sender.head)
				if before:
					receiver.last = before
					lets_answer(sender, side, before)
				answer = world.datagram(side, data + EARLY * MAD, GET_MULTI | RESPONSE, question)
				world.send_by_weft(side, answer, 0)
				come = [side.wire.must_come(tid)]
				if then:
					receiver.last = then
					lets_answer(sender, side, then)
				# nothing is acknowledged before so many have come
				while len({Packet.of(mad).data1 for mad, _ in come}) < receiver.last:
					come.append(side.wire.must_come(tid))
					expect('a segment', Packet.of(come[-1][0]).type, DATA)
				for mad, lid in come:
					receiver.take(mad, lid)
				take_whole(receiver, tid, answer)


def let_by_weft(side, tid):
	"""h1 has heard that its request has come whole, and says that the answer may begin: by so many segments."""
	mad, _ = side.wire.must_come(tid)
	while Packet.of(mad).type == DATA:	# of before
		mad, _ = side.wire.must_come(tid)
	p = Packet.of(mad)
	expect('an ACK of segment 0', (p.version, p.type, p.flags, p.status, p.data1, p.data2 > 0, mad[3]),
	       (VERSION, ACK, ACTIVE, 0, 0, True, GET_MULTI))
	expect("its class's header", mad[RMPP_END:side.end].startswith(b'\0' + side.oui if side.oui else b''), True)
	return p.data2


def test_answers_to_weft(world):
	"""A request of h1 in segments, and an answer of h2 in segments, or in one MAD that is none."""
	for side in world.sides:
		for data in sizes(side.end):
			tid, whole = world.ask_by_weft(side, data)
			receiver = Receiver(side.wire, side.end)
			first = side.wire.must_come(tid)
			receiver.take(*first)
			take_whole(receiver, tid, whole)
			window = let_by_weft(side, tid)
			receiver.say(*first)		# the last ACK again: who may answer has not heard of it
			expect('the same ACK', let_by_weft(side, tid), window)
			answer = world.datagram(side, data + MAD, GET_MULTI | RESPONSE, first[0])
			sender = Sender(side.wire, world.lid, answer, side.end)
			sender.last = window
			sender.run().finish_again()
			world.comes_whole(side, answer)
		tid, whole = world.ask_by_weft(side, data)
		first = side.wire.must_come(tid)
		receiver = Receiver(side.wire, side.end)
		receiver.take(*first)
		take_whole(receiver, tid, whole)
		let_by_weft(side, tid)
		answer = reply(first[0], packet(0, flags=0, version=0), side.end)
		side.wire.send(answer, world.lid)
		world.comes_whole(side, answer)


def is_ended(wire, tid, status):
	"""By weft's side, with an ABORT of this status."""
	p = Packet.of(wire.must_come(tid)[0])
	while p.type in (DATA, ACK):		# of before
		p = Packet.of(wire.must_come(tid)[0])
	expect('its end', (p.version, p.type, p.flags, p.status), (VERSION, ABORT, ACTIVE, status))


# what is wrong of what is said of the first segment of several
WRONG_REPLIES = (
	('an ACK of what has not gone', packet(ACK, data1=2, data2=9), BIG_SEGMENT),
	('a window that ends before what is acknowledged', packet(ACK, data1=1, data2=0), SMALL_WINDOW),
	('an ACK with a status', packet(ACK, data1=1, data2=9, status=1), ILLEGAL_STATUS),
	('an ACK of another version', packet(ACK, data1=1, data2=9, version=2), BAD_VERSION),
	('another type', packet(7, data1=1, data2=9), BAD_TYPE),
	('a STOP without a status', packet(STOP), ILLEGAL_STATUS),
	("a STOP with an ABORT's", packet(STOP, status=UNSPECIFIED), ILLEGAL_STATUS),
	('an ABORT without a status', packet(ABORT), ILLEGAL_STATUS),
	("an ABORT with a STOP's", packet(ABORT, status=RESOURCES), ILLEGAL_STATUS),
)
RIGHT_ENDS = ((STOP, RESOURCES), *((ABORT, status) for status in (*range(TOO_LONG, UNSPECIFIED + 1), 128, 255)))


def try_reply(world, side, begin, said, status):
	"""status: by which weft's side refuses it; None: it ends by it. Its transaction, over when weftd has read this."""
	tid, _ = begin(side, EARLY * MAD)
	mad, lid = side.wire.must_come(tid)
	side.wire.send(reply(mad, said, side.end), lid)
	if status:
		is_ended(side.wire, tid, status)
	if begin == world.ask_by_weft:
		world.request_ends(side, tid)
	return tid


def test_ends_of_sending(world):
	for side in world.sides:
		over = []
		for what, said, status in WRONG_REPLIES:
			for begin in world.ask_by_weft, world.answer_by_weft:
				with told(what):
					over.append(try_reply(world, side, begin, said, status))
		for kind, status in RIGHT_ENDS:
			for begin in world.ask_by_weft, world.answer_by_weft:
				with told(f'type {kind}, status {status}'):
					over.append(try_reply(world, side, begin, packet(kind, status=status), None))
		narrows(world, side)
		for tid in over:
			side.wire.is_over(tid)
		side.wire.stays_silent()
		# and they go on
		take_whole(Receiver(side.wire, side.end), *world.ask_by_weft(side, EARLY * MAD))


def narrows(world, side):
	"""An ACK that takes back what was let go ends it; one of before changes nothing."""
	tid, _ = world.ask_by_weft(side, 2 * EARLY * MAD)
	receiver = Receiver(side.wire, side.end, window=EARLY)
	while receiver.in_order < EARLY:
		first = side.wire.must_come(tid)
		receiver.take(*first)
	side.wire.send(reply(first[0], packet(ACK, data1=0, data2=1), side.end), world.lid)
	side.wire.send(reply(first[0], packet(ACK, data1=3, data2=5), side.end), world.lid)
	while receiver.in_order < EARLY + 1:
		receiver.take(*side.wire.must_come(tid))
	side.wire.send(reply(first[0], packet(ACK, data1=EARLY + 1, data2=EARLY + 2), side.end), world.lid)
	is_ended(side.wire, tid, SMALL_WINDOW)
	world.request_ends(side, tid)


# of three segments: what is changed in the one behind so many right ones; does the first say how long all is?
WRONG_SEGMENTS = (
	('version 0', 0, {'version': 0}, BAD_VERSION, True),
	('a status', 0, {'status': 1}, ILLEGAL_STATUS, True),
	('the first does not say so', 0, {'flags': ACTIVE}, FIRST_AND_SEGMENT, True),
	('all is there and it is not the last', 0, {'data2': 100}, LAST_AND_LENGTH, True),
	('it is the last, of more than fits', 0, {'flags': ACTIVE | FIRST | LAST, 'data2': 221}, LAST_AND_LENGTH, True),
	('it is the last, of nothing', 0, {'flags': ACTIVE | FIRST | LAST, 'data2': 0}, LAST_AND_LENGTH, True),
	('version 2', 1, {'version': 2}, BAD_VERSION, True),
	('type 5', 1, {'type': 5}, BAD_TYPE, True),
	('a status', 1, {'status': UNSPECIFIED}, ILLEGAL_STATUS, True),
	('another one says that it is the first', 1, {'flags': ACTIVE | FIRST}, FIRST_AND_SEGMENT, True),
	('the last is of nothing', 1, {'flags': ACTIVE | LAST, 'data2': 0}, LAST_AND_LENGTH, False),
	('the last is of more than fits', 1, {'flags': ACTIVE | LAST, 'data2': 221}, LAST_AND_LENGTH, False),
	('the last comes early', 1, {'flags': ACTIVE | LAST, 'data2': 220}, LAST_AND_LENGTH, True),
	('the last does not say so', 2, {'flags': ACTIVE, 'data2': 0}, LAST_AND_LENGTH, True),
	('the last is shorter', 2, {'data2': 219}, LAST_AND_LENGTH, True),
)


def test_ends_of_receiving(world):
	for side in world.sides:
		for what, good, changed, status, says_length in WRONG_SEGMENTS:
			whole = world.datagram(side, 3 * (MAD - side.end), GET_MULTI)
			sender = Sender(side.wire, world.lid, whole, side.end, says_length=says_length)
			for number in range(1, good + 1):
				sender.go(number)
			sender.go(good + 1, **changed)
			with told(what):
				is_ended(side.wire, tid_of(whole), status)
		side.wire.stays_silent()
		world.nothing_comes(side)
		for kind, status in (ABORT, TOO_LONG), (ABORT, UNSPECIFIED), (STOP, RESOURCES):
			whole = world.datagram(side, 3 * (MAD - side.end), GET_MULTI)
			sender = Sender(side.wire, world.lid, whole, side.end)
			sender.go(1)
			sender.go(2, type=kind, status=status, data1=0, data2=0)
			# of the same transaction another one begins
			whole = whole[:side.end] + world.random.randbytes(MANY * MAD)
			Sender(side.wire, world.lid, whole, side.end).run()
			world.comes_whole(side, whole)


def test_silence(world):
	"""Who is not heard gives up: a sender after its tries, a receiver when nothing more comes."""
	side = world.sides[1]
	data = EARLY * MAD
	deaf, numb = (world.ask_by_weft(side, data)[0] for _ in range(2))
	whole = world.datagram(side, data, GET_MULTI)
	Sender(side.wire, world.lid, whole, side.end).go(1)
	came = {deaf: [], numb: [], tid_of(whole): []}
	while any(not packets or packets[-1].type != ABORT for packets in came.values()):
		come = side.wire.receive()
		if not come:
			raise Wrong(f'nothing more comes behind {came}')
		mad, lid = come
		packets = came[tid_of(mad)]
		packets.append(Packet.of(mad))
		if tid_of(mad) == numb and len(packets) == 1:
			side.wire.send(reply(mad, packet(ACK, data1=1, data2=3), side.end), lid)
	expect('who hears nothing', [(p.type, p.data1) for p in came[deaf][:-1]], [(DATA, 1)] * TRIES)
	expect('who hears nothing more', {(p.type, p.data1) for p in came[numb][1:-1]} - {(DATA, 1)}, {(DATA, 2), (DATA, 3)})
	ends = [packets[-1].status for packets in came.values()]
	expect('their ends', ends, [MANY_TRIES, MANY_TRIES, TOO_LONG])
	world.request_ends(side, deaf)
	world.request_ends(side, numb)
	world.nothing_comes(side)


def test_tables(world):
	"""Tables of weft's administration, the longer one made while it is sent: as an agent of weft's has them."""
	with open('/sys/class/infiniband/weft0/ports/1/sm_lid', encoding='ascii') as f:
		sm_lid = int(f.read(), 16)
	side = world.sides[0]
	for attribute in NODE_RECORD, PATH_RECORD:
		question = make(SA, GET_TABLE, 0, 2, attribute=attribute)[:HEAD] + bytes(MAD - HEAD)
		world.lib.send(side.port, side.agent, question, sm_lid, FOR_EVER_MS)
		got, length, status, table, _ = world.lib.receive(side.port, room=1 << 20)
		expect('a table', (got, length > 10000, status), (side.agent, True, 0))
		for how in {}, *RECEIVERS[:3], {'window': 5 * MANY, 'late': 2}, *RECEIVERS[4:]:
			world.tid += 1
			side.wire.send(question[:12] + world.tid.to_bytes(4, 'big') + question[16:], sm_lid)
			take_whole(Receiver(side.wire, side.end, **how), world.tid, table)


TESTS = (test_tables, test_from_weft, test_to_weft, test_answers_of_weft, test_answers_to_weft, test_ends_of_sending,
	 test_ends_of_receiving, test_silence)
TESTS = {test.__name__.removeprefix('test_'): test for test in TESTS}


def inside(name, weft, *lids):
	try:
		TESTS[name](World(weft, *map(int, lids)))
	except (Wrong, Ended) as wrong:
		sys.exit(f'FAILED: {wrong!r}')
	sys.exit(0)


def at_hosts(name, lab):
	if TESTS[name] == test_tables:
		lab.change('load', '--routing', 'sm', lab.make('fat-tree', 'ports=12'))
		lab.within('the subnet is up', lambda: all('State: Active' in lab.at(host, 'ibstat') for host in ('h1', 'h2')))
	else:
		lab.load('line', 'switches=2')
	lab.at('h2', '/usr/bin/python3', '-B', os.path.abspath(__file__), '--inside', name, lab.weft_path, lab.lid('h1'),
	       lab.lid('h2'))


def tests():
	return {name: ('e2e', 120, subnet_lab.row(functools.partial(at_hosts, name))) for name in TESTS}


if __name__ == '__main__':
	if sys.argv[1] == '--inside':
		inside(*sys.argv[2:])
	sys.exit(run.run_table(tests(), ('ibstat',)))
