#!/usr/bin/env python3
"""What other users say of themselves reaches a terminal as plain text only. A weftd of the test's own answers as no real one
would, so that only the command stands between the two.

usage: terminal.py WEFT"""
import json
import sys

import fake_weftd

HOSTILE = '\x1b]0;owned\x07\x1b[2J\u009b31m\x7f\u202eé\r\n'
failures = []


def expect(fact, what):
	if not fact:
		failures.append(what)
		print(f'FAILED: {what}')


def main(weft):
	row = {'qpn': 7, 'device': HOSTILE, 'state': HOSTILE * 40, HOSTILE: 5}
	answer = {'processes': [{'pid': 1, 'program': HOSTILE, 'report': [row]},
				{'pid': 2, 'program': HOSTILE, 'error': HOSTILE}]}
	counters = {'processes': [{'pid': 1, 'program': HOSTILE, 'report': {HOSTILE: 5}}]}
	for command, said in (('qp', answer), ('mr', answer), ('cq', answer), ('counters', counters)):
		with fake_weftd.Weftd({fake_weftd.QUERY: fake_weftd.as_text(said)}) as weftd:
			for arguments in ((command,), (command, '--json')):
				got = weftd.run(weft, *arguments)
				shown = got.stdout + got.stderr
				expect(got.returncode == 0, f'{arguments} exits with {got.returncode}: {shown!r}')
				expect(all(0x20 <= c <= 0x7f or c == 0x0a for c in shown), f'{arguments} shows {shown!r}')
				expect(b'owned' in shown, f'{arguments} hides what was said: {shown!r}')
				if len(arguments) == 2:
					expect(json.loads(got.stdout) == fake_weftd.as_json(command, said),
					       f'{arguments} changes what was said')
				else:
					expect(b'\x7f' not in shown, f'{arguments} shows {shown!r}')
	print('failed' if failures else 'all as expected')
	return bool(failures)


sys.exit(main(sys.argv[1]))
