#!/usr/bin/env python3
"""How long a table of subnet administration takes over a link that loses, by class version 2 (RMPP) and by version 1.

usage: gettable.py [--weft PROGRAM] [--rounds N] [OPTION]... [KIND[:NAME=VALUE]...]
KIND is one of weft fabric make, fat-tree:ports=24:levels=3 where none is named. A program at h2 asks for a table by
weft_sa_ask(), while the link of h2 loses so much in each direction; each run begins its losses with the seed. Printed are
medians of the seconds until it has the answer, and the packets that its port has received and sent for the last one. What has no
answer within the limit, or ends with an error before, is printed as that. Options:
  --seed N, --windows N,..., --loss PERCENT,..., --profiles standard,seed, --limit SECONDS of one answer,
  --table ATTRIBUTE (0x12), --lmc N of hosts, --subnet-timeout N of ports: by 10 a flight counts as 4 ms"""
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from trial import Fabric, arguments

PROFILES = {'standard': 2, 'seed': 1}
GET_TABLE, LONGEST_KB = 0x12, 64 << 10


class Question(ctypes.Structure):
	_fields_ = [('version', ctypes.c_uint8), ('method', ctypes.c_uint8), ('attribute', ctypes.c_uint16),
		    ('window', ctypes.c_uint16), ('lid', ctypes.c_uint16), ('key', ctypes.c_uint64), ('records', ctypes.c_char_p),
		    ('bytes', ctypes.c_uint32), ('timeout_ms', ctypes.c_uint32)]


class Answer(ctypes.Structure):
	_fields_ = [('status', ctypes.c_uint16), ('record_bytes', ctypes.c_uint16), ('data', ctypes.c_void_p),
		    ('bytes', ctypes.c_size_t)]


def packets(way):
	with open(f'/sys/class/infiniband/weft0/ports/1/counters/port_{way}_packets', encoding='ascii') as f:
		return int(f.read())


def ask_once(version, attribute, window, limit_s):
	"""In a program at the host: prints what came of it."""
	lib, answer = ctypes.CDLL('libibumad.so.3'), Answer()
	question = Question(version, GET_TABLE, attribute, window, 0, 0, None, 0, 1000 * limit_s)
	before, begun = (packets('rcv'), packets('xmit')), time.monotonic()
	err = lib.weft_sa_ask(b'weft0', 1, ctypes.byref(question), ctypes.byref(answer))
	took = time.monotonic() - begun
	# packets are counted a tenth of a second after they went at most
	time.sleep(0.2)
	print(json.dumps({'s': took, 'error': os.strerror(-err) if err else '', 'status': answer.status, 'bytes': answer.bytes,
			  'received': packets('rcv') - before[0], 'sent': packets('xmit') - before[1]}))


def ask(fabric, profile, args, window=0):
	said = subprocess.run(fabric.at('h2', sys.executable, '-B', os.path.abspath(__file__), '--ask', str(PROFILES[profile]),
					args.table, str(window), str(args.limit)),
			      env=fabric.env, check=True, capture_output=True, text=True).stdout
	return json.loads(said)


def all_bytes(fabric, args):
	"""How many there are when the manager has found all."""
	found = []

	def is_whole():
		found.append(ask(fabric, 'standard', args)['bytes'])
		return found[-1] and found[-1:] == found[-2:-1]
	fabric.until(is_whole)
	return found[-1]


def outcome(answers, args):
	last = answers[-1]
	if last['error'] or last['status']:
		return f'none after {last["s"]:.0f} s: {last["error"] or hex(last["status"])}'
	if last['bytes'] != args.bytes:
		raise SystemExit(f'{last["bytes"]} bytes, not {args.bytes}')
	return f'{statistics.median(a["s"] for a in answers):.2f} s'


def measure(fabric, profile, window, loss, args):
	answers = []
	fabric.weft('mad', 'set', f'window={window}')
	for _ in range(args.rounds):
		fabric.weft('fabric', 'link', 'h2:1', f'loss={loss}%,seed={args.seed}')
		answers.append(ask(fabric, profile, args, window))
		if answers[-1]['error'] or answers[-1]['status']:
			break
	fabric.weft('fabric', 'link', 'h2:1', 'loss=0%')
	print(f'{profile:8} window {window:5} loss {loss:>4} %: {outcome(answers, args)}; '
	      f'{answers[-1]["received"]} packets came, {answers[-1]["sent"]} were sent', flush=True)


def main():
	parser = arguments(__doc__, ('fat-tree:ports=24:levels=3',))
	parser.add_argument('--seed', type=int, default=1)
	parser.add_argument('--table', default='0x12')
	parser.add_argument('--lmc', default='0')
	parser.add_argument('--subnet-timeout', type=int, default=18)
	parser.add_argument('--limit', type=int, default=4200)
	parser.add_argument('--profiles', default='standard,seed')
	parser.add_argument('--windows', default='64,1024')
	parser.add_argument('--loss', default='0,1,10')
	args = parser.parse_args()
	if not shutil.which('ibstat'):
		print('SKIP: no ibstat here: scripts/setup test')
		return 77
	args.weft = os.path.abspath(args.weft)
	for kind in args.kinds:
		with tempfile.TemporaryDirectory(prefix='weft-bench.') as home:
			options = os.path.join(home, 'options')
			with open(options, 'w', encoding='ascii') as f:
				f.write(f'subnet_timeout {args.subnet_timeout}\n')
			with Fabric(args.weft, home, kind, '--lmc', args.lmc, '--options', options) as fabric:
				fabric.until(fabric.is_up)
				fabric.weft('mad', 'set', f'sa-longest-kb={LONGEST_KB}')
				args.bytes = all_bytes(fabric, args)
				print(f'{kind}: {args.bytes} bytes', flush=True)
				for profile in args.profiles.split(','):
					for window in args.windows.split(','):
						for loss in args.loss.split(','):
							measure(fabric, profile, int(window), loss, args)
	return 0


if sys.argv[1:2] == ['--ask']:
	ask_once(*(int(word, 0) for word in sys.argv[2:]))
else:
	sys.exit(main())
