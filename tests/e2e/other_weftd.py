#!/usr/bin/python3
"""Holds the lock of a runtime directory, as another version's weftd or as something else, until a signal ends it.

other_weftd.py DIRECTORY NAME KIND

NAME is what the process is called. KIND: `answers`, it tells who comes that its protocol is another, as any weftd does; `leaves`,
it takes who comes, and ends when it is asked something; `mute`, it takes who comes, and answers nothing then but, after eleven
seconds, what is asked of all processes; `silent`, it takes no connection and ignores SIGTERM; `lingers`, as `silent`, and the
lock is held for five seconds after it was killed; `before`, as `answers`, in a directory as it was before weft marked its own.
"""

import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import threading
import time

CTL_QUERY = 12		# control/protocol.h

directory, name, kind = sys.argv[1:]
with open('/proc/self/comm', 'w') as comm:
	comm.write(name)
os.umask(0o77)
own = os.path.join(directory, 'made-by-weft')
if kind == 'before':
	own = directory
else:
	os.makedirs(own, exist_ok=True)
lock = os.open(os.path.join(own, 'lock'), os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
if kind == 'lingers':
	lives, ends = os.pipe()
	if not os.fork():
		os.close(ends)
		os.read(lives, 1)
		time.sleep(5)
		os._exit(0)
if kind == 'before':
	for file, magic in (('page', 0x77656674), ('claims', 0x636c6d73)):
		with open(os.path.join(directory, file), 'wb') as f:
			f.write(struct.pack('=II', magic, 1) + bytes(100))
	os.makedirs(os.path.join(directory, 'root/sys/class/infiniband/weft0'))
	with open(os.path.join(directory, 'root/sys/class/infiniband/weft0/node_type'), 'w') as f:
		f.write('1: CA\n')
	with open(os.path.join(directory, 'weftd.log'), 'w') as f:
		f.write('2026-11-21 10:00:00 weftd[1] info: serving\n')
if kind in ('silent', 'lingers'):
	signal.signal(signal.SIGTERM, signal.SIG_IGN)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
path = os.path.join(directory, 'ctl')
listener.bind(path)
listener.listen(10)


def leave(*_):
	os.unlink(path)
	os.unlink(os.path.join(own, 'lock'))
	os._exit(0)


if kind == 'answers':
	signal.signal(signal.SIGTERM, leave)
def be_mute(client):
	"""Offsets are those of struct control_msg: type, status, text_bytes, and its end."""
	client.send(client.recv(1 << 16))
	question = bytearray(client.recv(1 << 16))[:80]
	if question and struct.unpack_from('=I', question)[0] == CTL_QUERY:
		time.sleep(11)
		answer = b'{"processes":[]}'
		question[72:76] = struct.pack('=I', len(answer))
		client.send(bytes(question) + answer)
	client.recv(1 << 16)


print('serves', flush=True)
while kind == 'mute':
	threading.Thread(target=be_mute, args=listener.accept()[:1], daemon=True).start()
while kind not in ('silent', 'lingers'):
	client, _ = listener.accept()
	message = bytearray(client.recv(1 << 16))
	if kind == 'leaves':
		client.send(message)
		client.recv(1 << 16)
		leave()
	message[8:12] = struct.pack('=i', errno.EPROTO)
	client.send(message)
	client.close()
signal.pause()
while True:
	signal.pause()
