#!/usr/bin/python3
"""Who runs programs over weft (run.py) is killed: its programs end, weftd does, and no file stays. killed.py WEFT"""

import os
import signal
import sys
import time

from session import POLL_S, Session

PATIENCE_S = 20


def begin(weft, out):
	"""Two programs, of which one has a child, and then this process is gone."""
	session = Session(os.path.abspath(weft), 'weft1')
	session.__enter__()
	programs = [session.run(['sleep', '1000']), session.run(['sh', '-c', 'sleep 1001; true'])]
	deadline = time.monotonic() + PATIENCE_S
	while list(session.members().values()).count('sleep') < len(programs):
		if time.monotonic() > deadline:
			os._exit(1)
		time.sleep(POLL_S)
	os.write(out, session.tmp.encode())
	os.kill(os.getpid(), signal.SIGKILL)


def main():
	here, there = os.pipe()
	child = os.fork()
	if not child:
		begin(sys.argv[1], there)
	os.close(there)
	tmp = os.read(here, 4096).decode()
	os.waitpid(child, 0)
	if not tmp:
		print('FAILED: the programs do not start')
		return 1
	session = Session.__new__(Session)
	session.dir = os.path.join(tmp, 'weft')
	deadline = time.monotonic() + PATIENCE_S
	while session.members() or os.path.exists(tmp):
		if time.monotonic() > deadline:
			print(f'FAILED: left behind: {session.members()}, {tmp}')
			return 1
		time.sleep(POLL_S)
	return 0


if __name__ == '__main__':
	sys.exit(main())
