#!/usr/bin/env python3
"""tshark.py PROGRAM CAPTURE...: what PROGRAM --dump says of each RoCEv2 frame of the captures is what tshark reads there.

PROGRAM is wire_packet_golden_test. Skipped (77) without tshark: scripts/setup test.
"""
import ipaddress
import os
import re
import shutil
import subprocess
import sys

SOURCE = os.path.dirname(os.path.abspath(__file__)) + '/../../src/wire/'
# tshark's name: ours. What is 0 is not in our text; what a packet has no header for tshark leaves out.
PACKET = {
	'udp.srcport': 'path.udp_sport', 'ip.ttl': 'path.hop_limit', 'ip.id': 'path.ip_id', 'ip.dsfield': 'path.tclass',
	'ipv6.hlim': 'path.hop_limit', 'ipv6.flow': 'path.flow_label', 'ipv6.tclass': 'path.tclass',
	'infiniband.bth.se': 'solicited', 'infiniband.bth.m': 'migrated', 'infiniband.bth.p_key': 'pkey',
	'infiniband.bth.destqp': 'dest_qpn', 'infiniband.bth.a': 'ack_requested', 'infiniband.bth.psn': 'psn',
	'infiniband.bth.reserved7': 'resv.bth7',
	'infiniband.deth.q_key': 'deth.qkey', 'infiniband.deth.srcqp': 'deth.src_qpn',
	'infiniband.reth.va': ('reth.va', 'atomiceth.va'), 'infiniband.reth.r_key': ('reth.rkey', 'atomiceth.rkey'),
	'infiniband.reth.dmalen': 'reth.length',
	'infiniband.atomiceth.swapdt': 'atomiceth.swap_add', 'infiniband.atomiceth.cmpdt': 'atomiceth.compare',
	'infiniband.atomicacketh.origremdt': 'atomicack', 'infiniband.aeth.syndrome': 'aeth.syndrome',
	'infiniband.aeth.msn': 'aeth.msn', 'infiniband.immdt': 'imm', 'infiniband.ieth': 'ieth_rkey',
}
CM = {
	'infiniband.mad.transactionid': 'tid', 'infiniband.cm.req': 'local_comm_id', 'infiniband.cm.req.serviceid': 'service_id',
	'infiniband.cm.req.localcaguid': 'local_ca_guid', 'infiniband.cm.req.localqpn': 'local_qpn',
	'infiniband.cm.req.responderres': 'responder_resources', 'infiniband.cm.req.initdepth': 'initiator_depth',
	'infiniband.cm.req.remoteresptout': 'remote_cm_response_timeout', 'infiniband.cm.req.startpsn': 'starting_psn',
	'infiniband.cm.req.localresptout': 'local_cm_response_timeout', 'infiniband.cm.req.retrcount': 'retry_count',
	'infiniband.cm.req.pkey': 'pkey', 'infiniband.cm.req.pppmtu': 'path_mtu',
	'infiniband.cm.req.rnrretrcount': 'rnr_retry_count', 'infiniband.cm.req.maxcmretr': 'max_cm_retries',
	'infiniband.cm.req.prim_locallid': 'local_lid', 'infiniband.cm.req.prim_remotelid': 'remote_lid',
	'infiniband.cm.req.prim_hoplim': 'hop_limit',	# tshark 4.0 shows but 12 of the 20 bits of prim_flowlabel
	'infiniband.cm.rep': 'local_comm_id', 'infiniband.cm.rep.remotecommid': 'remote_comm_id',
	'infiniband.cm.rep.localqpn': 'local_qpn', 'infiniband.cm.rep.startpsn': 'starting_psn',
	'infiniband.cm.rep.respres': 'responder_resources', 'infiniband.cm.rep.initdepth': 'initiator_depth',
	'infiniband.cm.rep.tgtackdelay': 'target_ack_delay', 'infiniband.cm.rep.rnrretrcount': 'rnr_retry_count',
	'infiniband.cm.rep.localcaguid': 'local_ca_guid',
	'infiniband.cm.rtu.localcommid': 'local_comm_id', 'infiniband.cm.rtu.remotecommid': 'remote_comm_id',
	'infiniband.cm.dreq.localcommid': 'local_comm_id', 'infiniband.cm.dreq.remotecommid': 'remote_comm_id',
	'infiniband.cm.drsp.localcommid': 'local_comm_id', 'infiniband.cm.drsp.remotecommid': 'remote_comm_id',
}
ADDRESSES = ('ip.src', 'ip.dst', 'ipv6.src', 'ipv6.dst')
OTHERS = ('infiniband.bth.opcode', 'infiniband.bth.padcnt', 'udp.length')
ICRC, UDP, BTH = 4, 8, 12


def opcodes():
	"""Of each name: its number."""
	with open(SOURCE + 'opcode.def', encoding='utf-8') as f:
		rows = re.findall(r'^OPCODE\((0x\w+),\s*(\w+),', f.read(), re.M)
	return {name: int(code, 0) for code, name in rows}


def theirs(capture):
	names = list(dict.fromkeys((*OTHERS, *ADDRESSES, *PACKET, *CM)))
	command = ['tshark', '-r', capture, '-Y', 'infiniband', '-T', 'fields', '-E', 'separator=;', '-E', 'occurrence=f']
	for name in names:
		command += ['-e', name]
	out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
	return [dict(zip(names, line.split(';'))) for line in out.splitlines()]


def ours(program, capture):
	frames = []
	out = subprocess.run([program, '--dump', capture], check=True, stdout=subprocess.PIPE, text=True).stdout
	for line in out.splitlines():
		fields = {}
		for name, value in re.findall(r'([\w.]+)=(\w+)', line):
			fields.setdefault(name, value)
		if line.startswith('\t'):
			frames[-1]['cm'] = fields
		else:
			frames.append({'line': line, 'fields': fields, 'cm': {}})
	return frames


def number(text):
	if text in ('True', 'False'):
		return int(text == 'True')
	# tshark writes some bit fields as hexadecimal digits with leading zeros
	return int(text, 16) if re.fullmatch(r'0[0-9a-f]+', text) else int(text, 0)


def compare(them, names, us):
	"""The names of the fields that differ; those that were compared are counted."""
	wrong, compared = [], 0
	for name, our in names.items():
		if not them[name]:
			continue
		values = [int(us[n], 0) for n in (our if isinstance(our, tuple) else (our,)) if n in us] or [0]
		compared += 1
		if number(them[name]) != values[0]:
			wrong.append(f'{name}={them[name]}, not {values[0]:#x}')
	return wrong, compared


def compare_form(them, frame, codes):
	words = frame['line'].split()
	name = next(w for w in words if w in codes)
	wrong = [] if codes[name] == number(them['infiniband.bth.opcode']) else [f'opcode {them["infiniband.bth.opcode"]}']
	addresses = [them[a] for a in ADDRESSES if them[a]]
	if [ipaddress.ip_address(a) for a in addresses] != [ipaddress.ip_address(words[i]) for i in (1, 3)]:
		wrong.append(f'addresses {addresses}')
	payload = int(words[words.index('payload') + 1]) if 'payload' in words else 0
	rest = number(them['udp.length']) - UDP - BTH - ICRC - payload - number(them['infiniband.bth.padcnt'])
	if rest < 0 or rest % 4 or (payload + number(them['infiniband.bth.padcnt'])) % 4:
		wrong.append(f'{payload} bytes of payload')
	return wrong


def main(program, captures):
	if not shutil.which('tshark'):
		print('SKIP: no tshark here: scripts/setup test')
		return 77
	codes, frames, total, bad = opcodes(), 0, 0, 0
	for capture in captures:
		them, us = theirs(capture), ours(program, capture)
		if len(them) != len(us) or not us:
			print(f'{capture}: tshark sees {len(them)} frames, we {len(us)}')
			bad += 1
			continue
		for t, u in zip(them, us):
			wrong = compare_form(t, u, codes)
			for names, fields in ((PACKET, u['fields']), (CM, u['cm'])):
				differ, compared = compare(t, names, fields)
				wrong += differ
				total += compared
			if wrong:
				print(f'{capture}: {u["line"]}\n\ttshark: {"; ".join(wrong)}')
				bad += 1
		frames += len(us)
	print(f'{frames} frames, {total} fields, {bad} differ')
	return 1 if bad else 0


sys.exit(main(sys.argv[1], sys.argv[2:]))
