#!/usr/bin/env python3
"""weft sim holds 10,000 hosts and 1,000 switches in 2 GB: the smallest fat tree that has as many comes up, and loses a switch.

usage: sim_memory.py WEFT"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

HOSTS, SWITCHES, BYTES_MOST = 10000, 1000, 2 * 10 ** 9
TREE = ('ports=36', 'levels=3')		# with 34 ports there are 9,826 hosts
GUARD = 3 * 10 ** 9	# of one that takes more the machine is not to suffer


def fail(what):
	print(f'FAILED: {what}')
	sys.exit(1)


def main():
	weft = os.path.abspath(sys.argv[1])
	made = subprocess.run([weft, 'fabric', 'make', 'fat-tree', *TREE], capture_output=True, text=True, check=True).stdout
	switches, hosts = (len(re.findall(rf'^{word}\t', made, re.M)) for word in ('Switch', 'Ca'))
	if hosts < HOSTS or switches < SWITCHES:
		fail(f'{hosts} hosts and {switches} switches')
	resource.setrlimit(resource.RLIMIT_AS, (GUARD, GUARD))
	with tempfile.TemporaryDirectory() as home:
		os.environ['WEFT_DIR'] = os.path.join(home, 'run')
		words = [weft, 'sim', 'cold-boot', ':'.join(('fat-tree', *TREE)), '--json']
		done = subprocess.run(words, capture_output=True, text=True, check=False)
	# of all processes that have ended: that of the row is a child of weft's
	peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
	if done.returncode:
		fail(f'{words} exits with {done.returncode}: {done.stdout}{done.stderr}')
	boot = json.loads(done.stdout)['boots'][0]
	print(f'{hosts} hosts and {switches} switches, {boot["active"]} nodes active: {boot["peak_mb"]} MB by weft sim, '
	      f'{peak / 1e6:.0f} MB by the kernel')
	if not boot['ended_well'] or boot['nodes'] != hosts + switches or boot['active'] != boot['nodes']:
		fail(f'of {hosts + switches} nodes: {boot}')
	if boot['peak_mb'] << 20 > BYTES_MOST or peak > BYTES_MOST:
		fail(f'more than {BYTES_MOST / 1e6:.0f} MB')
	# both have measured the same process
	if abs((boot['peak_mb'] << 20) - peak) > peak / 10:
		fail(f'weft sim tells of {boot["peak_mb"]} MB, the kernel of {peak / 1e6:.0f}')


main()
