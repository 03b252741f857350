"""What leaves this host for a wire by RoCEv2, as anybody there sees it: a stranger sees one path and nothing else of weft's."""

import socket
import struct
import threading

from session import Failure

EVERYTHING = 3		# ETH_P_ALL
PORT = 4791
IPV4, IPV6, UDP = 0x0800, 0x86dd, 17
OF_MANUFACTURERS = 0xc0	# opcodes from here on: IBA 9.2.1
SELECTIVE = 0x73	# what weft says in reserved bits of all packets of its first path: BTH_SELECTIVE of src/wire/header.h


def udp_at(frame):
	"""Where its UDP header begins; 0: it has none."""
	kind = struct.unpack_from('!H', frame, 12)[0]
	if kind == IPV4 and frame[23] == UDP:
		return 14 + 4 * (frame[14] & 15)
	return 54 if kind == IPV6 and frame[20] == UDP else 0


class Watch:
	"""While it is entered, packets to queue pairs by this interface. Raises Failure when it is left, unless each queue pair's
	had one source port, an opcode of the standard and the mark of no second path."""
	def __init__(self, interface):
		self.ports, self.odd, self.ended = {}, set(), False
		self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
		self.socket.bind((interface, EVERYTHING))
		self.socket.settimeout(0.1)
		self.reader = threading.Thread(target=self.read)

	def __enter__(self):
		self.reader.start()

	def read(self):
		while not self.ended:
			try:
				frame, address = self.socket.recvfrom(128)
			except TimeoutError:
				continue
			at = udp_at(frame) if address[2] == socket.PACKET_OUTGOING else 0
			if at and len(frame) >= at + 20:
				self.take(frame, at)

	def take(self, frame, at):
		source, to = struct.unpack_from('!HH', frame, at)
		bth = frame[at + 8:at + 20]
		qpn, marks = int.from_bytes(bth[5:8], 'big'), bth[8] & 0x7f
		if to != PORT or qpn < 2:
			return
		self.ports.setdefault(qpn, set()).add(source)
		if bth[0] >= OF_MANUFACTURERS or marks not in (0, SELECTIVE):
			self.odd.add(f'opcode {bth[0]:#x} with {marks:#x}')

	def __exit__(self, kind, value, trace):
		self.ended = True
		self.reader.join()
		self.socket.close()
		if kind is None and (self.odd or not self.ports or any(len(ports) > 1 for ports in self.ports.values())):
			raise Failure(f'the peer sees source ports {self.ports}, and {self.odd or "nothing else"}')
