"""A virtual machine with Linux's rdma_rxe: Debian's kernel package, and a file system in memory with programs of this host.

Nothing is installed and no root is needed but for the taps, which whoever has a network namespace of its own may make. The kernel
package is downloaded once, into the build directory. The guest has two interfaces: wire0, a tap of this network namespace with
rxe0 over it, and control0, by which commands come (guest_agent) and which no packet of a test uses.
"""

import glob
import io
import lzma
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = ('virtio_pci', 'virtio_net', 'crc32_generic', 'crc32c_generic', 'ib_uverbs', 'ib_umad', 'rdma_ucm', 'rdma_rxe',
	   'sch_netem')
NEEDED = ('busybox', 'dash', 'ip', 'tc', 'rdma')
LARGEST_MTU = 4200		# bytes of the interface: a path MTU of 4096
BOOT_S = 240			# emulated, on a busy machine
CONNECT_S = 30
COUNTER_TRIES = 5


class Missing(Exception):
	"""Why no guest can be had here."""


# ---- the kernel ----------------------------------------------------------------------------------------------------------------

def kernel_package():
	"""The name of the kernel package that this release of Debian has now."""
	text = subprocess.run(['apt-cache', 'depends', 'linux-image-amd64'], capture_output=True, text=True).stdout
	found = re.search(r'Depends: (linux-image-\d\S+)', text)
	if not found:
		raise Missing('apt knows no linux-image-amd64 (apt-get update; Debian on x86-64)')
	return found.group(1)


def unpacked_kernel(image):
	"""The ELF file in a bzImage, which QEMU starts at once; to unpack it in the guest takes long where that is emulated. None
	if it is packed by something else than xz. Offsets: Documentation/arch/x86/boot.rst, setup_sects and payload_*."""
	offset, length = struct.unpack_from('<II', image, 0x248)
	offset += (image[0x1f1] + 1) * 512
	try:
		return lzma.LZMADecompressor().decompress(image[offset:offset + length])
	except lzma.LZMAError:
		return None


def kernel(cache):
	"""A folder with the files 'kernel' and 'release' and the modules, made from the package unless it is there."""
	for program in ('apt-get', 'dpkg-deb'):
		if not shutil.which(program):
			raise Missing(f'no {program} here')
	found = sorted(glob.glob(os.path.join(cache, 'linux-image-*', 'kernel')), key=os.path.getmtime)
	if found:
		return os.path.dirname(found[-1])
	package = kernel_package()
	work = os.path.join(cache, f'work.{os.getpid()}')
	os.makedirs(work)
	try:
		got = subprocess.run(['apt-get', '-qq', '-o', 'APT::Sandbox::User=root', 'download', package], cwd=work,
				     capture_output=True, text=True)
		debs = glob.glob(os.path.join(work, '*.deb'))
		if not debs:
			raise Missing(f'{package} cannot be downloaded: {got.stderr.strip()}')
		subprocess.run(['dpkg-deb', '-x', debs[0], os.path.join(work, 'all')], check=True)
		image = open(glob.glob(os.path.join(work, 'all/boot/vmlinuz-*'))[0], 'rb').read()
		folder = os.path.join(work, package)
		os.mkdir(folder)
		modules = glob.glob(os.path.join(work, 'all', '*', 'modules', '*')) + \
			glob.glob(os.path.join(work, 'all', 'usr', 'lib', 'modules', '*'))
		os.rename(modules[0], os.path.join(folder, 'modules'))
		with open(os.path.join(folder, 'release'), 'w') as f:
			f.write(f'{os.path.basename(modules[0])} ({os.path.basename(debs[0]).split("_")[1]})')
		with open(os.path.join(folder, 'kernel'), 'wb') as f:
			f.write(unpacked_kernel(image) or image)
		os.rename(folder, os.path.join(cache, package))
	finally:
		shutil.rmtree(work)
	return os.path.join(cache, package)


def module_files(folder, modules):
	"""(name, content) of these modules and of what they need, in the order in which they are loaded."""
	paths = {re.sub(r'\.ko.*', '', name).replace('-', '_'): os.path.join(at, name)
		 for at, _, names in os.walk(os.path.join(folder, 'modules')) for name in names if '.ko' in name}
	done = {}

	def take(name):
		if name in done or name not in paths:	# what is missing is built in
			return
		with open(paths[name], 'rb') as f:
			content = f.read()
		if paths[name].endswith('.xz'):
			content = lzma.decompress(content)
		for other in re.search(rb'\0depends=([^\0]*)\0', content).group(1).decode().split(','):
			take(other.replace('-', '_'))
		done[name] = content

	for name in modules:
		take(name)
	return list(done.items())


# ---- its files -----------------------------------------------------------------------------------------------------------------

class Archive:
	"""A cpio archive in the form 'newc', which the kernel makes its first file system of."""
	def __init__(self):
		self.out, self.known = io.BytesIO(), set()

	def entry(self, path, mode, content=b''):
		if path in self.known:
			return
		self.known.add(path)
		name = path.lstrip('/').encode() + b'\0'
		fields = (len(self.known), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
		self.out.write(b'070701' + b''.join(b'%08x' % n for n in fields) + name)
		self.out.write(b'\0' * (-(6 + 13 * 8 + len(name)) % 4) + content + b'\0' * (-len(content) % 4))

	def folder(self, path):
		if path not in ('', '/'):
			self.folder(os.path.dirname(path))
			self.entry(path, 0o40755)

	def link(self, path, to):
		self.entry(path, 0o120777, to.encode())

	def file(self, path, content, mode=0o100755):
		self.folder(os.path.dirname(path))
		self.entry(path, mode, content)

	def bytes(self):
		self.entry('TRAILER!!!', 0)
		return self.out.getvalue()


def needed_libraries(path):
	"""Paths of the libraries that a program or library needs, by this host's loader."""
	text = subprocess.run(['ldd', path], capture_output=True, text=True).stdout
	return re.findall(r'(?:=> |^\s+)(/\S+) \(', text, re.M)


def first_files(folder, programs, loaded, modules=MODULES):
	"""The guest's files: programs by name or path, and 'loaded', files that these load or start by themselves."""
	archive = Archive()
	for path in ('/usr/bin', '/usr/lib', '/usr/lib64', '/etc/libibverbs.d', '/dev', '/proc', '/sys', '/run', '/tmp'):
		archive.folder(path)
	for old, new in (('bin', 'usr/bin'), ('sbin', 'usr/bin'), ('usr/sbin', 'bin'), ('lib', 'usr/lib'),
			 ('lib64', 'usr/lib64')):
		archive.link('/' + old, new)
	archive.link('/usr/bin/sh', 'dash')	# that of busybox prefers its own ip
	files = {f'/usr/bin/{os.path.basename(p)}': shutil.which(p) for p in programs}
	files |= {path: path for path in loaded}
	for path in [path for path in files.values() if path]:
		for library in needed_libraries(path):
			at = os.path.join(os.path.realpath(os.path.dirname(library)), os.path.basename(library))
			files[at] = library
	for path, source in files.items():
		if source:
			with open(source, 'rb') as f:
				archive.file(path, f.read())
	for path in glob.glob('/etc/libibverbs.d/rxe.driver'):
		archive.file(path, open(path, 'rb').read())
	for name in ('init', 'agent'):
		with open(os.path.join(HERE, 'guest_' + name), 'rb') as f:
			archive.file('/' + name, f.read())
	modules = module_files(folder, modules)
	for name, content in modules:
		archive.file(f'/modules/{name}.ko', content)
	archive.file('/modules/list', ''.join(name + '\n' for name, _ in modules).encode())
	return archive.bytes()


# ---- this host's end -----------------------------------------------------------------------------------------------------------

def in_own_namespaces():
	"""Begins the program again in user and network namespaces of its own, with the option --inside."""
	if subprocess.run(['unshare', '-Urnu', 'true'], capture_output=True).returncode:
		raise Missing('no user and network namespaces can be made here')
	os.execvp('unshare', ['unshare', '-Urnu', sys.executable, '-B', *sys.argv, '--inside'])


def ip(text):
	"""Runs ip with these words."""
	made = subprocess.run(['ip', *text.split()], capture_output=True, text=True)
	if made.returncode:
		raise Missing(f'ip {text}: {made.stderr.strip()}')


def make_tap(name):
	"""A tap, of which a guest has the other end."""
	ip(f'tuntap add dev {name} mode tap')
	ip(f'link set {name} mtu {LARGEST_MTU} up')


# ---- running it ----------------------------------------------------------------------------------------------------------------

class Program:
	"""One in the guest. Its output is text as it comes; it is killed by its process group."""
	def __init__(self, guest, words):
		self.guest, self.argv = guest, words if isinstance(words, list) else [words]
		self.raw, self.pid, self.status = bytearray(), None, None
		self.name = self.argv[0]
		self.socket = guest.connect()
		self.socket.settimeout(None)
		self.socket.sendall((' '.join(self.argv) + '\n').encode())
		self.reader = threading.Thread(target=self.read, daemon=True)
		self.reader.start()

	def read(self):
		try:
			while piece := self.socket.recv(65536):
				self.raw += piece
		except OSError:
			pass
		found = re.search(rb'\nSTATUS (\d+)\n\Z', self.raw)
		self.status = int(found.group(1)) if found else -1

	@property
	def text(self):
		text = bytes(self.raw).decode(errors='replace')
		return re.sub(r'\nSTATUS \d+\n\Z', '', re.sub(r'\APID \d+\n', '', text))

	def running(self):
		return self.reader.is_alive()

	def wait(self, deadline):
		"""The exit status, or None when the deadline came first."""
		self.reader.join(max(0, deadline - time.monotonic()))
		return None if self.reader.is_alive() else self.status

	def stop(self):
		if self.running() and (found := re.match(rb'PID (\d+)\n', self.raw)):
			for sig in ('TERM', 'KILL'):
				self.guest.ask(f'kill -{sig} -{found.group(1).decode()}')
				if self.wait(time.monotonic() + 2) is not None:
					break
		self.socket.close()


def accelerator():
	"""QEMU's options. A /dev/kvm on a processor without vmx and svm, as in some clouds, runs no kernel of Debian's."""
	with open('/proc/cpuinfo') as f:
		has_kvm = re.search(r'^flags.* (vmx|svm)\b', f.read(), re.M) and os.access('/dev/kvm', os.R_OK | os.W_OK)
	return ['-accel', 'kvm', '-cpu', 'host'] if has_kvm else ['-accel', 'tcg', '-cpu', 'max']


class Guest:
	"""One virtual machine, from boot() to stop(). Number n has the addresses 10.77.0.n+1 and fd77::n+1, and tap n."""
	def __init__(self, number, tmp):
		self.number, self.tmp, self.process, self.device = number, tmp, None, 'rxe0'
		self.ip4, self.ip6 = f'10.77.0.{number + 1}', f'fd77::{number + 1:x}'
		self.port = 7700 + number	# of the loop-back interface of our own network namespace

	def boot(self, folder, files, tap):
		if not shutil.which('qemu-system-x86_64'):
			raise Missing('no qemu-system-x86_64 here: scripts/setup interop')
		initrd = os.path.join(self.tmp, f'files.{self.number}')
		with open(initrd, 'wb') as f:
			f.write(files)
		# no offloads: the tap carries what a wire would
		offloads = ('csum', 'guest_csum', 'gso', 'guest_tso4', 'guest_tso6', 'guest_ecn', 'guest_ufo', 'host_tso4',
			    'host_tso6', 'host_ecn', 'host_ufo')
		plain = ''.join(f',{name}=off' for name in offloads) + ',romfile='
		mac = f'{self.number:02x}'
		self.console = os.path.join(self.tmp, f'console.{self.number}')
		# it ends with us, however that is
		argv = ['setpriv', '--pdeathsig', 'KILL', 'qemu-system-x86_64', '-M', 'q35', *accelerator(), '-smp', '1',
			'-m', '768', '-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none', '-monitor', 'none',
			'-serial', f'file:{self.console}', '-kernel', os.path.join(folder, 'kernel'), '-initrd', initrd,
			'-append', 'console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on '
			f'audit=0 no_timer_check ip4={self.ip4}/24 ip6={self.ip6}/64',
			'-netdev', f'tap,id=w,ifname={tap},script=no,downscript=no',
			'-device', f'virtio-net-pci,netdev=w,mac=52:54:00:77:00:{mac},host_mtu={LARGEST_MTU}{plain}',
			'-netdev', f'user,id=c,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:7777',
			'-device', f'virtio-net-pci,netdev=c,mac=52:54:00:78:00:{mac}{plain}']
		with open(os.path.join(self.tmp, f'qemu.{self.number}'), 'wb') as out:
			self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
		end = time.monotonic() + BOOT_S
		while True:
			if self.process.poll() is not None or time.monotonic() > end:
				raise Missing(f'the guest does not start: {self.last_words()}')
			try:
				if self.ask('cat /run/ready', patience=2)[1].strip():
					break
			except OSError:
				pass
			time.sleep(0.1)
		os.unlink(initrd)

	def last_words(self):
		text = ''
		for path in (os.path.join(self.tmp, f'qemu.{self.number}'), self.console):
			if os.path.exists(path):
				with open(path, errors='replace') as f:
					text += f.read()[-2000:]
		return text.strip()

	def connect(self, patience=CONNECT_S):
		return socket.create_connection(('127.0.0.1', self.port), patience)

	def run(self, words):
		return Program(self, words)

	def ask(self, command, patience=CONNECT_S):
		"""The exit status and the output of a short command."""
		with self.connect(patience) as s:
			s.sendall(command.encode() + b'\n')
			text = b''
			while piece := s.recv(65536):
				text += piece
		found = re.match(rb'PID \d+\n(.*)\nSTATUS (\d+)\n\Z', text, re.S)
		return (int(found.group(2)), found.group(1).decode(errors='replace')) if found else (None, '')

	def gid_index(self, address, device='*'):
		"""Of the GID table of rxe's device, its only one unless it is named."""
		groups = socket.inet_pton(socket.AF_INET6, address).hex(':', 2)
		status, text = self.ask(f'grep -l {groups} /sys/class/infiniband/{device}/ports/1/gids/*')
		return int(text.strip().rpartition('/')[2]) if status == 0 else None

	def set_device(self, name):
		"""Of rxe: some programs want one name at both ends."""
		if name != self.device:
			self.ask(f'rdma dev set {self.device} name {name}')
			self.device = name

	def set_mtu(self, mtu):
		self.ask(f'ip link set wire0 mtu {mtu}')

	def set_netem(self, rule):
		"""What its packets meet on their way out; '' for nothing."""
		self.ask('tc qdisc del dev wire0 root')
		if rule:
			status, text = self.ask(f'tc qdisc add dev wire0 root netem limit 10000 {rule}')
			if status:
				raise RuntimeError(f'no netem in the guest: {text}')

	def counters(self):
		"""rxe's. A guest that gets no processor time may not answer in time: it is asked again."""
		for _ in range(COUNTER_TRIES):
			status, text = self.ask('cd /sys/class/infiniband/*/ports/1/hw_counters && grep . *')
			if status == 0:
				return {name: int(count) for name, count in re.findall(r'^(\w+):(\d+)$', text, re.M)}
		raise RuntimeError('the guest does not tell the counters of rxe')

	def tcp_listening(self, port):
		return self.ask(f"cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{port:04X} [0-9A-F:]* 0A '")[0] == 0

	def cm_listening(self):
		return self.ask('rdma resource show cm_id | grep -q LISTEN')[0] == 0

	def stop(self):
		if self.process:
			self.process.kill()
			self.process.wait()
