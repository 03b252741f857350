#!/usr/bin/env python3
"""Samples a port by Debian's libibmad: PortSamplesControl, then PortSamplesResult until the sample has ended.

pma_sample.py LID PORT TICKS DELAY_TICKS: prints what PortXmitData, PortRcvData, PortXmitPkts, PortRcvPkts and PortXmitWait
counted meanwhile, and the same by PortSamplesResultExtended; status words of the answers on errors.
"""
import ctypes
import struct
import sys
import time

CLASSES = (ctypes.c_int * 1)(0x04)			# performance management
CONTROL, RESULT, RESULT_EXTENDED = 0x10, 0x11, 0x1e
GET, SET, DONE = 1, 2, 0
GSI_QKEY, DATA, BYTES = 0x80010000, 64, 192
TAG = 0x5a5a


class Rpc(ctypes.Structure):
	"""ib_rpc_t of infiniband/mad.h."""
	_fields_ = [('mgtclass', ctypes.c_int), ('method', ctypes.c_int), ('attr_id', ctypes.c_uint), ('attr_mod', ctypes.c_uint),
		    ('rstatus', ctypes.c_uint32), ('dataoffs', ctypes.c_int), ('datasz', ctypes.c_int), ('mkey', ctypes.c_uint64),
		    ('trid', ctypes.c_uint64), ('mask', ctypes.c_uint64), ('recsz', ctypes.c_uint), ('timeout', ctypes.c_int),
		    ('oui', ctypes.c_uint32)]


class Port(ctypes.Structure):
	"""ib_portid_t, whose directed route and GRH nobody here uses."""
	_fields_ = [('lid', ctypes.c_int), ('route', ctypes.c_uint8 * 72), ('grh_present', ctypes.c_int),
		    ('gid', ctypes.c_uint8 * 16), ('qp', ctypes.c_uint32), ('qkey', ctypes.c_uint32), ('sl', ctypes.c_uint8),
		    ('pkey_idx', ctypes.c_uint)]


def main(lid, port, ticks, delay):
	mad = ctypes.CDLL('libibmad.so.5')
	mad.mad_rpc_open_port.restype = ctypes.c_void_p
	mad.mad_rpc.restype = ctypes.c_void_p
	mad.mad_rpc.argtypes = [ctypes.c_void_p] * 5
	source = mad.mad_rpc_open_port(None, 0, CLASSES, 1)
	if not source:
		sys.exit('no port')

	def ask(method, attribute, words):
		data = ctypes.create_string_buffer(words.ljust(BYTES, b'\0'), BYTES)
		rpc = Rpc(mgtclass=0x04, method=method, attr_id=attribute, dataoffs=DATA, datasz=BYTES, timeout=3000)
		to = Port(lid=lid, qp=1, qkey=GSI_QKEY)
		if not mad.mad_rpc(source, ctypes.byref(rpc), ctypes.byref(to), data, data):
			sys.exit(f'attribute {attribute:#x}: status {rpc.rstatus:#x}')
		return data.raw
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
