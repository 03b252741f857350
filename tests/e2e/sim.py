#!/usr/bin/env python3
"""weft sim: its scenarios, what they print, that a seed gives the same again, and what it says of what makes no sense.

usage: sim.py WEFT"""
import json
import os
import pty
import subprocess
import sys
import tempfile

OF_MACHINE = ('boot_cpu_ms', 'kill_cpu_ms', 'cpu_ms', 'peak_mb')	# what the same seed does not give again


def call(weft, *words):
	return subprocess.run([weft, 'sim', *words], capture_output=True, text=True, check=False)


def ask(weft, *words):
	done = call(weft, *words, '--json')
	if done.returncode or done.stderr:
		fail(f'{words}: {done.returncode}: {done.stdout}{done.stderr}')
	said = json.loads(done.stdout)
	rows = [row for value in said.values() if isinstance(value, list) for row in value]
	for row in rows:
		if row['peak_mb'] < 1 or not row['ended_well']:
			fail(f'{words}: {row}')
		for member in OF_MACHINE:
			row.pop(member, None)
	return said


def fail(what):
	print(f'FAILED: {what}')
	sys.exit(1)


def expect(what, got, wanted):
	if got != wanted:
		fail(f'{what}: {got}, not {wanted}')


def cold_boot(weft, home):
	first = ask(weft, 'cold-boot', 'fat-tree:ports=4', '--loss', '0,20%')
	expect('the same again', ask(weft, 'cold-boot', 'fat-tree:ports=4', '--loss', '0,20%', '--seed', '1'), first)
	expect('its seed', first['seed'], 1)
	clean, lossy = first['boots']
	expect('nodes', (clean['label'], clean['nodes'], lossy['loss_ppm']), ('fat-tree:ports=4', 14, 200000))
	if not clean['boot_datagrams'] < lossy['boot_datagrams'] or not 0 < clean['boot_us'] < lossy['boot_us'] or \
	   not clean['kill_us']:
		fail(f'losses cost nothing: {first}')
	if ask(weft, 'cold-boot', 'fat-tree:ports=4', '--loss', '20', '--seed', '2')['boots'][0]['boot_us'] == lossy['boot_us']:
		fail('another seed gives the same')
	# a file alone, which has the same
	net = os.path.join(home, 'net')
	with open(net, 'w', encoding='utf-8') as f:
		subprocess.run([weft, 'fabric', 'make', 'fat-tree', 'ports=4'], stdout=f, check=True)
	of_file = ask(weft, net)['boots'][0]
	expect('of a file', of_file, dict(clean, label=net))
	# a pipe, which can be read once
	with subprocess.Popen(['cat', net], stdout=subprocess.PIPE) as pipe:
		of_pipe = subprocess.run([weft, 'sim', 'cold-boot', '/dev/stdin', '--json'], stdin=pipe.stdout,
					 capture_output=True, text=True, check=False)
	expect('of a pipe', (of_pipe.returncode, of_pipe.stderr), (0, ''))
	expect('its datagrams', json.loads(of_pipe.stdout)['boots'][0]['boot_datagrams'], clean['boot_datagrams'])
	# there is no second switch to die
	expect('of a star', ask(weft, 'star:hosts=3')['boots'][0]['kill_datagrams'], 0)
	text = call(weft, 'cold-boot', 'fat-tree:ports=4').stdout
	if not text.startswith('weft sim cold-boot, seed 1\nTOPOLOGY ') or f' {clean["boot_datagrams"]} ' not in text:
		fail(f'as text: {text}')


def path_storm(weft):
	said = ask(weft, 'path-storm', 'fat-tree:ports=8')
	gets = {row['label']: row for row in said['gets']}
	for row in [gets['adaptive'], gets['adaptive, announced'], *said['tables']]:
		expect(f'{row["label"]}: who has an answer', (row['answered'], row['hosts']), (32, 32))
	if not gets['1, fixed']['drops'] > gets['16, fixed']['drops'] >= gets['adaptive']['drops']:
		fail(f'drops: {gets}')
	windows = [row['datagrams'] for row in said['tables']]
	expect('datagrams by window', windows, sorted(windows, reverse=True))


def mad_storm(weft, home):
	picture = os.path.join(home, 'storm.svg')
	said = ask(weft, 'mad-storm', '--svg', picture)
	expect('asked again', [row['again'] for row in said['storms']], [931, 486, 48, 0])
	expect('queries beside a flood', [row['queries'] for row in said['floods']], [32, 32, 64])
	with open(picture, encoding='utf-8') as f:
		expect('curves', f.read().count('<polyline'), 4)


def refusals(weft):
	for words, status, text in (
		((), 2, 'path-storm'), (('no-such-file',), 1, 'No such file'),
		(('cold-boot', 'fat-tree:port=4'), 2, 'weft fabric make lists'),
		(('path-storm', 'star:hosts=3', 'no-such-file'), 1, 'No such file'),
		(('cold-boot', '--loss', '101'), 2, 'percentages'), (('cold-boot', '--loss', '1,x'), 2, 'percentages'),
		(('cold-boot', '--seed', '-1'), 2, 'a seed is'), (('cold-boot', '--svg', 'x'), 2, 'has no --svg'),
		(('mad-storm', '--loss', '1'), 2, 'has no --loss'), (('mad-storm', 'star'), 2, 'has no topology')):
		done = call(weft, *words)
		if done.returncode != status or done.stderr.count(text) != 1 or done.stdout:
			fail(f'{words}: {done.returncode}: {done.stdout}{done.stderr}')


def read(terminal):
	"""What has come; nothing, when there is no more."""
	try:
		return os.read(terminal, 1 << 16)
	except OSError:
		return b''


def progress(weft):
	"""Who waits at a terminal sees how far it is, and nothing is left of that."""
	master, slave = pty.openpty()
	done = subprocess.run([weft, 'sim', 'cold-boot', 'fat-tree:ports=14:levels=3'], stdout=subprocess.DEVNULL, stderr=slave,
			      check=False)
	os.close(slave)
	said = b''.join(iter(lambda: read(master), b'')).decode()
	if done.returncode or ' nodes found, ' not in said or not said.endswith('\r\033[K'):
		fail(f'progress: {done.returncode}: {said!r}')


def main():
	weft = os.path.abspath(sys.argv[1])
	with tempfile.TemporaryDirectory() as home:
		os.environ['WEFT_DIR'] = os.path.join(home, 'run')
		cold_boot(weft, home)
		path_storm(weft)
		mad_storm(weft, home)
		refusals(weft)
		progress(weft)
		if os.path.exists(os.environ['WEFT_DIR']):
			fail('a weftd was started')


main()
