#include "ib/explain.h"

#include "base/log.h"
#include "verbs/ca.h"

struct reason {
	const char *cause, *next;
};

/* By where its packets go at this moment. */
static struct reason of_silence(struct qp *qp)
{
	if (qp->dev->port_state == IBV_PORT_DOWN)
		return (struct reason){ "the port is down", "weft link up brings it up" };
	switch (qp_route(qp)->kind) {
	case ROUTE_NOWHERE:
		return (struct reason){ "the address is no port's of this network",
					"compare LIDs and GIDs of both ends; weft status names other networks" };
	case ROUTE_NONE:
		return (struct reason){ "no process of this network has the peer's QP",
					"see that the peer still runs; weft status names other networks" };
	case ROUTE_CUT:
		return (struct reason){ "no packet gets to the peer: a link or a table of the fabric is in the way",
					"weft fabric path shows the way" };
	case ROUTE_ONE_WAY:
		return (struct reason){ "what the peer answers does not come back through the fabric",
					"weft fabric path shows the way" };
	case ROUTE_NO_LINK:
		return (struct reason){ "there is no way to other hosts", "weft doctor looks at UDP port 4791" };
	default:
		return (struct reason){ "the peer does not answer: its QP is gone or in error, or much is lost",
					"weft qp --history shows the peer's; weft counters what was lost" };
	}
}

static struct reason reason_of(struct qp *qp, enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return of_silence(qp);
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return (struct reason){ "the peer had no receive posted, as often as rnr_retry allows",
					"post receives before the peer sends, or set rnr_retry to 7" };
	case IBV_WC_REM_ACCESS_ERR:
		return (struct reason){ "the peer refuses the rkey, the address or the right",
					"compare with weft mr at the peer, and with qp_access_flags of its QP" };
	case IBV_WC_REM_INV_REQ_ERR:
		return (struct reason){ "the peer refuses the request: too long for its receive, or not enabled",
					"compare lengths, qp_access_flags and max_dest_rd_atomic of both ends" };
	case IBV_WC_REM_OP_ERR:
		return (struct reason){ "the peer failed to execute it", "weft qp --history shows the peer's QP" };
	case IBV_WC_LOC_PROT_ERR:
		return (struct reason){ "the lkey, the address or the right of a segment is wrong", "weft mr lists the regions" };
	case IBV_WC_LOC_LEN_ERR:
		return (struct reason){ "the message is too long",
					"datagrams have at most the path MTU, others the port's max_msg_sz" };
	case IBV_WC_LOC_QP_OP_ERR:
		return (struct reason){ "the request is none that this QP can make", "see ibv_post_send(3) for its type" };
	case IBV_WC_MW_BIND_ERR:
		return (struct reason){ "the window cannot be bound so", "see ibv_bind_mw(3), and weft mr" };
	default:
		return (struct reason){ "it failed by itself", NULL };
	}
}

static void add(struct qp *qp, wtime now, struct qp_stop *s, struct reason why)
{
	s->at = now;
	s->qpn = qp->qpn;
	s->dest_qpn = qp->attr.dest_qp_num;
	s->device = qp->dev->index;
	s->cause = why.cause;
	s->next = why.next;
	qp_history_add(&qp->ca->history, s);
}

void explain_request(struct qp *qp, wtime now, enum ibv_wc_status status)
{
	struct qp_stop s = { .is_request = true, .status = status };
	struct reason why = reason_of(qp, status);

	if (qp->sq.engine.completed != qp->sq.engine.announced) {
		const struct send_wqe *wqe = qp_send_oldest(qp);

		s.wr_id = wqe->wr_id;
		s.opcode = wqe->opcode;
	}
	add(qp, now, &s, why);
	log_line(LOG_INFO, "QP 0x%06x to QP 0x%06x stops: the request of wr_id %llu fails with status %d: %s%s%s", qp->qpn,
		 s.dest_qpn, (unsigned long long)s.wr_id, status, why.cause, why.next ? "; next: " : "",
		 why.next ? why.next : "");
}

void explain_receive(struct qp *qp, wtime now, enum ibv_wc_status status)
{
	struct qp_stop s = { .status = status };
	struct reason why = reason_of(qp, status);

	add(qp, now, &s, why);
	log_line(LOG_INFO, "QP 0x%06x stops: a receive fails with status %d: %s", qp->qpn, status, why.cause);
}

void explain_verdict(struct qp *qp, wtime now, const struct verdict_row *row)
{
	struct qp_stop s = { .status = row->status };

	add(qp, now, &s, (struct reason){ row->name, "compare lengths, rkey, address and rights with the peer's request" });
}
