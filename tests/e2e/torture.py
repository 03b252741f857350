#!/usr/bin/python3
"""Unmodified programs while processes are killed: clients, servers and weftd, at random moments.

torture.py --weft PROGRAM [--seconds N] [--seed N] [--pairs N]

A program whose peer is killed must end by itself, with success or an error; those that would wait for a dead peer for ever on
any adapter must end when they are told to. Pairs of which nobody is killed must succeed, whatever happens to weftd. At the end
nothing may be left: processes, descriptors, slots, channels, files.
"""

import argparse
import glob
import json
import os
import random
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'abi'))
from programs import PML_UCX, UCX_PERFTEST
from session import POLL_S, Failure, Session, free_port, tcp_listening

SKIP = 77
PATIENCE_S = 3		# after which who waits for a dead peer is told to end
BOUND_S = 90		# for a survivor's end: retries, and connection establishment by rdma_cm, on a slow machine
RANKS = 2
WEFTD_FILES = {'ctl', 'made-by-weft', 'weftd.log'}


def local_address():
	"""What rdma_cm takes for an address of weft1, and finds weft0 by too."""
	import socket
	with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
		try:
			s.connect(('192.0.2.1', 9))
			return s.getsockname()[0]
		except OSError:
			return '127.0.0.1'


ADDR = local_address()


class Kind:
	"""A program and what may be done to it. victims: who may be killed. waits: who survives may wait for ever on any adapter,
	as rsockets, UCX, perftest's -R and a receiver do. ranks: it is mpirun, alone, and its ranks may be killed.
	event_thread: it reads librdmacm's events in a thread (tests/tsan_rdmacm.supp)."""

	def __init__(self, name, argv, client=(ADDR,), ready='tcp', victims=('client', 'server'), waits=False, ranks=False,
		     event_thread=False, env=None):
		self.name = name
		self.argv = argv
		self.client = list(client)
		self.ready = ready
		self.victims = victims
		self.waits = waits
		self.ranks = ranks
		self.event_thread = event_thread
		self.env = env or {}


def perftest(program, *options, **more):
	return Kind(' '.join((program, *options)), [program, '-d', '{dev}', '-p', '{port}', '-F', *options], **more)


KINDS = [
	perftest('ib_write_bw', '-D', '2'),
	perftest('ib_write_bw', '-n', '500', '-s', '100000', '-q', '4'),
	perftest('ib_send_bw', '-D', '2', waits=True),
	perftest('ib_read_bw', '-D', '2'),
	perftest('ib_read_lat', '-n', '5000'),
	perftest('ib_atomic_bw', '-n', '5000'),
	perftest('ib_write_bw', '-R', '-n', '2000', ready='cm', waits=True),
	perftest('ib_send_lat', '-R', '-D', '1', ready='cm', waits=True),
	Kind('rping', ['rping', '-p', '{port}', '-C', '2000', '-S', '4000'], client=('-c', '-a', ADDR), ready='cm',
	     event_thread=True),
	Kind('rstream', ['rstream', '-p', '{port}', '-C', '500', '-S', '10000'], client=('-s', ADDR), ready='cm', waits=True),
	Kind('ucx_perftest', [*UCX_PERFTEST, '-p', '{port}', '-n', '3000', '-w', '10', '-f', '-t', 'ucp_put_lat'],
	     waits=True,
	     env={'UCX_TLS': 'rc_v', 'UCX_NET_DEVICES': '{dev}:1'}),
	Kind('mpi_check', ['mpirun', '--allow-run-as-root', '--oversubscribe', '-n', str(RANKS), *PML_UCX, '{mpi_check}'],
	     ranks=True, victims=('rank', 'server'), env={'UCX_TLS': 'rc_v,self', 'UCX_NET_DEVICES': '{dev}:1'}),
]
# perftest's -R, whose first connection was made and whose second fails as the server has died meanwhile, resolves an address for
# an rdma_cm_id that it has freed: librdmacm is called with what lies there now. Any failure of the second connection does it, as
# `weft run --impair fail=modify_qp:EINVAL:6` of its client shows.
OWN_CRASH = 'Failed to handle RDMA CM event.'
MPI_CHECK = os.environ.get('MPI_CHECK', '')


class Pair:
	def __init__(self, session, kind, rng):
		self.session = session
		self.kind = kind
		self.device = rng.choice(('weft0', 'weft1'))
		self.port = free_port()
		self.victim = rng.choice((None, *kind.victims))
		self.delay = rng.choice((0.02, 0.3, 1.5)) * rng.random()
		self.client = self.rescue = None
		self.killed_at = None
		self.told = False
		self.deadline = time.monotonic() + BOUND_S
		self.server = self.start(['-s'] if kind.name == 'rping' else [])

	def start(self, extra):
		argv = [word.format(dev=self.device, port=self.port, mpi_check=MPI_CHECK) for word in self.kind.argv] + extra
		self.session.device = self.device
		env = {k: v.format(dev=self.device) for k, v in self.kind.env.items()}
		if self.kind.event_thread:
			options = self.session.environment({})['TSAN_OPTIONS']
			env['TSAN_OPTIONS'] = options.replace('/tsan.supp', '/tsan_rdmacm.supp')
		return self.session.run(argv, env)

	def __str__(self):
		return f'{self.kind.name} on {self.device}, victim {self.victim} after {self.delay:.3f} s'

	def is_ready(self):
		if self.kind.ready == 'tcp':
			return tcp_listening(self.port)
		status, text = self.session.command('status', '--json')
		return status == 0 and any(p['pid'] == self.server.process.pid and p['listeners']
					   for p in json.loads(text)['processes'])

	def begin(self):
		"""The client comes once the server takes one."""
		if self.kind.ranks:
			self.client = self.server
			self.kill_at = time.monotonic() + self.delay
			return
		if not self.server.running():
			raise Failure(f'{self}: the server ended before any client came')
		if self.is_ready():
			self.client = self.start(self.kind.client)
			self.kill_at = time.monotonic() + self.delay

	def ranks(self):
		pids = []
		for children in glob.glob(f'/proc/{self.server.process.pid}/task/*/children'):
			try:
				with open(children) as f:
					pids += f.read().split()
			except OSError:
				pass	# the thread has ended
		return [int(pid) for pid in pids]

	def victims(self):
		"""The pids of who is to be killed; none: not yet, or no more. mpirun and its ranks die once all ranks have come
		to weft. Before that, without weft too, Open MPI waits for ever: mpirun for a rank that dies while it makes itself
		known ("PMIX ERROR: UNREACHABLE"), a rank in PMIx_Init for an mpirun that is gone. mpirun kills the others when a
		rank dies."""
		if not self.kind.ranks:
			victim = getattr(self, self.victim)
			return [victim.process.pid] if victim.running() else []
		status, text = self.session.command('status', '--json')
		attached = [p['pid'] for p in json.loads(text).get('processes', [])] if status == 0 else []
		ranks = self.ranks()
		if len(ranks) != RANKS or not set(ranks) <= set(attached):
			return []
		return ranks[:1] if self.victim == 'rank' else [self.server.process.pid]

	def strike(self):
		pids = self.victims()
		if not pids:
			if not self.server.running() or not self.kind.ranks:	# otherwise mpirun has not come so far
				self.victim = None
			return
		for pid in pids:
			try:
				os.kill(pid, signal.SIGKILL)
			except ProcessLookupError:
				pass
		self.killed_at = time.monotonic()
		self.deadline = self.killed_at + BOUND_S

	def help_server(self):
		"""A server whose client was killed before it came waits for the next one, rightly; one with a broken connection
		ends."""
		waiting_for_next = self.killed_at and self.victim == 'client' and time.monotonic() > self.killed_at + 5
		if waiting_for_next and not self.rescue and self.server.running():
			self.rescue = self.start(self.kind.client)

	def tell_to_end(self):
		"""Who waits for the dead is told to end, as its user would."""
		if not self.told and self.killed_at and time.monotonic() > self.killed_at + PATIENCE_S:
			self.told = True
			for program in self.programs():
				if program.running():
					os.killpg(program.process.pid, signal.SIGTERM)

	def programs(self):
		rest = [p for p in (self.client, self.rescue) if p and p is not self.server]
		return [self.server, *rest]

	def step(self):
		"""True once all of it has ended."""
		if time.monotonic() > self.deadline:
			raise Failure(f'{self}: does not end within {BOUND_S} s')
		if not self.client:
			self.begin()
		elif self.victim and not self.killed_at and time.monotonic() > self.kill_at:
			self.strike()
		if self.kind.waits:
			self.tell_to_end()
		else:
			self.help_server()
		if not self.client or any(p.running() for p in self.programs()):
			return False
		self.judge()
		return True

	def judge(self):
		for program in self.programs():
			status = program.wait(self.deadline)
			crashed = status in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE)
			if crashed and self.victim == 'server' and '-R' in self.kind.argv and OWN_CRASH in program.text:
				crashed = False
			if crashed or 'bug:' in program.text:
				raise Failure(f'{self}: a program died of signal {-status}')
			if self.killed_at is None and status != 0:
				raise Failure(f'{self}: nobody was killed, yet a program ended with {status}')


class Torture:
	def __init__(self, session, rng, pairs):
		self.session = session
		self.rng = rng
		self.most = pairs
		self.pairs = []
		self.done = self.weftds_killed = 0
		self.next_weftd = time.monotonic() + 2

	def weftds(self):
		return [pid for pid, name in self.session.members().items() if name == 'weftd']

	def the_weftd(self):
		"""The one that is there. A child that it makes bears its name for a moment."""
		end = time.monotonic() + 1
		while len(pids := self.weftds()) != 1:
			if time.monotonic() > end:
				raise Failure(f'{len(pids)} weftds serve')
			time.sleep(POLL_S)
		return pids[0]

	def descriptors(self):
		"""Of the one weftd, by what they are."""
		pid = self.the_weftd()
		names = []
		for fd in os.listdir(f'/proc/{pid}/fd'):
			try:
				names.append(os.readlink(f'/proc/{pid}/fd/{fd}').split('[')[0].split(':')[0])
			except FileNotFoundError:
				pass
		return sorted(names)

	def descriptors_at_rest(self):
		"""weftd may not have closed the socket of weft up yet: the fewest of a second."""
		end = time.monotonic() + 1
		fewest = self.descriptors()
		while time.monotonic() < end:
			time.sleep(POLL_S)
			fewest = min(fewest, self.descriptors(), key=len)
		return fewest

	def strike_weftd(self):
		for pid in self.weftds():
			try:
				os.kill(pid, signal.SIGKILL)
				self.weftds_killed += 1
			except ProcessLookupError:
				pass
		self.next_weftd = time.monotonic() + self.rng.choice((0.2, 1, 5)) * (0.5 + self.rng.random())

	def step(self, may_start):
		while may_start and len(self.pairs) < self.most:
			self.pairs.append(Pair(self.session, self.rng.choice(KINDS), self.rng))
		for pair in list(self.pairs):
			self.current = pair
			if pair.step():
				self.pairs.remove(pair)
				self.done += 1
				for program in pair.programs():
					self.session.programs.remove(program)
		self.current = None
		if may_start and time.monotonic() > self.next_weftd:
			self.strike_weftd()

	def run(self, seconds):
		end = time.monotonic() + seconds
		while time.monotonic() < end or self.pairs:
			self.step(time.monotonic() < end)
			time.sleep(POLL_S)

	def status(self):
		status, text = self.session.command('status', '--json')
		return json.loads(text) if status == 0 else {}

	def settle(self, base):
		"""Waits until weftd has forgotten all of it."""
		deadline = time.monotonic() + 20
		while True:
			status = self.status()
			names = ('attached', 'awaited', 'programs', 'slots_used', 'channels', 'groups')
			left = {name: status.get(name) for name in names}
			fds = self.descriptors() if status.get('running') else None
			if not any(left.values()) and fds == base:
				return
			if time.monotonic() > deadline:
				raise Failure(f'weftd has {left} and descriptors {fds}, not {base}')
			time.sleep(POLL_S)

	def check_rest(self):
		"""weftd has one child ready for who comes next."""
		others = {pid: name for pid, name in self.session.members().items() if name != 'weftd'}
		if others and list(others.values()) != ['weftd-intake']:
			raise Failure(f'processes are left: {others}')
		files = set(os.listdir(self.session.dir))
		if files - WEFTD_FILES:
			raise Failure(f'files are left in the runtime directory: {files - WEFTD_FILES}')

	def last_ping(self):
		rping = next(k for k in KINDS if k.name == 'rping')
		pair = Pair(self.session, rping, self.rng)
		pair.victim = None
		while not pair.step():
			time.sleep(POLL_S)


def shared_memory():
	return sorted(name for name in os.listdir('/dev/shm') if 'weft' in name) if os.path.isdir('/dev/shm') else []


def torture(session, rng, args):
	before = shared_memory()
	if session.command('up')[0] != 0:
		raise Failure('weft up fails')
	test = Torture(session, rng, args.pairs)
	base = test.descriptors_at_rest()
	try:
		test.run(args.seconds)
	except Failure:
		for program in test.current.programs():
			process = program.process
			print(f'--- {" ".join(program.argv[5:])} (pid {process.pid}, {process.poll()})\n{program.text}')
		raise
	if session.command('up')[0] != 0:
		raise Failure('weft up fails at the end')
	test.settle(base)
	test.last_ping()
	test.settle(base)
	test.check_rest()
	status, text = session.command('down')
	if status != 0 or os.listdir(session.dir):
		raise Failure(f'weft down ends with {status} and leaves {os.listdir(session.dir)}: {text}')
	if shared_memory() != before:
		raise Failure(f'/dev/shm has {shared_memory()}, not {before}')
	print(f'{test.done} pairs, {test.weftds_killed} weftds killed')


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument('--weft', default='build/bin/weft')
	parser.add_argument('--seconds', type=float, default=20)
	parser.add_argument('--pairs', type=int, default=2)
	parser.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
	args = parser.parse_args()
	for program in {kind.argv[0] for kind in KINDS}:
		if not shutil.which(program):
			print(f'SKIP: {program} is not installed')
			return SKIP
	print(f'seed {args.seed}', flush=True)
	if not os.access(MPI_CHECK, os.X_OK):
		print('part skipped: MPI_CHECK does not name a build of tests/abi/mpi_check.c')
		KINDS[:] = [kind for kind in KINDS if not kind.ranks]
	session = Session(os.path.abspath(args.weft), 'weft0')
	try:
		with session:
			torture(session, random.Random(args.seed), args)
	except Failure as failure:
		print(f'FAILED (seed {args.seed}): {failure}')
		return 1
	return 0


if __name__ == '__main__':
	sys.exit(main())
