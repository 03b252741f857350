"""Debian's libibmad by ctypes, for scripts that run at hosts of a fabric: one question, one answer."""
import ctypes
import sys

GET, SET = 1, 2
GSI_QKEY = 0x80010000


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


class Client:
	"""Of a class by QP1, whose data has so many bytes from this one on."""
	def __init__(self, mgmt_class, offset, size):
		self.mgmt_class, self.offset, self.size = mgmt_class, offset, size
		self.mad = ctypes.CDLL('libibmad.so.5')
		self.mad.mad_rpc_open_port.restype = ctypes.c_void_p
		self.mad.mad_rpc.restype = ctypes.c_void_p
		self.mad.smp_set_via.restype = ctypes.c_void_p
		self.mad.mad_rpc.argtypes = [ctypes.c_void_p] * 5
		self.source = self.mad.mad_rpc_open_port(None, 0, (ctypes.c_int * 1)(mgmt_class), 1)
		if not self.source:
			sys.exit('no port')

	def ask(self, lid, method, attribute, words, mask=0):
		"""The data of the answer; the end of the script where there is none, or a status."""
		data = ctypes.create_string_buffer(words.ljust(self.size, b'\0'), self.size)
		rpc = Rpc(mgtclass=self.mgmt_class, method=method, attr_id=attribute, dataoffs=self.offset, datasz=self.size,
			  mask=mask, timeout=3000)
		to = Port(lid=lid, qp=1, qkey=GSI_QKEY)
		if not self.mad.mad_rpc(self.source, ctypes.byref(rpc), ctypes.byref(to), data, data):
			sys.exit(f'attribute {attribute:#x}: status {rpc.rstatus:#x}')
		return data.raw

	def set_by_smp(self, lid, attribute, modifier, words):
		"""The data of the answer, of the class of SMPs; the end of the script where there is none."""
		data = ctypes.create_string_buffer(words.ljust(self.size, b'\0'), self.size)
		to, source = Port(lid=lid), ctypes.c_void_p(self.source)
		if not self.mad.smp_set_via(data, ctypes.byref(to), attribute, modifier, 3000, source):
			sys.exit(f'attribute {attribute:#x}: nobody answers')
		return data.raw
