#!/usr/bin/env python3
"""Links of a fabric that lose or slow what passes: programs live with it, ports count it, and links that are whole have none.

subnet_faults.py --list                  one line a test: name, label, timeout
subnet_faults.py --weft PROGRAM NAME...  runs these tests
"""
import json
import os
import re
import signal
import sys
import time

import subnet_lab
from subnet_lab import Wrong, says
from session import free_port
import run	# of abi/, whose place subnet_lab tells

BYTES = 65536
SEND = (sys.executable, '-B', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'group_send.py'))
SPOILT = ('SymbolErrorCounter', 'PortRcvErrors')
# Of the first 150 MADs from h1 only the third is lost, and of those to h1 the fifth: no tool repeats a request more than twice.
ONE_EACH_WAY = 'loss=1%,seed=1661'


def counters(lab, node, port, *which, by='h8'):
	"""Of a host's port, or a switch's. Symbol errors have 16 bits."""
	switches = lab.at(by, 'ibswitches')
	lid = lab.lid(node) if node.startswith('h') else re.search(rf'"{node}" base port 0 lid (\d+) ', switches)[1]
	wide, narrow = (lab.at(by, 'perfquery', *way, lid, str(port)) for way in (('-x',), ()))
	found = {name: int(n) for text in (narrow, wide) for name, n in re.findall(r'(\w+):\.*(\d+)', text)}
	return [found[name] for name in which]


NARROW = '''
Switch	4 "s1"		# "s1" lid 1
[1]	"h1"[1] 		# "h1" lid 2 1xSDR
[2]	"h2"[1] 		# "h2" lid 3 4xQDR

Ca	1 "h1"		# "h1"
[1] 	"s1"[1]		# lid 2 lmc 0 "s1" lid 1 1xSDR

Ca	1 "h2"		# "h2"
[1] 	"s1"[2]		# lid 3 lmc 0 "s1" lid 1 4xQDR
'''


def test_rates(lab):
	"""With --rates a link carries what its width and speed say, also those that ibportstate gives it; without, all."""
	path = lab.write('narrow', NARROW)
	lab.change('load', path)
	megabytes(lab, 'h1', 'h2', '-n', '200')
	if counters(lab, 's1', 1, 'PortXmitWait', by='h1')[0]:
		raise Wrong('packets wait where no link has a rate')
	lab.change('load', '--rates', '--routing', 'sm', path)
	lab.within('the subnet is up', lambda: lab.lid('h1') != '0' and lab.lid('h2') != '0')
	rate = megabytes(lab, 'h1', 'h2', '-n', '500')
	if not 0 < rate <= 250:
		raise Wrong(f'{rate} MB/s went over one lane of SDR')
	if not counters(lab, 's1', 1, 'PortXmitWait', by='h1')[0]:
		raise Wrong('no packet has waited')
	link = {p['port']: p for p in json.loads(lab.weft('fabric', 'show', '--json', 's1'))['nodes'][0]['ports']}
	if (link[1]['rate_kbps'], link[2]['rate_kbps']) != (2000000, 32000000):
		raise Wrong(f'rates: {link}')
	# the other link becomes as narrow
	lab.at('h1', 'ibportstate', lab.lid('h2'), '1', 'width', '1')
	lab.at('h1', 'ibportstate', lab.lid('h2'), '1', 'speed', '1')
	lid = re.search(r'lid (\d+)', lab.at('h1', 'ibswitches'))[1]
	lab.at('h1', 'ibportstate', lid, '2', 'reset')
	lab.within('it trains', lambda: '(1X SDR)' in lab.at('h2', 'cat', '/sys/class/infiniband/weft0/ports/1/rate') and
		   'Active' in lab.at('h2', 'ibstat', 'weft0', '1'))
	before = counters(lab, 'h2', 1, 'PortXmitWait', by='h1')[0]
	rate = megabytes(lab, 'h1', 'h2', '-n', '200')
	if not 0 < rate <= 250 or counters(lab, 'h2', 1, 'PortXmitWait', by='h1')[0] <= before + 100:
		raise Wrong(f'{rate} MB/s left by a link that has become narrow')


def test_group(lab):
	"""A slow link holds up copies for a group: they come one after another, as fast as it carries them, and are counted."""
	lab.change('load', '--routing', 'sm', lab.write('narrow', NARROW))
	lab.within('the subnet is up', lambda: lab.lid('h1') != '0' and lab.lid('h2') != '0')
	lab.weft('fabric', 'link', 'h1:1', 'slow', '2Mbit')
	# so many wait at once, with room for management datagrams: the link's queue is 100 ms long
	port = str(free_port())
	words = ('ib_send_bw', '-d', 'weft0', '-c', 'UD', '-g', '-M', '255:18:64:27:255:255:0:0:0:0:0:0:0:0:0:9', '-n', '15',
		 '-s', '1024', '-p', port)
	server = lab.start_server('h1', port, *words)
	lab.at('h2', *words, '127.0.0.1')
	server.process.wait(subnet_lab.LIMIT_S)
	rate = float(re.search(r'(?m)^ *1024 +15 +[\d.]+ +([\d.]+)', server.text())[1])
	waits = counters(lab, 's1', 1, 'PortXmitWait', by='h2')[0]
	got = counters(lab, 'h1', 1, 'PortMulticastRcvPkts', by='h2')[0]
	if rate > 0.3 or waits < 10 or got != 15:
		raise Wrong(f'{got} packets came by {rate} MB/s, and {waits} waited: {server.text()}')


def first_link(lab, node):
	"""The switch and its port at the other end of a host's link."""
	return next((link['to'], link['to_port']) for link in lab.check()['link_loads'] if link['from'] == node)


def megabytes(lab, a, b, *options, words=('ib_write_bw',)):
	"""Average rate, in MB/s."""
	port = str(free_port())
	command = (*words, '-d', 'weft0', '-F', '-s', str(BYTES), '-p', port, *options)
	server = lab.start_server(a, port, *command)
	text = lab.at(b, *command, '127.0.0.1')
	server.process.wait(subnet_lab.LIMIT_S)
	return float(re.search(rf'(?m)^ *{BYTES} +\d+ +[\d.]+ +([\d.]+)', text)[1])


def test_loss(lab):
	"""What RC sends over a link that loses packets arrives, and each port counts what it sent, got spoilt, and got."""
	lab.load('fat-tree', 'ports=4')
	switch, number = first_link(lab, 'h1')
	lab.weft('fabric', 'link', f'{switch}:{number}', 'loss=5%,seed=7')
	megabytes(lab, 'h5', 'h1', '-n', '200')
	# perfquery of h1 passes the link, too
	lab.weft('fabric', 'link', 'h1:1', 'up')
	sent, spoilt_back = counters(lab, 'h1', 1, 'PortXmitPkts', 'SymbolErrorCounter')
	received, spoilt, errors = counters(lab, switch, number, 'PortRcvPkts', *SPOILT)
	if not spoilt or spoilt != errors or not spoilt_back or not 0 <= received + spoilt - sent <= 20:
		raise Wrong(f'h1 sent {sent}, {switch} got {received}, {spoilt} or {errors} spoilt; h1 got {spoilt_back} spoilt')
	if not 0.02 < spoilt / sent < 0.1:
		raise Wrong(f'{spoilt} of {sent} packets were lost')
	megabytes(lab, 'h3', 'h4', '-n', '200')
	if any(counters(lab, node, 1, 'SymbolErrorCounter')[0] for node in ('h3', 'h4')):
		raise Wrong('packets were lost between h3 and h4')
	lab.weft('fabric', 'link', 'h1:1', 'loss=5%,seed=7')
	# a pingpong's last ACK may be lost when who would answer again has ended; perftest ends together
	megabytes(lab, 'h2', 'h1', '-n', '200', words=('ib_send_bw',))
	lab.weft('fabric', 'link', 'h1:1', 'up')
	before = counters(lab, switch, number, 'SymbolErrorCounter')
	megabytes(lab, 'h5', 'h1', '-n', '200')
	if counters(lab, switch, number, 'SymbolErrorCounter') != before:
		raise Wrong('a link that is whole again loses packets')


def is_whole(lab):
	"""Much passes, and nothing waits meanwhile."""
	sent, waits = counters(lab, 'h1', 1, 'PortXmitPkts', 'PortXmitWait')
	lab.within('it goes on', lambda: counters(lab, 'h1', 1, 'PortXmitPkts')[0] > sent + 100000)
	return counters(lab, 'h1', 1, 'PortXmitWait')[0] == waits


def test_slow(lab):
	"""A slow link lets through what it carries, also under programs that run, and its ports tell that packets waited."""
	lab.load('fat-tree', 'ports=4')
	switch, number = first_link(lab, 'h1')
	lab.weft('fabric', 'link', f'{switch}:{number}', 'slow', '200Mbit')
	rate = megabytes(lab, 'h5', 'h1', '-n', '100')
	if not 0 < rate <= 25:
		raise Wrong(f'{rate} MB/s went over a link of 25 MB/s')
	if not counters(lab, 'h1', 1, 'PortXmitWait')[0]:
		raise Wrong('no packet has waited')
	lab.weft('fabric', 'link', 'h1:1', 'up')
	port = str(free_port())
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-s', str(BYTES), '-D', '1', '--run_infinitely', '-p', port)
	lab.start_server('h6', port, *words)
	other = lab.start('h1', *words, '127.0.0.1')
	lab.within('it sends', lambda: counters(lab, 'h1', 1, 'PortXmitPkts')[0] > 100000)
	waits = counters(lab, 'h1', 1, 'PortXmitWait')[0]
	lab.weft('fabric', 'link', 'h1:1', 'slow', '400Mbit')
	lab.within('it waits', lambda: counters(lab, 'h1', 1, 'PortXmitWait')[0] > waits + 1000)
	# two that share the link have it together
	rate = megabytes(lab, 'h5', 'h1', '-n', '100')
	if not 0 < rate <= 50:
		raise Wrong(f'{rate} MB/s and more went over a link of 50 MB/s')
	lab.weft('fabric', 'link', 'h1:1', 'up')
	lab.within('nothing waits any more', lambda: is_whole(lab))
	if not other.is_alive():
		raise Wrong(f'it has ended: {other.text()}')
	other.end(signal.SIGKILL)


def test_trace(lab):
	"""What the links did is in a trace, which is replayed; another weftd finds the fault."""
	lab.load('fat-tree', 'ports=4')
	lab.weft('fabric', 'link', 'h1:1', 'loss=10%,seed=3')
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	trace = lab.path('trace')
	port = str(free_port())
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-n', '100', '-s', '4096', '-p', port)
	lab.start_server('h5', port, *words)
	lab.weft('run', '--trace', trace, '--node', 'h1', '--device', 'weft0', '--', *words, '127.0.0.1')
	says(lab.weft('replay', trace), r'lost in the fabric')
	lab.weft('replay', '--quiet', trace)


def lost_of(lab, lid, name, seed):
	"""Which of 200 datagrams a link loses, by the trace of their sender, of a new weftd: it counts processes anew."""
	lab.weft('fabric', 'link', 'h1:1', f'loss=10%,seed={seed}')
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	lab.start_weftd()
	*programs, qpn = lab.start_datagrams('h5', 'h6')
	trace = lab.path(name)
	# whose Q_Key is another one: they pass the link, and nobody hears them
	lab.weft('run', '--trace', trace, '--node', 'h1', '--device', 'weft0', '--', *SEND, lid, '-', '0x2222222', '200', qpn)
	for program in programs:
		program.end(signal.SIGKILL)
	sent = [line for line in lab.weft('replay', trace).splitlines() if ' passed ' in line and 'UD_SEND_ONLY' in line]
	if len(sent) != 200:
		raise Wrong(f'{len(sent)} of 200 datagrams are in the trace')
	return [i for i, line in enumerate(sent) if 'lost in the fabric' in line]


def test_seeds(lab):
	"""With one seed the same packets of a process are lost, and with another one others."""
	lab.load('fat-tree', 'ports=4')
	lid = lab.lid('h5')
	first, again, other = (lost_of(lab, lid, f'trace.{i}', seed) for i, seed in enumerate((3, 3, 4)))
	if first != again or first == other or not 5 <= len(first) <= 40:
		raise Wrong(f'seed 3 loses {first} and {again}, seed 4 {other}')


def test_words(lab):
	"""What is no fault is refused, and says why."""
	lab.load('fat-tree', 'ports=4')
	for words in (('h1:1', 'slow'), ('h1:1', 'loss=1'), ('h1:1', 'loss=101%'), ('h1:1', 'dup=1%'), ('h1:1', 'slow', '10'),
		      ('h1:1', 'loss=1%,weft1.loss=1%'), ('h1:1', 'seed'), ('h1:9', 'loss=1%'), ('x:1', 'loss=1%')):
		status, text = lab.try_run(lab.weft_path, 'fabric', 'link', *words)
		if not status or 'next:' not in text:
			raise Wrong(f'{words} exits with {status}: {text}')


def own_counters(lab, node, *which):
	"""Of a host's port, as it asks itself: no link carries that."""
	found = dict(re.findall(r'(\w+):\.*(\d+)', lab.at(node, 'perfquery')))
	return [int(found[name]) for name in which]


def ask_over_loss(lab, link, ask):
	"""A tool asks over a link that loses MADs, and repeats what is lost; both ports of the link count it."""
	switch, number = link
	which = ('PortXmitPkts', 'PortRcvPkts', *SPOILT)
	before = counters(lab, switch, number, *which), own_counters(lab, 'h1', *which)
	lab.weft('fabric', 'link', f'{switch}:{number}', ONE_EACH_WAY)
	ask()
	lab.weft('fabric', 'link', 'h1:1', 'up')
	after = counters(lab, switch, number, *which), own_counters(lab, 'h1', *which)
	ends = [[b - a for a, b in zip(*both)] for both in zip(before, after)]
	for (sent, *_), (_, received, spoilt, errors) in (ends, ends[::-1]):
		if not spoilt or errors != spoilt or sent != received + spoilt:
			raise Wrong(f'{sent} were sent, {received} have come, {spoilt} or {errors} are spoilt')


def test_management(lab):
	"""MADs over a link that loses packets: infiniband-diags repeat them, and the ports count what was lost."""
	lab.load('fat-tree', 'ports=4')
	link, lid = first_link(lab, 'h1'), lab.lid('h5')
	server = lab.start('h5', 'ibping', '-S')
	lab.within('ibping answers', lambda: '1 received' in lab.try_at('h1', 'ibping', '-c', '1', lid)[1])
	asked = {
		'smpquery by LIDs': lambda: [says(lab.at('h1', 'smpquery', 'nodedesc', lid), 'h5') for _ in range(10)],
		'smpquery -D': lambda: [says(lab.at('h1', 'smpquery', '-D', 'nodedesc', '0,1'), link[0]) for _ in range(10)],
		'perfquery': lambda: [says(lab.at('h1', 'perfquery', lid, '1'), 'PortXmitPkts') for _ in range(5)],
		'ibping': lambda: says(lab.at('h1', 'ibping', '-f', '-c', '10', lid), '10 received, 0% packet loss'),
	}
	for name, ask in asked.items():
		print(name)
		ask_over_loss(lab, link, ask)
	server.end(signal.SIGKILL)


def lasts(ask):
	"""Seconds."""
	begin = time.monotonic()
	ask()
	return time.monotonic() - begin


def connect(lab, a, b):
	"""Milliseconds that b needs to connect to a."""
	address, other = (f'127.1.0.{node[1:]}' for node in (a, b))
	server = lab.start(a, 'cmtime', '-b', address, '-c', '1')
	said = ['']
	def reaches():
		status, said[0] = lab.try_at(b, 'cmtime', '-s', address, '-b', other, '-c', '1')
		return status == 0
	lab.within('it connects', reaches)
	server.end(signal.SIGKILL)
	return float(re.search(r'connect +: +([\d.]+)', said[0])[1])


def pongs(lab, a, b, times):
	"""Milliseconds that a's questions to ibping's server at b take. ibping says a tenth of them, and 900 ms too much where a
	second ends meanwhile: its clock has 10 us for each us (infiniband-diags/ibping.c:time_stamp, 44 to 64)."""
	said = lab.at(a, 'ibping', '-c', str(times), lab.lid(b))
	return [float(ms) % 900 * 10 for ms in re.findall(r'(?m)^Pong from .* time ([\d.]+) ms$', said)]


def test_slow_ping(lab):
	"""ibping's time is that of the slow link, there and back."""
	lab.load('fat-tree', 'ports=4')
	switch, number = first_link(lab, 'h1')
	server = lab.start('h5', 'ibping', '-S')
	lab.within('ibping answers', lambda: '1 received' in lab.try_at('h1', 'ibping', '-c', '1', lab.lid('h5'))[1])
	if min(pongs(lab, 'h1', 'h5', 3)) > 5:
		raise Wrong('ibping takes more than 5 ms where nothing is slow')
	for kbits in (200, 50):
		lab.weft('fabric', 'link', f'{switch}:{number}', 'slow', f'{kbits}Kbit')
		wanted, took = 2 * 288 * 8 / kbits, pongs(lab, 'h1', 'h5', 3)
		print(f'{kbits} Kbit/s: {wanted} ms, ibping: {took}')
		if len(took) != 3 or min(took) < wanted or min(took) > 1.3 * wanted + 5:
			raise Wrong(f'ibping takes {took} ms where two datagrams take {wanted}')
	# of a link that is not on the way
	if min(pongs(lab, 'h6', 'h5', 3)) > 5:
		raise Wrong('a slow link is felt where it is not')
	lab.weft('fabric', 'link', 'h1:1', 'up')
	if min(pongs(lab, 'h1', 'h5', 3)) > 5:
		raise Wrong('ibping takes more than 5 ms where nothing is slow any more')
	server.end(signal.SIGKILL)


def test_slow_management(lab):
	"""MADs and packets of rdma_cm take as long over a slow link as it carries them, and wait behind data."""
	lab.load('fat-tree', 'ports=4')
	switch, number = first_link(lab, 'h1')
	lid = lab.lid('h5')
	lab.weft('fabric', 'link', f'{switch}:{number}', 'slow', '50Kbit')
	one_way_s = 288 * 8 / 50e3
	# NodeInfo and NodeDescription, each there and back
	for name, least, ask in (
		('smpquery by LIDs', 4, lambda: says(lab.at('h1', 'smpquery', 'nodedesc', lid), 'h5')),
		('smpquery -D', 4, lambda: says(lab.at('h1', 'smpquery', '-D', 'nodedesc', '0,1'), switch)),
		('perfquery', 4, lambda: says(lab.at('h1', 'perfquery', lid, '1'), 'PortXmitPkts'))):
		took = lasts(ask)
		if took < least * one_way_s:
			raise Wrong(f'{name} takes {took} s, and {least} MADs are {least * one_way_s} s on the link')
	took = connect(lab, 'h5', 'h1')
	if took < 2000 * one_way_s:
		raise Wrong(f'a request and its reply take {took} ms, and are {2000 * one_way_s} ms on the link')
	took = min(lasts(lambda: says(lab.at('h2', 'smpquery', 'nodedesc', lid), 'h5')) for _ in range(5))
	if took > 4 * one_way_s:
		raise Wrong(f'smpquery takes {took} s by links that are not slow')
	# data keeps the queue of the link full, which is 100 ms
	lab.weft('fabric', 'link', 'h1:1', 'slow', '20Mbit')
	port = str(free_port())
	words = ('ib_write_bw', '-d', 'weft0', '-F', '-s', str(BYTES), '-D', '1', '--run_infinitely', '-p', port)
	lab.start_server('h5', port, *words)
	busy = lab.start('h1', *words, '127.0.0.1')
	lab.within('it waits', lambda: own_counters(lab, 'h1', 'PortXmitWait')[0] > 100)
	took = max(lasts(lambda: lab.at('h1', 'smpquery', '-D', 'nodeinfo', '0,1')) for _ in range(5))
	if took < 0.05:
		raise Wrong(f'smpquery takes {took} s behind a queue of data')
	busy.end(signal.SIGKILL)
	lab.weft('fabric', 'link', 'h1:1', 'up')
	lab.within('it is whole again', lambda: lasts(lambda: lab.at('h1', 'smpquery', 'nodedesc', lid)) < 4 * one_way_s)


def test_details(lab):
	"""Why packets were dropped, and what spoilt them, in the words of perfquery and ibqueryerrors."""
	lab.load('fat-tree', 'ports=4')
	switch, number = first_link(lab, 'h5')
	lab.weft('fabric', 'link', 'h5:1', 'errors', '20')
	lab.weft('fabric', 'link', 'h5:1', 'overruns', '3')
	lid = lab.lid('h5')
	said = lab.at('h8', 'perfquery', '--rcverr', lid, '1')
	says(said, r'PortLocalPhysicalErrors:\.+20\n(.*\n)*PortBufferOverrunErrors:\.+3\n')
	lab.weft('fabric', 'link', 'h5:1', 'down')
	says(lab.pingpong('h5', 'h1') or 'packets pass a link that is down', 'transport retry counter exceeded')
	port = (re.search(rf'"{switch}" base port 0 lid (\d+) ', lab.at('h8', 'ibswitches'))[1], str(number))
	says(lab.at('h8', 'perfquery', '--xmtdisc', *port), r'PortInactiveDiscards:\.+[1-9]\d*\n')
	# which takes the names of one attribute for the other's
	said = lab.try_at('h8', 'ibqueryerrors', '--skip-sl', '--details', '-k')[1]
	says(said, r'\[LinkDownedCounter == 1\] \[PortXmitDiscards == ([1-9]\d*)\] \[\w+ == \1\]')
	for words in (('--xmtdisc', '-R'), ('--xmtdisc',)):
		left = lab.at('h8', 'perfquery', *words, *port)
	says(left, r'PortInactiveDiscards:\.+0\n')


def test_multicast(lab):
	"""Copies for a group are lost on the link that loses, and no others; ports count each packet once."""
	lab.load('fat-tree', 'ports=4')
	lab.weft('fabric', 'link', 'h8:1', 'loss=30%,seed=5')
	words = ('mckey', '-m', '239.2.3.4', '-b', '127.0.0.1', '-C')
	receivers = [lab.start(node, 'stdbuf', '-oL', *words, '100000') for node in ('h5', 'h8')]
	lab.within('both have joined', lambda: all('joined dgid' in r.text() or not r.is_alive() for r in receivers))
	lab.at('h1', *words, '200', '-s')
	lab.weft('fabric', 'link', 'h8:1', 'up')
	which = ('PortMulticastRcvPkts', 'PortUnicastRcvPkts', *SPOILT)
	got, unicast, spoilt, errors = counters(lab, 'h8', 1, *which)
	if not 20 < spoilt < 120 or spoilt != errors or got + spoilt != 200 or unicast > 1000:
		raise Wrong(f'of 200 {got} have come to h8, {spoilt} or {errors} spoilt, and {unicast} others')
	got, _, spoilt, errors = counters(lab, 'h5', 1, *which)
	if (got, spoilt, errors) != (200, 0, 0):
		raise Wrong(f'of 200 {got} have come to h5, {spoilt} or {errors} spoilt')
	for receiver in receivers:
		receiver.end(signal.SIGKILL)


def tests():
	rows = (('loss', test_loss), ('slow', test_slow), ('rates', test_rates), ('group', test_group),
		('trace', test_trace), ('seeds', test_seeds), ('words', test_words),
		('management', test_management), ('slow_management', test_slow_management), ('slow_ping', test_slow_ping),
		('multicast', test_multicast), ('details', test_details))
	return {name: ('e2e', 240, subnet_lab.row(test)) for name, test in rows}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('perfquery', 'ibqueryerrors', 'ibstat', 'ibswitches', 'smpquery', 'ibping',
					 'ib_write_bw', 'ib_send_bw', 'ibv_ud_pingpong', 'stdbuf')))
