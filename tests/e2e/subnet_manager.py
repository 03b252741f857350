#!/usr/bin/env python3
"""Debian's OpenSM brings up a fabric that was loaded without addresses and tables; Debian's tools and data use what it wrote.

usage: subnet_manager.py WEFT"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

WEFT = os.path.abspath(sys.argv[1])
NEEDED = ('opensm', 'saquery', 'sminfo', 'ibtracert', 'ibroute', 'ibping', 'ibnetdiscover', 'smpquery', 'ibv_rc_pingpong')
LIMIT_S = 60

for program in NEEDED:
	if not shutil.which(program):
		print(f'SKIP: no {program} here: scripts/setup test')
		sys.exit(77)

home = tempfile.mkdtemp(prefix='weft-e2e.')
os.environ['WEFT_DIR'] = os.path.join(home, 'run')
os.environ['OSM_TMP_DIR'] = os.environ['OSM_CACHE_DIR'] = home
os.environ['WEFT_IDLE_S'] = '0.2'
LOG = os.path.join(home, 'opensm.log')
failures = 0
running = []


def fail(text):
	global failures
	print('FAILED:', text)
	failures += 1


def command(node, *words):
	return [WEFT, 'run', '--node', node, '--device', 'weft0', '--', *words]


def run(*words, status=0):
	r = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
	if r.returncode != status:
		fail(f'{words} exits with {r.returncode}: {r.stdout}{r.stderr}')
	return r.stdout + r.stderr


def weft(*words):
	return run(WEFT, *words)


def at(node, *words, status=0):
	return run(*command(node, *words), status=status)


def start(node, *words):
	p = subprocess.Popen(command(node, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
	running.append(p)
	return p


def within(what, condition):
	end = time.monotonic() + LIMIT_S
	while not condition():
		if time.monotonic() > end:
			fail(f'{what}: not within {LIMIT_S} s')
			return
		time.sleep(0.05)


def says(output, pattern):
	if not re.search(pattern, output):
		fail(f'"{pattern}" is missing in: {output}')


def log_has(text):
	try:
		with open(LOG, encoding='utf-8', errors='replace') as f:
			return text in f.read()
	except FileNotFoundError:
		return False


def stop(p, how=signal.SIGTERM):
	p.send_signal(how)
	p.wait(LIMIT_S)
	running.remove(p)


def load(kind, *options):
	path = os.path.join(home, 'net')
	with open(path, 'w', encoding='utf-8') as f:
		f.write(weft('fabric', 'make', kind, *options))
	weft('fabric', 'load', '--routing', 'none', path)
	os.unlink(path)


def lid_of(node):
	return re.search(r'Base lid:\s+(\d+)', at(node, 'ibstat'))[1]


def is_listening(port):
	wanted = f':{port:04X} '
	for name in ('/proc/net/tcp', '/proc/net/tcp6'):
		with open(name, encoding='ascii') as f:
			if any(wanted in line and ' 0A ' in line for line in f):
				return True
	return False


# A server that listens, and its port; somebody else may take a free port first.
def start_server(node):
	while True:
		with socket.socket() as s:
			s.bind(('127.0.0.1', 0))
			port = str(s.getsockname()[1])
		server = start(node, 'ibv_rc_pingpong', '-d', 'weft0', '-p', port)
		within('a server listens', lambda p=int(port), s=server: is_listening(p) or s.poll() is not None)
		if server.poll() is None:
			return server, port
		running.remove(server)


# What went wrong, or nothing.
def pingpong(a, b):
	server, port = start_server(a)
	client = subprocess.run(command(b, 'ibv_rc_pingpong', '-d', 'weft0', '-p', port, '127.0.0.1'),
				capture_output=True, text=True, timeout=LIMIT_S, check=False)
	if client.returncode:
		stop(server, signal.SIGKILL)
		return f'the client at {b} exits with {client.returncode}: {client.stdout}{client.stderr}'
	status = server.wait(LIMIT_S)
	running.remove(server)
	return f'the server at {a} exits with {status}' if status else ''


def ping(a, b):
	wrong = pingpong(a, b)
	if wrong:
		fail(wrong)


# Nobody has a LID, and nothing is active; the manager comes, and all are.
def test_bring_up():
	says(at('h1', 'ibstat'), r'State: Initializing\n.*\n.*\n\s+Base lid: 0\n')
	# -s 0: it sweeps when a trap comes, and never else; -d 2: what it logs is written at once
	manager = start('h1', 'opensm', '-s', '0', '-d', '2', '-f', LOG)
	within('the subnet is up', lambda: log_has('SUBNET UP') or manager.poll() is not None)
	for node in ('h1', 'h8'):
		says(at(node, 'ibstat'), r'State: Active\n.*\n.*\n\s+Base lid: [1-9]')
	says(at('h8', 'sminfo'), r'SMINFO_MASTER')
	return manager


# saquery sends once; the manager may be busy for longer than its second.
def query(*words):
	return at('h2', 'saquery', '-t', str(1000 * LIMIT_S // 2), *words)


# Tables of many segments come whole: each node, and a path for each pair of end ports.
def test_tables():
	nodes = query('-N')
	descriptions = re.findall(r'NodeDescription\.+(\S+)', nodes)
	ends = {f'h{i}' for i in range(1, 9)} | {f's{i}' for i in range(1, 7)}
	if sorted(descriptions) != sorted(ends):
		fail(f'saquery -N names {sorted(descriptions)}')
	paths = query('-p')
	if paths.count('PathRecord dump') != 14 * 14:
		fail(f'saquery -p has {paths.count("PathRecord dump")} paths')
	says(query('-p', '--src-to-dst', 'h1:h8'), rf'dlid\.+{lid_of("h8")}\b')
	says(query('-g'), r'Mlid\.+0xC000')


def test_ways():
	h1, h8 = lid_of('h1'), lid_of('h8')
	way = at('h3', 'ibtracert', h1, h8)
	if way.count('-> switch port') != 3 or not re.search(r'-> ca port .* "h8"', way):
		fail(f'ibtracert finds {way}')
	says(at('h1', 'ibnetdiscover'), rf'"h8" lid {h8} ')
	ping('h8', 'h1')


def test_ping():
	server = start('h8', 'ibping', '-S')
	lid = lid_of('h8')
	# it listens some time after it was started
	within('ibping answers', lambda: '1 received' in subprocess.run(
		command('h1', 'ibping', '-c', '1', lid), capture_output=True, text=True, timeout=LIMIT_S, check=False).stdout)
	stop(server)


def probe(*words):
	r = subprocess.run(command('h1', *words), capture_output=True, text=True, timeout=LIMIT_S, check=False)
	return r.stdout if r.returncode == 0 else ''


# Do ways lead from h1 to h8 and back, and not by this port of s1, the switch of h1?
def leads_around(port, h1, h8):
	there, back = probe('ibtracert', h1, h8), probe('ibtracert', h8, h1)
	return ('To ca' in there and not re.search(rf'"s1"\n\[{port}\]', there) and
		'To ca' in back and not re.search(rf'\[{port}\] lid \d+-\d+ "s1"', back))


def is_active(lid, port):
	return re.search(r'LinkState:\.+Active', probe('smpquery', 'portinfo', lid, port)) is not None


# Each of two ways from h1 to h8 is taken away, and given back; the manager leads around it.
def test_link_down():
	h1, h8 = lid_of('h1'), lid_of('h8')
	s1 = re.search(r'lid (\d+)-\d+ "s1"', probe('ibtracert', h1, h8))[1]
	for port in ('1', '2'):
		weft('fabric', 'link', f's1:{port}', 'down')
		within('the manager leads around', lambda p=port: leads_around(p, h1, h8))
		# a sweep that began before the change may write its tables yet
		within('a connection by the other way', lambda: not pingpong('h8', 'h1'))
		weft('fabric', 'link', f's1:{port}', 'up')
		within('the manager takes the link up', lambda p=port: is_active(s1, p))


# Its port is a manager's as long as it lives, however it ends.
def test_end(manager):
	says(at('h2', 'smpquery', 'portinfo', lid_of('h1'), '1'), r'IsSM\b')
	stop(manager, signal.SIGKILL)
	within('the port is no manager\'s', lambda: not re.search(
		r'IsSM\b', at('h2', 'smpquery', 'portinfo', lid_of('h1'), '1')))
	ping('h8', 'h1')


try:
	weft('up')
	load('fat-tree', 'ports=4')
	opensm = test_bring_up()
	test_tables()
	test_ways()
	test_ping()
	test_link_down()
	test_end(opensm)
finally:
	for left in running:
		left.kill()
		left.wait()
	weft('down', '--force')
	shutil.rmtree(home, ignore_errors=True)
print('all as expected' if not failures else f'{failures} failures')
sys.exit(failures != 0)
