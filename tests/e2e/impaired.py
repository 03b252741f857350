#!/usr/bin/python3
"""Unmodified programs on a bad network: weft run --impair.

impaired.py --list                  one line a test: name, label, timeout
impaired.py --weft PROGRAM NAME...  runs these tests
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'abi'))
import programs
import run
from programs import ADDR, BOTH, IB, Pair
from session import POLL_S, Ended, Failure, Session, explain, free_port, tcp_listening

BAD = 'loss=5%,reorder=2%,dup=1%,corrupt=1%'
WORSE = 'loss=20%'

# For programs that leave as soon as they have their last message (leaves_at_once): losses that end before it, by position among
# the packets for a QP. Repeats count too, and how many there are depends on how busy the machine is: a position is certain to
# come before the last message only when the QP carries more messages than that. Programs with one QP for all have a thousand.
BEGINNING = ('drop=3+8+15+22+31+44+58+73+90+110+133+160+190+225+260+300,in.drop=5+12+19+27+38+50+66+81+101+121+146+177+207+242,'
	     'reorder=2%,dup=1%')

# The same for those with a QP of few messages: perftest's QP for synchronising over rdma_cm carries 11 each way.
FIRST = 'drop=3+7,in.drop=5+8,reorder=2%,dup=1%'

# Open MPI's udcm connects over datagrams, four each way at most, and repeats its last one only until it has its peer's.
# Where that one is lost, the peer waits for ever. So the losses come after these.
AFTER_UDCM = ('drop=8+15+22+31+44+58+73+90+110+133+160+190+225+260+300,in.drop=12+19+27+38+50+66+81+101+121+146+177+207+242,'
	      'reorder=2%,dup=1%')

# What a program prints whose retries ran out. Those that are not here may not end so.
GAVE_UP = {
	'ibv_rc_pingpong': r'Failed status transport retry counter exceeded \(12\)',
	'ib_': r'Failed status 12|status=12|wc status (-- )?12',
	'rping': r'cq completion failed status 12',
	'ucx_perftest': r'transport retry counter exceeded|Endpoint timeout',
	'mpirun': r'transport retry counter exceeded|Endpoint timeout',
}

# perftest's line of results; at this pace MB/s may be 0.00.
RESULT = r'(?m)^ *\d+ +\d+ +[\d.]+ +[\d.]+'
PINGPONG = r'\d+ bytes in [\d.]+ seconds'

# Rows of programs.py whose messages nobody repeats: they count on receiving each.
UNRELIABLE = re.compile(r'-uc$|-ud$|-ud-cm$|-ud-many-|multicast|raw_ethernet|udaddy|udpong|mckey|/dgram|pingpong/u[cd]-')

# Its server takes any event for that of its own send, but on a bad network the next ping may come before its ACK.
CONFUSED = re.compile(r'ib_send_lat-(srq-)?events')

# All of these families run on the bad network, and of the others these rows. fio, fi_pingpong and rdma_client leave as soon as
# they have their last message: when its ACK is lost the other end cannot tell, and they call that an error or wait for ever.
FAMILIES = ('perftest', 'ucx', 'openmpi')
ROWS = ('pingpong/rc-plain', 'pingpong/rc-checked', 'pingpong/rc-events', 'pingpong/srq-plain', 'pingpong/xsrq-plain',
	'pingpong/rc-one-megabyte', 'pingpong/rc-multipath', 'rdmacm/rping-plain', 'rdmacm/rping-multipath',
	'rdmacm/rping-large', 'rdmacm/rping-own-qp', 'rdmacm/rping-ipv6', 'rdmacm/ucmatose-tcp', 'rdmacm/ucmatose-many',
	'rdmacm/cmtime', 'rdmacm/rcopy', 'rdmacm/rstream-checked', 'rdmacm/riostream-checked')
SHORT_ROWS = ('pingpong/rc-checked', 'rdmacm/rping-plain', 'rdmacm/rping-multipath', 'perftest/ib_write_bw-multipath',
	      'perftest/ib_send_lat-multipath', 'rdmacm/cmtime', 'ucx/rc_verbs-am_lat-short', 'ucx/ucp-rc_v-tag_lat')

CHECKER_GAVE_UP = 3

TABLE = []


def add(name, impair, pair, may_give_up=False, long=False):
	"""may_give_up: a program that ends by an exhausted retry counter, and says so, has ended correctly."""
	TABLE.append((name, impair, pair, may_give_up, long))


def row(name):
	return next(p for p in programs.TABLE if p.name == name)


def shorter(program, *options, expect=RESULT):
	argv = [program, '-d', '{dev}', '-p', '{port}', *options]
	return Pair(program, argv + [ADDR], argv, expect=expect, timeout=90)


def one_device(pair):
	"""The same pair on one of its devices: both have their share of the table."""
	return Pair(**{**vars(pair), 'devices': (pair.devices[zlib.crc32(pair.name.encode()) % len(pair.devices)],)})


def fewer(words):
	"""As many transfers as meet every fault many times; the rows' own numbers are for networks that lose nothing."""
	pairs = zip([''] + words, words)
	words = ['5' if before == '-n' and word == '20' else '10' if word == '100' else word for before, word in pairs]
	for at in range(len(words) - 1):
		if tuple(words[at:at + 2]) == programs.LONG_ENOUGH:
			words = words[:at] + words[at + 2:]
			break
	counts = '-n' in words or '-D' in words
	# A multiple of perftest's 100 requests for a completion, or it counts more than there were and with several QPs stops
	# polling too early; and of the 8 of its lists.
	count = '200' if '1048576' in words else '400'
	return words[:1] + ['-n', count] + words[1:] if words[0].startswith('ib_') and not counts else words


def instead_of_thousands(pair, count):
	"""ucx_perftest's number."""
	number = pair.client[pair.client.index('-n') + 1]
	pair.client, pair.server = ([count if word == number else word for word in words] for words in (pair.client, pair.server))
	pair.expect = pair.expect.replace(number, count)


# UCX's own repeats of datagrams are 10 ms apart and more, and each that is lost again doubles that. By the tenth the endpoint's
# 30 s are over, and it gives up; so here they stay as near as they begin.
UCX_DATAGRAMS = {'UCX_UD_VERBS_TIMER_BACKOFF': '1.0'}


def few_transfers(pair):
	pair = Pair(**{**vars(pair), 'client': fewer(pair.client), 'server': fewer(pair.server) if pair.server else None})
	if pair.name == 'pingpong/xsrq-plain':	# five messages otherwise
		pair.client, pair.server = ([*words[:1], '-n', '100', *words[1:]] for words in (pair.client, pair.server))
	if pair.name.endswith('rendezvous'):	# of 1 MB each
		instead_of_thousands(pair, '20')
	elif pair.name.startswith('ucx/') and 'ud_v' in pair.name:
		instead_of_thousands(pair, '300')
	elif pair.name.startswith('ucx/') and pair.run == programs.HEAP_4K:
		instead_of_thousands(pair, '1000')
	if pair.name.startswith(('ucx/', 'openmpi/ucx')):	# those of reliable connections are made over datagrams too
		pair.env = pair.env | UCX_DATAGRAMS
	return pair


def leaves_at_once(pair):
	"""Programs that end when they have their last message: if the ACK of that one is lost, nobody repeats it, and the other
	end gives up. perftest does when it synchronises over the connection itself."""
	return pair.name.startswith('pingpong/') or '-R' in pair.client


def faults(pair):
	if pair.name == 'openmpi/openib-udcm':
		return AFTER_UDCM
	if not leaves_at_once(pair):
		return BAD
	return BEGINNING if pair.name.startswith('pingpong/rc-') else FIRST


def is_short(pair):
	return pair.name in SHORT_ROWS or re.fullmatch(r'perftest/ib_\w+-plain', pair.name)


for pair in programs.TABLE:
	if pair.run == programs.REMAP:	# packets reach no memory directly
		continue
	is_unfit = UNRELIABLE.search(pair.name) or CONFUSED.search(pair.name)
	if (pair.name in ROWS or pair.name.split('/')[0] in FAMILIES) and not is_unfit:
		pair = one_device(few_transfers(pair))
		add(f'bad/{pair.name}', faults(pair), pair, long=not is_short(pair))

for program in ('ib_write_bw', 'ib_send_bw', 'ib_read_bw'):
	add(f'worse/{program}', WORSE, shorter(program, '-F', '-n', '200', '-s', '20000'), True, long=program == 'ib_send_bw')
for program in ('ib_atomic_bw', 'ib_send_lat', 'ib_write_lat', 'ib_read_lat', 'ib_atomic_lat'):
	add(f'worse/{program}', WORSE, shorter(program, '-F', '-n', '200'), True, long=program != 'ib_atomic_bw')
add('worse/rc_pingpong', WORSE, shorter('ibv_rc_pingpong', '@gid', '-c', '-n', '200', expect=PINGPONG), True)
for name in ('rdmacm/rping-plain', 'rdmacm/cmtime', 'rdmacm/rping-large', 'rdmacm/rcopy', 'rdmacm/rstream-checked',
	     'ucx/rc_verbs-am_lat-short', 'ucx/ud_verbs-am_lat-short', 'ucx/ucp-rc_v-tag_lat', 'openmpi/ucx-rc_v',
	     'openmpi/ucx-ud_v'):
	pair = one_device(few_transfers(row(name)))
	if name == 'openmpi/ucx-ud_v':	# the better part of a minute, by the timers of UCX's own retries
		pair.timeout = 300
	add(f'worse/{name}', WORSE, pair, True, long=name not in ('rdmacm/rping-plain', 'rdmacm/cmtime'))

add('slow', 'delay=200us,jitter=100us,rate=1Gbit,in.delay=50us', shorter('ib_write_bw', '-F', '-n', '200', '-s', '20000'))
add('scheduled', 'drop=3+7,drop-ack=40', shorter('ib_send_lat', '-F', '-n', '500'))
add('delayed-pingpong', 'delay=200us,jitter=100us', shorter('ibv_rc_pingpong', '@gid', '-c', '-n', '100', expect=PINGPONG))


def impaired(pair, impair):
	"""The same programs, with the faults in what they inherit; a fixed seed makes failures comparable."""
	return Pair(**{**vars(pair), 'env': pair.env | {'WEFT_IMPAIR': impair + ',seed=7'}, 'timeout': max(pair.timeout, 90)})


def checks_nothing(pair):
	"""Programs that do not look at the data that they transfer."""
	program = pair.client[0]
	return program.startswith(('ib_', 'ucx_perftest')) or (program.endswith('_pingpong') and '-c' not in pair.client)


def gave_up(program):
	"""Did it say that its retries ran out?"""
	name = program.name
	pattern = next((pattern for known, pattern in GAVE_UP.items() if name.startswith(known)), None)
	return pattern and re.search(pattern, program.text)


def run_pair(session, pair, may_give_up):
	"""The row's programs; they may leave each other only when one of them says that its retries ran out."""
	try:
		run.run_pair(pair, session)
	except Ended as ended:
		if not may_give_up or not any(gave_up(p) for p in session.programs if p is not session.checker):
			raise
		print(f'{ended}: its retries ran out, or its peer\'s, as a network that loses so much may bring about')


def await_checker(checker, deadline, may_give_up):
	status = checker.wait(deadline)
	if status != 0 and not (status == CHECKER_GAVE_UP and may_give_up):
		raise Failure(f'tests/abi/checked.c, beside the row, ended with {status}')


def run_row(weft, device, impair, pair, may_give_up):
	session = Session(weft, device)
	session.checker = None
	pair = impaired(pair, impair)
	try:
		with session:
			if checks_nothing(pair):
				beside = os.path.join(os.path.dirname(weft), '../tests/abi/abi_checked')
				session.checker = session.run([os.environ.get('CHECKED', beside), device, '200', '7'],
							      {name: pair.env[name] for name in ('WEFT_IMPAIR', 'WEFT_PROFILE')
							       if name in pair.env})
			run_pair(session, pair, may_give_up)
			if session.checker:
				await_checker(session.checker, time.monotonic() + 60, may_give_up)
	except Failure as failure:
		explain(session, failure)
		return 1
	return 0


def run_unreachable(weft, device):
	"""Nothing arrives: the client's requests end with the standard's error, soon."""
	with Session(weft, device) as session:
		port, gid = free_port(), [] if device == 'weft0' else ['-g', '0']
		argv = ['ibv_rc_pingpong', '-d', device, '-p', str(port), *gid]
		deadline = time.monotonic() + 30
		session.run(argv)
		while not tcp_listening(port) and time.monotonic() < deadline:
			time.sleep(POLL_S)
		client = session.run(argv + [ADDR], {'WEFT_IMPAIR': 'loss=100%,seed=1'})
		status = client.wait(deadline)
		if status in (0, None) or not gave_up(client):
			print(f'FAILED: the client ended with {status}\n{client.text}')
			return 1
	return 0


def trace_records(data):
	"""Of a trace: where each record's data begins, its kind, its direction and how long it is (src/impair/trace.c)."""
	at = 0
	while at < len(data):
		bytes_ = int.from_bytes(data[at + 6:at + 8], 'little')
		yield at + 24, data[at + 2], data[at + 3] % 2, bytes_
		at += 24 + bytes_


def trace_pair(session, words, env):
	"""Both ends of a program write one trace. What is wrong, or ''."""
	program = words[0]
	port, deadline = free_port(), time.monotonic() + 60
	argv = [program, '-d', session.device, '-p', str(port), '-F', '-n', '50', *words[1:]]
	open(env['WEFT_TRACE'], 'w').close()
	server = session.run(argv, env)
	while not tcp_listening(port) and time.monotonic() < deadline:
		time.sleep(POLL_S)
	client = session.run(argv + [ADDR], env)
	ends = client.wait(deadline), server.wait(deadline)
	status, text = session.command('replay', '--quiet', env['WEFT_TRACE'])
	found = re.match(r'(\d+) frames passed, of which \d+ do not parse; (\d+) decisions replayed, '
			 r'(\d+) frames made again, all as recorded\n$', text)
	if ends != (0, 0) or status != 0 or not found or min(map(int, found.groups())) < 100:
		return f'{" ".join(words)} ended with {ends}, the replay with {status}: {text}\n{client.text}'
	return ''


BAD_BOTH_WAYS = BAD + ',in.delay=20us,in.loss=1%'

# Program, profile, faults; datagrams are not repeated. The last one's trace is also read with changes.
TRACED = (
	('ib_write_bw -s 20000', 'standard', BAD_BOTH_WAYS),
	('ib_read_bw -s 20000', 'standard', BAD_BOTH_WAYS),
	('ib_atomic_lat', 'standard', BAD_BOTH_WAYS),
	('ib_send_bw -s 20000 --use-srq', 'standard', BAD_BOTH_WAYS),
	('ib_send_bw -s 20000 -c XRC', 'standard', BAD_BOTH_WAYS),
	('ib_send_lat -s 500 -c UD', 'standard', 'delay=20us'),
	('ib_send_bw -s 20000', 'seed,ack=message', BAD_BOTH_WAYS),
)


def run_traced(weft, device):
	"""A trace's decisions are replayed to the bit, and the engines of both ends send the same again."""
	psn = 19 if device == 'weft0' else 39	# the last byte of the PSN: after LRH, or IPv4 and UDP
	with Session(weft, device) as session:
		trace = os.path.join(session.tmp, 'trace')
		for program, profile, impair in TRACED:
			env = {'WEFT_IMPAIR': impair + ',seed=7', 'WEFT_TRACE': trace, 'WEFT_PROFILE': profile}
			wrong = trace_pair(session, program.split(), env)
			if wrong:
				print(f'FAILED: {wrong}')
				return 1
		with open(trace, 'rb') as f:
			data = f.read()
		offered = [at for at, kind, direction, length in trace_records(data)
			   if kind == 2 and direction == 0 and length > 1000]
		for at, what in ((offered[-1] + psn, 'the engine sends '), (offered[-1] + 500, 'another frame than recorded')):
			with open(trace, 'wb') as f:
				f.write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
			status, text = session.command('replay', trace)
			if status != 1 or what not in text or ' differ from the trace' not in text:
				print(f'FAILED: the replay of a changed trace ends with {status}: {text[-2000:]}')
				return 1
	return 0


def run_example(weft, device):
	"""What examples/ci shows to others."""
	script = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'ci', 'rdma-faults.sh')
	with tempfile.TemporaryDirectory(prefix='weft-example-') as tmp, tempfile.NamedTemporaryFile() as bugs:
		command = f'ib_send_bw -d {device} -p {free_port()} -F -n 50 -s 20000'
		env = os.environ | {'PATH': os.path.dirname(weft) + ':' + os.environ['PATH'], 'OUT': tmp, 'SEED': '7',
				    'WEFT_BUGS': bugs.name}
		done = subprocess.run([script, command, command + ' ' + ADDR], env=env, text=True,
				      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
		found = bugs.read().decode(errors='replace')
		if done.returncode != 0 or done.stdout.count('ok ') != 4 or os.listdir(tmp) or found:
			print(f'FAILED: the script ended with {done.returncode}: {done.stdout}{found}')
			return 1
	return 0


def run_lossy_reads(weft, device):
	"""A twentieth of all frames is lost both ways: READs ask for what is missing, and go back for none of it."""
	with Session(weft, device) as session:
		port, deadline = free_port(), time.monotonic() + 60
		argv = ['ib_read_bw', '-d', device, '-p', str(port), '-F', '-n', '1000', '-s', '65536']
		stats = os.path.join(session.tmp, 'client.json')
		env = {'WEFT_IMPAIR': 'loss=5%,seed=7', 'WEFT_PATH': 'wire' if device == 'weft1' else 'packet'}
		server = session.run(argv, env)
		while not tcp_listening(port) and time.monotonic() < deadline:
			time.sleep(POLL_S)
		client = session.run([weft, 'run', f'--stats={stats}', '--', *argv, ADDR], env)
		ends = client.wait(deadline), server.wait(deadline)
		if ends != (0, 0):
			print(f'FAILED: the programs ended with {ends}\n{client.text}')
			return 1
		with open(stats, encoding='utf-8') as f:
			counts = max((p['counters'] for p in json.load(f)['processes']), key=lambda c: c['rcvd_pkts'])
	asked, held, back = (counts[name] for name in ('answer_repeats', 'held_response', 'completer_retry_err'))
	print(f'{asked} asked for again, {held} held, went back {back} times, {counts["rcvd_pkts"]} packets received')
	# 16,000 responses, of which 800 are lost: each twentieth question is lost too, and some are asked twice
	return 0 if 500 < asked < 2000 and held > 5000 and back < 10 else 1


ALONE = {'unreachable': run_unreachable, 'lossy-reads': run_lossy_reads, 'traced': run_traced, 'example': run_example}


def tests():
	"""name: (label, timeout, function of weft)"""
	found = {}
	for name, impair, pair, may_give_up, long in TABLE:
		for device in pair.devices:
			label = 'long' if long or device != pair.devices[0] else 'e2e'
			found[f'{name}@{device}'] = (label, max(pair.timeout, 90) + 30,
				lambda weft, d=device, i=impair, p=pair, m=may_give_up: run_row(weft, d, i, p, m))
	for name, function in ALONE.items():
		for device in BOTH:
			found[f'{name}@{device}'] = ('e2e' if device in IB else 'long', 180,
						     lambda weft, d=device, f=function: f(weft, d))
	return found


if __name__ == '__main__':
	sys.exit(run.run_table(tests(), ('ib_write_bw', 'ibv_rc_pingpong', 'rping', 'ucx_perftest', 'mpirun')))
