#!/usr/bin/env python3
"""Members of what --json prints: the sections JSON of manual pages tell all of them, and no others.

usage: json_members.py WEFT"""
import json
import os
import re
import shlex
import subprocess

import subnet_lab
from subnet_lab import Wrong

PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'man')
UNTOLD = {'schema'}	# weft(1) tells it of all


def told(command):
	"""The words of the tags."""
	with open(os.path.join(PAGES, f'weft-{command}.1'), encoding='utf-8') as f:
		section = re.search(r'^\.SH JSON\n(.*?)^\.SH ', f.read(), re.M | re.S)[1]
	tags = re.findall(r'^\.TP\n\.(?:B|BR) (.*)$', section, re.M)
	return {word for tag in tags for word in shlex.split(tag) if re.fullmatch('[a-z_]+', word)}


def members(value):
	if isinstance(value, list):
		return set().union(*map(members, value))
	if not isinstance(value, dict):
		return set()
	# what is below are names of settings
	return set(value).union(*(members(v) for name, v in value.items() if name != 'tunables')) - UNTOLD


def compare(command, answers):
	said, page = set().union(*map(members, answers)), told(command)
	if said != page:
		raise Wrong(f'weft {command} --json: without a word in its page: {sorted(said - page)}; told, and not there: '
			    f'{sorted(page - said)}')


def test_mad(lab):
	"""Of a program that has registered an agent, too: one that waits for an answer."""
	def said():
		return json.loads(lab.weft('mad', '--json'))

	lab.weft('fabric', 'link', 'h2:1', 'loss=100%,seed=5')
	asker = subprocess.Popen([lab.weft_path, 'sa', '--node', 'h2', 'gettable', 'nodes'], env=lab.env,
				 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
	lab.within('its agent is there', lambda: 'pid' in members(said()))
	compare('mad', [said()])
	asker.kill()
	asker.wait()
	lab.weft('fabric', 'link', 'h2:1', 'up')


def test_sa(lab):
	def ask(*words):
		return json.loads(lab.weft('sa', '--json', '--node', 'h1', *words))

	lab.within('the manager knows all', lambda: len(ask('gettable', 'nodes')['records']) == 9)
	compare('sa', [ask('config', lab.write('edits', 'add 7 seven\n')), ask('getbulk'), ask('gettable', 'links')])


def test_sim(lab):
	compare('sim', [json.loads(lab.weft('sim', '--json', *words)) for words in (
		('cold-boot', 'fat-tree:ports=4'), ('path-storm', 'fat-tree:ports=4'), ('mad-storm',))])


def test(lab):
	lab.change('load', lab.make('star'))
	test_sa(lab)
	test_mad(lab)
	test_sim(lab)


subnet_lab.script(test)
