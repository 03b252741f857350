#!/usr/bin/env python3
"""The files of hw_counters tell, device by device, what unmodified programs counted there: two devices at a time, over lossy
links, by a process that is killed, and after all have ended.

usage: hw_counters.py WEFT"""
import json
import os
import signal
import subprocess

from counted import LIMIT_S, free_port, tcp_listening
from subnet_lab import script

FILES = ('ack_deferred', 'completer_retry_err', 'duplicate_request', 'out_of_seq_request', 'rcvd_pkts', 'rcvd_rnr_err',
	 'rcvd_seq_err', 'rdma_recvs', 'rdma_sends', 'retry_exceeded_err', 'retry_rnr_exceeded_err', 'send_err', 'send_rnr_err',
	 'sent_pkts')
DEVICES = ('weft0', 'weft1')
READER = 'import os, sys; d = sys.argv[1]; print(*sorted(f + "=" + open(d + "/" + f).read().strip() for f in os.listdir(d)))'


def folder(device):
	return f'/sys/class/infiniband/{device}/ports/1/hw_counters'


def read(lab, device, *options):
	names = ' '.join(f'{folder(device)}/{f}' for f in FILES)
	lines = lab.weft('run', *options, '--', 'sh', '-c', f'for f in {names}; do cat $f; done').split()
	return dict(zip(FILES, map(int, lines)))


def read_by_python(lab, device):
	words = lab.weft('run', '--', 'python3', '-c', READER, folder(device)).split()
	return dict(word.split('=') for word in words)


class Pair:
	"""A program on one device; what its two ends counted is known when both have ended."""

	def __init__(self, lab, name, words, *options):
		self.lab, self.options, self.port = lab, options, free_port()
		self.stats = [lab.path(f'{name}.{end}.json') for end in ('server', 'client')]
		self.words = [words[0], '-F', '-p', str(self.port), *words[1:]]
		self.server = self.start(0)
		lab.within('a server listens', lambda: tcp_listening(self.port) or self.server.poll() is not None)
		self.client = self.start(1, '127.0.0.1')

	def start(self, end, *more):
		command = [self.lab.weft_path, 'run', f'--stats={self.stats[end]}', *self.options, '--', *self.words, *more]
		return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.lab.env)

	def finish(self):
		for process in (self.client, self.server):
			output = process.communicate(timeout=LIMIT_S)[0]
			if process.returncode:
				self.lab.fail(f'{self.words} exits with {process.returncode}: {output}')
		counted = []
		for path in self.stats:
			with open(path, encoding='utf-8') as f:
				counted.append(json.load(f)['total'])
		return {name: sum(c[name] for c in counted) for name in FILES}


def difference(after, before):
	return {name: after[name] - before[name] for name in FILES}


def two_at_a_time(lab, program, gids, *options):
	"""What was counted, by device."""
	before = {d: read(lab, d) for d in DEVICES}
	pairs = {d: Pair(lab, d, (program, '-d', d, '-n', '200', '-s', '65536', *gids[d]), *options) for d in DEVICES}
	counted = {d: pairs[d].finish() for d in DEVICES}
	for d in DEVICES:
		got = difference(read(lab, d), before[d])
		if got != counted[d]:
			lab.fail(f'{program} {options}: {d} has {got}, but its programs counted {counted[d]}')
	return counted


def lossy_links_show(lab, gids):
	counted = two_at_a_time(lab, 'ib_send_bw', gids, '--profile', 'standard,repeat=all', '--impair', 'loss=5%,seed=7')
	for d in DEVICES:
		again = [counted[d][n] for n in ('duplicate_request', 'out_of_seq_request')]
		if not all(again) or not counted[d]['rcvd_seq_err'] + counted[d]['completer_retry_err']:
			lab.fail(f'{d}: one packet of twenty was lost, but {counted[d]}')


def what_has_ended_stays(lab):
	for d in DEVICES:
		by_cat, by_python = read(lab, d), read_by_python(lab, d)
		same = all(by_python.get(f) == str(by_cat[f]) for f in FILES)
		if not same or sorted(by_python) != sorted((*FILES, 'lifespan', 'link_downed')):
			lab.fail(f'{d}: python reads {by_python}, cat {by_cat}')
		if read(lab, d, '--device', d) != by_cat:
			lab.fail(f'{d}: programs that see one device see other counts')


def who_sees_one_device_reads_what_is(lab):
	"""Its own files of counters are written anew each time it reads them."""
	port, file = free_port(), f'{folder("weft0")}/sent_pkts'
	words = f'ib_write_bw -F -d weft0 -n 100 -p {port}'
	before, after = lab.weft('run', '--device', 'weft0', '--path', 'packet', '--', 'bash', '-c', f'''cat {file}
		{words} >/dev/null &
		until {words} 127.0.0.1 >/dev/null 2>&1; do kill -0 $! || exit 1; done
		wait $! && cat {file}''').split()
	if int(after) < int(before) + 100:
		lab.fail(f'a program that sees one device reads {before}, and {after} after 100 writes')


def the_killed_are_counted(lab, gids):
	before, other = read(lab, 'weft1'), read(lab, 'weft0')
	words = ('ib_write_bw', '-d', 'weft1', '-D', '60', '-s', '65536', *gids['weft1'])
	pair = Pair(lab, 'killed', words, '--path', 'packet')
	sent = lambda: difference(read(lab, 'weft1'), before)['sent_pkts']
	lab.within('packets leave', lambda: sent() > 1000)
	processes = [p['pid'] for p in json.loads(lab.weft('counters', '--json'))['processes']]
	alive = sent()
	for pid in processes:
		os.kill(pid, signal.SIGKILL)
	for process in (pair.client, pair.server):
		process.communicate(timeout=LIMIT_S)
	if sent() < alive or sent() != sent():
		lab.fail(f'{alive} packets had left before the programs were killed, {sent()} after that')
	if read(lab, 'weft0') != other:
		lab.fail('what weft1 carried is counted at weft0')


def gid_of_ipv4(lab):
	gids = '/sys/class/infiniband/weft1/ports/1/gids'
	listing = f'for i in $(ls {gids}); do echo $i $(cat {gids}/$i); done'
	for line in lab.weft('run', '--', 'sh', '-c', listing).splitlines():
		if ' 0000:0000:0000:0000:0000:ffff:' in line:
			return line.split()[0]
	return '0'


def test(lab):
	gids = {'weft0': (), 'weft1': ('-x', gid_of_ipv4(lab))}
	two_at_a_time(lab, 'ib_write_bw', gids, '--path', 'packet')
	direct = two_at_a_time(lab, 'ib_send_bw', gids)
	if any(direct[d]['rdma_sends'] < 200 or direct[d]['rdma_recvs'] < 200 for d in DEVICES):
		lab.fail(f'200 sends went directly, but {direct}')
	lossy_links_show(lab, gids)
	what_has_ended_stays(lab)
	who_sees_one_device_reads_what_is(lab)
	the_killed_are_counted(lab, gids)


script(test, 'ib_write_bw', 'ib_send_bw')
