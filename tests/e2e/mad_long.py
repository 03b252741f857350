#!/usr/bin/env python3
"""Answers of many megabytes, live: a program at h2 asks, one at h1 answers in segments, by two windows, over a link that loses
datagrams in both directions. Meanwhile a third one, at h3, asks the performance agent at h1. Then an answer that is longer than
may be, one whose program does not read it, and a weftd that is killed in the midst of one.

usage: mad_long.py WEFT [MB [LOSS...]]: prints the table of docs/management.md"""
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from errno import ENOSPC, ETIMEDOUT

import subnet_lab
from umad_calls import GET, GET_TABLE, MAD, PERF, SA, Library, make, mask, weftd_of

LIMIT_S = 240
WINDOWS = 64, 1024


def fail(text):
	print(f'FAILED: {text}')
	os._exit(1)	# whatever other threads do


def expect(what, got, wanted):
	if got != wanted:
		fail(f'{what}: {got}, not {wanted}')


def run(weft, *words):
	subprocess.run([weft, *words], check=True, stdout=subprocess.DEVNULL)


def open_at(lib, node):
	os.environ['WEFT_NODE'] = node
	return lib.open_port(b'weft0', 1)


class World:
	def __init__(self, weft, lid, bytes_):
		self.weft, self.lid, self.lib, self.tid = weft, lid, Library(), 0
		self.server, self.client, self.other = (open_at(self.lib, f'h{i}') for i in (1, 2, 3))
		self.answers = self.lib.register(self.server, SA, 2, 1, mask(GET_TABLE))
		self.asks = self.lib.register(self.client, SA, 2, 1, None)
		self.looks = self.lib.register(self.other, PERF, 1, 0, None)
		self.table = make(SA, 0, 0, 2, 0, 56, True)[24:] + random.Random(1).randbytes(bytes_ - 56)

	def ask(self, timeout_ms=10000):
		"""The question, as it has come to the server."""
		self.tid += 1
		self.lib.send(self.client, self.asks, make(SA, GET_TABLE, self.tid, 2), self.lid, timeout_ms)
		return self.lib.receive(self.server)

	def answer(self, question, table):
		_, _, _, mad, sender = question
		whole = mad[:3] + b'\x92' + mad[4:24] + table
		expect('the answer is sent', self.lib.send(self.server, self.answers, whole, sender, 0), 0)

	def take(self, *tables):
		"""These answers have come whole, in any order."""
		left = {len(table) + 24: table for table in tables}
		while left:
			got = self.lib.receive(self.client, LIMIT_S * 1000)
			if got[0] == -ENOSPC:
				got = self.lib.receive(self.client, LIMIT_S * 1000, got[1])
			expect('an answer', (got[0], got[1] in left, got[2]), (self.asks, True, 0))
			# the header of its segments is not the answer's
			expect('what it says', hashlib.sha256(got[3][56:]).digest(),
			       hashlib.sha256(left.pop(got[1])[32:]).digest())

	def look(self, latencies, until):
		"""What the performance agent takes meanwhile, in microseconds."""
		while not until.is_set():
			began = time.perf_counter()
			self.lib.send(self.other, self.looks, make(PERF, GET, 1, attribute=1), self.lid, 10000)
			expect('the performance agent', self.lib.receive(self.other)[2], 0)
			latencies.append((time.perf_counter() - began) * 1e6)
			time.sleep(0.001)


def measure(world, window, loss):
	run(world.weft, 'mad', 'set', f'window={window}')
	run(world.weft, 'fabric', 'link', 'h2:1', f'loss={loss}%,seed=7')
	question = world.ask()
	while question[2]:			# the question was lost
		question = world.ask()
	latencies, until = [], threading.Event()
	looks = threading.Thread(target=world.look, args=(latencies, until))
	looks.start()
	began = time.perf_counter()
	world.answer(question, world.table)
	sent = time.perf_counter() - began
	world.take(world.table)
	took = time.perf_counter() - began
	until.set()
	looks.join()
	run(world.weft, 'fabric', 'link', 'h2:1', 'loss=0%')
	latencies.sort()
	print(f'| {window} | {loss} % | {took:.2f} | {len(world.table) / took / 1e6:.1f} | {sent:.2f} | '
	      f'{latencies[len(latencies) // 2]:.0f} | {latencies[len(latencies) * 99 // 100]:.0f} |', flush=True)


def bounds(world):
	"""One that is too long is lost for who asked, and what comes next is not."""
	run(world.weft, 'mad', 'set', 'longest-kb=1536')
	world.answer(world.ask(500), world.table[:3 << 20])
	expect('an answer that is too long', world.lib.receive(world.client, 20000)[2], ETIMEDOUT)
	world.answer(world.ask(), world.table[:1 << 20])
	world.take(world.table[:1 << 20])
	run(world.weft, 'mad', 'set', 'longest-kb=98304')


def deaf(world):
	"""What a program does not read waits, what is behind it too, and others have theirs."""
	table, parts = world.table[:8 << 20], (1 << 20, 300, 2 << 20)
	world.answer(world.ask(), table)
	for bytes_ in parts:
		world.answer(world.ask(), table[:bytes_])
	world.lib.send(world.other, world.looks, make(PERF, GET, 1, attribute=1), world.lid)
	expect('the performance agent', world.lib.receive(world.other)[2], 0)
	world.take(table, *(table[:bytes_] for bytes_ in parts))


def kill(world):
	"""weftd is killed while an answer is on its way: its question is asked again, and answered."""
	run(world.weft, 'fabric', 'link', 'h2:1', 'loss=10%,seed=9')
	world.answer(world.ask(20000), world.table)
	time.sleep(0.05)
	os.kill(weftd_of(world.client), signal.SIGKILL)
	# each port comes to the next weftd, at its host, when its program looks at it; who answers is there first
	for node, port in (('h1', world.server), ('h2', world.client)):
		os.environ['WEFT_NODE'] = node
		world.lib.receive(port, 100)
	again = world.lib.receive(world.server, LIMIT_S * 1000)
	expect('the question again', again[1:3], (MAD, 0))
	run(world.weft, 'fabric', 'link', 'h2:1', 'loss=0%')
	world.answer(again, world.table)
	world.take(world.table)


def inside(weft, lid, megabytes, losses):
	world = World(weft, lid, megabytes << 20)
	print('| window | loss | s | MB/s | until it was sent, s | others: median, us | 99 of 100, us |')
	print('|---|---|---|---|---|---|---|')
	for window in WINDOWS:
		for loss in losses:
			measure(world, window, loss)
	bounds(world)
	deaf(world)
	kill(world)


def test(lab):
	megabytes, losses = sys.argv[2] if len(sys.argv) > 2 else '24', sys.argv[3:] or ['0', '1']
	lab.load('line', 'switches=4')
	lid = lab.lid('h1')
	print(lab.run(*lab.command('h1', '/usr/bin/python3', '-B', os.path.abspath(__file__), '--inside', lab.weft_path, lid,
				   megabytes, *losses), limit_s=10 * LIMIT_S), end='')


if sys.argv[1] == '--inside':
	inside(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
	sys.exit(0)
subnet_lab.script(test, 'ibstat')
