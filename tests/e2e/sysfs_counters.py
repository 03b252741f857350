#!/usr/bin/env python3
"""The counters of ports in /sys, of a network without a fabric, tell what perftest sent and got on each device: directly, as
packets, by the engine's own thread, and over a restart of weftd.

usage: sysfs_counters.py WEFT"""
import json
import os
import signal

from counted import pair, undisturbed
from subnet_lab import script

N, BYTES, MTU = 50, 65536, 4096
PACKETS = N * BYTES // MTU
FILES = ('port_xmit_data', 'port_rcv_data', 'port_xmit_packets', 'port_rcv_packets', 'unicast_xmit_packets',
	 'multicast_xmit_packets', 'port_xmit_discards', 'link_downed')
PATH_WORDS = {'weft0': 8 // 4, 'weft1': (20 + 8) // 4}		# LRH; IPv4 and UDP
REST_WORDS, RETH, AETH = (12 + 4) // 4, 16 // 4, 4 // 4		# BTH and ICRC


def read(lab, device, *options):
	names = ' '.join(f'/sys/class/infiniband/{device}/ports/1/counters/{f}' for f in FILES)
	lines = lab.weft('run', *options, '--', 'sh', '-c', f'for f in {names}; do cat $f; done').split()
	return dict(zip(FILES, map(int, lines)))


def words_of(program, device, gid):
	return (program, '-d', device, '-n', str(N), '-s', str(BYTES), *(('-x', gid) if device == 'weft1' else ()))


def check(lab, program, device, gid, *options):
	is_read = program == 'ib_read_bw'
	before, after = undisturbed(lab, f'{program} {device} {options}', lambda: read(lab, device),
				    lambda: pair(lab, words_of(program, device, gid), options, options))
	got = {f: after[f] - before[f] for f in FILES}
	each = PATH_WORDS[device] + REST_WORDS
	# requests of a read; some ACKs of packets are one for several
	few, most = (N, N) if is_read else (1, N)
	small = got['port_xmit_packets'] - PACKETS
	headers = 2 * N * AETH + N * RETH if is_read else N * RETH + small * AETH
	expected = (PACKETS + small) * each + N * BYTES // 4 + headers
	if not few <= small <= most or got['port_xmit_data'] != expected:
		lab.fail(f'{program} {device} {options}: {got}, but {PACKETS} packets and {few} to {most} have {expected} words')
	if (got['port_rcv_data'], got['port_rcv_packets']) != (got['port_xmit_data'], got['port_xmit_packets']):
		lab.fail(f'{program} {device} {options}: not all that was sent was received: {got}')
	if got['unicast_xmit_packets'] != got['port_xmit_packets'] or got['multicast_xmit_packets'] or got['port_xmit_discards']:
		lab.fail(f'{program} {device} {options}: no packet was for a group, none was lost: {got}')


def kill_weftd(lab):
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	lab.weft('up')


def counts_go_on_after_a_restart(lab):
	packets = ('--path', 'packet')
	pair(lab, words_of('ib_write_bw', 'weft0', None), packets, packets, between=lambda: kill_weftd(lab))
	got = read(lab, 'weft0')
	# the server, which was there before, has received, and the client has sent
	if not PACKETS <= got['port_rcv_packets'] <= got['port_xmit_packets']:
		lab.fail(f'after a restart of weftd the ports carried {got}')


def a_link_that_goes_down_counts(lab):
	before = read(lab, 'weft1')
	lab.weft('link', 'down', 'weft1')
	lab.weft('link', 'up', 'weft1')
	after = read(lab, 'weft1', '--device', 'weft1')
	if after != dict(before, link_downed=before['link_downed'] + 1):
		lab.fail(f'before the link went down: {before}, after that: {after}')


def gid_of_ipv4(lab):
	folder = '/sys/class/infiniband/weft1/ports/1/gids'
	listing = f'for i in $(ls {folder}); do echo $i $(cat {folder}/$i); done'
	for line in lab.weft('run', '--', 'sh', '-c', listing).splitlines():
		if ' 0000:0000:0000:0000:0000:ffff:' in line:
			return line.split()[0]
	return '0'


def test(lab):
	gid = gid_of_ipv4(lab)
	for path in ((), ('--path', 'packet')):
		check(lab, 'ib_write_bw', 'weft0', gid, *path)
		check(lab, 'ib_write_bw', 'weft1', gid, *path)
	check(lab, 'ib_read_bw', 'weft0', gid)
	check(lab, 'ib_read_bw', 'weft1', gid, '--engine=thread')
	a_link_that_goes_down_counts(lab)
	counts_go_on_after_a_restart(lab)


script(test, 'ib_write_bw', 'ib_read_bw')
