"""A weftd of a test's own, which answers as the test wants, so that only the command stands between the two."""
import contextlib
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading

HEAD = struct.Struct('<IIi' + 'I' * 5 + 'Q16s16sII')	# struct control_msg of control/protocol.h
TYPE, STATUS, TEXT_BYTES = 0, 2, 11
HELLO, CTL_STATUS, QUERY, CTL_NODE, CTL_MAD_PORT, CTL_MAD_AGENT = 1, 11, 12, 25, 29, 31
ENDS = object()		# it ends the connection instead, as one that is killed
OWN = 'made-by-weft'	# weft's mark of a directory


class Weftd:
	"""texts: by the message's type, what it answers, or an errno, or ENDS; questions: what was asked."""

	def __init__(self, texts):
		self.texts, self.questions = texts, []

	def __enter__(self):
		self.tmp = tempfile.TemporaryDirectory(prefix='weft-fake.')
		self.directory = self.tmp.name
		os.mkdir(f'{self.directory}/{OWN}')
		self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		self.listener.bind(self.directory + '/ctl')
		self.listener.listen(8)
		threading.Thread(target=self.serve, daemon=True).start()
		return self

	def __exit__(self, *_):
		self.stop()
		self.tmp.cleanup()

	def stop(self):
		"""Nobody serves any more, and the socket's name stays, as of one that was killed."""
		with contextlib.suppress(OSError):
			self.listener.shutdown(socket.SHUT_RDWR)	# ends accept(), too
		self.listener.close()

	def serve(self):
		while True:
			try:
				client, _ = self.listener.accept()
			except OSError:
				return
			threading.Thread(target=self.serve_client, args=(client,), daemon=True).start()

	def serve_client(self, client):
		with client:
			while data := client.recv(65536):
				said = self.answer(list(HEAD.unpack_from(data)), data[HEAD.size:])
				if not said:
					break
				client.send(said)

	def answer(self, head, text):
		what = self.texts.get(head[TYPE], b'')
		if head[TYPE] != HELLO:
			self.questions.append((head[TYPE], text.decode(errors='replace')))
		if what is ENDS:
			return None
		head[STATUS] = what if isinstance(what, int) else 0
		body = b'' if isinstance(what, int) else what
		head[TEXT_BYTES] = len(body)
		return HEAD.pack(*head) + body

	def run(self, weft, *arguments):
		return subprocess.run([weft, *arguments], env=dict(os.environ, WEFT_DIR=self.directory), capture_output=True,
				      timeout=60)


def as_text(value):
	return json.dumps(value, ensure_ascii=False).encode()


def as_json(command, answer):
	"""What `weft COMMAND --json` makes of the answer to a query: a schema, the report by its name, and numbers as numbers."""
	name = command if command == 'counters' else command + 's'
	processes = []
	for process in json.loads(json.dumps(answer))['processes']:
		for row in process['report'] if isinstance(process.get('report'), list) else ():
			row.update({member: int(row[member], 16) for member in ('key', 'iova') if member in row})
		processes.append({name if member == 'report' else member: value for member, value in process.items()})
	return {'schema': 1, 'processes': processes}
