"""A network with a fabric, and Debian's programs at its hosts: for scripts whose rows are run by abi/run.py."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'abi'))
from session import POLL_S, free_port, tcp_listening

LIMIT_S = 60
FOR_EVER = '2000000000'	# rounds: more than anybody waits for
IDLE_S = '0.2'		# weftd ends so long after its last program
CHECK = os.environ.get('MPI_CHECK', '')


class Wrong(Exception):
	"""What was seen is not what must be."""


class Program:
	"""One at a host, in the background; its output is in a file."""
	def __init__(self, lab, node, words):
		self.words, self.path = words, tempfile.mkstemp(dir=lab.home)[1]
		with open(self.path, 'wb') as out:
			self.process = subprocess.Popen(lab.command(node, *words), stdout=out, stderr=out, env=lab.env)

	def text(self):
		with open(self.path, encoding='utf-8', errors='replace') as f:
			return f.read()

	def is_alive(self):
		return self.process.poll() is None

	def end(self, how=signal.SIGTERM):
		self.process.send_signal(how)
		return self.process.wait(LIMIT_S)


class Manager(Program):
	"""OpenSM; what it logs is written at once. It sweeps when a trap comes, unless the options say otherwise."""
	def __init__(self, lab, node, options):
		self.log = os.path.join(lab.home, f'opensm.{node}.{len(lab.programs)}.log')
		super().__init__(lab, node, ('opensm', '-s', '0', '-d', '2', '-f', self.log, *options))

	def logged(self):
		try:
			with open(self.log, encoding='utf-8', errors='replace') as f:
				return f.read()
		except FileNotFoundError:
			return ''


class Lab:
	"""Its own WEFT_DIR and everything in it, until the end of a with block."""
	def __init__(self, weft):
		self.weft_path, self.programs, self.failures = weft, [], 0
		self.weftd = None		# that runs in the foreground
		self.devices = ('--device', 'weft0')	# that programs at hosts see; (): all
		self.home = tempfile.mkdtemp(prefix='weft-e2e.')
		self.env = dict(os.environ, WEFT_DIR=os.path.join(self.home, 'run'), WEFT_IDLE_S=IDLE_S,
				OSM_TMP_DIR=self.home, OSM_CACHE_DIR=self.home)

	def __enter__(self):
		self.weft('up')
		return self

	def start_weftd(self):
		"""In the session of the tests, where none runs or it was killed: for more programs that poll than processors.
		Kernels that share these out by session (autogroups) let programs that poll and yield hold them for a minute,
		while weftd of another session waits."""
		words = (os.path.join(os.path.dirname(self.weft_path), 'weftd'), '--foreground', '--keep')

		def serves():
			# it ends at once while one that was killed has not gone
			if not self.weftd or self.weftd.poll() is not None:
				self.weftd = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
							      env=self.env)
			return self.try_run(self.weft_path, 'status')[0] == 0
		self.within('weftd serves', serves)

	def keep_weftd_in_session(self):
		self.weft('down')
		self.start_weftd()

	def end_all(self):
		for program in self.programs:
			if program.is_alive():
				program.end(signal.SIGKILL)

	def __exit__(self, *what):
		self.end_all()
		self.try_run(self.weft_path, 'down', '--force')
		if self.weftd:
			self.weftd.wait(LIMIT_S)
		shutil.rmtree(self.home, ignore_errors=True)

	def fail(self, text):
		"""For a test that goes on after what was wrong; others raise Wrong."""
		print('FAILED:', text)
		self.failures += 1

	def path(self, name):
		return os.path.join(self.home, name)

	def write(self, name, text):
		with open(self.path(name), 'w', encoding='utf-8') as f:
			f.write(text)
		return self.path(name)

	def try_run(self, *words, limit_s=LIMIT_S):
		"""Exit status and output, also of what fails."""
		try:
			r = subprocess.run(words, capture_output=True, text=True, errors='replace', timeout=limit_s, env=self.env,
					   stdin=subprocess.DEVNULL, check=False)
		except subprocess.TimeoutExpired as late:
			# bytes, whatever text= says
			said = b''.join(part for part in (late.stdout, late.stderr) if part).decode(errors='replace')
			raise Wrong(f'{" ".join(words)} does not end within {limit_s} s: {said}') from late
		return r.returncode, r.stdout + r.stderr

	def run(self, *words, limit_s=LIMIT_S):
		status, text = self.try_run(*words, limit_s=limit_s)
		if status:
			raise Wrong(f'{" ".join(words)} exits with {status}: {text}')
		return text

	def weft(self, *words):
		return self.run(self.weft_path, *words)

	def command(self, node, *words):
		"""Of one node, or of several for the ranks of a job: h1,h3."""
		return [self.weft_path, 'run', '--nodes' if ',' in node else '--node', node, *self.devices, '--', *words]

	def at(self, node, *words):
		return self.run(*self.command(node, *words))

	def try_at(self, node, *words):
		return self.try_run(*self.command(node, *words))

	def start(self, node, *words):
		self.programs.append(Program(self, node, words))
		return self.programs[-1]

	def start_server(self, node, port, *words):
		"""Waits until it listens, or has ended."""
		server = self.start(node, *words)
		self.within('a server listens', lambda: tcp_listening(int(port)) or not server.is_alive())
		return server

	def start_manager(self, node, *options):
		self.programs.append(Manager(self, node, options))
		return self.programs[-1]

	def within(self, what, condition):
		end = time.monotonic() + LIMIT_S
		while not condition():
			if time.monotonic() > end:
				raise Wrong(f'{what}: not within {LIMIT_S} s')
			time.sleep(POLL_S)

	def up(self, manager):
		"""Waits until the subnet is configured."""
		def is_up():
			if not manager.is_alive():
				raise Wrong(f'opensm ended: {manager.text()}')
			return 'SUBNET UP' in manager.logged()
		self.within('the subnet is up', is_up)

	def make(self, *kind):
		return self.write('net', self.weft('fabric', 'make', *kind))

	def change(self, *words):
		"""weft fabric, once weftd has noticed that those who were at ports of the last one are gone."""
		said = ['']

		def is_done():
			status, said[0] = self.try_run(self.weft_path, 'fabric', *words)
			if status and 'processes are at ports' not in said[0]:
				raise Wrong(said[0])
			return not status
		self.within('the fabric is changed', is_done)

	def load_bare(self, path):
		self.change('load', '--routing', 'none', path)

	def check(self):
		"""All paths of the tables as they stand."""
		return json.loads(self.try_run(self.weft_path, 'fabric', 'check', '--json')[1])

	def load(self, *kind):
		"""A fabric that is made, with its routes, and without a manager."""
		self.weft('fabric', 'load', '--routing', 'auto', self.make(*kind))

	def lid(self, node):
		return re.search(r'Base lid:\s+(\d+)', self.at(node, 'ibstat'))[1]

	def pingpong(self, a, b, *options):
		"""ibv_rc_pingpong, server at a, client at b: what went wrong, or nothing."""
		port = str(free_port())
		words = ('ibv_rc_pingpong', '-d', 'weft0', '-n', '10', '-p', port, *options)
		server = self.start_server(a, port, *words)
		status, text = self.try_at(b, *words, '127.0.0.1')
		if status:
			server.end(signal.SIGKILL)
			return f'the client at {b} exits with {status}: {text}'
		status = server.process.wait(LIMIT_S)
		return f'the server at {a} exits with {status}: {server.text()}' if status else ''

	def start_datagrams(self, a, b):
		"""ibv_ud_pingpong, server at a, client at b, that go on: both, and the number of the server's queue pair."""
		port = str(free_port())
		words = ('stdbuf', '-oL', 'ibv_ud_pingpong', '-d', 'weft0', '-n', FOR_EVER, '-p', port)
		server = self.start_server(a, port, *words)
		client = self.start(b, *words, '127.0.0.1')
		self.within('they know each other', lambda: 'remote address' in server.text() or not server.is_alive())
		found = re.search(r'local address:.* QPN (0x\w+)', server.text())
		if not found:
			raise Wrong(f'ibv_ud_pingpong at {a}: {server.text()}')
		return server, client, found[1]


MPIRUN = ('mpirun', '--allow-run-as-root', '--oversubscribe', '--mca', 'btl_base_warn_component_unused', '0')


def mpi_check(ranks, *args, tls='rc_v,self', settings=()):
	"""The words of a job over UCX."""
	return ('env', f'UCX_TLS={tls}', 'UCX_NET_DEVICES=weft0:1', *settings, *MPIRUN, '-n', str(ranks), '--mca', 'pml', 'ucx',
		'--mca', 'osc', 'ucx', '--mca', 'pml_ucx_devices', 'any', '--mca', 'pml_ucx_tls', 'any', CHECK, *args)


def mpi_check_by_cm(ranks, *args):
	"""The same over libfabric, whose verbs connect by rdma_cm alone."""
	return (*MPIRUN, '-n', str(ranks), '--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi', '--mca', 'mtl_ofi_provider_include',
		'verbs;ofi_rxm', CHECK, *args)


def need(*programs):
	for program in programs:
		if not shutil.which(program):
			print(f'SKIP: no {program} here: scripts/setup test')
			sys.exit(77)


def says(text, pattern):
	if not re.search(pattern, text):
		raise Wrong(f'"{pattern}" is missing in: {text}')


def tried(weft, test, kind=Lab):
	"""The exit status of a function of a lab, of this kind."""
	lab = kind(weft)
	try:
		with lab:
			test(lab)
	except Wrong as wrong:
		lab.fail(wrong)
	print(f'{lab.failures} failures' if lab.failures else 'all as expected')
	return int(lab.failures != 0)


def row(test):
	"""A function of weft for a row, of a function of a lab."""
	return lambda weft: tried(weft, test)


def script(test, *needed):
	"""A whole program whose argument is weft, of a function of a lab; skipped without the programs that it needs."""
	need(*needed)
	sys.exit(tried(os.path.abspath(sys.argv[1]), test))
