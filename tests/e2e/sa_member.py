#!/usr/bin/env python3
"""Enters a multicast group at the subnet administration, or leaves it, by Debian's libibmad: with any JoinState (IBA 15.2.5.17).

sa_member.py join|leave STATE MGID: prints the MLID, the Q_Key and the JoinState that are answered
"""
import ipaddress
import struct
import sys

from ibmad import SET, Client

ADMINISTRATION, MEMBER, DELETE = 0x03, 0x38, 0x15
DATA, BYTES = 56, 200
MGID_PORT_GID_AND_STATE = 1 | 1 << 1 | 1 << 16
FILES = '/sys/class/infiniband/weft0/ports/1'


def read(name):
	with open(f'{FILES}/{name}', encoding='ascii') as f:
		return f.read().strip()


def main(what, state, mgid):
	gids = [ipaddress.ip_address(gid).packed for gid in (mgid, read('gids/0'))]
	record = b''.join(gids) + bytes(16) + bytes([int(state), 0, 0, 0])
	method = {'join': SET, 'leave': DELETE}[what]
	answer = Client(ADMINISTRATION, DATA, BYTES).ask(int(read('sm_lid'), 0), method, MEMBER, record, MGID_PORT_GID_AND_STATE)
	qkey, mlid = struct.unpack_from('>IH', answer, 32)
	print(f'{mlid:#x} {qkey:#x} {answer[48] & 15}')


main(*sys.argv[1:])
