#!/usr/bin/env python3
"""A leaf switch of a fat tree dies under programs that talk, and under jobs of MPI: those with an end behind it fail, and nobody
else notices. A link to a spine dies under ib_write_bw, and OpenSM leads around it.

subnet_leaf.py --list                  one line a test: name, label, timeout
subnet_leaf.py --weft PROGRAM NAME...  runs these tests
"""
import json
import signal
import sys

import subnet_lab
from subnet_lab import CHECK, FOR_EVER, Wrong, mpi_check, says
import run	# of abi/, whose place subnet_lab tells
from session import free_port

# in a fat tree of ports=4, h1 and h2 are behind s1, h3 and h4 behind s2, h5 and h6 behind s3, h7 and h8 behind s4
LEAF, LEAF_PORTS = 's4', 4
BEHIND = (('h2', 'h7'), ('h8', 'h3'), ('h8', 'h7'))
ELSEWHERE = (('h1', 'h5'), ('h4', 'h6'), ('h1', 'h2'))


def start(lab, pair):
	"""ibv_rc_pingpong between two hosts, which goes on for ever."""
	port = str(free_port())
	words = ('ibv_rc_pingpong', '-d', 'weft0', '-s', '64', '-n', FOR_EVER, '-p', port)
	return lab.start_server(pair[0], port, *words), lab.start(pair[1], *words, '127.0.0.1')


def messages(lab):
	"""How many each process has received, by PID."""
	processes = json.loads(lab.weft('qp', '--json'))['processes']
	return {p['pid']: sum(qp['messages_received'] for qp in p.get('qps', ())) for p in processes}


def have_moved(lab, before, programs):
	now = messages(lab)
	return all(now.get(p.process.pid, 0) > before.get(p.process.pid, 0) for p in programs)


def kill_leaf(lab):
	for number in range(1, LEAF_PORTS + 1):
		lab.weft('fabric', 'link', f'{LEAF}:{number}', 'down')


def test_leaf(lab):
	lab.keep_weftd_in_session()
	lab.load('fat-tree', 'ports=4')
	behind, elsewhere = ([start(lab, pair) for pair in pairs] for pairs in (BEHIND, ELSEWHERE))
	programs = [p for pair in (*behind, *elsewhere) for p in pair]
	lab.within('all talk', lambda: have_moved(lab, {}, programs))
	kill_leaf(lab)
	for pair in behind:
		# whose message was on its way; the other one waits for it
		lab.within('an end fails', lambda ends=pair: not all(p.is_alive() for p in ends))
		said = ''.join(p.text() for p in pair)
		says(said, r'transport retry counter exceeded \(12\)')
	survivors = [p for pair in elsewhere for p in pair]
	before = messages(lab)
	lab.within('the others go on', lambda: have_moved(lab, before, survivors))
	if not all(p.is_alive() for p in survivors):
		raise Wrong('somebody fails who is not behind the leaf: ' + ''.join(p.text() for p in survivors))
	for p in programs:
		if p.is_alive():
			p.end(signal.SIGKILL)


BUSY_BYTES = 1 << 24	# more than what goes on beside data

RC, UD = ('rc_v,self', ()), ('ud_v,self', ('UCX_UD_TIMEOUT=15s',))	# UCX would wait for 5 minutes
SOME_BYTES = 1 << 20
JOBS_BEHIND, JOBS_ELSEWHERE = (('h2,h7', *RC), ('h4,h8', *UD)), (('h1,h5', *RC), ('h3,h6', *UD))


def sent_by(lab, host):
	"""Bytes, of the host's first port."""
	nodes = json.loads(lab.weft('fabric', 'show', '--json'))['nodes']
	return next(n['ports'][0]['sent_bytes'] for n in nodes if n['name'] == host)


def all_send(lab, jobs):
	"""Each host of them sends some more."""
	hosts = [host for names, *_ in jobs for host in names.split(',')]
	before = {host: sent_by(lab, host) for host in hosts}
	lab.within('all send', lambda: all(sent_by(lab, host) > before[host] + SOME_BYTES for host in hosts))


def test_mpi(lab):
	"""Jobs of two ranks under OpenSM, by connections and by datagrams."""
	lab.keep_weftd_in_session()
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h1'))
	behind, elsewhere = ([lab.start(hosts, *mpi_check(2, FOR_EVER, tls=tls, settings=settings))
			      for hosts, tls, settings in jobs] for jobs in (JOBS_BEHIND, JOBS_ELSEWHERE))
	all_send(lab, JOBS_BEHIND + JOBS_ELSEWHERE)
	kill_leaf(lab)
	for job in behind:
		lab.within('a job with a rank behind the leaf fails', lambda j=job: not j.is_alive())
		if not job.process.returncode:
			raise Wrong(f'a job ends well with a rank behind a dead leaf: {job.text()}')
	all_send(lab, JOBS_ELSEWHERE)
	for job in elsewhere:
		if not job.is_alive():
			raise Wrong(f'a job fails that has no rank behind the leaf: {job.text()}')
		# the ranks end with mpirun, which has to hear of it
		job.end()


def uplinks(lab):
	"""Bytes that the two links of h1's leaf to the spines have carried upwards."""
	nodes = {n['name']: n for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']}
	return {p['port']: p['sent_bytes'] for p in nodes['s1']['ports'] if p['to'] in ('s5', 's6')}


def test_reroute(lab):
	"""The link that ib_write_bw goes by is taken down; OpenSM leads around it, and the program goes on by the other one."""
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h1'))
	port = str(free_port())
	# -u 18: an ACK has a second to come, and OpenSM seven of them
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-u', '18', '-D', '1', '--run_infinitely', '-p', port)
	programs = [lab.start_server('h8', port, *words), lab.start('h1', *words, '127.0.0.1')]
	lab.within('it sends', lambda: max(uplinks(lab).values()) > BUSY_BYTES)
	before = uplinks(lab)
	used, other = sorted(before, key=before.get, reverse=True)
	lab.weft('fabric', 'link', f's1:{used}', 'down')
	lab.within('it goes on by the other link', lambda: uplinks(lab)[other] > before[other] + BUSY_BYTES)
	if not all(p.is_alive() for p in programs):
		raise Wrong('it has ended: ' + ''.join(p.text() for p in programs))
	for p in programs:
		p.end(signal.SIGKILL)


def tests():
	rows = (('pingpong', test_leaf), ('mpi', test_mpi), ('reroute', test_reroute))
	return {name: ('e2e', 300, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('ibv_rc_pingpong', 'opensm', 'ib_write_bw', 'mpirun', CHECK or 'mpi_check')))
