#!/usr/bin/env python3
"""weft's own subnet manager and subnet administration: a fabric comes up without OpenSM, Debian's programs ask it, join groups
and follow its tables; OpenSM, unmodified, takes its place and gives it back.

subnet_own.py --list                  one line a test: name, label, timeout
subnet_own.py --weft PROGRAM NAME...  runs these tests
"""
import contextlib
import ipaddress
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import subnet_lab
from subnet_lab import Wrong, says
from subnet_manager import leads_around, is_active
from subnet_multicast import finish, members, start
import run	# of abi/, whose place subnet_lab tells

KILLS = 12
UNANSWERED_S = 120	# a question whose answer was thrown away is asked again after so long
HERE = os.path.dirname(os.path.abspath(__file__))
IBSIM = '/usr/share/doc/ibsim-utils/net-examples'
OWN, OPENSM = '0x200000000200000', '0x200000000100001'	# GUIDs of s1, where weft's runs, and of h1

# saquery's ways to ask. 4 and 14 are LIDs of hosts
FORMS = ('-N', '-D', '-c', '-S', '-I', '-x', '-g', '-m', '-s', '-p', '--list', '-G h3', '-L h3', '-O 4', '-U 4',
	 '-m --smkey 1', 'NR', 'NR 4', 'PIR', 'PIR 1/2', 'SWIR', 'SWIR 1', 'SWIR 4', 'LR', 'LFTR', 'MFTR', 'SMIR', 'MCMR',
	 'SL2VL', 'VLAR', 'GIR', 'SR', 'IIR', 'CPI', 'PKTR --smkey 1', 'PR --slid 4 --dlid 14', 'PR --slid 4')
# and to choose: selectors of paths and groups, ends, parts of tables
PATHS = ('--pkey 0xffff', '--mtu 0x84', '--sl 0', '--sl 3', '--numb_path 1', '--reversible 1', '--reversible 0', '--qos_class 0',
	 '--qos_class 1', '--pkt_lifetime 0x92', '--rate 0x83', '--rate 0x90', '--tclass 1', '--flow_label 1', '--hop_limit 1',
	 '--service_id 1')
GROUPS = ('--mgid ff12:401b:ffff::ffff:ffff', '--mlid 0xc000', '--pkey 0xffff', '--mtu 0x84', '--rate 0x83', '--scope 2',
	 '--sl 0', '--proxy_join 0', '--tclass 0', '--hop_limit 0', '--flow_label 0', '--qkey 0xb1b',
	 '--gid fe80::200:0:10:1', '--join_state 1', '--join_state 4', '--pkt_lifetime 0x92')
FORMS += tuple(f'PR --slid 4 --dlid 14 {option}' for option in PATHS) + tuple(f'MCMR {option}' for option in GROUPS)
FORMS += ('--src-to-dst 4:14', '--src-to-dst h1:h3', '--sgid-to-dgid fe80::200:0:10:1-fe80::200:0:10:f',
	 'PR --sgid fe80::200:0:10:1 --dgid fe80::200:0:10:f', 'PR --slid 4 --dlid 99', 'PR --slid 99', '-m 0xC000', '-K -m',
	 '-K PIR 4', '-K SR', 'PIR 4', 'PIR 1/0', 'PIR 4/1/0', 'LR 1/1', 'LR 1', 'LR 1 4', 'SL2VL 1', 'SL2VL 4',
	 'SL2VL 1/1/2', 'VLAR 1', 'VLAR 4', 'VLAR 4/1/1', 'VLAR 4/1', 'PKTR', 'PKTR 4 --smkey 1', 'PKTR 1/1/0 --smkey 1',
	 'GIR 4', 'GIR 4/0', 'GIR 4/1', 'LFTR 1/9', 'MFTR 0xc000', 'MFTR 0xc000/0', 'MFTR 0xc000/0/0', 'SMIR 99',
	 'IIR fe80::200:0:10:1', 'NR 99', 'NR --smkey 2', 'NR -K', '-G nosuch', '-U 99', '-l h3',
	 'PR --slid 4 --dgid ff12:401b:ffff::ffff:ffff')

# Several paths at once, which saquery does not ask for: words of sa_multipath.py. h1 and h2 are at one switch, h7 and h8 at one
H1, H2, H7, H8 = (f'fe80::200:0:10:{port}' for port in ('1', '3', 'd', 'f'))
ALL_HOSTS = ','.join(f'fe80::200:0:10:{port:x}' for port in range(1, 16, 2))
MULTI = (f'{H1} {H8}', f'{H1},{H2} {H7},{H8}', f'{H1} {ALL_HOSTS}', f'{H1} {H1}', f'{H1} fe80::5')
MULTI += tuple(f'{H1} {H8} {option}' for option in (
	'numb_path=0', 'numb_path=1', 'pkey=0xffff', 'pkey=0x8005', 'sl=0', 'sl=3', 'mtu=0x84', 'mtu=5', 'life=0x92',
	'reversible=0', 'reversible=1', 'indep=1'))
MULTI += (f'{H1} {H7},{H8} numb_path=1', f'{H1},{H2} {H8} numb_path=2', f'{H1},{H2} {H7},{H8} numb_path=2',
	  f'{H2},{H1} {H7},{H8} numb_path=2 indep=1', f'{H1},{H2} {H7},{H8} numb_path=3')

# What differs: where the manager is and how often it was asked; the port by which its SMPs come to a node; what else it can do,
# without which saquery prints no MulticastFDBTop; LinearFDBTop, to the end of a block; and that OpenSM lets switches enforce the
# default partition.
NAMED = (r'(?m)^\s*(SMLid|master_sm_base_lid|LocalPort|ActCount|Priority|SMState)[:.].*\n?',
	 r'(?m)^\s*(Capability mask 2|PartEnforce\w+|LinearFDBTop|MulticastFDBTop)[:.].*\n?',
	 r'\n\s*IsSM(?=\n)', r'(?m)^\s*CapMask:.*\n', r'(?m)^\s*capability_mask.*\n')
# a path at exactly a lower rate, at which weft's end is to send, and one to a group: OpenSM has none
OF_WEFT = ('PR --slid 4 --dlid 14 --rate 0x83', 'PR --slid 4 --dlid 14 --rate 0x90',
	   'PR --slid 4 --dgid ff12:401b:ffff::ffff:ffff')
# two managers are there, not one: what weft said alone is a part
OF_ANOTHER_MANAGER = ('SMIR', '-s')
# OpenSM leaves the lanes of a switch's own port alone, of which it has zeros
OF_OTHER_TABLES = ('SL2VL', 'SL2VL 1', 'VLAR', 'VLAR 1')
OWN_PORT = r'(?m)^\s*(OutPort|Port)\.+0$'

# saquery asks once: a question that is lost has no answer. So links lose when it has come.
ALL_PATHS = ('saquery', '-p', '-t', str(1000 * UNANSWERED_S))
SLOW, SLOW_AND_LOSSY = 'rate=20Mbit', 'rate=20Mbit,loss=1%,seed=3'


def manager_at(lab, node):
	"""Its GUID and state; nobody answers between two of them."""
	said = re.search(r'sm guid (\S+), activity .* (SMINFO_\w+)', lab.try_at(node, 'sminfo')[1])
	return said and said.groups()


def manager(lab):
	return manager_at(lab, 'h2')


def load(lab, *kind):
	"""A host may be there before the manager has come to it."""
	lab.change('load', '--routing', 'sm', lab.make(*kind))
	lab.within('the subnet is up', lambda: 'State: Active' in lab.at('h1', 'ibstat'))


def records(lab, form):
	"""In an order of their own: each as text, without what is named above."""
	status, text = lab.try_at('h2', 'saquery', '-t', '10000', *form.split())
	if re.search(r'^Usage:', text, re.M):
		raise Wrong(f'saquery has no form {form}')
	for pattern in NAMED:
		text = re.sub(pattern, '', text)
	parts = [part.strip() for part in re.split(r'\n(?=\S.*dump:?\n)', '\n' + text)]
	if form in OF_OTHER_TABLES:
		parts = [part for part in parts if not re.search(OWN_PORT, part)]
	if form == 'LFTR':
		# which of two ways that are equally good is the manager's choice
		parts = [re.sub(r'(?m)^(\s*\d+\s+)(?!255$)\d+$', r'\1a port', part) for part in parts]
	return status, sorted(parts)


def multi_paths(lab, words):
	status, text = lab.try_at('h2', sys.executable, '-B', os.path.join(HERE, 'sa_multipath.py'), *words.split())
	return status, sorted(text.splitlines())


def ask_all(lab):
	return {form: records(lab, form) for form in FORMS} | {words: multi_paths(lab, words) for words in MULTI}


def is_same(form, own, theirs):
	if form in OF_WEFT:
		return len(own[1]) == len(theirs[1]) + 1 == 2
	if form in OF_ANOTHER_MANAGER:
		return set(own[1]) < set(theirs[1])
	return own == theirs


def takes_over(lab, guid):
	lab.within(f'{guid} is the master', lambda: manager(lab) == (guid, 'SMINFO_MASTER'))


def ping(lab):
	wrong = lab.pingpong('h8', 'h1') or lab.pingpong('h3', 'h6')
	if wrong:
		lab.fail(wrong)


def test_takeover(lab):
	"""Every query is answered as OpenSM answers it, of the same fabric: OpenSM leaves LIDs as they are."""
	load(lab, 'fat-tree', 'ports=4')
	says(lab.at('h1', 'ibstat'), r'State: Active\n.*\n.*\n\s+Base lid: [1-9]')
	if manager(lab) != (OWN, 'SMINFO_MASTER'):
		raise Wrong(f'the manager is {manager(lab)}')
	says(lab.at('h2', 'saquery', 'SMIR'), rf'GUID\.+{OWN.replace("0x", "0x0")}\n')
	says(lab.at('h2', 'smpquery', 'portinfo', lab.at('h2', 'sminfo').split()[3], '0'), r'IsSM\b')
	ping(lab)
	own, lids = ask_all(lab), [lab.lid(f'h{i}') for i in range(1, 9)]
	opensm = lab.start_manager('h1', '-p', '15', '-Q')
	takes_over(lab, OPENSM)
	lab.up(opensm)
	if lids != [lab.lid(f'h{i}') for i in range(1, 9)]:
		lab.fail('LIDs change with the manager')
	ping(lab)
	for form, theirs in ask_all(lab).items():
		if not is_same(form, own[form], theirs):
			only = [sorted(set(a[1]) - set(b[1]))[:1] for a, b in ((own[form], theirs), (theirs, own[form]))]
			lab.fail(f'saquery {form}: weft: {own[form][0]} {only[0]}; OpenSM: {theirs[0]} {only[1]}')
	opensm.end()
	takes_over(lab, OWN)
	ping(lab)


def test_handover(lab):
	"""OpenSM's priority is lowered while it runs: it hands the subnet over to weft's, which refuses nothing."""
	lab.change('load', '--routing', 'sm', '--priority', '7', lab.make('fat-tree', 'ports=4'))
	takes_over(lab, OWN)
	conf = lab.write('opensm.conf', 'sm_priority 15\n')
	opensm = lab.start_manager('h1', '-F', conf)
	takes_over(lab, OPENSM)
	lab.up(opensm)
	lab.write('opensm.conf', 'sm_priority 3\n')
	opensm.process.send_signal(signal.SIGHUP)
	lab.within('OpenSM stands by again', lambda: opensm.logged().count('Entering STANDBY') == 2)
	takes_over(lab, OWN)
	refused = administration(lab)['info_refused']
	if refused:
		lab.fail(f'{refused} of what OpenSM says of itself were refused')
	ping(lab)


def test_killed(lab):
	"""OpenSM is killed: the standby misses it, and sees what has changed meanwhile."""
	load(lab, 'fat-tree', 'ports=4')
	opensm = lab.start_manager('h1', '-p', '15')
	lab.up(opensm)
	takes_over(lab, OPENSM)
	lab.weft('fabric', 'link', 's2:1', 'down')
	opensm.end(signal.SIGKILL)
	takes_over(lab, OWN)
	lab.within('ways lead around the link that went down meanwhile', lambda: lab.check()['reached'] == 56)
	lab.weft('fabric', 'link', 's2:1', 'up')
	ping(lab)


def test_healed(lab):
	"""A part that was cut off has a master of its own, OpenSM: when it is one subnet again the better one has all of it."""
	net = lab.make('line', 'switches=4')
	h4 = re.search(r'"h4"\n\[1\]\((\w+)\)', lab.weft('fabric', 'make', 'line', 'switches=4'))[1]
	for priority, theirs, best in (('7', '3', OWN), ('3', '7', f'0x{h4}')):
		lab.change('load', '--priority', priority, '--routing', 'sm', net)
		takes_over(lab, OWN)
		lab.within('all paths reach', lambda: lab.check()['reached'] == lab.check()['paths'] == 12)
		lab.weft('fabric', 'link', 's3:1', 'down')
		opensm = lab.start_manager('h4', '-p', theirs)
		lab.within('each part has a master', lambda: (manager_at(lab, 'h1'), manager_at(lab, 'h3')) == (
			(OWN, 'SMINFO_MASTER'), (f'0x{h4}', 'SMINFO_MASTER')))
		lab.within('OpenSM has brought its part up', lambda: 'SUBNET UP' in opensm.logged())
		lab.weft('fabric', 'link', 's3:1', 'up')
		lab.within(f'{best} is the master of all', lambda guid=best: all(
			manager_at(lab, host) == (guid, 'SMINFO_MASTER') for host in ('h1', 'h2', 'h3', 'h4')))
		lab.within('all paths reach again', lambda: lab.check()['reached'] == lab.check()['paths'] == 12)
		wrong = lab.pingpong('h1', 'h4')
		if wrong:
			lab.fail(wrong)
		opensm.end()
		takes_over(lab, OWN)
		print(f'priority {priority} against {theirs}: {best} is the master')


def test_links(lab):
	"""What goes down is led around, and comes back; ibtracert follows the tables."""
	load(lab, 'fat-tree', 'ports=4')
	h1, h8 = lab.lid('h1'), lab.lid('h8')
	s1 = re.search(r'lid (\d+)-\d+ "s1"', lab.at('h1', 'ibtracert', h1, h8))[1]
	for port in ('1', '2'):
		lab.weft('fabric', 'link', f's1:{port}', 'down')
		lab.within('the manager leads around', lambda p=port: leads_around(lab, p, h1, h8))
		lab.within('a connection by the other way', lambda: not lab.pingpong('h8', 'h1'))
		lab.weft('fabric', 'link', f's1:{port}', 'up')
		lab.within('the manager takes the link up', lambda p=port: is_active(lab, s1, p))
	lab.weft('fabric', 'link', 'h5:1', 'down')
	lab.within('nobody sees the host', lambda: '"h5"' not in lab.at('h1', 'ibhosts'))
	lab.weft('fabric', 'link', 'h5:1', 'up')
	lab.within('it is there again', lambda: 'State: Active' in lab.at('h5', 'ibstat'))
	lab.within('paths lead to it', lambda: lab.check()['reached'] == 56)


def test_multicast(lab):
	"""rdma_cm joins at weft's administration, and data follows its trees."""
	load(lab, 'fat-tree', 'ports=4')
	receivers = start(lab, ('h3', 'h5'))
	lab.within('the administration knows them', lambda: members(lab) == ['h3', 'h5'])
	finish(lab, receivers)
	lab.within('they have left', lambda: members(lab) == [])


def test_weftd(lab):
	"""The next weftd goes on: LIDs, also of a host that is away, and who is a member."""
	load(lab, 'fat-tree', 'ports=4')
	lids = [lab.lid(f'h{i}') for i in range(1, 9)]
	receivers = start(lab, ('h3', 'h5'), 4000)
	lab.weft('fabric', 'link', 'h2:1', 'down')
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	lab.within('they are members again', lambda: members_at(lab, 'h4') == ['h3', 'h5'])
	lab.weft('fabric', 'link', 'h2:1', 'up')
	lab.within('the host is there', lambda: 'State: Active' in lab.at('h2', 'ibstat'))
	if lids != [lab.lid(f'h{i}') for i in range(1, 9)]:
		lab.fail('LIDs change with weftd')
	for receiver in receivers:
		receiver.end(signal.SIGKILL)
	# a host that is away while two weftds end has its LID still
	lab.weft('fabric', 'link', 'h2:1', 'down')
	for _ in range(2):
		os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
		lab.within('the next manager', lambda: manager_at(lab, 'h4') == (OWN, 'SMINFO_MASTER'))
	lab.weft('fabric', 'link', 'h2:1', 'up')
	lab.within('the host is there again', lambda: 'State: Active' in lab.at('h2', 'ibstat'))
	if lab.lid('h2') != lids[1]:
		lab.fail(f'a host that was away has LID {lab.lid("h2")}, not {lids[1]}')
	# what the database says is what a port gets
	guid = int(re.search(r'Port GUID: (\S+)', lab.at('h2', 'ibstat'))[1], 16)
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	kept = kept_lids(lab, 'UPDATE lids SET lid = 60 WHERE guid = ?', guid)
	if len(kept) != 14 or kept[guid] != 60:
		lab.fail(f'the database has {kept}')
	lab.within('the LID is that of the database', lambda: 'Base lid: 60' in lab.try_at('h2', 'ibstat')[1])


def kept_lids(lab, change=None, *values):
	"""What weftd has kept, by GUID, read as any program would; {} without a table."""
	path = os.path.join(lab.env['WEFT_DIR'], 'made-by-weft', 'lids.db')
	if not os.path.exists(path):
		return {}
	with contextlib.closing(sqlite3.connect(path)) as db:
		if change:
			db.execute(change, values)
			db.commit()
		try:
			return dict(db.execute('SELECT guid, lid FROM lids'))
		except sqlite3.OperationalError:
			return {}


def shown_lids(lab):
	"""By GUID: of hosts' ports, and of switches."""
	shown = {}
	for node in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']:
		shown.update((int(ipaddress.IPv6Address(port['gid'])) % 2 ** 64, port['lid'])
			     for port in node['ports'] if port['lid'])
	return shown


def test_lids(lab):
	"""weftd is killed at some moment of a bring-up: what is kept by then is the ports' for ever."""
	net, kinds = lab.make('fat-tree', 'ports=8'), set()
	lab.change('load', '--routing', 'sm', net)
	for i in range(KILLS):
		pid = json.loads(lab.weft('status', '--json'))['pid']
		with subprocess.Popen((lab.weft_path, 'fabric', 'load', '--routing', 'sm', net), env=lab.env,
				      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load_again:
			time.sleep(0.001 * i)
			os.kill(pid, signal.SIGKILL)
			load_again.wait(subnet_lab.LIMIT_S)
		kept = kept_lids(lab)
		kinds.add(len(kept))
		lab.within('the next manager', lambda: manager(lab) == (OWN, 'SMINFO_MASTER'))
		lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
		shown = shown_lids(lab)
		lost = {guid: lid for guid, lid in kept.items() if shown.get(guid) != lid}
		if lost or len(kept) not in (0, len(shown)):
			lab.fail(f'after {i} ms {len(kept)} LIDs of {len(shown)} were kept; others now: {lost}')
	print(f'killed with so many LIDs kept: {kinds}')
	# another one begins anew beside what is no database, which stays
	path = os.path.join(lab.env['WEFT_DIR'], 'made-by-weft', 'lids.db')
	lids = [lab.lid(f'h{i}') for i in (1, 2, 31)]
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
	with open(path, 'w', encoding='utf-8') as f:
		f.write('no database')
	lab.within('the next manager', lambda: manager(lab) == (OWN, 'SMINFO_MASTER'))
	if lids != [lab.lid(f'h{i}') for i in (1, 2, 31)]:
		lab.fail('LIDs change without a database, which ports have')
	with open(path + '.aside-1', encoding='utf-8') as f:
		if f.read() != 'no database':
			lab.fail('what weft cannot read is lost')
	lab.within('a new database', lambda: len(kept_lids(lab)) == 32 + 12)
	os.unlink(path + '.aside-1')


def members_at(lab, node):
	text = lab.try_at(node, 'saquery', '--smkey', '1', '-m')[1]
	return sorted(re.search(r'NodeDescription\.+(\S+)', block)[1] for block in text.split('MCMemberRecord member dump:')
		      if re.search(r'Mlid\.+0xc001', block, re.IGNORECASE))


def test_kinds(lab):
	"""Every kind comes up, all paths reach, and nothing can deadlock."""
	for kind in (('torus', 'size=4x4', 'hosts=1'), ('mesh', 'size=3x3'), ('line', 'switches=5'), ('dragonfly',), ('star',)):
		load(lab, *kind)
		lab.within(f'all paths of a {kind[0]} reach', lambda: lab.check()['reached'] == lab.check()['paths'] > 0)
		if lab.check()['credit_loop']:
			lab.fail(f'a {kind[0]} has a credit loop')


def test_tables(lab):
	"""More tables at once than the administration may have under way: questions wait, and each has its answer."""
	load(lab, 'fat-tree', 'ports=16')
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	lab.weft('fabric', 'link', 'h2:1', SLOW)
	asked = [lab.start('h2', 'sh', '-c', f'saquery -p -t {1000 * UNANSWERED_S} | grep -c ^PathRecord') for _ in range(9)]
	lab.within('all questions are there', lambda: administration(lab)['queries'] + administration(lab)['waiting'] >= 9)
	begun = time.monotonic()
	lab.weft('fabric', 'link', 'h2:1', 'loss=1%,seed=3')
	for program in asked:
		program.process.wait(UNANSWERED_S)
		if program.text().strip() != str((128 + 24) ** 2):
			lab.fail(f'a table of all paths has {program.text()[-200:]}')
	print(f'{len(asked)} tables of 1.5 MB in {time.monotonic() - begun:.1f} s')


def all_paths(lab, seconds=UNANSWERED_S):
	"""What a host is told of all paths between all nodes: its exit status, and the pairs of LIDs in their order."""
	status, text = lab.try_at('h2', 'saquery', '-p', '-t', str(1000 * seconds))
	return status, re.findall(r'^\s+dlid\.+(\d+)\n\s+slid\.+(\d+)$', text, re.M)


def administration(lab):
	return json.loads(lab.weft('mad', '--json'))['administration']


def expect_whole(lab, what, asker, seconds):
	"""All of a table, each path once, within so long."""
	try:
		status = asker.process.wait(seconds)
	except subprocess.TimeoutExpired as late:
		raise Wrong(f'{what}: saquery goes on for more than {seconds} s') from late
	found = re.findall(r'^\s+dlid\.+(\d+)\n\s+slid\.+(\d+)$', asker.text(), re.M)
	if status or len(found) != 230 ** 2 or len(set(found)) != len(found):
		raise Wrong(f'{what}: {len(found)} paths, {len(set(found))} of them different; exit status {status}')


def ask_over_slow_link(lab):
	"""For all paths, which are under way."""
	lab.weft('fabric', 'link', 'h2:1', SLOW)
	before = administration(lab)['long_answers']
	asker = lab.start('h2', *ALL_PATHS)
	lab.within('an answer is under way', lambda: administration(lab)['long_answers'] == before + 1)
	return asker


def ask_for_all_paths(lab, nodes):
	"""All of them, each once, as OpenSM gives them."""
	begun = time.monotonic()
	status, own = all_paths(lab)
	took = time.monotonic() - begun
	if status or len(own) != nodes ** 2 or len(set(own)) != len(own):
		raise Wrong(f'{len(own)} paths, {len(set(own))} of them different, of {nodes ** 2}; exit status {status}')
	if administration(lab)['long_answers'] != 1 or administration(lab)['cut_short']:
		lab.fail(f'the administration tells of {administration(lab)}')
	opensm = lab.start_manager('h1', '-p', '15')
	takes_over(lab, OPENSM)
	lab.up(opensm)
	begun = time.monotonic()
	status, theirs = all_paths(lab)
	print(f'{len(own)} paths in {took:.2f} s, from OpenSM in {time.monotonic() - begun:.2f} s')
	if status or sorted(own) != sorted(theirs):
		lab.fail(f'OpenSM gives {len(theirs)} paths, exit status {status}; {sorted(set(own) ^ set(theirs))[:4]} differ')


def test_long_answers(lab):
	"""A table that is too long to be held is whole, over links that lose, and of one state of the subnet, or there is none;
	small questions of others are answered meanwhile."""
	load(lab, 'fat-tree', 'ports=20')
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	ask_for_all_paths(lab, 230)
	for program in lab.programs:
		program.end()
	takes_over(lab, OWN)
	asker = ask_over_slow_link(lab)
	lab.weft('fabric', 'link', 'h2:1', SLOW_AND_LOSSY)
	expect_whole(lab, 'over a link that loses', asker, UNANSWERED_S)
	lab.weft('fabric', 'link', 'h2:1', SLOW)
	# the link of another host goes down in the midst of one
	before = administration(lab)
	asker = lab.start('h2', 'saquery', '-p', '-t', '3000')
	lab.within('an answer begins', lambda: administration(lab)['long_answers'] > before['long_answers'])
	says(lab.at('h3', 'saquery', '-t', '10000', '-L', 'h3'), r'^\d+\n$')
	lab.weft('fabric', 'link', 'h9:1', 'down')
	lab.within('it ends', lambda: not asker.is_alive())
	found = len(set(re.findall(r'^\s+dlid\.+(\d+)\n\s+slid\.+(\d+)$', asker.text(), re.M)))
	if found not in (0, 229 ** 2) or administration(lab)['cut_short'] != before['cut_short'] + 1:
		lab.fail(f'a subnet that changes gives {found} paths, and {administration(lab)}')
	status, paths = all_paths(lab)
	if status or len(set(paths)) != 229 ** 2:
		lab.fail(f'behind a change, {len(set(paths))} paths; exit status {status}')


def test_long_answers_many(lab):
	"""Who asks for more tables than may be under way has each in turn, and leaves others theirs."""
	load(lab, 'fat-tree', 'ports=20')
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	lab.weft('fabric', 'link', 'h2:1', SLOW)
	count = f'saquery -p -t {1000 * UNANSWERED_S} | grep -c ^PathRecord'
	asked = [lab.start('h2', 'sh', '-c', count) for _ in range(12)]
	lab.within('they are answered', lambda: administration(lab)['long_answers'] > 1)
	others = lab.start('h7', 'sh', '-c', count)
	others.process.wait(UNANSWERED_S)
	if all(not program.is_alive() for program in asked):
		lab.fail('a host waits until all tables of another one have gone')
	for program in (others, *asked):
		program.process.wait(UNANSWERED_S)
		if program.text().strip() != str(230 ** 2):
			lab.fail(f'a table of all paths has {program.text()[-200:]}')


def kill_weftd(lab):
	os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)


def holds_answer(lab, asker):
	"""Has the whole of it come to the program's weftd, which gives it in pieces?"""
	clients = (c for q in json.loads(lab.weft('mad', '--json'))['qps'] for c in q['clients'])
	return any(c.get('pid') == asker and c['held'] for c in clients)


def test_long_answers_killed(lab):
	"""weftd is killed while its administration sends a long answer, and while the program has a part of it: the program is
	given the whole by the next weftd."""
	load(lab, 'fat-tree', 'ports=20')
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	asker = ask_over_slow_link(lab)
	time.sleep(0.3)		# of the 1.4 s that it takes at least
	if not asker.is_alive():
		raise Wrong('the answer is there before weftd is killed')
	kill_weftd(lab)
	lab.within('the next one answers', lambda: (administration(lab) or {}).get('long_answers') == 1)
	lab.weft('fabric', 'link', 'h2:1', SLOW_AND_LOSSY)
	expect_whole(lab, 'killed while it sends', asker, UNANSWERED_S)
	# a program that stands still when its answer is there has as much of it as its socket takes
	asker = ask_over_slow_link(lab)
	asker.process.send_signal(signal.SIGSTOP)
	lab.within('it is there', lambda: holds_answer(lab, asker.process.pid))
	kill_weftd(lab)
	asker.process.send_signal(signal.SIGCONT)
	expect_whole(lab, 'killed while a part of it is read', asker, UNANSWERED_S)
	lab.within('the next manager', lambda: manager(lab) == (OWN, 'SMINFO_MASTER'))
	lab.weft('fabric', 'link', 'h2:1', 'up')
	expect_whole(lab, 'asked again', lab.start('h2', *ALL_PATHS), UNANSWERED_S)
	lab.within('all paths reach still', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])


def test_long_answers_director(lab):
	"""All paths between 648 hosts and 54 switches."""
	load(lab, 'fat-tree', 'ports=36')
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	ask_for_all_paths(lab, 702)


def test_loss(lab):
	"""Links that lose a third of all datagrams: it takes longer."""
	load(lab, 'fat-tree', 'ports=4')
	for link in ('s1:1', 's2:1', 's1:3'):
		lab.weft('fabric', 'link', link, 'loss=30%,seed=3')
	lab.weft('fabric', 'link', 's3:1', 'down')
	lab.within('ways lead around', lambda: lab.check()['reached'] == 56)


def test_osmtest(lab):
	"""OpenSM's own questions to a subnet administration."""
	load(lab, 'fat-tree', 'ports=4')
	for flow in 'ceqsa':
		# it writes into the folder that it is in
		words = f'cd {lab.home} && exec osmtest -f {flow} -i inventory -l osmtest.log'
		says(lab.at('h2', 'sh', '-c', words), r'OSMTEST: TEST ".*" PASS')


def test_default(lab):
	"""Data flows at once by the tables that were loaded, and the manager leaves them as they are."""
	for kind in (('fat-tree', 'ports=8'), ('torus', 'size=4x4', 'hosts=1')):
		says(lab.weft('fabric', 'load', lab.make(*kind)), "; weft's subnet manager takes it over\n")
		loaded = lab.check()
		if loaded['reached'] != loaded['paths'] or loaded['credit_loop']:
			raise Wrong(f'what was loaded is {loaded}')
		takes_over(lab, OWN)
		lab.within('hosts know the manager', lambda: 'SM lid: 1' in lab.at('h1', 'ibstat'))
		if lab.check() != loaded:
			lab.fail(f'the manager changes the tables of a {kind[0]}')
	ping(lab)
	opensm = lab.start_manager('h1', '-p', '15')
	takes_over(lab, OPENSM)
	opensm.end()
	takes_over(lab, OWN)
	lab.weft('fabric', 'link', 's1:1', 'down')
	lab.within('ways lead around a link', lambda: lab.check()['reached'] == loaded['paths'])
	lab.change('load', '--routing', 'auto', lab.make('fat-tree', 'ports=4'))
	if not lab.try_at('h1', 'sminfo')[0]:
		lab.fail('a fabric that was loaded with --routing auto has a manager')


def test_options(lab):
	"""Its priority, and as many LIDs for each host as are wanted, with paths to all of them."""
	net = lab.make('fat-tree', 'ports=4')
	for words, said in ((('--priority', '16'), '0 to 15'), (('--lmc', '8'), '0 to 7'), (('--lmc', 'x'), '0 to 7'),
			    (('--priority', '3', '--routing', 'auto'), 'is that of')):
		status, text = lab.try_run(lab.weft_path, 'fabric', 'load', *words, net)
		if status != 2 or said not in text:
			lab.fail(f'{words}: {status}, {text}')
	for routing in ((), ('--routing', 'sm')):
		lab.change('load', '--priority', '7', '--lmc', '1', *routing, net)
		takes_over(lab, OWN)
		lab.within('the subnet is up', lambda: 'State: Active' in lab.at('h1', 'ibstat'))
		says(lab.at('h2', 'sminfo'), r'priority 7 ')
		says(lab.at('h1', 'ibstat'), r'LMC: 1\n')
		paths = lab.at('h2', 'saquery', '--src-to-dst', f'{lab.lid("h1")}:{lab.lid("h8")}')
		paths += lab.at('h2', 'saquery', '--src-to-dst', f'{lab.lid("h1")}:{int(lab.lid("h8")) + 1}')
		if paths.count('PathRecord') != 2:
			lab.fail(f'paths to both LIDs: {paths}')
		lab.within('all LIDs are led to', lambda: lab.check()['reached'] == lab.check()['paths'] == 8 * 7 * 2)
	# the same from a file, which the command's own words are above
	conf = lab.write('options', 'sm_priority 7\nlmc 1\nsm_key 0x2222\n')
	lab.change('load', '--options', conf, net)
	takes_over(lab, OWN)
	says(lab.at('h2', 'sminfo'), r'priority 7 ')
	says(lab.at('h1', 'ibstat'), r'LMC: 1\n')
	lab.within('all LIDs are led to', lambda: lab.check()['reached'] == lab.check()['paths'] == 8 * 7 * 2)
	lid = lab.lid('h1')
	counted = administration(lab)['wrong_keys']
	told = [lab.try_at('h2', 'saquery', '--smkey', key, 'PKTR', lid) for key in ('0x2222', '1')]
	if told[0][0] or 'PKey' not in told[0][1] or 'PKey' in told[1][1]:
		lab.fail(f'the SM_Key is not that of the file: {told}')
	if administration(lab)['wrong_keys'] <= counted:
		lab.fail('a wrong SM_Key is not counted')
	# managers with the same key agree; OpenSM reads the same file
	opensm = lab.start_manager('h1', '-p', '15', '-F', conf)
	takes_over(lab, OPENSM)
	lab.up(opensm)
	opensm.end()
	takes_over(lab, OWN)
	lab.change('load', '--options', conf, '--priority', '5', '--lmc', '0', net)
	takes_over(lab, OWN)
	says(lab.at('h2', 'sminfo'), r'priority 5 ')
	says(lab.at('h1', 'ibstat'), r'LMC: 0\n')
	for words in ('sm_priority 16\n', 'lmc 8\n', 'sm_key 0\n'):
		status, said = lab.try_run(lab.weft_path, 'fabric', 'load', '--options', lab.write('bad', words), net)
		if status != 1 or ':1: ' not in said:
			lab.fail(f'{words}: {status}, {said}')
	lab.change('load', '--priority', '7', '--lmc', '1', net)
	takes_over(lab, OWN)
	worse = lab.start_manager('h1', '-p', '6')
	lab.within('OpenSM stands by', lambda: 'Entering STANDBY' in worse.logged())
	if manager(lab) != (OWN, 'SMINFO_MASTER'):
		lab.fail(f'one of a lower priority takes over: {manager(lab)}')
	worse.end()
	better = lab.start_manager('h3', '-p', '8')
	lab.up(better)


def test_kills(lab):
	"""weftd is killed again and again, a moment after a change: the next one brings all up, with the same LIDs."""
	load(lab, 'fat-tree', 'ports=8')
	lab.within('paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	lids = [lab.lid(f'h{i}') for i in (1, 2, 30, 31)]
	for i in range(KILLS):
		lab.weft('fabric', 'link', f's{1 + i % 8}:{1 + i % 4}', 'down' if i < KILLS // 2 else 'up')
		time.sleep(0.001 * i * i / 4)
		os.kill(json.loads(lab.weft('status', '--json'))['pid'], signal.SIGKILL)
		lab.within('the next manager', lambda: manager(lab) == (OWN, 'SMINFO_MASTER'))
	for i in range(8):
		for number in range(1, 5):
			lab.weft('fabric', 'link', f's{1 + i}:{number}', 'up')
	lab.within('all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	if lab.check()['credit_loop'] or lids != [lab.lid(f'h{i}') for i in (1, 2, 30, 31)]:
		lab.fail('LIDs are others, or there is a credit loop')
	wrong = lab.pingpong('h1', 'h31')
	if wrong:
		lab.fail(wrong)


PARTITIONS = '''# everybody asks the administration, and data is for members
Default=0x7fff, ipoib : ALL=limited, SELF=full;
red=0x0001 : h1=full,
	h3=limited, h5=limited;
blue=0x8002, defmember=full : h2, h4:1, 0x20000000010000b=limited, h1=limited ;
'''


# h6 is meant by its GUID
MEMBERS = (('h1', ('0x7fff', '0x8001', '0x0002')), ('h3', ('0x7fff', '0x0001')), ('h4', ('0x7fff', '0x8002')),
	   ('h6', ('0x7fff', '0x0002')), ('h7', ('0x7fff',)))


def has_partitions(lab):
	"""Ports and their hosts have the P_Keys of the file, and these alone."""
	for node, keys in MEMBERS:
		said = [lab.at(node, 'cat', f'/sys/class/infiniband/weft0/ports/1/pkeys/{i}').strip() for i in range(32)]
		table = re.findall(r'0x[0-9a-f]{4}\b', lab.at('h2', 'smpquery', 'pkeys', lab.lid(node), '1'))
		if tuple(key for key in said if int(key, 16)) != keys or table != said:
			return False
	return True


def test_partitions(lab):
	"""Who shares a partition with a full member reaches it; the administration gives paths to these alone."""
	net, conf = lab.make('fat-tree', 'ports=4'), lab.write('partitions', PARTITIONS)
	for routing in ((), ('--routing', 'sm')):
		lab.change('load', '--partitions', conf, *routing, net)
		takes_over(lab, OWN)
		lab.within('all paths reach', lambda: lab.check()['reached'] == 56)
		if not has_partitions(lab):
			lab.fail('ports have other P_Keys than the file says')
		lids = {node: lab.lid(node) for node in ('h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'h7')}
		for a, b, is_one in (('h1', 'h3', True), ('h3', 'h5', False), ('h2', 'h6', True), ('h1', 'h6', False),
				     ('h1', 'h2', True), ('h3', 'h2', False), ('h7', 'h1', False)):
			said = lab.try_at(a, 'saquery', '--src-to-dst', f'{lids[a]}:{lids[b]}')[1]
			if ('PathRecord' in said) != is_one:
				lab.fail(f'a path from {a} to {b}: {said}')
	# anybody may write into a port that has no M_Key: when its link has been down, it has its own again
	forge = (sys.executable, '-B', os.path.join(HERE, 'set_pkeys.py'))
	says(lab.at('h2', *forge, lids['h3'], '0xffff', '0', '0x8009'), '^0xffff 0x0000 0x8009\n$')
	if has_partitions(lab):
		lab.fail('h3 has the P_Keys of the file still')
	lab.weft('fabric', 'link', 'h3:1', 'down')
	lab.weft('fabric', 'link', 'h3:1', 'up')
	lab.within('h3 has its P_Keys again', lambda: has_partitions(lab))
	# OpenSM has the place for a while, and another partition, which switches look at: none of it is left
	conf = lab.write('theirs', 'Default=0x7fff, ipoib: ALL=full;\nextra=0x0005: ALL=full;\n')
	opensm = lab.start_manager('h1', '-p', '15', '-P', conf)
	takes_over(lab, OPENSM)
	lab.up(opensm)
	says(lab.at('h2', 'smpquery', 'pkeys', lids['h7'], '1'), '0xffff 0x8005 ')
	says(lab.at('h3', 'smpquery', '-D', 'portinfo', '0,1', '3'), r'PartEnforceOutb:\.+1\n')
	opensm.end()
	takes_over(lab, OWN)
	lab.within('ports have the P_Keys of the file', lambda: has_partitions(lab))
	lab.within('switches look at no P_Keys',
		   lambda: 'PartEnforceOutb:.................0\n' in lab.at('h3', 'smpquery', '-D', 'portinfo', '0,1', '3'))
	path = ('saquery', 'PR', '--slid', lids['h1'], '--dlid', lids['h3'], '--pkey')
	says(lab.at('h1', *path, '0x8001'), r'pkey\.+0x8001')
	if 'PathRecord' in lab.try_at('h1', *path, '0x8005')[1]:
		lab.fail('there are paths in a partition that is gone')
	for text, said in (('red 0x1: h1;', ':1: a partition is'), ('\nred=0x1: h99;', ':2: the topology has no such port'),
			   ('red=0x1;', 'members are missing'), ('red=0: h1;', 'a partition is'),
			   ('red=0x1: h1=half;', 'full or limited'),
			   ('red=0x1, sl=3: h1;', 'none of ipoib')):
		status, heard = lab.try_run(lab.weft_path, 'fabric', 'load', '--partitions', lab.write('bad', text), net)
		if status != 1 or said not in heard:
			lab.fail(f'{text}: {status}, {heard}')


def busiest(lab, what, may_deadlock=False):
	"""Paths on the busiest link between switches. All paths reach, and nothing can deadlock unless it may."""
	lab.within(f'{what}: all paths reach', lambda: 0 < lab.check()['paths'] == lab.check()['reached'])
	found = lab.check()
	if found['credit_loop'] and not may_deadlock:
		lab.fail(f'{what}: there is a credit loop')
	names = {n['name'] for n in switches(lab)}
	return max((x['paths'] for x in found['link_loads'] if {x['from'], x['to']} <= names), default=0)


def switches(lab):
	return [n for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes'] if n['type'] == 'switch']


def busiest_by_opensm(lab, net, what, *options):
	lab.load_bare(net)
	host = next(n['name'] for n in json.loads(lab.weft('fabric', 'show', '--json'))['nodes']
		    if n['type'] == 'host' and n['ports'])
	# OpenSM keeps LIDs of nets before for ever
	lab.env['OSM_CACHE_DIR'] = tempfile.mkdtemp(dir=lab.home)
	opensm = lab.start_manager(host, *options)
	lab.up(opensm)
	found = busiest(lab, f'{what}, OpenSM', may_deadlock='minhop' in options)
	opensm.end()
	return found


def compare_loads(lab, what, own, theirs):
	print(f'{what}: {own} paths on the busiest link, by OpenSM {theirs}')
	if own > 1.1 * theirs:
		lab.fail(f'{what}: {own} paths on the busiest link, by OpenSM {theirs}')


def test_balance(lab):
	"""The busiest link has at most a tenth more paths than by OpenSM's shortest ones."""
	nets = []
	for kind in (('fat-tree', 'ports=8'), ('fat-tree', 'ports=4', 'levels=3'), ('fat-tree', 'ports=16'),
		     ('mesh', 'size=1x6')):
		nets.append(lab.write('-'.join(kind), lab.weft('fabric', 'make', *kind)))
	if os.path.isdir(IBSIM):
		nets += [os.path.join(IBSIM, name) for name in sorted(os.listdir(IBSIM)) if name.startswith('net')]
	else:
		print(f'part skipped: no {IBSIM} here: scripts/setup test, with documentation')
	for net in nets:
		what = os.path.basename(net)
		lab.change('load', '--routing', 'sm', net)
		compare_loads(lab, what, busiest(lab, f'{what}, weft'), busiest_by_opensm(lab, net, what))


GRIDS = (('torus', 'size=4x4'), ('torus', 'size=6x6', 'hosts=2'), ('torus', 'size=3x3x3'), ('torus', 'size=8'),
	 ('mesh', 'size=4x4'), ('mesh', 'size=3x3x3'), ('mesh', 'size=3x5', 'hosts=2'), ('dragonfly',))


def test_balance_loops(lab):
	"""The same where shortest paths can deadlock: those that are asked for against OpenSM's, and what weft does by itself
	against OpenSM's up and down, which needs a root: the better one of the first switch and of one in the midst."""
	shortest = lab.write('shortest', 'routing_engine minhop\n')
	for kind in GRIDS:
		what, net = '-'.join(kind), lab.write('-'.join(kind), lab.weft('fabric', 'make', *kind))
		lab.change('load', '--routing', 'sm', '--options', shortest, net)
		own = busiest(lab, f'{what}, weft', may_deadlock=True)
		compare_loads(lab, f'{what}, shortest', own, busiest_by_opensm(lab, net, what, '-R', 'minhop'))
		lab.change('load', '--routing', 'sm', net)
		own, guids = busiest(lab, f'{what}, weft'), [n['guid'] for n in switches(lab)]
		roots = [lab.write(f'root{i}', guids[i] + '\n') for i in (0, len(guids) // 2)]
		compare_loads(lab, f'{what}, up and down', own,
			      min(busiest_by_opensm(lab, net, what, '-R', 'updn', '-a', root) for root in roots))


def tests():
	rows = (('takeover', test_takeover), ('handover', test_handover), ('killed', test_killed), ('healed', test_healed),
		('links', test_links), ('multicast', test_multicast), ('weftd', test_weftd), ('lids', test_lids),
		('kinds', test_kinds), ('loss', test_loss), ('tables', test_tables), ('long_answers', test_long_answers),
		('long_answers_many', test_long_answers_many), ('long_answers_killed', test_long_answers_killed),
		('osmtest', test_osmtest),
		('default', test_default), ('options', test_options), ('balance', test_balance),
		('balance_loops', test_balance_loops),
		('kills', test_kills), ('partitions', test_partitions))
	long = (('long_answers_director', test_long_answers_director),)
	return {name: (label, 300, subnet_lab.row(test))
		for label, some in (('e2e', rows), ('long', long)) for name, test in some}


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('opensm', 'osmtest', 'saquery', 'sminfo', 'ibstat', 'ibtracert', 'ibhosts', 'smpquery',
					 'mckey', 'ibv_rc_pingpong', 'stdbuf')))
