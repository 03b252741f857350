#!/usr/bin/env python3
"""The counters of ports in /sys, of a network without a fabric, tell what perftest sent and got on each device: directly, as
packets, by the engine's own thread, and over a restart of weftd.

usage: sysfs_counters.py WEFT"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

WEFT = os.path.abspath(sys.argv[1])
LIMIT_S = 60
N, BYTES, MTU = 50, 65536, 4096
PACKETS = N * BYTES // MTU
ATTEMPTS = 5
AGAIN = ('probes', 'completer_retry_err', 'rcvd_seq_err', 'rcvd_rnr_err', 'duplicate_request')	# of what is sent again
FILES = ('port_xmit_data', 'port_rcv_data', 'port_xmit_packets', 'port_rcv_packets', 'unicast_xmit_packets',
	 'multicast_xmit_packets', 'port_xmit_discards', 'link_downed')
PATH_WORDS = {'weft0': 8 // 4, 'weft1': (20 + 8) // 4}		# LRH; IPv4 and UDP
REST_WORDS, RETH, AETH = (12 + 4) // 4, 16 // 4, 4 // 4		# BTH and ICRC

if not shutil.which('ib_write_bw'):
	print('SKIP: no ib_write_bw here: scripts/setup test')
	sys.exit(77)

home = tempfile.mkdtemp(prefix='weft-e2e.')
os.environ['WEFT_DIR'] = os.path.join(home, 'run')
os.environ['WEFT_IDLE_S'] = '0.2'
failures = 0


def fail(text):
	global failures
	print('FAILED:', text)
	failures += 1


def weft(*words):
	r = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
	if r.returncode:
		fail(f'{words} exits with {r.returncode}: {r.stdout}{r.stderr}')
	return r.stdout


def read(device, *options):
	names = ' '.join(f'/sys/class/infiniband/{device}/ports/1/counters/{f}' for f in FILES)
	lines = weft('run', *options, '--', 'sh', '-c', f'for f in {names}; do cat $f; done').split()
	return dict(zip(FILES, map(int, lines)))


def free_port():
	with socket.socket() as s:
		s.bind(('127.0.0.1', 0))
		return str(s.getsockname()[1])


def listens(port):
	with open('/proc/net/tcp', encoding='ascii') as f:
		return f' 00000000:{int(port):04X} ' in f.read()


def counted(path):
	"""Of AGAIN, what a program that has ended counted."""
	with open(path, encoding='utf-8') as f:
		total = json.load(f)['total']
	return {name: total[name] for name in AGAIN if total[name]}


def run(program, device, *options, between=lambda: None):
	"""What was sent again, as both ends counted."""
	stats = [os.path.join(home, f'{end}.json') for end in ('server', 'client')]
	port = free_port()
	words = [program, '-F', '-d', device, '-p', port, '-n', str(N), '-s', str(BYTES)]
	if device == 'weft1':
		words += ['-x', GID]
	with subprocess.Popen([WEFT, 'run', f'--stats={stats[0]}', *options, '--', *words], stdout=subprocess.PIPE,
			      stderr=subprocess.STDOUT, text=True) as server:
		end = time.monotonic() + LIMIT_S
		while not listens(port) and server.poll() is None and time.monotonic() < end:
			time.sleep(0.01)
		between()
		weft('run', f'--stats={stats[1]}', *options, '--', *words, '127.0.0.1')
		output = server.communicate(timeout=LIMIT_S)[0]
	if server.returncode:
		fail(f'{program} on {device} exits with {server.returncode}: {output}')
	return [again for again in map(counted, stats) if again]


def grown(program, device, *options):
	"""What a run without packets that are sent again adds; such runs are rare where a machine is not busy."""
	for _ in range(ATTEMPTS):
		before = read(device)
		again = run(program, device, *options)
		after = read(device)
		if not again:
			return {f: after[f] - before[f] for f in FILES}
		print(f'{program} {device} {options}: packets were sent again: {again}')
	fail(f'{program} {device} {options}: packets are sent again each of {ATTEMPTS} times')
	return None


def check(program, device, *options):
	is_read = program == 'ib_read_bw'
	got = grown(program, device, *options)
	if not got:
		return
	each = PATH_WORDS[device] + REST_WORDS
	# requests of a read; some ACKs of packets are one for several
	few, most = (N, N) if is_read else (1, N)
	small = got['port_xmit_packets'] - PACKETS
	headers = 2 * N * AETH + N * RETH if is_read else N * RETH + small * AETH
	expected = (PACKETS + small) * each + N * BYTES // 4 + headers
	if not few <= small <= most or got['port_xmit_data'] != expected:
		fail(f'{program} {device} {options}: {got}, but {PACKETS} packets and {few} to {most} have {expected} words')
	if (got['port_rcv_data'], got['port_rcv_packets']) != (got['port_xmit_data'], got['port_xmit_packets']):
		fail(f'{program} {device} {options}: not all that was sent was received: {got}')
	if got['unicast_xmit_packets'] != got['port_xmit_packets'] or got['multicast_xmit_packets'] or got['port_xmit_discards']:
		fail(f'{program} {device} {options}: no packet was for a group, none was lost: {got}')


def kill_weftd():
	os.kill(json.loads(weft('status', '--json'))['pid'], signal.SIGKILL)
	weft('up')


def counts_go_on_after_a_restart():
	run('ib_write_bw', 'weft0', '--path', 'packet', between=kill_weftd)
	got = read('weft0')
	# the server, which was there before, has received, and the client has sent
	if not PACKETS <= got['port_rcv_packets'] <= got['port_xmit_packets']:
		fail(f'after a restart of weftd the ports carried {got}')


def a_link_that_goes_down_counts():
	before = read('weft1')
	weft('link', 'down', 'weft1')
	weft('link', 'up', 'weft1')
	after = read('weft1', '--device', 'weft1')
	if after != dict(before, link_downed=before['link_downed'] + 1):
		fail(f'before the link went down: {before}, after that: {after}')


def gid_of_ipv4():
	folder = '/sys/class/infiniband/weft1/ports/1/gids'
	for line in weft('run', '--', 'sh', '-c', f'for i in $(ls {folder}); do echo $i $(cat {folder}/$i); done').splitlines():
		if ' 0000:0000:0000:0000:0000:ffff:' in line:
			return line.split()[0]
	return '0'


try:
	weft('up')
	GID = gid_of_ipv4()
	for path in ((), ('--path', 'packet')):
		check('ib_write_bw', 'weft0', *path)
		check('ib_write_bw', 'weft1', *path)
	check('ib_read_bw', 'weft0')
	check('ib_read_bw', 'weft1', '--engine=thread')
	a_link_that_goes_down_counts()
	counts_go_on_after_a_restart()
finally:
	weft('down', '--force')
	shutil.rmtree(home, ignore_errors=True)
print('all as expected' if not failures else f'{failures} failures')
sys.exit(failures != 0)
