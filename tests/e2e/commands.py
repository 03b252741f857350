#!/usr/bin/env python3
"""commands.py PROJECT BIN: each command that README, docs/ and the manual pages show is run by a test: here, or by another one
that the table below names. One that no test can run is there with the reason. Whatever is in no table is run here."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROJECT, BIN = (os.path.realpath(a) for a in sys.argv[1:3])
LIMIT_S = 100

# What a reader's own programs are here. Each ends by itself and moves data over the devices.
PAIR = '''#!/bin/bash
ib_send_bw -d weft0 -F -n 200 -p 7201 >/dev/null &
until grep -qE ': [0-9A-F]{8}:1C21 [0-9A-F:]+ 0A ' /proc/net/tcp; do sleep 0.02; done
ib_send_bw -d weft0 -F -n 200 -p 7201 localhost >/dev/null
status=$?
wait
exit $status
'''
PROGRAMS = {
	'test': PAIR, 'solver': PAIR,
	'server': '#!/bin/sh\necho serving\nexec rping -s -a 127.0.0.1 -p 7202 -C 3\n',
	'client': '#!/bin/sh\nexec rping -c -a 127.0.0.1 -p 7202 -C 3\n',
}

# Commands that run for long, need a terminal or set up what others use: by whole lines, and which row of ctest has them.
ROWS = (
	(r'(build/bin/)?weft (run -- ibv_devinfo|devices|qp|qp --json|counters --json|doctor)', 'e2e/tour', 'README.md'),
	(r'build/bin/weft pair .*', 'e2e/tour', 'README.md'),
	(r'weft run --node h\d+ -- ib_write_bw .*', 'e2e/port_counters', ''),
	(r'weft run --shared-heap -- ib_write_lat &', 'abi/perftest', ''),
	(r'weft run -- mpirun .*', 'abi/openmpi/ucx', ''),
	(r'weft run --nodes .* -- mpirun .*', 'e2e/mpi_nodes', 'docs/fabric.md'),
	(r'weft capture (test\.pcap|- .*|--count .*)', 'e2e/capture', ''),
	(r'weft top', 'e2e/top', ''),
	(r'weft shell( .*)?', 'e2e/shell', ''),
	(r'source <\(weft completion bash\)|weft completion (zsh|fish) .*', 'e2e/completion', ''),
	(r'weft env fish \| source|eval "\$\(weft env\)"', 'e2e/env', ''),
	(r'weft impair weft1 event=device_fatal|weft impair all fail=.*', 'e2e/device_faults', ''),
	(r'weft impair all partition=.*', 'e2e/partition', ''),
	(r'weft link (down|up) weft0.*', 'e2e/link', ''),
	(r'weft paths?( .*)?', 'e2e/hosts_paths-fails', ''),
	(r'ibnetdiscover \| .*', 'e2e/subnet_tools', ''),
	(r'tshark .*', 'e2e/pcap', ''),
	(r'scripts/goodput .*', 'unit/goodput', ''),
	(r'scripts/paths .*', 'unit/paths_plot', ''),
	(r'weft sa .*', 'e2e/seed_sa', 'docs/management.md'),
	(r'weft sim .*', 'e2e/sim', ''),
	(r'tests/interop/run.*', 'interop/sample', ''),
	(r'weft replay --json server.trace .*', 'e2e/replay', ''),
	(r'python3 -B tests/e2e/subnet_queries.py .*', 'e2e/subnet_queries', ''),
	(r'python3 -B bench/opensm.py .*', 'e2e/opensm_bench', ''),
	(r'python3 -B bench/sa.py .*', 'e2e/sa_bench', ''),
	(r'python3 -B bench/all_paths.py .*', 'e2e/all_paths_bench', ''),
	(r'python3 -B bench/gettable.py .*', 'e2e/gettable_bench', ''),
	(r'python3 -B tests/e2e/subnet_own.py .*', 'e2e/subnet_own/balance', ''),
	(r'(weft run -- )?(tgtd|tgtadm|qemu-io) .*', 'abi/iser', ''),
	(r'weft run -- qemu-system-x86_64 .*', 'abi/qemu', ''),
	(r'\(qemu\) .*', 'abi/qemu', ''),
	(r'weft run -- ibv_devinfo|(sudo )?make (deb|tarball)|sudo apt-get .*|tar -C /opt .*|/opt/weft.*', 'package/',
	 'docs/systems.md'),
	(r'.*', 'e2e/containers', 'docs/containers.md'),
	(r'.*', 'e2e/hosts_doc', 'docs/hosts.md'),
	(r'weft ping .*--node .*', 'e2e/subnet_show', 'man/'),
	(r'weft ping .*|weft doctor --peer .*', 'e2e/hosts_ping', 'man/'),
	(r'weft run --nodes? .*', 'e2e/nodes', ''),
	(r'weft pair .* ib_write_bw .*|weft pair .* rping .*', 'e2e/tour', 'man/'),
	(r'weft pair .*--seeds .*', 'e2e/pair/seed_finds', ''),
	(r'weft pair -n .*', 'e2e/pair/server_that_listens_nowhere', ''),
)

# Commands of which there is no test, and why.
UNTRIED = (
	(r'make (demo|check|deps.*)', 'installs packages; CI runs make check'),
	(r'make', 'builds what is being tested'),
	(r'weft run -- bash', 'wants a terminal; e2e/shell has one for weft shell'),
	(r'tests/e2e/hosts_goodput.sh .*', 'measures for minutes'),
	(r'ctest .*', 'runs tests, this one among them'),
	(r'weft bench .*', 'measures for minutes; e2e/bench runs it with fewer sizes'),
)


def read(name):
	with open(os.path.join(PROJECT, name), encoding='utf-8') as f:
		return f.read()


def of_markdown(text):
	"""Blocks that are indented by four blanks, and fenced ones; in those of a console what stands behind a $."""
	found, fence = [], None
	for line in text.split('\n'):
		if line.startswith('```'):
			fence = line[3:] if fence is None else None
		elif fence == 'console':
			found += re.findall(r'^\$ (.*)', line)
		elif fence != 'text' and (fence is not None or re.match(r'    \S', line)):
			found.append(line[4 if fence is None else 0:])
	return found


def of_manual(text):
	"""What stands between .nf and .fi in EXAMPLES."""
	examples = re.search(r'^\.SH EXAMPLES?\n(.*?)(?=^\.SH|\Z)', text, re.M | re.S)
	blocks = re.findall(r'^\.nf\n(.*?)^\.fi', examples[1], re.M | re.S) if examples else []
	return [line.replace('\\-', '-').replace('\\(aq', "'").replace('\\e', '\\') for line in '\n'.join(blocks).split('\n')]


def commands():
	"""(document, command) in the order of the documents, without comments."""
	documents = ['README.md']
	for folder in 'docs/*.md', 'man/*.[18]':
		documents += sorted(glob.glob(folder, root_dir=PROJECT))
	for name in documents:
		for line in (of_markdown if name.endswith('.md') else of_manual)(read(name)):
			command = re.sub(r'\s+# .*', '', line).rstrip()
			if command and not command.startswith('.'):
				yield name, command


def run(work, command):
	words = ['timeout', '-k', '5', str(LIMIT_S), 'bash', '-c', command]
	done = subprocess.run(words, cwd=work, capture_output=True, text=True, check=False)
	return None if done.returncode == 0 else f'exits with {done.returncode}: {done.stdout}{done.stderr}'


def tested_by(name, command):
	for pattern, row, place in ROWS:
		if name.startswith(place) and re.fullmatch(pattern, command):
			return row
	return None


def rows():
	"""The rows of ctest of this build."""
	build = os.path.dirname(BIN)
	listed = subprocess.run(['ctest', '--test-dir', build, '-N'], capture_output=True, text=True, check=False).stdout
	return re.findall(r'#\d+: (\S+)', listed)


def try_all(work, failures):
	known, ran, elsewhere = rows(), 0, 0
	for name, command in commands():
		row = tested_by(name, command)
		if any(re.fullmatch(pattern, command) for pattern, _ in UNTRIED):
			continue
		if row:
			elsewhere += 1
			if known and not any(test.startswith(row) for test in known):
				failures.append(f'{name}: {command}: there is no row {row}')
			continue
		ran += 1
		wrong = run(work, command)
		if wrong:
			failures.append(f'{name}: {command}: {wrong}')
	print(f'{ran} commands were run here, {elsewhere} are of other rows')
	if ran < 20:
		failures.append('that is not all that the documents show')


def main():
	for program in 'ib_send_bw', 'rping', 'unshare', 'ip', 'ctest':
		if not shutil.which(program):
			print(f'SKIP: no {program} here')
			return 77
	# in a network namespace of its own, as ports are fixed
	if 'WEFT_APART' not in os.environ:
		if subprocess.run(['unshare', '-rn', 'true'], check=False, capture_output=True).returncode:
			print('SKIP: no network namespace can be made')
			return 77
		os.environ['WEFT_APART'] = '1'
		os.execvp('unshare', ['unshare', '-rn', sys.executable, '-B', *sys.argv])
	subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
	work, failures = tempfile.mkdtemp(prefix='weft-commands.'), []
	for name, text in PROGRAMS.items():
		with open(os.path.join(work, name), 'w', encoding='utf-8', opener=lambda p, f: os.open(p, f, 0o755)) as f:
			f.write(text)
	os.environ.update(WEFT_DIR=os.path.join(work, 'run'), WEFT_IDLE_S='0.2', PATH=f'{BIN}:{os.environ["PATH"]}', HOME=work)
	try:
		subprocess.run(['weft', 'up'], check=True, capture_output=True)
		try_all(work, failures)
	finally:
		subprocess.run(['weft', 'down', '--force'], check=False, capture_output=True)
		shutil.rmtree(work)
	for failure in failures:
		print('FAILED:', failure)
	return failures != []


sys.exit(main())
