#!/usr/bin/env python3
"""weft top: rates of a real program's ports, processes and QPs, as JSON, as lines, and on a terminal, which may change its size.

usage: top.py WEFT"""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time

LIMIT_S = 60
failures = []


def expect(fact, what):
	if not fact:
		failures.append(what)
		print(f'FAILED: {what}')


def free_port():
	with socket.socket() as s:
		s.bind(('127.0.0.1', 0))
		return s.getsockname()[1]


def top(weft, *options):
	return subprocess.run([weft, 'top', *options], capture_output=True, text=True, timeout=LIMIT_S)


def objects(text):
	"""One JSON object after another."""
	decoder, all, at = json.JSONDecoder(), [], 0
	while at < len(text):
		one, at = decoder.raw_decode(text, at)
		all.append(one)
		at += len(text[at:]) - len(text[at:].lstrip())
	return all


def without_programs(weft):
	for options, status, said in ((('--count', '0'), 2, '--count 0 is not'), (('--interval', 'x'), 2, '--interval x is not'),
				      (('--interval', '0.01'), 2, 'seconds'), (('--count', '1.5'), 2, '--count')):
		got = top(weft, *options)
		expect(got.returncode == status and said in got.stderr, f'{options}: {got}')
	got = top(weft, '--count', '2', '--interval', '0.1')
	expect(got.returncode == 0 and got.stdout.count('0 processes, 0 queue pairs') == 2, f'without programs: {got}')


def as_json(weft, pids):
	end = time.monotonic() + LIMIT_S
	while True:
		got = top(weft, '--json', '--count', '2', '--interval', '0.3')
		looks = objects(got.stdout)
		if got.returncode or len(looks) != 2 or time.monotonic() > end:
			break
		rows = {p['pid']: p for p in looks[1]['processes']}
		found = [q for q in looks[1]['qps'] if q['pid'] in pids]
		if len(found) == 2 and all(rows.get(pid, {}).get('sent_bytes_per_s', 0) > 0 for pid in pids):
			break
	expect(got.returncode == 0 and len(looks) == 2, f'--json: {got}')
	port = next((p for p in looks[1]['ports'] if p['device'] == 'weft1'), {})
	qps = [q for q in looks[1]['qps'] if q['pid'] in pids]
	expect(len(qps) == 2 and port.get('qps') == 2, f'not two QPs of weft1: {looks[1]}')
	total = sum(q['sent_bytes_per_s'] for q in qps)
	expect(total > 0 and abs(port.get('sent_bytes_per_s', 0) - total) < 1, f'the port is not the sum of its QPs: {looks[1]}')
	expect(looks[1]['interval_s'] >= 0.3 and looks[1]['schema'] >= 1, f'no interval: {looks[1]}')


def sent(weft, pid):
	got = subprocess.run([weft, 'qp', '--json', str(pid)], capture_output=True, text=True, timeout=LIMIT_S)
	return sum(q['bytes_sent'] for p in json.loads(got.stdout)['processes'] for q in p.get('qps', []))


def of_the_interval(weft, pid):
	"""What was sent before and after does not count."""
	end = time.monotonic() + LIMIT_S
	while True:
		before = sent(weft, pid)
		look = json.loads(top(weft, '--json', '--count', '1', '--interval', '0.1').stdout)
		after = sent(weft, pid)
		counted = sum(q['sent_bytes_per_s'] for q in look['qps'] if q['pid'] == pid) * look['interval_s']
		# a process that does not answer in time is left out of a look
		if (before and after and counted) or time.monotonic() > end:
			break
	expect(0 < before and 0 < counted <= (after - before) * 1.01, f'{counted} bytes from {before} to {after}: {look}')


def as_lines(weft, pids):
	end = time.monotonic() + LIMIT_S
	while True:
		got = top(weft, '--batch', '--count', '1', '--interval', '0.3')
		if got.returncode or '2 processes, 2 queue pairs' in got.stdout or time.monotonic() > end:
			break
	expect(got.returncode == 0 and '\x1b' not in got.stdout, f'--batch: {got}')
	expect('2 processes, 2 queue pairs' in got.stdout, f'--batch: {got.stdout}')
	for pid in pids:
		expect(re.search(rf'(?m)^ *{pid} ibv_rc_pingpong', got.stdout), f'no line of {pid}: {got.stdout}')


def resize(fd, columns, rows):
	fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))


class Terminal:
	def __init__(self, weft):
		self.pid, self.fd = pty.fork()
		if self.pid == 0:
			# the size comes before the program
			resize(0, 80, 24)
			os.execv(weft, [weft, 'top', '--interval', '0.3'])
		self.shown = ''

	def until(self, fact):
		"""Reads until fact(what was shown)."""
		end = time.monotonic() + LIMIT_S
		while not fact(self.shown) and time.monotonic() < end:
			if select.select([self.fd], [], [], 0.1)[0]:
				try:
					self.shown += os.read(self.fd, 65536).decode()
				except OSError:
					break
		return fact(self.shown)


def screens(text):
	return [s for s in text.split('\x1b[H')[1:] if '\x1b[J' in s]


def fits(screen, columns, rows):
	lines = screen.split('\x1b[J')[0].split('\r\n')
	return len(lines) <= rows and all(len(line.replace('\x1b[K', '')) <= columns for line in lines)


def on_a_terminal(weft, pids):
	t = Terminal(weft)
	expect(t.until(lambda s: len(screens(s)) >= 2 and str(pids[0]) in s), f'no screen: {t.shown!r}')
	expect(all(fits(s, 80, 24) for s in screens(t.shown)), f'80x24 is too small: {t.shown!r}')
	seen = len(screens(t.shown))
	resize(t.fd, 40, 8)
	expect(t.until(lambda s: any(fits(x, 40, 8) for x in screens(s)[seen:])), f'40x8 is too small: {t.shown!r}')
	seen = len(screens(t.shown))
	resize(t.fd, 120, 50)
	wide = re.compile('REMOTE')
	expect(t.until(lambda s: any(wide.search(x) for x in screens(s)[seen:])), f'120x50 shows no QPs: {t.shown!r}')
	os.write(t.fd, b'q')
	expect(t.until(lambda s: s.rstrip().endswith('\x1b[?1049l')), f'q does not give the screen back: {t.shown!r}')
	expect(os.waitstatus_to_exitcode(os.waitpid(t.pid, 0)[1]) == 0, 'q is a failure')
	os.close(t.fd)
	t = Terminal(weft)
	expect(t.until(lambda s: len(screens(s)) >= 1), f'no screen: {t.shown!r}')
	os.kill(t.pid, signal.SIGTERM)
	expect(t.until(lambda s: s.rstrip().endswith('\x1b[?1049l')), f'SIGTERM does not give the screen back: {t.shown!r}')
	os.waitpid(t.pid, 0)
	os.close(t.fd)


def is_over(text):
	return text.split('\x1b[?1049h')[-1].find('\x1b[?1049l') >= 0


def stopped_and_continued(weft):
	t = Terminal(weft)
	expect(t.until(lambda s: len(screens(s)) >= 1), f'no screen: {t.shown!r}')
	os.write(t.fd, b'\x1a')
	expect(t.until(is_over), f'^Z does not give the screen back: {t.shown!r}')
	_, status = os.waitpid(t.pid, os.WUNTRACED)
	expect(os.WIFSTOPPED(status), f'^Z does not stop it: {status}')
	expect(termios.tcgetattr(t.fd)[3] & termios.ECHO, 'keys are not shown after ^Z')
	seen = len(screens(t.shown))
	os.kill(t.pid, signal.SIGCONT)
	expect(t.until(lambda s: s.count('\x1b[?1049h') == 2 and len(screens(s)) > seen), f'no screen afterwards: {t.shown!r}')
	os.write(t.fd, b'q')
	expect(t.until(is_over), f'q does not give the screen back: {t.shown!r}')
	expect(os.waitstatus_to_exitcode(os.waitpid(t.pid, 0)[1]) == 0, 'q is a failure after ^Z')
	os.close(t.fd)


def says_why_it_ends(weft, directory):
	"""The runtime directory becomes a file: what is said of it must not be on the screen that goes."""
	used, other = os.environ['WEFT_DIR'], directory + '/other'
	os.environ['WEFT_DIR'] = other
	t = Terminal(weft)
	os.environ['WEFT_DIR'] = used
	expect(t.until(lambda s: len(screens(s)) >= 1), f'no screen: {t.shown!r}')
	with open(other, 'w', encoding='ascii'):
		pass
	expect(t.until(lambda s: 'other cannot be used' in s.split('\x1b[?1049l')[-1]), f'nobody hears why it ends: {t.shown!r}')
	expect(os.waitstatus_to_exitcode(os.waitpid(t.pid, 0)[1]) == 1, 'it ends well')
	os.close(t.fd)
	os.unlink(other)


def start(weft, log, *more):
	argv = [weft, 'run', '--', 'ibv_rc_pingpong', '-e', '-d', 'weft1', '-g', '0', '-n', '1000000000', *more]
	return subprocess.Popen(argv, stdout=log, stderr=log)


def listens(port):
	return any(line.split()[1].endswith(f':{port:04X}') and line.split()[3] == '0A'
		   for name in ('tcp', 'tcp6') for line in open(f'/proc/net/{name}').read().splitlines()[1:])


def main(weft):
	if not shutil.which('ibv_rc_pingpong'):
		print('skipped: no ibv_rc_pingpong here')
		return 77
	with tempfile.TemporaryDirectory(prefix='weft-top.') as directory:
		os.environ['WEFT_DIR'] = directory + '/run'
		os.environ['WEFT_IDLE_S'] = '0.2'
		without_programs(weft)
		port, end = str(free_port()), time.monotonic() + LIMIT_S
		with open(directory + '/log', 'w+') as log:
			programs = [start(weft, log, '-p', port)]
			try:
				while not listens(int(port)) and time.monotonic() < end:
					time.sleep(0.02)
				programs.append(start(weft, log, '-p', port, '127.0.0.1'))
				pids = [p.pid for p in programs]
				as_json(weft, pids)
				of_the_interval(weft, pids[1])
				as_lines(weft, pids)
				on_a_terminal(weft, pids)
				stopped_and_continued(weft)
				says_why_it_ends(weft, directory)
			finally:
				for p in programs:
					p.kill()
					p.wait()
			log.seek(0)
			if failures:
				print(log.read())
		while os.path.exists(directory + '/run') and time.monotonic() < end + LIMIT_S:
			time.sleep(0.02)
	print('failed' if failures else 'all as expected')
	return bool(failures)


sys.exit(main(sys.argv[1]))
