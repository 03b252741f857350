"""Datagrams of several segments, cut and put together by a program itself: RMPP, version 1 (IBA vol. 1, 13.6), as a sender and as
a receiver, at an agent of libibumad that has its segments one by one. It is written from the standard alone, so that weft's own
(src/mgmt/rmpp.c) meets another one, and it refuses whatever the standard does not allow."""
import ctypes
import os
import struct
import time
from collections import namedtuple

from subnet_lab import Wrong
from umad_calls import MAD, Attributes, mask

VERSION = 1
DATA, ACK, STOP, ABORT = 1, 2, 3, 4
ACTIVE, FIRST, LAST = 1, 2, 4
NO_TIME = 31				# RRespTime
RESOURCES = 1				# the only status of a STOP
(TOO_LONG, LAST_AND_LENGTH, FIRST_AND_SEGMENT, BAD_TYPE, SMALL_WINDOW, BIG_SEGMENT, ILLEGAL_STATUS, BAD_VERSION, MANY_TRIES,
 UNSPECIFIED) = range(118, 128)		# those of an ABORT
HEAD, RMPP_END = 24, 36
TRANSFERRED = MAD - RMPP_END		# bytes of a segment that PayloadLength counts, with the header of its class
RESPONSE = 0x80
USER_RMPP = 1				# flag of umad_register2
BUFFERS = 200			# more than come at once
PATIENCE_S = 20


class Ended(Exception):
	"""The other side has ended it, by this type and status."""


class Packet(namedtuple('Packet', 'version type time flags status data1 data2')):
	"""The header of a segment, or of what is said of segments."""
	@classmethod
	def of(cls, mad):
		version, kind, time_flags, status, data1, data2 = struct.unpack_from('>BBBBII', mad, HEAD)
		return cls(version, kind, time_flags >> 3, time_flags & 7, status, data1, data2)

	def bytes(self):
		return struct.pack('>BBBBII', self.version, self.type, self.time << 3 | self.flags, self.status, self.data1,
				   self.data2)


def packet(kind, flags=ACTIVE, status=0, data1=0, data2=0, version=VERSION, rtime=NO_TIME):
	return Packet(version, kind, rtime, flags, status, data1, data2)


def reply(mad, what, class_end):
	"""What is said of this segment: of the same transaction, the other way."""
	head = mad[:3] + bytes([mad[3] ^ RESPONSE]) + mad[4:HEAD] + what.bytes() + mad[RMPP_END:class_end]
	return head.ljust(MAD, b'\0')


def is_reply(mad, heard):
	"""So must it be, but for what weftd puts into the upper half of the transaction id."""
	return (heard[:3] + heard[4:8] + heard[12:HEAD], heard[3]) == (mad[:3] + mad[4:8] + mad[12:HEAD], mad[3] ^ RESPONSE)


def tid_of(mad):
	"""As its program has said it: the upper half is the agent's."""
	return struct.unpack_from('>I', mad, 12)[0]


class Wire:
	"""An agent that segments by itself: what comes is one MAD each time."""
	def __init__(self, lib, mgmt_class, version, methods, oui=0):
		self.lib, self.over = lib, set()
		self.port = lib.open_port(b'weft0', 1)
		lib.lib.weft_umad_buffers(self.port, -1, BUFFERS)
		agent = ctypes.c_uint32()
		what = Attributes(mgmt_class, version, USER_RMPP, (ctypes.c_uint64 * 2)(*mask(*methods)), oui, VERSION)
		err = lib.register2(self.port, ctypes.byref(what), ctypes.byref(agent))
		if err:
			raise Wrong(f'there is no agent that segments by itself: {os.strerror(err)}')
		self.agent = agent.value

	def send(self, mad, lid):
		"""Once: whoever sends it has the timers."""
		if self.lib.send(self.port, self.agent, mad, lid, 0, 0):
			raise Wrong('a MAD is not sent')

	def receive(self, patience_s=PATIENCE_S):
		"""The next MAD and who has sent it; or None."""
		got, length, status, mad, lid = self.lib.receive(self.port, int(patience_s * 1000))
		if got < 0:
			return None
		if (got, length, status) != (self.agent, MAD, 0):
			raise Wrong(f'a MAD of {length} bytes comes with the status {status} to the agent {got}')
		if tid_of(mad) in self.over:
			raise Wrong(f'{Packet.of(mad)} comes of a transaction that is over')
		return mad, lid

	def next_of(self, tid, patience_s=PATIENCE_S):
		"""The next MAD of this transaction, or None; what others that have ended whole repeat is not heard."""
		until = time.monotonic() + patience_s
		while come := self.receive(max(0, until - time.monotonic())):
			if tid_of(come[0]) == tid:
				return come
		return None

	def must_come(self, tid):
		come = self.next_of(tid)
		if not come:
			raise Wrong('nothing comes')
		return come

	def is_over(self, tid):
		"""What has come is of before; nothing of it comes any more."""
		while self.receive(0):
			pass
		self.over.add(tid)

	def stays_silent(self, quiet_s=0.2):
		while self.receive(quiet_s):
			pass


def parts_of(whole, class_end):
	"""The TransferredData of each segment of a datagram as libibumad has it: its class's header is in each."""
	room, data = MAD - class_end, whole[class_end:]
	return [whole[RMPP_END:class_end] + data[i:i + room] for i in range(0, len(data), room)]


class Sender:
	"""A datagram. leaves_out: segments that are lost when they first go; twice: those that go twice; backwards: each window
	goes from its end; says_length: in the first segment; reserved: what is in PayloadLength of those between; patience_s:
	until what is not acknowledged goes again, or None: that is wrong."""
	def __init__(self, wire, lid, whole, class_end, leaves_out=(), twice=(), backwards=False, says_length=True, reserved=0,
		     patience_s=None):
		self.wire, self.lid, self.head, self.parts = wire, lid, whole[:HEAD], parts_of(whole, class_end)
		self.leaves_out, self.twice, self.backwards = set(leaves_out), set(twice), backwards
		self.says_length, self.reserved = says_length, reserved
		self.patience_s = patience_s
		self.first = self.next = self.last = 1		# of the window; what goes next
		self.again = 0					# what went again as it was missed
		self.acks = []					# (SegmentNumber, NewWindowLast)

	def segment(self, number, **other):
		"""other: what is changed in its header."""
		part, flags, length = self.parts[number - 1], ACTIVE, self.reserved
		if number == 1:
			flags |= FIRST
			length = sum(map(len, self.parts)) if self.says_length else 0
		if number == len(self.parts):
			flags |= LAST
			length = len(part)
		header = packet(DATA, flags, data1=number, data2=length)._replace(**other)
		return self.head + header.bytes() + part.ljust(TRANSFERRED, b'\0')

	def go(self, number, **other):
		self.wire.send(self.segment(number, **other), self.lid)

	def fill(self):
		"""What the window lets go."""
		end = min(self.last, len(self.parts)) + 1
		numbers = range(self.next, end)
		for number in reversed(numbers) if self.backwards else numbers:
			if number in self.leaves_out:
				continue
			for _ in range(1 + (number in self.twice)):
				self.go(number)
		self.next = max(self.next, end)

	def take(self, mad):
		p = Packet.of(mad)
		if p.version != VERSION or not p.flags & ACTIVE:
			raise Wrong(f'{p} is none of RMPP')
		if p.type in (STOP, ABORT):
			raise Ended(p.type, p.status)
		if p.type != ACK or p.flags != ACTIVE or p.status or not is_reply(self.head, mad):
			raise Wrong(f'{p} is no ACK of {self.head.hex()}')
		if p.data1 >= self.next or p.data2 < p.data1:
			raise Wrong(f'{p}: segments have gone up to {self.next - 1}')
		self.acks.append((p.data1, p.data2))
		if p.data1 >= self.first:
			if p.data2 < self.last and p.data1 < len(self.parts):
				raise Wrong(f'{p} closes a window that was open up to {self.last}')
			self.first, self.last = p.data1 + 1, max(self.last, p.data2)
		if p.data1 == self.first - 1 and self.again < self.first < self.next:
			# more has gone: the one behind it is missed, and goes again once
			self.again = self.first
			self.go(self.first)
		self.fill()

	def is_done(self):
		return self.first > len(self.parts)

	def run(self):
		tid = tid_of(self.head)
		self.fill()
		while not self.is_done():
			come = self.wire.next_of(tid, self.patience_s or PATIENCE_S)
			if come:
				self.take(come[0])
			elif self.patience_s:
				self.go(self.first)
			else:
				raise Wrong(f'segment {self.first} of {len(self.parts)} is not acknowledged: {self.acks[-3:]}')
		return self

	def finish_again(self):
		"""The last ACK was lost: the last segment goes again, and that is all."""
		self.go(len(self.parts))
		before = len(self.acks)
		while len(self.parts) not in (segment for segment, _ in self.acks[before:]):
			self.take(self.wire.must_come(tid_of(self.head))[0])


class Receiver:
	"""A datagram that comes. window: how many segments each ACK at a window's end lets go; slides: each segment is
	acknowledged; misses: segments that are lost when they first come; keeps: what is behind a lost one; late: ends of windows
	are acknowledged when something has come so many times again."""
	def __init__(self, wire, class_end, window=64, slides=False, misses=(), keeps=True, late=0):
		self.wire, self.class_end, self.window, self.slides = wire, class_end, window, slides
		self.misses, self.keeps, self.late = set(misses), keeps, late
		self.last = 1			# of the window: a transfer begins with one segment
		self.in_order = 0		# the last one before the first that is missing
		self.seen, self.parts = {}, {}	# by number; those that are kept
		self.total = self.end = None	# bytes and segments, when they are known
		self.repeated = self.waits = 0
		self.came = []			# all numbers, in turn

	def judge(self, mad, p):
		"""Is it what the standard allows as the next one?"""
		if p.version != VERSION or p.type != DATA or p.status or not p.flags & ACTIVE or not p.data1:
			raise Wrong(f'{p} is no segment')
		if p.data1 > self.last:
			raise Wrong(f'{p} is beyond the window, which ends with {self.last}')
		if bool(p.flags & FIRST) != (p.data1 == 1):
			raise Wrong(f'{p}: the first segment and no other one says so')
		if p.flags & LAST and not self.class_end - RMPP_END <= p.data2 <= TRANSFERRED:
			raise Wrong(f'{p}: the last segment says how much of it counts')
		if not p.flags & (FIRST | LAST) and p.data2:
			raise Wrong(f'{p}: PayloadLength is reserved in it')
		old = self.seen.setdefault(p.data1, mad)
		if old != mad:
			raise Wrong(f'{p}: when it came before it was another one')
		if mad[:HEAD] != next(iter(self.seen.values()))[:HEAD]:
			raise Wrong(f'{p} is of another datagram')

	def learn(self, p):
		"""What it says of the whole."""
		if p.flags & LAST:
			bytes_ = (p.data1 - 1) * TRANSFERRED + p.data2
			if self.total not in (None, bytes_) or self.end not in (None, p.data1):
				raise Wrong(f'{p}: it has {bytes_} bytes, and the first segment has said {self.total}')
			self.total, self.end = bytes_, p.data1
		elif p.flags & FIRST and p.data2:
			self.total, self.end = p.data2, -(-p.data2 // TRANSFERRED)
			if self.end == 1:
				raise Wrong(f'{p}: all of it is here, and it is not the last one')
		elif p.data1 == self.end:
			raise Wrong(f'{p}: all {self.total} bytes are here, and it is not the last one')

	def say(self, mad, lid):
		self.wire.send(reply(mad, packet(ACK, data1=self.in_order, data2=self.last), self.class_end), lid)

	def take(self, mad, lid):
		p = Packet.of(mad)
		if p.type in (STOP, ABORT):
			raise Ended(p.type, p.status)
		self.judge(mad, p)
		self.learn(p)
		self.came.append(p.data1)
		if p.data1 in self.misses:
			self.misses.remove(p.data1)
			return
		if p.data1 <= self.in_order or p.data1 in self.parts:
			self.hear_again(mad, lid)
			return
		before = self.in_order
		if self.keeps or p.data1 == before + 1:
			self.parts[p.data1] = mad
		while self.in_order + 1 in self.parts:
			self.in_order += 1
		if self.in_order == before:
			self.say(mad, lid)		# the one before it is missing
		elif self.in_order in (self.last, self.end):
			self.waits = self.late
			self.open_and_say(mad, lid)
		elif self.slides:
			self.open_and_say(mad, lid)

	def open_and_say(self, mad, lid):
		if self.waits:
			return
		if self.slides or self.in_order == self.last:
			self.last = self.in_order + self.window
		self.say(mad, lid)

	def hear_again(self, mad, lid):
		self.repeated += 1
		self.waits = max(0, self.waits - 1)
		self.open_and_say(mad, lid)

	def is_done(self):
		return self.in_order == self.end and not self.waits

	def run(self, tid):
		"""The datagram from the header of its class on."""
		while not self.is_done():
			self.take(*self.wire.must_come(tid))
		return self.data()

	def data(self):
		data = b''.join(self.parts[i][self.class_end:] for i in range(1, self.end + 1))
		return self.parts[1][RMPP_END:self.class_end] + data[:self.total - self.end * (self.class_end - RMPP_END)]
