#!/usr/bin/env python3
"""Sends subnet management packets that lie, by libibumad: hop pointers and counts at their edges and beyond, paths to nowhere,
the way back, LIDs of others, attributes and M_Keys that are made up. Nothing is awaited.

smp_storm.py SEED COUNT LID: some go to this LID
"""
import random
import struct
import sys

from umad_calls import GET, Library

SET, GET_RESP = 2, 0x81
BY_LID, DIRECTED = 0x01, 0x81
WAY_BACK, ANY_LID = 0x8000, 0xffff
# NodeDescription to VLArbitrationTable, LedInfo, VendorDiag, extended port info; of managers (0x20) none
ATTRIBUTES = (0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x30, 0x31, 0xff90, 0xffff)
HOPS = (0, 1, 2, 3, 4, 62, 63, 64, 65, 127, 128, 254, 255)
PORTS = (0, 1, 1, 2, 2, 3, 4, 5, 255)
READ_EACH = 64


def make(rand, mgmt_class, lid):
	head = struct.pack('>BBBBHBBQHHI', 1, mgmt_class, 1, rand.choice((GET, SET, SET, SET, GET_RESP)),
			   rand.choice((0, 0, WAY_BACK)), rand.choice(HOPS), rand.choice(HOPS), rand.getrandbits(64),
			   rand.choice(ATTRIBUTES), 0, rand.choice((0, 1, 2, 0xff, rand.getrandbits(32))))
	lids = (rand.choice((ANY_LID, 0, lid, 0xc000, rand.getrandbits(16))) for _ in range(2))
	paths = bytes([0, *(rand.choice(PORTS) for _ in range(63))] + [rand.choice(PORTS) for _ in range(64)])
	return head + struct.pack('>QHH', rand.choice((0, rand.getrandbits(64))), *lids) + bytes(28) + rand.randbytes(64) + paths


def main(seed, count, lid):
	rand, lib = random.Random(seed), Library()
	port = lib.open_port(b'weft0', 1)
	agents = {mgmt_class: lib.register(port, mgmt_class, 1, 0, None) for mgmt_class in (BY_LID, DIRECTED)}
	for i in range(count):
		mgmt_class = rand.choice((BY_LID, DIRECTED, DIRECTED))
		to = rand.choice((lid, ANY_LID, 0, rand.randrange(1, 40)))
		lib.send(port, agents[mgmt_class], make(rand, mgmt_class, lid), to, 0, qpn=0)
		while i % READ_EACH == 0 and lib.receive(port, 0)[0] >= 0:
			pass
	print(f'{count} sent')


main(*(int(word) for word in sys.argv[1:]))
