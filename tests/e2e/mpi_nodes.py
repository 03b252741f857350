#!/usr/bin/env python3
"""Ranks of one MPI job at four hosts of a fat tree, by UCX: all collectives agree, and each host's port has sent data.

usage: mpi_nodes.py WEFT; the environment has MPI_CHECK"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

WEFT = os.path.abspath(sys.argv[1])
CHECK = os.environ.get('MPI_CHECK', '')
HOSTS = ('h1', 'h3', 'h5', 'h7')	# each behind a switch of its own
LIMIT_S = 120
LEAST = 100	# packets: what agents of a subnet say of themselves is fewer

for program in ('mpirun', 'perfquery', CHECK):
	if not shutil.which(program):
		print(f'SKIP: no {program or "mpi_check"} here: scripts/setup test')
		sys.exit(77)

home = tempfile.mkdtemp(prefix='weft-e2e.')
os.environ['WEFT_DIR'] = os.path.join(home, 'run')
os.environ['WEFT_IDLE_S'] = '0.2'
failures = 0


def fail(text):
	global failures
	print('FAILED:', text)
	failures += 1


def weft(*words, **variables):
	r = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False,
			   env={**os.environ, **variables})
	if r.returncode:
		fail(f'{words} exits with {r.returncode}: {r.stdout}{r.stderr}')
	return r.stdout


def sent(host):
	"""Packets that the host's port has sent."""
	counters = weft('run', '--node', host, '--device', 'weft0', '--', 'perfquery', '-x')
	return int(re.search(r'PortXmitPkts:\.*(\d+)', counters)[1])


try:
	weft('up')
	net = os.path.join(home, 'net')
	with open(net, 'w', encoding='utf-8') as f:
		f.write(weft('fabric', 'make', 'fat-tree', 'ports=4'))
	weft('fabric', 'load', net)
	before = [sent(host) for host in HOSTS]
	job = weft('run', '--nodes', ','.join(HOSTS), '--device', 'weft0', '--',
		   'mpirun', '--allow-run-as-root', '--oversubscribe', '-n', '4', '--mca', 'btl_base_warn_component_unused', '0',
		   '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx', '--mca', 'pml_ucx_devices', 'any', '--mca', 'pml_ucx_tls', 'any',
		   CHECK, UCX_TLS='rc_v,self', UCX_NET_DEVICES='weft0:1')
	if 'all collectives agree' not in job:
		fail(f'mpi_check says: {job}')
	for host, packets in zip(HOSTS, before):
		if sent(host) < packets + LEAST:
			fail(f'{host} had sent {packets} packets before, and {sent(host)} now')
finally:
	weft('down', '--force')
	shutil.rmtree(home, ignore_errors=True)
print('all as expected' if not failures else f'{failures} failures')
sys.exit(failures != 0)
