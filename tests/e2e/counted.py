"""Pairs of perftest whose traffic is compared with what ports counted: nothing of it may have been sent again."""
import json
import subprocess

from subnet_lab import LIMIT_S, Wrong
from session import free_port, tcp_listening

ATTEMPTS = 5
AGAIN = ('probes', 'completer_retry_err', 'rcvd_seq_err', 'rcvd_rnr_err', 'duplicate_request')	# of what is sent again


def counted(path):
	"""Of AGAIN, what a program that has ended counted."""
	with open(path, encoding='utf-8') as f:
		total = json.load(f)['total']
	return {name: total[name] for name in AGAIN if total[name]}


def pair(lab, words, server=(), client=(), between=lambda: None):
	"""Runs a program, each end with the options of weft run for it, and something between their starts. What was sent
	again, as both ends counted."""
	stats = [lab.path(f'{end}.json') for end in ('server', 'client')]
	port = free_port()
	words = [words[0], '-F', '-p', str(port), *words[1:]]
	process = subprocess.Popen([lab.weft_path, 'run', f'--stats={stats[0]}', *server, '--', *words], stdout=subprocess.PIPE,
				   stderr=subprocess.STDOUT, text=True, env=lab.env)
	try:
		lab.within('a server listens', lambda: tcp_listening(port) or process.poll() is not None)
		between()
		lab.weft('run', f'--stats={stats[1]}', *client, '--', *words, '127.0.0.1')
		output = process.communicate(timeout=LIMIT_S)[0]
	finally:
		process.kill()
	if process.returncode:
		raise Wrong(f'the server of {words} exits with {process.returncode}: {output}')
	return [again for again in map(counted, stats) if again]


def undisturbed(lab, what, read, run):
	"""What is read before and after a run in which nothing is sent again; on a machine that is not busy most are so."""
	for _ in range(ATTEMPTS):
		before = read()
		again = run()
		after = read()
		if not again:
			return before, after
		print(f'{what}: packets were sent again: {again}')
	raise Wrong(f'{what}: packets are sent again each of {ATTEMPTS} times')
