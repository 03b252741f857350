#!/usr/bin/env python3
"""perfquery at each port of a way tells exactly what perftest sent over it, directly and as packets, and what came back.

usage: port_counters.py WEFT"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

WEFT = os.path.abspath(sys.argv[1])
NEEDED = ('perfquery', 'ibstat', 'ibtracert', 'ibqueryerrors', 'ib_write_bw', 'ib_read_bw', 'ib_send_bw')
LIMIT_S = 60
N, BYTES, MTU = 50, 65536, 4096
ATTEMPTS = 5
AGAIN = ('probes', 'completer_retry_err', 'rcvd_seq_err', 'rcvd_rnr_err', 'duplicate_request')	# of what is sent again
ACKS = 'at most one a message'	# the first messages may be packets, which share some; the same at each port

for program in NEEDED:
	if not shutil.which(program):
		print(f'SKIP: no {program} here: scripts/setup test')
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


def at(node, *words):
	return weft('run', '--node', node, '--device', 'weft0', '--', *words)


def lid_of(node):
	return re.search(r'Base lid:\s+(\d+)', at(node, 'ibstat'))[1]


def ports_of_way(source, target):
	"""(LID, port) of each port that a packet leaves by, and of the one at the other end of each link."""
	leaving, entering = [], []
	for line in at('h1', 'ibtracert', source, target).splitlines():
		step = re.match(r'\[(\d+)\] -> \S+ port \{\w+\}\[(\d+)\] lid (\d+)', line)
		if step:
			leaving.append((entering[-1][0] if entering else source, step[1]))
			entering.append((step[3], step[2]))
	return leaving, entering


def read(ports):
	"""The counters of each port, all asked by one shell."""
	script = '; '.join(f'echo "port {lid} {number}"; perfquery -x {lid} {number}' for lid, number in ports)
	found, port = {}, None
	for line in at('h2', 'sh', '-c', script).splitlines():
		if line.startswith('port '):
			port = tuple(line.split()[1:])
		field = re.match(r'(Port\w+):\.*(\d+)$', line)
		if field:
			found[port, field[1]] = int(field[2])
	return found


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


def run(program, *options):
	"""What was sent again, as both ends counted."""
	stats = [os.path.join(home, f'{end}.json') for end in ('server', 'client')]
	port = free_port()
	words = [program, '-F', '-d', 'weft0', '-p', port, '-n', str(N), '-s', str(BYTES), '-u', '22']
	server = subprocess.Popen([WEFT, 'run', '--node', 'h8', f'--stats={stats[0]}', *options, '--', *words],
				  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
	end = time.monotonic() + LIMIT_S
	while not listens(port) and server.poll() is None and time.monotonic() < end:
		time.sleep(0.01)
	weft('run', '--node', 'h1', f'--stats={stats[1]}', *options, '--', *words, '127.0.0.1')
	output = server.communicate(timeout=LIMIT_S)[0]
	if server.returncode:
		fail(f'{program} at h8 exits with {server.returncode}: {output}')
	return [again for again in map(counted, stats) if again]


def measure(name, there, back, expected_there, expected_back, *options):
	"""Each value less what reading it costs, which is the same each time. What is sent again is counted too, as on a busy
	machine: only when a program tells of that, it is measured once more."""
	ports = sorted({port for way in (*there, *back) for port in way})
	for _ in range(ATTEMPTS):
		first = read(ports)
		before = read(ports)
		again = run(name, *options)
		after = read(ports)
		if not again:
			break
		print(f'{name} {options}: packets were sent again: {again}')
	else:
		fail(f'{name} {options}: packets are sent again each of {ATTEMPTS} times')
		return
	grown = {key: after[key] - 2 * before[key] + first[key] for key in after}
	for (leaving, entering), expected in ((there, expected_there), (back, expected_back)):
		for ends, direction in ((leaving, 'Xmit'), (entering, 'Rcv')):
			for port in ends:
				got = (grown[port, f'Port{direction}Pkts'], grown[port, f'Port{direction}Data'])
				if expected is ACKS:
					expected = got if 0 < got[0] <= N and got[1] == got[0] * 28 // 4 else (N, N * 28 // 4)
				if got != expected:
					fail(f'{name} {options}: port {port} has {direction} {got}, not {expected}')


try:
	weft('up')
	net = os.path.join(home, 'net')
	with open(net, 'w', encoding='utf-8') as f:
		f.write(weft('fabric', 'make', 'fat-tree', 'ports=4'))
	weft('fabric', 'load', net)
	h1, h8 = lid_of('h1'), lid_of('h8')
	there, back = ports_of_way(h1, h8), ports_of_way(h8, h1)
	if len(there[0]) != 4 or len(back[0]) != 4:
		fail(f'the ways between h1 and h8 are {there} and {back}')
	packets = N * BYTES // MTU
	# LRH, BTH, ICRC: 24 bytes; RETH: 16; AETH: 4
	payload = (packets * 24 + N * BYTES) // 4
	measure('ib_write_bw', there, back, (packets, payload + N * 16 // 4), ACKS)
	measure('ib_read_bw', there, back, (N, N * 40 // 4), (packets, payload + 2 * N))
	measure('ib_send_bw', there, back, (packets, payload), ACKS)
	measure('ib_read_bw', there, back, (N, N * 40 // 4), (packets, payload + 2 * N), '--path', 'packet')
	files = 'port_xmit_data', 'port_xmit_packets', 'port_rcv_data', 'unicast_xmit_packets', 'symbol_error'
	words = at('h1', 'sh', '-c', f'perfquery -x {h8} 1 >/dev/null; perfquery -x {h1} 1; for f in {" ".join(files)}; do '
		   'cat /sys/class/infiniband/weft0/ports/1/counters/$f; done').splitlines()
	asked = {line.split(':')[0]: int(line.rsplit('.', 1)[1]) for line in words if re.match(r'Port\w+:\.*\d+$', line)}
	# what a port asks itself crosses no link
	expected = [asked['PortXmitData'], asked['PortXmitPkts'], asked['PortRcvData'], asked['PortUnicastXmitPkts'], 0]
	if [int(word) for word in words[-len(files):]] != expected:
		fail(f'/sys shows {words[-len(files):]} for {files}, not {expected}')
	errors = at('h1', 'ibqueryerrors', '--data')
	if re.search(r'(Discards|Relay|Errors|Recovers|Downed) == [1-9]', errors):
		fail(f'ibqueryerrors finds errors: {errors}')
finally:
	weft('down', '--force')
	shutil.rmtree(home, ignore_errors=True)
print('all as expected' if not failures else f'{failures} failures')
sys.exit(failures != 0)
