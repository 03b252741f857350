#!/usr/bin/env python3
"""Sends datagrams to a multicast group from a QP that has joined nothing, by Debian's pyverbs.

group_send.py MLID MGID Q_KEY MESSAGES
"""
import ipaddress
import sys

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

BYTES, MULTICAST_QPN = 100, 0xffffff


def main(mlid, mgid, qkey, messages):
	context = Context(name='weft0')
	pd, cq = PD(context), CQ(context, messages)
	attr = QPAttr(port_num=1)
	attr.qkey = qkey
	qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=messages), sq_sig_all=1), attr)
	way = GlobalRoute(dgid=GID(ipaddress.ip_address(mgid).exploded), sgid_index=0)
	ah = AH(pd, attr=AHAttr(dlid=mlid, gr=way, is_global=1, port_num=1))
	mr = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
	wr = SendWR(num_sge=1, sg=[SGE(mr.buf, BYTES, mr.lkey)], opcode=e.IBV_WR_SEND, send_flags=e.IBV_SEND_SIGNALED)
	wr.set_wr_ud(ah, MULTICAST_QPN, qkey)
	for _ in range(messages):
		qp.post_send(wr)
	done = 0
	while done < messages:
		for wc in cq.poll(messages)[1]:
			if wc.status != e.IBV_WC_SUCCESS:
				sys.exit(f'completion with status {wc.status}')
			done += 1


main(int(sys.argv[1], 0), sys.argv[2], int(sys.argv[3], 0), int(sys.argv[4]))
