"""One private weft for a test: a runtime directory, programs started through `weft run`, and a check that nothing stays.

Nothing here sleeps for a fixed time to let something happen: what is waited for is looked at until the deadline.
"""

import json
import os
import pty
import random
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

NOBODY = 65534
POLL_S = 0.01


class Failure(Exception):
	"""Why a test fails, in one sentence."""


class Ended(Failure):
	"""A program ended with a status that is not its success."""

	def __init__(self, text, program):
		super().__init__(text)
		self.program = program


class Finding(Failure):
	"""What no behaviour of the programs excuses: of a sanitizer, of a check inside weft, or something left behind."""


def explain(session, failure):
	"""Prints why a test fails, and what its programs said."""
	print(f'FAILED: {failure}')
	for program in session.programs:
		print(f'--- {" ".join(program.argv)}\n{program.text}')


def identity(user):
	"""How subprocess starts a program as this user; None: as ourselves."""
	return dict(user=user, group=user, extra_groups=[]) if user is not None else {}


END = b'\0'


class Program:
	"""A program on a terminal of its own (so that it writes line by line), its output collected as text.

	A terminal that its last user closes can lose what was written last. So we keep it open, and when the program has ended we
	write a last byte of our own, which comes after all others.
	"""

	def __init__(self, argv, env, cwd, user):
		self.argv = argv
		self.raw = bytearray()
		master, slave = pty.openpty()
		self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=env, cwd=cwd,
						start_new_session=True, **identity(user))
		self.reader = threading.Thread(target=self.read, args=(master, slave, os.pidfd_open(self.process.pid)),
					       daemon=True)
		self.reader.start()

	def read(self, master, slave, ended):
		piece = END[:0]
		wanted = [master, ended]
		while END not in piece:
			if master in select.select(wanted, [], [])[0]:
				piece = os.read(master, 65536)
				self.raw += piece
			else:
				os.write(slave, END)
				wanted.remove(ended)
		for fd in (master, slave, ended):
			os.close(fd)

	@property
	def text(self):
		"""What it has printed so far: made when it is asked for, as some print megabytes, 4 KB at a time."""
		return bytes(self.raw).rstrip(END).decode(errors='replace').replace('\r\n', '\n')

	def running(self):
		return self.process.poll() is None

	def wait(self, deadline):
		"""The exit status, or None when the deadline came first."""
		try:
			status = self.process.wait(max(0, deadline - time.monotonic()))
		except subprocess.TimeoutExpired:
			return None
		self.reader.join(2)
		return status

	def stop(self):
		"""Ends the program and what it started."""
		for sig in (signal.SIGTERM, signal.SIGKILL):
			try:
				os.killpg(self.process.pid, sig)
			except ProcessLookupError:
				break
			if self.wait(time.monotonic() + 2) is not None and sig == signal.SIGTERM:
				continue


# Of the test's own environment.
KEPT = ('PATH', 'LANG', 'TERM')
SANITIZERS = ('ASAN_OPTIONS', 'UBSAN_OPTIONS', 'TSAN_OPTIONS')

# perftest and qperf leave these empty files for their XRC domains, which the next user could not open.
LITTER = ('/tmp/xrc_domain', '/tmp/xrc_domain_client', '/tmp/xrc_domain_server')


def sweep_litter():
	for path in LITTER:
		try:
			info = os.lstat(path)
			if stat.S_ISREG(info.st_mode) and info.st_size == 0:
				os.unlink(path)
		except OSError:
			pass	# not there, or another user's


def preloading():
	"""What programs are started with over a weft that was built with a sanitizer: WEFT_TEST_PRELOAD names its libraries.
	AddressSanitizer wants to be the first. ThreadSanitizer must be behind weft's shim: it would take our locks for
	librdmacm's. And it knows nothing of threads that have ended, which enter the functions that UCX, libfabric and Open MPI
	put in the place of libc's."""
	libraries = os.environ.get('WEFT_TEST_PRELOAD', '')
	if not libraries:
		return []
	order, hooks = '$0:$LD_PRELOAD', []
	if 'tsan' in libraries:
		order, hooks = '$LD_PRELOAD:$0', ['env', 'UCX_MEM_MMAP_HOOK_MODE=none', 'FI_MR_CACHE_MONITOR=disabled',
						    'OMPI_MCA_memory=^patcher']
	return [*hooks, 'sh', '-c', f'LD_PRELOAD={order} exec "$@"', libraries]


# Waits until its input ends. A line before that: all is well. Else whoever has the session was killed, by CTest when a test takes
# too long: its programs end, some of which would spin until they find that nobody is there.
GUARD = '''
read -r line && exit
while found=$(grep -lzxs "WEFT_DIR=$1/weft" /proc/[0-9]*/environ); [ -n "$found" ]; do
	for file in $found; do
		pid=${file#/proc/}
		kill -KILL "${pid%/environ}"
	done
	sleep 0.1
done
rm -rf "${1:?}"
'''


class Session:
	def __init__(self, weft, device, user=None, wrapper=()):
		self.sanitized = preloading()
		self.wrapper = [*wrapper, *self.sanitized]
		self.device = device
		self.user = user
		self.programs = []
		self.tmp = tempfile.mkdtemp(prefix='weft-abi-')
		self.dir = os.path.join(self.tmp, 'weft')
		os.mkdir(self.dir, 0o700)
		if user is not None:
			os.chown(self.tmp, user, user)
			os.chown(self.dir, user, user)
		self.weft = self.reach(weft, ('bin', 'lib'))
		self.guard = subprocess.Popen(['sh', '-c', GUARD, 'guard', self.tmp], stdin=subprocess.PIPE,
					      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

	def reach(self, path, folders=()):
		"""A file as this session's user can reach it: itself, or a copy where it lies below a folder that is closed to
		that user, as root's home is. For a program of a build also the folders of that build that it needs."""
		if self.user is None or not os.path.isabs(path):
			return path
		if subprocess.run(['test', '-r', path], **identity(self.user)).returncode == 0:
			return path
		aside = os.path.join(self.tmp, 'aside')
		build = os.path.dirname(os.path.dirname(path))
		for folder in folders:
			shutil.copytree(os.path.join(build, folder), os.path.join(aside, folder))
		if folders:
			return os.path.join(aside, os.path.relpath(path, build))
		os.makedirs(aside, exist_ok=True)
		return shutil.copy(path, aside)

	def __enter__(self):
		sweep_litter()
		if self.sanitized:	# weftd's leaks are looked for when it does not come from a program's environment
			self.command('up')
		return self

	def __exit__(self, kind, value, trace):
		for program in self.programs:
			program.stop()
		left = self.down()
		sweep_litter()
		found = self.findings()
		shutil.rmtree(self.tmp, ignore_errors=True)
		self.guard.communicate(b'all is well\n')
		if found:
			raise Finding('found by a sanitizer or a check of weft:\n' + found) from value
		if left and kind is None:
			raise Finding('left behind: ' + ', '.join(left))

	def environment(self, extra):
		keep = {name: value for name, value in os.environ.items() if name in KEPT}
		# Findings go to files: weftd, in the background, has no output.
		keep |= {name: f'{os.environ.get(name, "")}:log_path={self.tmp}/finding' for name in SANITIZERS}
		keep['WEFT_BUGS'] = f'{self.tmp}/finding.bugs'
		return keep | {'HOME': self.tmp, 'TMPDIR': self.tmp, 'WEFT_DIR': self.dir} | extra

	def own_environment(self):
		"""For weft and weftd, where leaks are looked for; not so in the programs of others (tests/CMakeLists.txt)."""
		own = self.environment({})
		return own | {'ASAN_OPTIONS': own['ASAN_OPTIONS'] + ':detect_leaks=1'}

	def findings(self):
		text = ''
		for name in sorted(os.listdir(self.tmp)):
			if name.startswith('finding.'):
				with open(os.path.join(self.tmp, name), errors='replace') as f:
					text += f'{name}: {f.read()}\n'
		return text

	def run(self, argv, env=None, options=()):
		name = argv[0]
		argv = [self.weft, 'run', '--device', self.device, *options, '--', *self.wrapper, *argv]
		program = Program(argv, self.environment(env or {}), self.tmp, self.user)
		program.name = name
		self.programs.append(program)
		return program

	def command(self, *argv):
		"""A subcommand of weft: its exit status and output. Through a pipe: the last lines of a terminal can be lost when
		it closes."""
		try:
			done = subprocess.run([self.weft, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
					      stderr=subprocess.STDOUT, text=True, env=self.own_environment(),
					      cwd=self.tmp,
					      timeout=10, **identity(self.user))
		except subprocess.TimeoutExpired:
			return None, ''
		return done.returncode, done.stdout

	def cm_listening(self):
		"""Does a program of this session take connections by its connection manager?"""
		status, text = self.command('status', '--json')
		return status == 0 and any(p['listeners'] for p in json.loads(text).get('processes', []))

	def down(self):
		"""Stops the daemon. Names the processes that still belong to this session, and ends them."""
		self.command('down', '--force')
		deadline = time.monotonic() + 5
		while self.members() and time.monotonic() < deadline:
			time.sleep(POLL_S)
		left = self.members()
		for pid in left:
			try:
				os.kill(pid, signal.SIGKILL)
			except ProcessLookupError:
				pass
		return [f'{name} ({pid})' for pid, name in left.items()]

	def members(self):
		"""Processes that carry this session's WEFT_DIR in their environment, other than dead ones."""
		mark = b'WEFT_DIR=' + self.dir.encode()
		found = {}
		for pid in filter(str.isdigit, os.listdir('/proc')):
			try:
				with open(f'/proc/{pid}/environ', 'rb') as f:
					if mark in f.read().split(b'\0'):
						with open(f'/proc/{pid}/comm') as c:
							found[int(pid)] = c.read().strip()
			except OSError:
				pass
		return found


def free_port():
	"""A port number that no socket of this host has, below the range that the kernel hands out by itself."""
	while True:
		port = random.randrange(10000, 32000)
		with socket.socket() as s, socket.socket(type=socket.SOCK_DGRAM) as u:
			try:
				s.bind(('', port))
				u.bind(('', port))
				return port
			except OSError:
				pass


def tcp_listening(port):
	pattern = re.compile(rf'^ *\d+: [0-9A-F]+:{port:04X} [0-9A-F:]+ 0A ', re.M)
	for table in ('/proc/net/tcp', '/proc/net/tcp6'):
		with open(table) as f:
			if pattern.search(f.read()):
				return True
	return False
