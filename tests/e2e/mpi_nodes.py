#!/usr/bin/env python3
"""Ranks of one MPI job at four hosts of a fat tree, by UCX: all collectives agree, and each host's port has sent data. So it is
by tables that were loaded, and by those of weft's subnet manager, around a link that went down; and at eight hosts under OpenSM,
by connections and by datagrams. Jobs over libfabric connect by rdma_cm: by paths of weft's administration, and at eight hosts by
those of OpenSM's.

usage: mpi_nodes.py WEFT; the environment has MPI_CHECK"""
import json
import re

from subnet_lab import CHECK, mpi_check, mpi_check_by_cm, script
from subnet_cm import UCX_SL, prepare_level
from programs import OPEN_MPI_5	# of abi/, whose place subnet_lab tells

HOSTS = ('h1', 'h3', 'h5', 'h7')	# each behind a switch of its own
ALL = tuple(f'h{i}' for i in range(1, 9))
LIMIT_S = 120
LEAST = 100	# packets: what agents of a subnet say of themselves is fewer


def sent(lab, host):
	"""Packets that the host's port has sent."""
	return int(re.search(r'PortXmitPkts:\.*(\d+)', lab.at(host, 'perfquery', '-x'))[1])


def carried(lab):
	node = next(n for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes'] if n['name'] == 's1')
	return next(p['sent_bytes'] for p in node['ports'] if p['port'] == 1)


def runs(lab, hosts=HOSTS, words=None):
	before = [sent(lab, host) for host in hosts]
	job = lab.run(*lab.command(','.join(hosts), *(words or mpi_check(len(hosts)))), limit_s=LIMIT_S)
	if 'all collectives agree' not in job:
		lab.fail(f'mpi_check says: {job}')
	for host, packets in zip(hosts, before):
		after = sent(lab, host)
		if after < packets + LEAST:
			lab.fail(f'{host} had sent {packets} packets before, and {after} after the job')


def runs_by_cm(lab, hosts):
	if OPEN_MPI_5:
		print('part skipped: Open MPI 5 has no windows for mpi_check over libfabric')
		return
	runs(lab, hosts, mpi_check_by_cm(len(hosts)))


def test(lab):
	lab.load('fat-tree', 'ports=4')
	runs(lab)
	prepare_level(lab)
	lab.weft('fabric', 'link', 's1:1', 'down')
	lab.within('it leads around', lambda: lab.check()['reached'] == lab.check()['paths'])
	# a dead link carries nothing of the job
	dead = carried(lab)
	runs(lab, words=mpi_check(len(HOSTS), settings=(UCX_SL,)))
	runs_by_cm(lab, HOSTS)
	if carried(lab) != dead:
		lab.fail(f'the link that is down has carried {carried(lab)} bytes, {dead} before the job')
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h1'))
	for tls in ('rc_v,self', 'ud_v,self'):
		runs(lab, ALL, mpi_check(len(ALL), tls=tls))
	runs_by_cm(lab, ALL)


script(test, 'mpirun', 'opensm', 'perfquery', 'ibstat', CHECK or 'mpi_check')
