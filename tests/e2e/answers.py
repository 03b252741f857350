#!/usr/bin/env python3
"""What each command prints of weftd's answer, to the letter: lines, JSON, errors and exit statuses.

usage: answers.py WEFT"""
import json
import os
import re
import subprocess
import sys
import tempfile
from errno import EAGAIN, EDQUOT, ENOENT, ENOMEM, EPROTO

from fake_weftd import CTL_MAD_AGENT, CTL_MAD_PORT, CTL_NODE, CTL_STATUS, ENDS, QUERY, Weftd, as_json, as_text

PROCESSES = [
	{'pid': 11, 'program': 'alpha', 'slot': 3, 'report': [
		{'device': 'weft0', 'qpn': 0x3005, 'type': 'RC', 'state': 'RTS', 'dest_qpn': 0x7000a, 'route': 'channel',
		 'route_slot': 112, 'path': 'direct (mapped)',
		 'messages_sent': 12, 'bytes_sent': 3456, 'messages_received': 7, 'bytes_received': 8, 'pd': 1,
		 'key': '0x00000107', 'kind': 'region', 'iova': '0x7f00', 'length': 4096, 'access': 15, 'tier': 'mapped',
		 'cq': 2, 'entries': 16, 'waiting': 1, 'free_space': 14, 'credits': 1, 'kept': 0, 'armed': 'any', 'users': 2},
		{'device': 'weft1', 'qpn': 0x3fff, 'type': 'UD', 'state': 'INIT', 'path': 'packets', 'messages_sent': 0}]},
	{'pid': 22, 'program': 'beta', 'slot': 4, 'error': 'no answer within 1 s'},
	{'pid': 333, 'program': 'gamma', 'slot': 5, 'report': [], 'is_cut': True},
]
COMPLAINTS = ('weft: process 22 (beta): no answer within 1 s\n'
	      'weft: process 333 (gamma): it has more than is shown\n')
TABLES = {
	'qp': ('PID  PROGRAM  DEVICE  QPN       TYPE  STATE  REMOTE    ROUTE                '
	       'PATH             SENT  SENT BYTES  RECEIVED  RECEIVED BYTES  RATE  ROUND TRIP  LOST  MARKED  PATHS\n'
	       ' 11  alpha    weft0   0x003005  RC    RTS    0x07000a  channel to slot 112  '
	       'direct (mapped)    12        3456         7               8  -     -           -     -       -\n'
	       ' 11  alpha    weft1   0x003fff  UD    INIT   -         -                    '
	       'packets             0  -           -         -               -     -           -     -       -\n'),
	'mr': ('PID  PROGRAM  DEVICE  KEY         KIND    IOVA    LENGTH  ACCESS  TIER    REMAP\n'
	       ' 11  alpha    weft0   0x00000107  region  0x7f00    4096  rwWRA   mapped  -\n'
	       ' 11  alpha    weft1   -           -       -       -       -       -       -\n'),
	'cq': ('PID  PROGRAM  DEVICE  CQ  ENTRIES  WAITING  FREE  CREDITS  KEPT  ARMED  STATE  USERS\n'
	       ' 11  alpha    weft0    2       16        1    14        1     0  any    RTS        2\n'
	       ' 11  alpha    weft1   -   -        -        -     -        -     -      INIT   -\n'),
}
NONE = {'qp': 'no queue pairs\n', 'mr': 'no memory regions\n', 'cq': 'no completion queues\n',
	'counters': 'no processes attached\n'}

COUNTERS = [
	{'pid': 11, 'program': 'alpha', 'report': {'sent_pkts': 5, 'rcvd_seq_err': 0, 'tx_bytes': 12345678901}},
	{'pid': 22, 'program': 'beta', 'error': 'no answer within 1 s'},
]
COUNTERS_SHOWN = ('11 alpha\n'
		  '  sent_pkts                    5\n'
		  '  tx_bytes                     12345678901\n'
		  '22 beta\n')

STATUS = {
	'running': True, 'version': '9.8.7', 'pid': 4711, 'directory': '/somewhere', 'uid': 0, 'uptime_s': 61,
	'stays_when_idle': True, 'attached': 2, 'awaited': 0, 'programs': 1, 'slots_used': 2, 'channels': 3, 'groups': 4,
	'processes': [{'pid': 11, 'program': 'alpha', 'uid': 7, 'slot': 3, 'slots': 1, 'channels': 2, 'groups': 0, 'listeners': 5,
		       'ports': 6, 'mads_sent': 8, 'mads_dropped': 9}],
	'devices': [
		{'name': 'weft0', 'guid': '0002c903000a0001', 'port': 1, 'state': 'ACTIVE', 'link_layer': 'InfiniBand', 'lid': 1,
		 'sm_lid': 2, 'mtu': 4096, 'gids': [{'index': 0, 'gid': 'fe80::1', 'type': 'IB', 'interface': ''}]},
		{'name': 'weft1', 'guid': '0002c903000a0002', 'port': 1, 'state': 'DOWN', 'link_layer': 'Ethernet', 'lid': 0,
		 'sm_lid': 0, 'mtu': 1024, 'gids': [{'index': 3, 'gid': '::ffff:192.0.2.1', 'type': 'RoCE v2',
						     'interface': 'eth0'}]},
	],
}
STATUS_SHOWN = ('weftd 9.8.7, pid 4711, in /somewhere, up 61 s, {}\n'
		'2 processes attached, 1 programs started by weft run, 3 channels, 4 multicast groups\n'
		'PID  PROGRAM  UID  SLOT  SLOTS  CHANNELS  GROUPS  LISTENERS  PORTS  MADS  DROPPED\n'
		' 11  alpha      7     3      1         2       0          5      6     8        9\n')
DEVICES_SHOWN = ('weft0  InfiniBand  node GUID 0002c903000a0001\n'
		 '  port 1  ACTIVE  MTU 4096  LID 1  SM LID 2\n'
		 '    GID 0   fe80::1                                  IB       \n'
		 'weft1  Ethernet  node GUID 0002c903000a0002\n'
		 '  port 1  DOWN  MTU 1024\n'
		 '    GID 3   ::ffff:192.0.2.1                         RoCE v2  eth0\n')
failures = []


def expect(weft, weftd, words, status, out, err=''):
	"""out: what is printed, or what the JSON says."""
	got = weftd.run(weft, *words.split())
	said = json.loads(got.stdout) if not isinstance(out, str) and got.stdout.startswith(b'{') else got.stdout.decode()
	if words.startswith('status'):	# what else runs on this machine is not of this test: networks.sh
		if isinstance(said, dict):
			assert isinstance(said.pop('others', None), list) == (status == 0 or 'directory' in said), said
		else:
			said = ''.join(line for line in said.splitlines(True) if not line.startswith('another weftd runs in '))
	if (got.returncode, said, got.stderr.decode()) != (status, out, err):
		failures.append(words)
		print(f'FAILED: weft {words}: {got.returncode} {said!r} {got.stderr.decode()!r}')
		print(f'  expected {status} {out!r} {err!r}')


def check_tables(weft):
	answer = {'processes': PROCESSES}
	with Weftd({QUERY: as_text(answer)}) as weftd:
		for command, table in TABLES.items():
			expect(weft, weftd, command, 0, table, COMPLAINTS)
			expect(weft, weftd, f'{command} 11', 0, table)
			expect(weft, weftd, f'{command} 22', 0, NONE[command], COMPLAINTS.splitlines(True)[0])
			expect(weft, weftd, f'{command} --json', 0, as_json(command, answer))
			expect(weft, weftd, f'{command} --json 333', 0, as_json(command, {'processes': PROCESSES[2:]}))
			assert weftd.questions[-1] == (QUERY, command), weftd.questions[-1]
		for command in NONE:
			expect(weft, weftd, f'{command} 3', 1, '', 'weft: process 3 is not attached\n'
			       '  next: weft status lists the processes that are\n')
			for wrong in '11x', '-1', '11 22':
				expect(weft, weftd, f'{command} -- {wrong}', 2, '',
				       "weft: at most one PID, but there is '22'\n  next: name one process, or none for all\n"
				       if ' ' in wrong else f"weft: '{wrong}' is not a PID\n"
				       '  next: weft status lists the processes\n')


def exposition(pid, program, values):
	"""Prometheus' text of one process."""
	text = ''
	with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../src/base/counters.def')) as f:
		rows = re.findall(r'^COUNTER\((\w+), "(.*)"\)$', f.read(), re.M)
	for counter, meaning in rows:
		kind = 'gauge' if counter == 'queue_bytes' else 'counter'
		name = f'weft_{counter}' + ('_total' if kind == 'counter' else '')
		text += f'# HELP {name} {meaning}\n# TYPE {name} {kind}\n'
		if counter in values:
			text += f'{name}{{pid="{pid}",program="{program}"}} {values[counter]}\n'
	return text


def check_counters(weft):
	answer = {'processes': COUNTERS}
	with Weftd({QUERY: as_text(answer)}) as weftd:
		expect(weft, weftd, 'counters', 0, COUNTERS_SHOWN, COMPLAINTS.splitlines(True)[0])
		expect(weft, weftd, 'counters 11', 0, ''.join(COUNTERS_SHOWN.splitlines(True)[:3]))
		expect(weft, weftd, 'counters --json', 0, as_json('counters', answer))
		expect(weft, weftd, 'counters --explain 11', 0, '11 alpha\n'
		       '  sent_pkts                    5            packets sent\n'
		       '  tx_bytes                     12345678901  bytes of frames sent\n')
		expect(weft, weftd, 'counters --prometheus 11', 0, exposition(11, 'alpha', COUNTERS[0]['report']))
		expect(weft, weftd, 'counters --prometheus --json', 2, '', 'weft: --json, --prometheus and --explain do not go '
		       'together\n  next: take one of them\n')
	odd = {'processes': [{'pid': 7, 'program': 'a"b\\c', 'report': {'sent_pkts': 1}}]}
	with Weftd({QUERY: as_text(odd)}) as weftd:
		expect(weft, weftd, 'counters --prometheus', 0, exposition(7, 'a\\"b\\\\c', {'sent_pkts': 1}))


def check_status(weft):
	with Weftd({CTL_STATUS: as_text(STATUS)}) as weftd:
		expect(weft, weftd, 'status', 0, STATUS_SHOWN.format('stays when idle'))
		expect(weft, weftd, 'status --json', 0, {'schema': 1} | STATUS)
		expect(weft, weftd, 'devices', 0, DEVICES_SHOWN)
		expect(weft, weftd, 'devices --json', 0, {'schema': 1, 'devices': STATUS['devices']})
	with Weftd({CTL_STATUS: as_text(STATUS | {'stays_when_idle': False, 'processes': []})}) as weftd:
		expect(weft, weftd, 'status', 0, ''.join(STATUS_SHOWN.format('exits when idle').splitlines(True)[:2]))


def check_none(weft):
	"""Nobody attached, and no weftd."""
	with Weftd({QUERY: as_text({'processes': []})}) as weftd:
		for command, none in NONE.items():
			expect(weft, weftd, command, 0, none)
			expect(weft, weftd, f'{command} --json', 0, {'schema': 1, 'processes': []})
	with tempfile.TemporaryDirectory(prefix='weft-answers.') as home:
		weftd = Weftd({})
		weftd.directory = f'{home}/run'
		for command, none in NONE.items():
			expect(weft, weftd, command, 0, none)
			expect(weft, weftd, f'{command} --json', 0, {'schema': 1, 'processes': []})
			expect(weft, weftd, f'{command} 3', 1, '', 'weft: process 3 is not attached\n'
			       '  next: weft status lists the processes that are\n')
		expect(weft, weftd, 'status', 1, f'weftd does not run in {home}/run\n'
		       '  next: weft run -- PROGRAM starts it, and so does weft up\n')
		expect(weft, weftd, 'status --json', 1, {'schema': 1, 'running': False, 'directory': f'{home}/run'})
		expect(weft, weftd, 'down', 0, 'weftd does not run\n')
		expect(weft, weftd, 'down --json', 0,
		       {'schema': 1, 'running': False, 'was_running': False, 'directory': f'{home}/run'})
		expect(weft, weftd, 'up --json', 0, {'schema': 1, 'running': True, 'directory': f'{home}/run'})
		expect(weft, weftd, 'down --json', 0,
		       {'schema': 1, 'running': False, 'was_running': True, 'directory': f'{home}/run'})


def check_refusals(weft):
	with Weftd({QUERY: EDQUOT, CTL_STATUS: ENOMEM}) as weftd:
		for command in NONE:
			expect(weft, weftd, command, 1, '', "weft: this user's share of questions under way is used up\n"
			       '  next: ask again when they have ended\n')
		for command in 'status', 'devices':
			for json_too in '', ' --json':
				expect(weft, weftd, command + json_too, 1, '',
				       f'weft: weftd does not answer: {os.strerror(ENOMEM)}\n  next: weft doctor\n')
	with Weftd({QUERY: EAGAIN}) as weftd:
		expect(weft, weftd, 'qp --json', 1, '', f'weft: weftd does not answer: {os.strerror(EAGAIN)}\n'
		       '  next: ask again\n')
	with Weftd({QUERY: b'{"processes": [', CTL_STATUS: b''}) as weftd:
		for command in 'qp', 'counters', 'status':
			expect(weft, weftd, command, 1, '', f'weft: weftd does not answer: {os.strerror(EPROTO)}\n'
			       '  next: weft doctor\n')


def check_killed(weft):
	"""A weftd that was killed leaves its network to the next one: nobody is told to load a fabric anew."""
	up = '  next: weft up, and ask again: the next weftd takes up the network\n'
	with Weftd({CTL_NODE: ENDS}) as weftd:
		for words in 'fabric link s1:1 down', 'fabric check':
			expect(weft, weftd, words, 1, '', f'weft: weftd has ended before it answered\n{up}')
		weftd.stop()
		for words in 'fabric link s1:1 down', 'fabric check', 'fabric unload':
			expect(weft, weftd, words, 1, '', f'weft: weftd in {weftd.directory} was killed\n{up}')
	for texts in {CTL_MAD_PORT: ENDS}, {CTL_MAD_AGENT: ENDS}, {CTL_MAD_AGENT: ENOENT}:
		with Weftd(texts) as weftd:
			expect(weft, weftd, 'sa gettable nodes --node h1', 1, '',
			       'weft: weftd has ended before anything was asked\n'
			       '  next: ask again: the next weftd takes up the fabric\n')
	with Weftd({CTL_MAD_AGENT: ENOMEM}) as weftd:
		expect(weft, weftd, 'sa gettable nodes --node h1', 1, '',
		       f'weft: weftd registers no agent: {os.strerror(ENOMEM)}\n'
		       '  next: end programs that ask (weft mad lists them)\n')


def check_output(weft):
	"""What cannot be written is a failure, however little it is."""
	texts = {QUERY: as_text({'processes': []}), CTL_STATUS: as_text(STATUS)}
	with Weftd(texts) as weftd, open('/dev/full', 'wb') as full:
		for words in 'qp', 'qp --json', 'counters', 'status', 'status --json', 'devices', 'devices --json', '--help':
			got = subprocess.run([weft, *words.split()], env=dict(os.environ, WEFT_DIR=weftd.directory), stdout=full,
					     stderr=subprocess.PIPE, timeout=60)
			if got.returncode != 1 or b'cannot be written' not in got.stderr:
				failures.append(words)
				print(f'FAILED: weft {words} to a full disk: {got.returncode} {got.stderr!r}')


def main(weft):
	for check in check_tables, check_counters, check_status, check_none, check_refusals, check_killed, \
	    check_output:
		check(weft)
	print('failed' if failures else 'all as expected')
	return bool(failures)


sys.exit(main(sys.argv[1]))
