#!/usr/bin/env python3
"""Ranks of one MPI job at four hosts of a fat tree, by UCX: all collectives agree, and each host's port has sent data.

usage: mpi_nodes.py WEFT; the environment has MPI_CHECK"""
import os
import re

from subnet_lab import script

CHECK = os.environ.get('MPI_CHECK', '')
HOSTS = ('h1', 'h3', 'h5', 'h7')	# each behind a switch of its own
LIMIT_S = 120
MCA = ('--mca', 'btl_base_warn_component_unused', '0', '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx',
       '--mca', 'pml_ucx_devices', 'any', '--mca', 'pml_ucx_tls', 'any')
LEAST = 100	# packets: what agents of a subnet say of themselves is fewer


def sent(lab, host):
	"""Packets that the host's port has sent."""
	return int(re.search(r'PortXmitPkts:\.*(\d+)', lab.at(host, 'perfquery', '-x'))[1])


def test(lab):
	lab.load('fat-tree', 'ports=4')
	before = [sent(lab, host) for host in HOSTS]
	job = lab.run(lab.weft_path, 'run', '--nodes', ','.join(HOSTS), '--device', 'weft0', '--',
		      'env', 'UCX_TLS=rc_v,self', 'UCX_NET_DEVICES=weft0:1',
		      'mpirun', '--allow-run-as-root', '--oversubscribe', '-n', '4', *MCA, CHECK, limit_s=LIMIT_S)
	if 'all collectives agree' not in job:
		lab.fail(f'mpi_check says: {job}')
	for host, packets in zip(HOSTS, before):
		after = sent(lab, host)
		if after < packets + LEAST:
			lab.fail(f'{host} had sent {packets} packets before, and {after} after the job')


script(test, 'mpirun', 'perfquery', CHECK or 'mpi_check')
