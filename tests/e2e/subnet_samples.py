#!/usr/bin/env python3
"""PortSamplesControl and PortSamplesResult, asked by Debian's libibmad: what a port counts during an interval, and no more.

usage: subnet_samples.py WEFT"""
import os
import re
import sys

import subnet_lab
from subnet_lab import Wrong, says, script
from subnet_ports import pair

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'pma_sample.py')
TICKS_S = 1000 * 1000
N, BYTES = 100, 65536
WORDS = N * BYTES // 4
OTHERS = 10000		# words of datagrams that ask meanwhile, and acknowledgements


def write(lab):
	pair(lab, ('h1',), ('h2',), 'ib_write_bw', '-d', 'weft0', '-n', str(N), '-s', str(BYTES))


def sample(lab, delay_s, interval_s, *port):
	"""The sample of a port, while h2 writes to h1, and again once it has ended: five counters, by both attributes."""
	ticks = [str(int(seconds * TICKS_S)) for seconds in (interval_s, delay_s)]
	sampler = lab.start('h3', sys.executable, '-B', SAMPLE, *port, *ticks)
	lab.within('it samples', lambda: 'sampling' in sampler.text() or not sampler.is_alive())
	write(lab)
	is_late = not sampler.is_alive()
	if sampler.process.wait(subnet_lab.LIMIT_S):
		raise Wrong(sampler.text())
	narrow, wide = (list(map(int, line.split())) for line in sampler.text().splitlines()[1:])
	if wide[0] != 2 or wide[1:] != narrow:
		raise Wrong(f'PortSamplesResult {narrow}, PortSamplesResultExtended {wide}')
	return narrow, is_late


def test(lab):
	lab.load('star', 'hosts=3')
	lid = lab.lid('h1')
	write(lab)
	late = True
	while late:	# a machine that others use, too, may take longer than the interval
		(sent, received, _, packets, _), late = sample(lab, 0, 4, lid, '1')
	if not WORDS <= received <= WORDS + WORDS // 10 + OTHERS or sent > OTHERS or packets < WORDS * 4 // 4096:
		raise Wrong(f'{WORDS} words written to h1: {received} received in {packets} packets, {sent} sent')
	# the switch's port to h1 sends the same
	late = True
	while late:
		(sent, received, _, _, _), late = sample(lab, 0, 4, re.search(r'lid (\d+)', lab.at('h1', 'ibswitches'))[1], '1')
	if not WORDS <= sent <= WORDS + WORDS // 10 + OTHERS or received > OTHERS:
		raise Wrong(f'{WORDS} words written to h1: the switch sends {sent} and receives {received}')
	# an interval that begins afterwards has nothing of it
	(_, received, _, _, _), _ = sample(lab, 20, 0.01, lid, '1')
	if received > OTHERS:
		raise Wrong(f'{received} words in 10 ms without traffic')
	control = lab.at('h2', 'perfquery', '--smplctl', lid, '1')
	for line in (r'PortSelect:\.+1\n', r'Tick:\.+0xf9\n', r'CounterWidth:\.+4\n', r'SampleStatus:\.+0\n',
		     r'SampleStart:\.+20000000\n',
		     r'SampleInterval:\.+10000\n', r'Tag:\.+0x5a5a\n', r'CounterSelect4:\.+0x0*5\n'):
		says(control, line)
	status, text = lab.try_at('h2', 'perfquery', '-a', '--smplctl', lid)
	if not status:
		raise Wrong(f'all ports at once: {text}')


script(test, 'perfquery', 'ib_write_bw', 'ibswitches', 'ibstat')
