#!/usr/bin/env python3
"""All of Debian's infiniband-diags over a fabric that OpenSM made a subnet: what they say is what was loaded, and what weft does
not have they are refused. A table is printed: what each call came to.

subnet_queries.py --list                  one line a test: name, label, timeout
subnet_queries.py --weft PROGRAM NAME...  runs these tests: some, of a second; all
"""
import re
import sys
import time

import subnet_lab
from subnet_lab import POLL_S, Wrong
from subnet_tools import links
import run	# of abi/, whose place subnet_lab tells

HOSTS, SWITCHES, LINKS = 8, 6, 16	# of a fat tree of ports=4
T_PORTS, T_HOSTS, T_SWITCHES = 28, 5488, 980	# of a fat tree of three levels
T_NODES = T_HOSTS + T_SWITCHES
THOUSANDS_S = 400	# until OpenSM has brought these up
SEND_ONCE = '30000'			# ms: saquery sends once, and the manager may be busy
REFUSED = 255				# exit status: the tool says that the other side has refused


# What judges an output, of a pattern with the names filled in: what is wrong, or nothing.
def count(pattern, wanted):
	"""So many lines match."""
	def judge(text, fill):
		found = len(re.findall(fill(pattern), text, re.M))
		return '' if found == wanted else f'{found} of {wanted} lines match {pattern}: {text[:300]}'
	return judge


def has(pattern):
	return lambda text, fill: '' if re.search(fill(pattern), text, re.M) else f'"{pattern}" is missing: {text[:300]}'


def silent(text, _):
	return f'it says {text[:300]}' if text.strip() else ''


def anything(_, __):
	return ''


# (words, exit status, what judges the output); words in {} are of names()
DISCOVERY = [
	(['iblinkinfo'], 0, count(r'==\( 4X +53\.125 Gbps Active/ +LinkUp\)==>', 2 * LINKS)),
	(['iblinkinfo', '--line', '-S', '{s1_guid}'], 0, count(r' s1".*==>', 4)),
	(['iblinkinfo', '-d'], 0, silent),
	(['ibhosts'], 0, count(r'^Ca\s+: \S+ ports 1 "h\d"$', HOSTS)),
	(['ibswitches'], 0, count(r'^Switch\s+: \S+ ports 4 "s\d" base port 0 lid \d+ lmc 0$', SWITCHES)),
	(['ibrouters'], 0, silent),
	(['ibnodes'], 0, count(r'^(Ca|Switch)\s', HOSTS + SWITCHES)),
	(['ibnetdiscover', '-l'], 0, count(r'^(Ca|Switch)\s', HOSTS + SWITCHES)),
	(['ibnetdiscover', '-p'], 0, count(r'^(CA|SW) .* - ', 2 * LINKS)),
	(['ibnetdiscover', '--cache', '{home}/cache'], 0, count(r'^(Ca|Switch)\s', HOSTS + SWITCHES)),
	(['ibnetdiscover', '--diff', '{home}/cache'], 0, silent),
	(['ibcacheedit', '--switchguid', '{s1_guid}:0x77', '{home}/cache', '{home}/edited'], 0, silent),
	(['ibnetdiscover', '--load-cache', '{home}/edited'], 0, has(r'^switchguid=0x77\(')),
	(['ibidsverify'], 0, silent),
]
LOCAL = [
	(['ibstat'], 0, has(r'State: Active\n\s+Physical state: LinkUp')),
	(['ibstat', '-l'], 0, has('^weft0$')),
	(['ibstat', '-p'], 0, has('^{h2_guid}$')),
	(['ibstat', 'weft0', '1'], 0, has(r'Base lid: {h2}$')),
	(['ibstatus'], 0, has(r'state:\s+4: ACTIVE\n.*\n\s+rate:\s+200 Gb/sec \(4X HDR\)')),
	(['ibaddr'], 0, has(r'LID start {h2_hex} end {h2_hex}')),
	(['ibaddr', '-g', '{h8}'], 0, has(r'^GID fe80::200:0:10:f')),
	(['ibaddr', '-L', '{s1}'], 0, has(r'^LID start {s1} end {s1}$')),
]
SMP = [
	(['smpquery', 'nodeinfo', '{h8}'], 0, has(r'NodeType:\.+Channel Adapter\n')),
	(['smpquery', '-G', 'nodeinfo', '{h8_guid}'], 0, has(r'PortGuid:\.+{h8_guid}$')),
	(['smpquery', 'nodedesc', '{s1}'], 0, has(r'Node Description:\.+s1$')),
	(['smpquery', '-c', 'nodedesc', '{s1}', '0,{s1_h2}'], 0, has(r'Node Description:\.+h2$')),
	(['smpquery', 'portinfo', '{h8}', '1'], 0, has(r'^Lid:\.+{h8}$')),
	(['smpquery', '-x', 'portinfo', '{s1}', '1'], 0, has(r'LinkSpeedExtActive:\.+53\.125 Gbps')),
	(['smpquery', 'portinfoextended', '{h8}', '1'], REFUSED, has('port info extended not supported')),
	(['smpquery', 'switchinfo', '{s1}'], 0, has(r'LinearFdbTop:\.+[1-9]')),
	(['smpquery', 'switchinfo', '{h8}'], REFUSED, has('switch info query failed|failed')),
	(['smpquery', 'pkeytable', '{h8}'], 0, has(r'^ +0: 0xffff 0x0000')),
	(['smpquery', 'sl2vltable', '{s1}', '1'], 0, count(r'^ports: in +\d+, out +1:', 5)),
	(['smpquery', 'vlarbitration', '{s1}', '1'], 0, has(r'LowCap 64 HighCap 64')),
	(['smpquery', 'guidinfo', '{h8}'], 0, has(r'{h8_guid}')),
	(['smpquery', 'mlnxextportinfo', '{h8}'], REFUSED, has('Mellanox ext port info query failed')),
	(['smpdump', '{h8}', '0x11'], 0, has(r'^0101 0101')),
	(['smpdump', '-s', '-D', '0,1', '0x10'], 0, has(r'^s1')),
	(['smpdump', '{h8}', '0x7777'], 0, has(r'SMP status: 0xc$')),
	(['sminfo'], 0, has(r'sm lid {h1} .* state 3 SMINFO_MASTER')),
]
SA = [([*words[:1], '-t', SEND_ONCE, *words[1:]], *rest) for words, *rest in [
	(['saquery'], 0, count('^NodeRecord dump:', HOSTS + SWITCHES)),
	(['saquery', '-L', 'h8'], 0, has(r'^{h8}$')),
	(['saquery', '-l', 's1'], 0, has(r'^{s1}$')),
	(['saquery', '-G', 'h8'], 0, has(r'^{h8_guid}$')),
	(['saquery', '-O', '{h8}'], 0, has(r'^h8$')),
	(['saquery', '-U', '{h8_guid}'], 0, has(r'^h8$')),
	(['saquery', '-D'], 0, count(r'^ +\d+ +"h\d"$', HOSTS)),
	(['saquery', '-s'], 0, count(r'EndPortLid', 1)),
	(['saquery', '-c'], 0, has(r'SA ClassPortInfo:')),
	(['saquery', '-p'], 0, count(r'^PathRecord dump:', (HOSTS + SWITCHES) ** 2)),
	(['saquery', '--src-to-dst', 'h1:h8'], 0, has(r'dlid\.+{h8}\n\s+slid\.+{h1}$')),
	(['saquery', '--slid', '{h1}', '--dlid', '{h8}', 'PR'], 0, count(r'^PathRecord dump:', 1)),
	(['saquery', '-g'], 0, has(r'Mlid\.+0xC000')),
	(['saquery', '-m'], 0, has(r'MGID\.+ff12:401b:ffff::ffff:ffff')),
	(['saquery', '-x'], 0, count(r'^LinkRecord dump:', 2 * LINKS)),
	(['saquery', '-S'], 0, silent),
	(['saquery', '-I'], 0, silent),
	(['saquery', 'NR', '{h8}'], 0, count(r'^NodeRecord dump:', 1)),
	(['saquery', 'PIR', '{s1}/1'], 0, count(r'^PortInfoRecord dump:', 1)),
	(['saquery', 'SWIR'], 0, count(r'^SwitchInfoRecord dump:', SWITCHES)),
	(['saquery', 'SMIR'], 0, has(r'LID\.+{h1}$')),
	(['saquery', 'GIR', '{h8}'], 0, has(r'GUID 0\.+{h8_guid}$')),
	(['saquery', 'LFTR', '{s1}'], 0, count(r'^LFT Record dump:', 1)),
	(['saquery', 'MFTR'], 0, silent),
	(['saquery', 'PKTR', '{h8}'], 5, has('SA_ERR_REQ_INVALID')),	# for those who name the SM_Key only
	(['saquery', '--smkey', '1', 'PKTR', '{h8}'], 0, has(r'0xffff')),
	(['saquery', 'SL2VL'], 0, has('^SL2VLTableRecord dump:')),
	(['saquery', 'VLAR', '{h8}'], 0, has('^VLArbTableRecord dump:')),
	(['saquery', 'MCMR'], 0, has('^MCMember Record dump:')),
	(['saquery', 'IIR'], 0, silent),
	(['saquery', 'SR'], 0, silent),
]]
WAYS = [
	(['ibtracert', '{h1}', '{h8}'], 0, count(r'^\[\d+\] -> switch port', 3)),
	(['ibroute', '{s1}'], 0, has(r'^0x000[0-9a-f] \d{3} : \(Channel Adapter portguid {h8_guid}: \'h8\'\)')),
	(['ibroute', '-M', '{s1}'], 0, has(r'of switch Lid {s1} ')),
	(['ibroute', '-n', '-a', '{s1}'], 0, has(r'of switch Lid {s1} ')),
	(['dump_lfts'], 0, count(r'^Unicast lids', SWITCHES)),
	(['dump_mfts'], 0, count(r'^Multicast mlids', SWITCHES)),
	(['dump_fts'], 0, count(r'^Unicast lids', SWITCHES)),
	(['sh', '-c', 'dump_lfts >{home}/lfts && check_lft_balance -l {home}/lfts -i {home}/cache'], 0, anything),
]
# Which hosts a switch reaches by a port, and the other way. The tool's cache is where root alone may write, and has the last
# subnet that anybody asked for: here it is the test's.
NODES_USING = [
	(['perl', '-MIBswcountlimits', '-e', '$IBswcountlimits::cache_dir = shift; $0 = shift; do $0; die $@ if $@',
	  '{home}', '/usr/sbin/ibfindnodesusing', '-R', '{s1_guid}', '{s1_up}'], 0,
	 has(r'^{s1_guid} {s1_up} .*  ==>>  0x\w+ \d \(s\d\)\n h[3-8] h[3-8] h[3-8]\n\n.*  <<==  .*\n h1-2$')),
]
# PortCounters, PortCountersExtended, the details of errors and discards and samples are there; other attributes are refused.
WITHOUT = ('--xmtsl', '--rcvsl', '--extended_speeds', '--oprcvcounters', '--flowctlcounters',
	   '--vloppackets', '--vlopdata', '--vlxmitflowctlerrors', '--vlxmitcounters', '--swportvlcong', '--rcvcc', '--slrcvfecn',
	   '--slrcvbecn', '--xmitcc', '--vlxmittimecc')
COUNTERS = [
	(['perfquery'], 0, has(r'PortXmitPkts:\.+[1-9]')),
	(['perfquery', '-x'], 0, has(r'PortXmitPkts:\.+[1-9]')),
	(['perfquery', '{s1}', '1'], 0, has(r'^# Port counters: Lid {s1} port 1')),
	(['perfquery', '-a', '{s1}'], 0, has(r'^# Port counters: Lid {s1} port 255')),
	(['perfquery', '-l', '{s1}', '1-4'], 0, count(r'^# Port counters: Lid {s1} port \d', 4)),
	(['perfquery', '-G', '{h8_guid}', '1'], 0, has(r'^# Port counters: Lid {h8} port 1')),
	(['perfquery', '-R', '{h8}', '1'], 0, silent),
	(['perfquery', '-r', '{h8}', '1'], 0, has(r'^# Port counters: Lid {h8} port 1')),
	(['perfquery', '--rcverr', '{s1}', '1'], 0, has(r'PortLocalPhysicalErrors:\.+0\n(.*\n)*PortLoopingErrors:\.+0$')),
	(['perfquery', '--smplctl', '{s1}', '1'], 0,
	 has(r'PortSelect:\.+1\n(.*\n)*SampleStatus:\.+0\n(.*\n)*CounterSelect14:\.+0')),
	(['perfquery', '--xmtdisc', '{s1}', '1'], 0,
	 has(r'PortInactiveDiscards:\.+0\n(.*\n)*PortSwHOQLifetimeLimitDiscards:\.+0$')),
	(['ibqueryerrors'], 0, has(r'## Summary: 14 nodes checked, 0 bad nodes found')),
	(['ibqueryerrors', '--counters', '--details', '-S', '{s1_guid}'], 0, has(r'"s1"')),
	(['ibqueryerrors', '-k', '-K'], 0, has(r'14 nodes checked, 0 bad')),
	*((['perfquery', word, '{h8}', '1'], REFUSED, has('cannot query')) for word in WITHOUT),
]
# Of vendors, and congestion control: no node has them.
REFUSALS = [
	(['vendstat', '-N', '{s1}'], REFUSED, has('classportinfo query')),
	(['vendstat', '-w', '{s1}'], REFUSED, has('classportinfo query')),
	(['vendstat', '-i', '{s1}'], 0, has('counter group info query failure')),
	(['ibccquery', 'CongestionInfo', '{h8}'], REFUSED, has('congestion info query failed')),
	(['ibccquery', 'SwitchPortCongestionSetting', '{s1}', '1'], REFUSED, has('failed')),
	(['ibccconfig', 'CongestionKeyInfo', '{h8}', '0', '0', '0', '0'], REFUSED, has('failed')),
]
SERVERS = [
	(['ibping', '-c', '3', '{h8}'], 0, count(r'^Pong from ', 3)),
	(['ibping', '-c', '1', '-G', '{h8_guid}'], 0, has('1 received, 0% packet loss')),
	(['ibsysstat', '{h8}'], 0, has('sysstat ping succeeded')),
	(['ibsysstat', '{h8}', 'host'], 0, has(r'\S')),
	(['ibsysstat', '{h8}', 'cpu'], 0, has('^cpu 0:')),
]
EVERY = DISCOVERY + LOCAL + SMP + SA + WAYS + NODES_USING + COUNTERS + REFUSALS


# A director of 648 ports: 36 leaves of 18 hosts and 18 spines, each leaf with a link to each spine.
DIRECTOR = ('fat-tree', 'ports=36')
D_HOSTS, D_SWITCHES, D_LINKS = 648, 54, 648 + 36 * 18
OF_DIRECTOR = [
	(['iblinkinfo', '-l'], 0, count(r'==\( 4X +53\.125 Gbps Active/ +LinkUp\)==>', 2 * D_LINKS)),
	(['ibhosts'], 0, count(r'^Ca\s+: \S+ ports 1 "h\d+"$', D_HOSTS)),
	(['ibswitches'], 0, count(r'^Switch\s+: \S+ ports 36 "s\d+" base port 0 lid \d+ lmc 0$', D_SWITCHES)),
	(['ibnodes'], 0, count(r'^(Ca|Switch)\s', D_HOSTS + D_SWITCHES)),
	(['ibrouters'], 0, silent),
	(['ibnetdiscover', '--cache', '{home}/cache'], 0, count(r'^(Ca|Switch)\s', D_HOSTS + D_SWITCHES)),
	(['ibnetdiscover', '--diff', '{home}/cache'], 0, silent),
	(['ibidsverify'], 0, silent),
	(['saquery', '-t', SEND_ONCE], 0, count('^NodeRecord dump:', D_HOSTS + D_SWITCHES)),
	(['saquery', '-t', SEND_ONCE, '-x'], 0, count('^LinkRecord dump:', 2 * D_LINKS)),
	(['saquery', '-t', SEND_ONCE, 'PIR'], 0, count('^PortInfoRecord dump:', D_HOSTS + 37 * D_SWITCHES)),
	(['saquery', '-t', SEND_ONCE, 'SWIR'], 0, count('^SwitchInfoRecord dump:', D_SWITCHES)),
	(['saquery', '-t', SEND_ONCE, '--src-to-dst', 'h1:h648'], 0, has(r'dlid\.+{far}\n\s+slid\.+{h1}$')),
	(['sminfo'], 0, has(r'sm lid {h1} .* state 3 SMINFO_MASTER')),
	(['ibtracert', '{h1}', '{far}'], 0, count(r'^\[\d+\] -> switch port', 3)),
	(['sh', '-c', 'dump_lfts >{home}/lfts && grep -c "^0x" {home}/lfts'], 0,
	 has(f'^{D_SWITCHES * (D_HOSTS + D_SWITCHES)}$')),
	(['check_lft_balance', '-l', '{home}/lfts', '-i', '{home}/cache'], 0, anything),
	(['dump_mfts'], 0, count(r'^Multicast mlids', D_SWITCHES)),
	(['ibroute', '{s1}'], 0, count(r'^0x', D_HOSTS + D_SWITCHES)),
	(['perfquery', '-a', '{s1}'], 0, has(r'^# Port counters: Lid {s1} port 255')),
	(['perfquery', '-l', '{s1}', '1-36'], 0, count(r'^# Port counters: Lid {s1} port \d', 36)),
	(['ibqueryerrors'], 0, has(r'## Summary: 702 nodes checked, 0 bad nodes found')),
	(['ibping', '-c', '1', '{far}'], 0, has('1 received, 0% packet loss')),
]


def names(lab, far='h8'):
	found = {'home': lab.home}
	for node in ('h1', 'h2', 'h8'):
		found[node] = lab.lid(node)
		found[f'{node}_guid'] = lab.at(node, 'ibstat', '-p').strip()
	found['far'] = lab.lid(far)
	found['h2_hex'] = hex(int(found['h2']))
	discovered = lab.at('h2', 'ibnetdiscover')
	found['s1'] = re.search(r'"s1" base port 0 lid (\d+)', discovered)[1]
	found['s1_guid'] = '0x' + re.search(r'"S-(\w+)"\s+# "s1"', discovered)[1]
	with open(lab.path('net'), encoding='utf-8') as f:
		net = f.read()
	of_s1 = net[net.index('# "s1"'):]
	found['s1_h2'] = re.search(r'^\[(\d+)\].*# "h2"', of_s1, re.M)[1]
	found['s1_up'] = re.search(r'^\[(\d+)\].*# "s\d"', of_s1, re.M)[1]
	return found


class Known:
	"""Puts what is known of the subnet into patterns, too."""
	def __init__(self, lab, **which):
		self.lab, self.names, self.bad = lab, names(lab, **which), 0

	def fill(self, text):
		for name, value in self.names.items():
			text = text.replace('{' + name + '}', value)
		return text

	def call(self, words, status, judge):
		words = [self.fill(word) for word in words]
		found, text = self.lab.try_at('h2', *words)
		wrong = judge(text, self.fill) if found == status else f'it exits with {found}: {text[:300]}'
		self.bad += bool(wrong)
		came_to = 'WRONG' if wrong else 'refused' if status else 'works'
		print(f'{came_to:8} {" ".join(words)}' + (f': {wrong}' if wrong else ''))


def test_ports(lab, known):
	"""A link between switches is taken down, brought up and set by ibportstate; the manager is told."""
	s1, up = known.names['s1'], known.names['s1_up']

	def is_linked():
		return re.search(r'LinkState:\.+Active', lab.at('h2', 'smpquery', 'portinfo', s1, up)) is not None

	known.call(['ibportstate', s1, up, 'query'], 0, has(r'LinkState:\.+Active'))
	# the port as it was is printed before it
	after = r'^After PortInfo set:(\n.*)*\n'
	for words, pattern in ((('disable',), r'PhysLinkState:\.+Disabled'),
			       (('enable',), r'PhysLinkState:\.+(Polling|LinkUp)'), (('reset',), r'PhysLinkState:\.+LinkUp'),
			       (('width', '1'), r'LinkWidthEnabled:\.+1X$'), (('width', '255'), r'LinkWidthEnabled:\.+1X or 4X$'),
			       (('speed', '1'), r'LinkSpeedEnabled:\.+2.5 Gbps$'),
			       (('speed', '15'), r'LinkSpeedEnabled:\.+2.5 Gbps or 5')):
		known.call(['ibportstate', s1, up, *words], 0, has(after + pattern))
		if words[0] != 'disable':
			lab.within('the manager takes the link up', is_linked)


def prepare(lab):
	lab.load_bare(lab.make('fat-tree', 'ports=4'))
	lab.up(lab.start_manager('h1'))
	return Known(lab)


def finish(known, calls):
	print(f'{calls} calls')
	if known.bad:
		raise Wrong(f'{known.bad} calls are not as they must be')


def test_some(lab):
	known = prepare(lab)
	table = DISCOVERY[3:7] + SMP[:8] + WAYS[:2] + NODES_USING + COUNTERS[2:5] + REFUSALS[:1]
	for row in table:
		known.call(*row)
	finish(known, len(table))


def test_all(lab):
	known = prepare(lab)
	for row in EVERY:
		known.call(*row)
	for server in ('ibping', 'ibsysstat'):
		lab.start('h8', server, '-S')
		once = ('-c', '1') if server == 'ibping' else ()
		lab.within(f'{server} answers', lambda s=server, o=once: not lab.try_at('h2', s, *o, known.names['h8'])[0])
	for row in SERVERS:
		known.call(*row)
	test_ports(lab, known)
	finish(known, len(EVERY) + len(SERVERS))


def test_director(lab):
	"""Of 648 hosts. What ibnetdiscover prints is what was made, link by link."""
	net = lab.make(*DIRECTOR)
	lab.load_bare(net)
	lab.up(lab.start_manager('h1'))
	known = Known(lab, far='h648')
	with open(net, encoding='utf-8') as f:
		made = links(f.read())
	if links(lab.at('h2', 'ibnetdiscover')) != made or len(made[0]) != D_LINKS:
		raise Wrong('ibnetdiscover finds another topology')
	lab.start('h648', 'ibping', '-S')
	lab.within('ibping answers', lambda: not lab.try_at('h2', 'ibping', '-c', '1', known.names['far'])[0])
	for row in OF_DIRECTOR:
		known.call(*row)
	finish(known, len(OF_DIRECTOR))


def ask_thousands(lab, who):
	"""Whole tables, each of so many records; NodeInfo and PortInfo are dumped within theirs."""
	slid, ports = lab.lid('h2'), T_HOSTS + T_SWITCHES * (T_PORTS + 1)
	for words, records in (('-N', T_NODES), ('PIR', ports), ('LR', 6 * T_HOSTS), ('SWIR', T_SWITCHES),
			       ('LFTR', T_SWITCHES * (-(-(T_NODES + 1) // 64))), (f'PR --slid {slid}', T_NODES),
			       ('SL2VL', T_HOSTS + T_SWITCHES * (T_PORTS + 1) ** 2)):
		begun = time.monotonic()
		status, text = lab.try_run(*lab.command('h2', 'saquery', '-t', '300000', *words.split()), limit_s=300)
		found = len(re.findall(r'^\w+ ?(?:Record|Table|TableRecord) dump:', text, re.M))
		print(f'{who}: saquery {words}: {found} records in {time.monotonic() - begun:.2f} s')
		if status or found != records:
			lab.fail(f'{who}: saquery {words} gives {found} records of {records}, exit status {status}')


def test_thousands(lab):
	"""Of 5,488 hosts: OpenSM brings the subnet up, and its administration and weft's own give whole tables."""
	net = lab.make('fat-tree', f'ports={T_PORTS}', 'levels=3')
	lab.load_bare(net)
	begun = time.monotonic()
	opensm = lab.start_manager('h1')
	while 'SUBNET UP' not in opensm.logged():
		if not opensm.is_alive() or time.monotonic() > begun + THOUSANDS_S:
			raise Wrong(f'OpenSM has not brought the subnet up: {opensm.logged()[-300:]}')
		time.sleep(POLL_S)
	print(f'OpenSM has brought {T_NODES} nodes up in {time.monotonic() - begun:.1f} s')
	ask_thousands(lab, 'OpenSM')
	opensm.end()
	lab.change('load', '--routing', 'sm', net)
	begun = time.monotonic()
	lab.within('a host is active', lambda: 'State: Active' in lab.at('h2', 'ibstat'))
	print(f"weft's manager has in {time.monotonic() - begun:.1f} s")
	ask_thousands(lab, 'weft')


def tests():
	return {'some': ('e2e', 300, subnet_lab.row(test_some)), 'all': ('long', 600, subnet_lab.row(test_all)),
		'director': ('long', 300, subnet_lab.row(test_director)),
		'thousands': ('long', 900, subnet_lab.row(test_thousands))}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'saquery', 'smpquery', 'ibtracert', 'ibroute', 'perfquery', 'ibnetdiscover')))
