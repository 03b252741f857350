#!/usr/bin/env python3
"""Sends datagrams to a multicast group from a QP that has joined nothing, or to the QP of this number, by Debian's pyverbs.

group_send.py MLID MGID Q_KEY MESSAGES
group_send.py LID - Q_KEY MESSAGES QPN
"""
import ipaddress
import sys
import time

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

BYTES, MULTICAST_QPN = 100, 0xffffff
LINGER_S = 0.5		# a receiver that tells of a wrong Q_Key is believed while its sender is there


def main(lid, mgid, qkey, messages, qpn=MULTICAST_QPN):
	context = Context(name='weft0')
	pd, cq = PD(context), CQ(context, messages)
	attr = QPAttr(port_num=1)
	attr.qkey = qkey
	qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=messages), sq_sig_all=1), attr)
	is_global = mgid != '-'
	way = GlobalRoute(dgid=GID(ipaddress.ip_address(mgid).exploded), sgid_index=0) if is_global else None
	ah = AH(pd, attr=AHAttr(dlid=lid, gr=way, is_global=is_global, port_num=1))
	mr = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
	wr = SendWR(num_sge=1, sg=[SGE(mr.buf, BYTES, mr.lkey)], opcode=e.IBV_WR_SEND, send_flags=e.IBV_SEND_SIGNALED)
	wr.set_wr_ud(ah, qpn, qkey)
	for _ in range(messages):
		qp.post_send(wr)
	done = 0
	while done < messages:
		for wc in cq.poll(messages)[1]:
			if wc.status != e.IBV_WC_SUCCESS:
				sys.exit(f'completion with status {wc.status}')
			done += 1
	time.sleep(LINGER_S)


main(int(sys.argv[1], 0), sys.argv[2], *(int(word, 0) for word in sys.argv[3:]))
