/* Frames out and in. */
#include "ib/raw.h"

#include "ib/engine.h"
#include "ib/requester.h"
#include "ib/ud.h"
#include "verbs/rss.h"
#include "wire/addr.h"

#include <string.h>

enum ibv_wc_status raw_build(struct qp *qp, const struct send_wqe *wqe, struct packet_out *out)
{
	struct packet *p = &out->packet;

	if (wqe->bad_status)
		return wqe->bad_status;
	if (wqe->length < ETHER_BYTES || wqe->length > ETHER_BYTES + ETHER_TAG_BYTES + engine_mtu(qp))
		return IBV_WC_LOC_LEN_ERR;
	*p = (struct packet){
		.form = PACKET_ETHERNET, .path = { .has_grh = true }, .dest_qpn = MULTICAST_QPN, .payload_bytes = wqe->length,
	};
	memcpy(p->path.dgid, flow_group, sizeof(p->path.dgid));
	return requester_gather(qp, wqe, 0, out);
}

static bool place(struct qp *qp, const struct packet *p)
{
	struct cqe cqe = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .byte_len = p->payload_bytes };
	enum ibv_wc_status status;
	struct recv_ref ref;
	struct pd *pd;

	if (!engine_receives(qp) || !qp_recv_take(qp, NULL, &ref))
		return false;
	pd = ref.is_srq ? ref.srq->pd : qp->pd;
	if (p->payload_bytes > ref.length) {
		qp_recv_untake(qp, &ref);
		return false;
	}
	status = seg_scatter(pd, ref.seg, ref.num_sge, 0, p->payload->iov_base, p->payload_bytes);
	if (status != IBV_WC_SUCCESS) {
		ud_fail_receive(qp, &ref, status);
		return false;
	}
	qp->messages_received++;
	qp->bytes_received += p->payload_bytes;
	qp_recv_complete(qp, &ref, &cqe, false);
	return true;
}

static void deliver(struct qp *qp, const struct packet *p)
{
	if (qp->rss)
		qp = rss_pick(qp, p->payload->iov_base, p->payload_bytes);
	if (place(qp, p))
		QP_COUNT(qp, rdma_recvs, 1);
	else
		qp->ca->counters.dropped_frames++;
}

void raw_input(struct ca *ca, const struct ca_device *dev, const struct packet *p)
{
	if (!flow_steer(ca, dev, p, deliver))
		ca->counters.dropped_frames++;
}
