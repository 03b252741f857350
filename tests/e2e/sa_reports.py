#!/usr/bin/env python3
"""Subscribes to notices at the subnet administration by libibumad, and prints and answers the reports that come (IBA 13.4.11):
the number of the trap and the GID in its details. SIGTERM ends the subscriptions, and the program.

sa_reports.py TRAP...
"""
import ipaddress
import signal
import struct
import sys

from umad_calls import SA, Library, mask

SET, REPORT, REPORT_RESP, INFORM_INFO = 2, 6, b'\x86', 3
ALL_LIDS, ALL_TYPES, ALL_PRODUCERS = 0xffff, 0xffff, b'\xff\xff\xff'
GENERIC, QP1 = 1, 1 << 8
STATUS, DATA, NOTICE_TRAP, NOTICE_GID = 4, 56, 4, 16
WAIT_MS = 100


def main(traps):
	ends = []
	signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
	lib = Library()
	port = lib.open_port(b'weft0', 1)
	agent = lib.register(port, SA, 2, 1, mask(REPORT))
	with open('/sys/class/infiniband/weft0/ports/1/sm_lid', encoding='ascii') as f:
		sm_lid = int(f.read(), 0)

	def subscribe(trap, begins):
		info = struct.pack('>16xHHHBBHHI', ALL_LIDS, 0, 0, GENERIC, begins, ALL_TYPES, trap, QP1) + b'\0' + ALL_PRODUCERS
		mad = struct.pack('>BBBBHHQHHI', 1, SA, 2, SET, 0, 0, trap, INFORM_INFO, 0, 0) + bytes(DATA - 24) + info
		lib.send(port, agent, mad.ljust(256, b'\0'), sm_lid, 3000, 5)
		while True:
			got, length, status, answer, _ = lib.receive(port)
			if got >= 0 and not status and answer[3] == REPORT:
				hear(answer)
				continue
			if got < 0 or status or length < DATA or struct.unpack_from('>H', answer, STATUS)[0]:
				sys.exit(f'trap {trap}: {got}, status {status}, answer {answer.hex()}')
			return

	def hear(report):
		trap, = struct.unpack_from('>H', report, DATA + NOTICE_TRAP)
		print(trap, ipaddress.IPv6Address(report[DATA + NOTICE_GID:DATA + NOTICE_GID + 16]), flush=True)
		lib.send(port, agent, report[:3] + REPORT_RESP + report[4:], sm_lid, 0)

	for trap in traps:
		subscribe(trap, 1)
	print('subscribed', flush=True)
	while not ends:
		got, length, status, mad, _ = lib.receive(port, WAIT_MS)
		if got >= 0 and not status and length > DATA and mad[3] == REPORT:
			hear(mad)
	for trap in traps:
		subscribe(trap, 0)
	print('ended', flush=True)


main([int(word) for word in sys.argv[1:]])
