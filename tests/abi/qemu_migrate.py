#!/usr/bin/python3
"""qemu_migrate.py DIR URI [CAPABILITY]...

Starts a machine that does not run, with random bytes in its memory, and migrates it to the machine that waits at URI and listens
to QMP at DIR/to. In the end the memory of both is in DIR/from.memory and DIR/to.memory, and both have ended. MACHINE is the
command line of both."""

import json
import os
import socket
import subprocess
import sys
import time

MEMORY_MB, FILLED_MB, AT_MB = 96, 40, 16
MACHINE = ['qemu-system-x86_64', '-nodefaults', '-display', 'none', '-accel', 'tcg', '-S', '-m', str(MEMORY_MB)]
LIMIT_S, LOOK_S = 60, 0.05


class Monitor:
	"""QMP, over a socket that a machine listens at."""
	def __init__(self, path):
		connection = socket.socket(socket.AF_UNIX)
		connection.connect(path)
		self.file = connection.makefile('rw')
		self.file.readline()		# its greeting
		self.call('qmp_capabilities')

	def call(self, command, **arguments):
		print(json.dumps({'execute': command, 'arguments': arguments}), file=self.file, flush=True)
		while True:
			answer = json.loads(self.file.readline())
			if 'error' in answer:
				sys.exit(f'{command}: {answer["error"]["desc"]}')
			if 'return' in answer:		# others are events
				return answer['return']


def start(folder, contents):
	end, path = time.monotonic() + LIMIT_S, os.path.join(folder, 'from')
	loader = f'loader,file={contents},addr={AT_MB << 20:#x},force-raw=on'
	process = subprocess.Popen([*MACHINE, '-qmp', f'unix:{path},server,nowait', '-device', loader])
	while True:
		try:
			return process, Monitor(path)
		except OSError:
			if process.poll() is not None or time.monotonic() > end:
				sys.exit('the machine does not start')
			time.sleep(LOOK_S)


def migrate(here, there, uri, capabilities):
	wanted = [dict(capability=name, state=True) for name in capabilities]
	for monitor in (here, there):
		monitor.call('migrate-set-capabilities', capabilities=wanted)
	here.call('migrate-set-parameters', **{'max-bandwidth': 1 << 40})
	here.call('migrate', uri=uri)
	end = time.monotonic() + LIMIT_S
	while (said := here.call('query-migrate')).get('status') != 'completed':
		if said.get('status') in ('failed', 'cancelled') or time.monotonic() > end:
			sys.exit(f'the migration does not end well: {said}')
		time.sleep(LOOK_S)
	return said['ram']['normal-bytes']


def main():
	folder, uri, *capabilities = sys.argv[1:]
	contents = os.path.join(folder, 'contents')
	with open(contents, 'wb') as file:
		file.write(os.urandom(FILLED_MB << 20))
	process, here = start(folder, contents)
	there = Monitor(os.path.join(folder, 'to'))
	moved = migrate(here, there, uri, capabilities)
	for monitor, name in (here, 'from'), (there, 'to'):
		monitor.call('pmemsave', val=0, size=MEMORY_MB << 20, filename=os.path.join(folder, f'{name}.memory'))
		monitor.call('quit')
	if process.wait(LIMIT_S) or moved < FILLED_MB << 20:
		sys.exit(f'the machine ends with {process.returncode}, {moved} bytes moved')
	print(f'migrated: {moved >> 20} MB')


if __name__ == '__main__':
	main()
