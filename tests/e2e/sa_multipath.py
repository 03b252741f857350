#!/usr/bin/env python3
"""Asks the subnet administration for paths between several ports by MultiPathRecord (IBA 15.2.5.20), by Debian's libibumad.

sa_multipath.py SGID[,SGID...] DGID[,DGID...] [NAME=VALUE...]: prints the status of the answer and a line for each path, in
hexadecimal. NAME is one of those of FIELDS, or indep.
"""
import ipaddress
import struct
import sys

from umad_calls import SA, Library

GET_MULTI, MULTI_PATH, VERSION = 0x14, 0x3a, 2
DATA, RECORD, ROOM = 56, 64, 1 << 16
GIDS, SOURCES, DESTINATIONS = 24, 1 << 19, 1 << 20
FILES = '/sys/class/infiniband/weft0/ports/1'
# where it is in the record, and its bits in the mask: a selector comes with its value
FIELDS = {'reversible': (5, 1 << 5), 'numb_path': (5, 1 << 6), 'pkey': (6, 1 << 7), 'sl': (9, 1 << 9), 'mtu': (10, 3 << 10),
	  'rate': (11, 3 << 12), 'life': (12, 3 << 14), 'indep': (14, 1 << 17)}


def question(sources, destinations, options):
	record, wanted = bytearray(GIDS), SOURCES | DESTINATIONS
	record[15], record[16] = len(sources), len(destinations)
	for name, value in options:
		at, bits = FIELDS[name]
		wanted |= bits
		if name == 'pkey':
			struct.pack_into('>H', record, at, value)
		else:
			record[at] |= value << {'reversible': 7, 'indep': 6}.get(name, 0)
	for gid in sources + destinations:
		record += ipaddress.ip_address(gid).packed
	head = struct.pack('>BBBBHHQHHI', 1, SA, VERSION, GET_MULTI, 0, 0, 1, MULTI_PATH, 0, 0)
	# of RMPP: its version, no type, Active; then neither SM_Key nor AttributeOffset
	return head + bytes((1, 0, 1)).ljust(24, b'\0') + struct.pack('>Q', wanted) + record


def main(sources, destinations, *options):
	lib = Library()
	port = lib.open_port(b'weft0', 1)
	agent = lib.register(port, SA, VERSION, 1, None)
	with open(FILES + '/sm_lid', encoding='ascii') as f:
		lid = int(f.read(), 0)
	pairs = [(name, int(value, 0)) for name, value in (option.split('=') for option in options)]
	lib.send(port, agent, question(sources.split(','), destinations.split(','), pairs), lid, 10000)
	_, length, failed, mad, _ = lib.receive(port, room=ROOM)
	if failed:
		sys.exit(f'no answer: {failed}')
	status, = struct.unpack_from('>H', mad, 4)
	each = 8 * struct.unpack_from('>H', mad, 44)[0]
	print(f'attribute {struct.unpack_from(">H", mad, 16)[0]:#x} status {status:#x} records of {each} bytes')
	for at in range(DATA, length if each and not status else 0, each or RECORD):
		print(mad[at:at + RECORD].hex())


main(*sys.argv[1:])
