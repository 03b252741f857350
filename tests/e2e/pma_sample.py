#!/usr/bin/env python3
"""Samples a port by Debian's libibmad: PortSamplesControl, then PortSamplesResult until the sample has ended.

pma_sample.py LID PORT TICKS DELAY_TICKS: prints what PortXmitData, PortRcvData, PortXmitPkts, PortRcvPkts and PortXmitWait
counted meanwhile, and the same by PortSamplesResultExtended; status words of the answers on errors.
"""
import struct
import sys
import time

from ibmad import GET, SET, Client

PERFORMANCE = 0x04
CONTROL, RESULT, RESULT_EXTENDED = 0x10, 0x11, 0x1e
DONE = 0
DATA, BYTES = 64, 192
TAG = 0x5a5a


def main(lid, port, ticks, delay):
	client = Client(PERFORMANCE, DATA, BYTES)

	def ask(*what):
		return client.ask(lid, *what)
	control = struct.pack('>BB26xIIH', 0, port, delay, ticks, TAG) + struct.pack('>5H', 1, 2, 3, 4, 5)
	set_up = ask(SET, CONTROL, control)
	if struct.unpack_from('>H', set_up, 36)[0] != TAG:
		sys.exit('somebody else samples')
	print('sampling', flush=True)
	while True:
		answer = ask(GET, RESULT, b'')
		tag, status, *counts = struct.unpack_from('>HH5I', answer)
		if tag != TAG:
			sys.exit(f'tag {tag:#x}')
		if status == DONE:
			break
		time.sleep(0.1)
	tag, status, width, *wide = struct.unpack_from('>HHI5Q', ask(GET, RESULT_EXTENDED, b''))
	print(*counts)
	print(width >> 30, *wide)


main(*map(int, sys.argv[1:]))
