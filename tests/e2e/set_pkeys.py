#!/usr/bin/env python3
"""Writes the first block of a port's P_KeyTable by an SMP of Debian's libibmad, as a subnet manager does (IBA 14.2.5.7).

set_pkeys.py LID PKEY...: prints what the port answers, as far as there are P_Keys
"""
import struct
import sys

from ibmad import Client

SMP, PKEY_TABLE = 0x01, 0x16
DATA, BYTES = 64, 64


def main(lid, *pkeys):
	words = b''.join(struct.pack('>H', int(pkey, 0)) for pkey in pkeys)
	answer = Client(SMP, DATA, BYTES).set_by_smp(int(lid), PKEY_TABLE, 0, words)
	print(*(f'{pkey:#06x}' for pkey in struct.unpack_from(f'>{len(pkeys)}H', answer)))


main(*sys.argv[1:])
