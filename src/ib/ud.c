/* Datagrams out and in: as packets, and between processes of a host as direct messages. */
#include "ib/ud.h"

#include "ib/ud_wait.h"
#include "ib/explain.h"
#include "ib/path.h"
#include "ib/raw.h"
#include "ib/requester.h"
#include "wire/addr.h"
#include "wire/field.h"
#include "wire/header.h"
#include "wire/load.h"
#include "wire/packet.h"
#include "wire/pkey.h"

#include <endian.h>
#include <string.h>

enum { GRH_ROOM = 40 };		/* IBA 11.4.1.2: what a receive leaves for the GRH */

/* ---- out ---- */

static enum ibv_wc_status build(struct qp *qp, const struct send_wqe *wqe, struct packet_out *out)
{
	struct packet *p = &out->packet;
	bool has_imm = wqe->opcode == IBV_WR_SEND_WITH_IMM;

	if (wqe->bad_status)
		return wqe->bad_status;
	/* IBA 11.2.2.1: the address handle is of the QP's port (IBV_DEVICE_UD_AV_PORT_ENFORCE) */
	if (wqe->av.port_num != qp->dev->port_num)
		return IBV_WC_LOC_QP_OP_ERR;
	if (wqe->length > engine_mtu(qp))
		return IBV_WC_LOC_LEN_ERR;
	*p = (struct packet){
		.form = qp->dev->protocol->form, .opcode = has_imm ? OPCODE_UD_SEND_ONLY_IMM : OPCODE_UD_SEND_ONLY,
		.solicited = wqe->flags & IBV_SEND_SOLICITED, .pkey = qp_pkey(qp),
		.dest_qpn = wqe->remote_qpn, .psn = engine_of(qp)->flight.psn,
		.deth = { wqe->qkey, qp->qpn }, .imm = be32toh(wqe->imm), .payload_bytes = wqe->length,
	};
	if (av_path(qp->dev, &wqe->av, av_flow_label(qp->qpn, wqe->remote_qpn), &p->path) < 0)
		return IBV_WC_LOC_QP_OP_ERR;
	return requester_gather(qp, wqe, 0, out);
}

bool ud_output(struct qp *qp, wtime now, const struct send_wqe *wqe, struct packet_out *out)
{
	struct flight *f = &engine_of(qp)->flight;
	enum ibv_wc_status status = qp->type == IBV_QPT_RAW_PACKET ? raw_build(qp, wqe, out) : build(qp, wqe, out);

	if (status != IBV_WC_SUCCESS) {
		requester_fail(qp, now, status);
		return false;
	}
	f->psn = psn_add(f->psn, 1);
	qp->sq.engine.started++;
	qp->messages_sent++;
	qp->bytes_sent += wqe->length;
	if (!(wqe->flags & IBV_SEND_INLINE))
		wq_transferred(&qp->sq.engine, wqe->seg, wqe->num_sge, wqe->length);
	QP_COUNT(qp, sent_pkts, 1);
	requester_complete(qp);
	return true;
}

/* What its packet weighs on a link. */
static uint32_t words_of(const struct direct_message *m)
{
	return (uint32_t)(load_packet_bytes(LRH_BYTES, opcode_row(m->opcode)->header_bytes, m->bytes) / LOAD_WORD);
}

/* The message is its packet without the form of one: it has the same addresses and keys, takes a PSN and counts at both ports.
 * Every fault of the WQE is build()'s to find. What has a GRH goes as a packet, whose bytes the receiver is shown, and so does
 * what ports of a fabric are to count. The helper thread does not know whether the memory is there. */
enum direct_outcome ud_take_directly(struct qp *qp, const struct send_wqe *wqe)
{
	const struct ca *ca = qp->ca;
	struct flight *f = &engine_of(qp)->flight;
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;
	const struct route *r;
	int iovs;

	if (!ca->direct || ca->memory_may_go || qp->dev->protocol->form != PACKET_IB || wqe->bad_status || wqe->av.is_global ||
	    wqe->av.port_num != qp->dev->port_num || wqe->length > engine_mtu(qp))
		return DIRECT_NONE;
	r = route_of_av(qp, &wqe->av, wqe->remote_qpn);
	iovs = route_goes_both_ways(r->kind) && !r->way ? requester_borrow(qp, wqe, 0, iov) : -1;
	if (iovs < 0)
		return DIRECT_NONE;
	m = (struct direct_message){
		.opcode = wqe->opcode == IBV_WR_SEND_WITH_IMM ? OPCODE_UD_SEND_ONLY_IMM : OPCODE_UD_SEND_ONLY,
		.solicited = wqe->flags & IBV_SEND_SOLICITED, .dest_qpn = wqe->remote_qpn, .src_qpn = qp->qpn, .psn = f->psn,
		.trailer = be32toh(wqe->imm), .bytes = wqe->length, .iov = iov, .iovs = (unsigned)iovs,
		.datagram = { .qkey = wqe->qkey, .slid = device_lid(qp->dev, wqe->av.src_path_bits),
			      .dlid = wqe->av.dlid, .pkey = qp_pkey(qp), .sl = wqe->av.sl, .network = qp->dev->network },
	};
	if (!ca->direct->send_datagram(ca->direct_arg, r, &m))
		return DIRECT_NONE;
	f->psn = psn_add(f->psn, 1);
	qp->messages_sent++;
	qp->bytes_sent += m.bytes;
	qp->ca->counters.direct_sends++;
	qp->ca->counters.direct_bytes += m.bytes;
	port_load_pass(qp->dev->load, PORT_LOAD_XMIT, words_of(&m), 1, false);
	return DIRECT_DONE;
}

/* ---- in ---- */

/* The network header as verbs shows it: a GRH, or IPv6's header in its place, or IPv4's in the last 20 bytes (A17.4.5.1).
 * False: the packet had none. */
static bool network_header(const struct packet *p, uint8_t grh[GRH_ROOM])
{
	uint8_t frame[PACKET_MAX_HEADER];
	size_t from = p->form == PACKET_IB ? LRH_BYTES : 0;

	memset(grh, 0, GRH_ROOM);
	if (p->form == PACKET_IB && !p->path.has_grh)
		return false;
	packet_build_header(p, frame);
	if (p->path.is_ipv4)
		memcpy(grh + GRH_ROOM - IPV4_BYTES, frame, IPV4_BYTES);
	else
		memcpy(grh, frame + from, GRH_ROOM);
	return true;
}

/* RoCEv2 carries no service level. As mlx5 does, the field tells which network header the 40 bytes hold (1: IPv6, 2: IPv4): UCX
 * asks nothing else. */
static uint8_t service_level(const struct packet *p)
{
	return p->form == PACKET_IB ? p->path.sl : p->path.is_ipv4 ? 2 : 1;
}

static bool qkey_matches(const struct qp *qp, const struct packet *p)
{
	const struct ca_ops *ops = qp->ca->ops;

	if (p->deth.qkey == qp->attr.qkey)
		return true;
	if (ops->bad_key && p->dest_qpn != MULTICAST_QPN)
		ops->bad_key(qp->ca->owner, qp, p, true);
	return false;
}

/* IBA 9.8.3.1, of a datagram whose source is its sender's: the Q_Key, the partition, the room. The order is the standard's; a
 * failing datagram leaves no trace. */
static bool accepts(const struct qp *qp, const struct packet *p)
{
	return qkey_matches(qp, p) && path_pkey_matches(qp, PATH_PRIMARY, p) && p->payload_bytes <= engine_mtu(qp);
}

/* LOC_LEN_ERR: it does not fit. */
static enum ibv_wc_status place(struct qp *qp, const struct recv_ref *ref, const struct packet *p, bool *has_grh)
{
	struct pd *pd = ref->is_srq ? ref->srq->pd : qp->pd;
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	uint8_t grh[GRH_ROOM];

	if ((uint64_t)GRH_ROOM + p->payload_bytes > ref->length)
		return IBV_WC_LOC_LEN_ERR;
	*has_grh = network_header(p, grh);
	if (*has_grh)
		status = seg_scatter(pd, ref->seg, ref->num_sge, 0, grh, GRH_ROOM);
	if (status != IBV_WC_SUCCESS)
		return status;
	return seg_scatter(pd, ref->seg, ref->num_sge, GRH_ROOM, p->payload->iov_base, p->payload_bytes);
}

void ud_fail_receive(struct qp *qp, const struct recv_ref *ref, enum ibv_wc_status status)
{
	struct cqe cqe = { .status = status, .opcode = IBV_WC_RECV };
	wtime now = qp->ca->now;

	explain_receive(qp, now, status);
	qp_recv_complete(qp, ref, &cqe, true);
	qp_error(qp, now, -1);
}

void ud_receive(struct qp *qp, const struct packet *p)
{
	struct recv_ref ref;
	struct cqe cqe = {
		.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .byte_len = GRH_ROOM + p->payload_bytes,
		.src_qp = p->deth.src_qpn, .slid = p->path.slid, .sl = service_level(p), .pkey_index = qp->attr.pkey_index,
		.dlid_path_bits = device_path_bits(qp->dev, p->path.dlid),
	};
	enum ibv_wc_status status;
	bool has_grh;

	if (!qp_recv_take(qp, NULL, &ref)) {
		ud_count_drop(qp);
		return;
	}
	status = place(qp, &ref, p, &has_grh);
	if (status == IBV_WC_LOC_LEN_ERR) {
		qp_recv_untake(qp, &ref);
		ud_count_drop(qp);
		return;
	}
	if (status != IBV_WC_SUCCESS) {
		ud_fail_receive(qp, &ref, status);
		return;
	}
	if (has_grh)
		cqe.wc_flags |= IBV_WC_GRH;
	if (opcode_row(p->opcode)->headers & HDR_IMM) {
		cqe.wc_flags |= IBV_WC_WITH_IMM;
		cqe.imm = htobe32(p->imm);
	}
	wq_transferred(ref.is_srq ? &ref.srq->wq.engine : &qp->rq.engine, ref.seg, ref.num_sge, GRH_ROOM + p->payload_bytes);
	qp->messages_received++;
	qp->bytes_received += p->payload_bytes;
	QP_COUNT(qp, rdma_recvs, 1);
	qp_recv_complete(qp, &ref, &cqe, p->solicited);
}

void ud_input(struct qp *qp, origin_t origin, const struct packet *p)
{
	if (!origin_owns_source(&engine_of(qp)->origin, qp, origin, p) || !accepts(qp, p))
		return;
	if (!ud_wait_keep(qp, origin, p))
		ud_receive(qp, p);
}

static void input_as_packet(struct qp *qp, const struct direct_message *m)
{
	const struct packet p = {
		.form = PACKET_IB, .path = { .slid = m->datagram.slid, .dlid = m->datagram.dlid, .sl = m->datagram.sl },
		.opcode = m->opcode, .solicited = m->solicited, .pkey = m->datagram.pkey, .dest_qpn = m->dest_qpn, .psn = m->psn,
		.deth = { m->datagram.qkey, m->src_qpn }, .imm = m->trailer,
		.payload = m->iov, .payload_iovs = 1, .payload_bytes = m->bytes,
	};

	ud_input(qp, m->datagram.origin, &p);
}

/* As what ud_input asks; the source is known when it is the one that was asked for last. */
static bool accepts_message(const struct qp *qp, const struct direct_message *m)
{
	static const uint8_t no_gid[sizeof(((struct origin *)0)->sgid)];
	const struct origin *o = &engine_of(qp)->origin;

	return o->from == m->datagram.origin && o->src_qpn == m->src_qpn && o->slid == m->datagram.slid &&
	       memcmp(o->sgid, no_gid, sizeof(no_gid)) == 0 && m->datagram.qkey == qp->attr.qkey &&
	       pkey_matches(qp_pkey(qp), m->datagram.pkey) && m->bytes && m->bytes <= engine_mtu(qp);
}

void ud_message(struct qp *qp, const struct direct_message *m)
{
	const struct ca_device *dev = qp->dev;

	if (m->datagram.network != dev->network || !device_is_addressed(dev, m->datagram.dlid, NULL)) {
		qp->ca->counters.dropped_no_qp++;
		return;
	}
	if (!device_takes(dev, PACKET_IB)) {
		qp->ca->counters.dropped_port_down++;
		return;
	}
	port_load_pass(dev->load, PORT_LOAD_RCV, words_of(m), 1, false);
	if (ud_wait_deadline(qp) != WTIME_NEVER || !accepts_message(qp, m) || !qp_recv_datagram(qp, GRH_ROOM, m)) {
		input_as_packet(qp, m);
		return;
	}
	qp->messages_received++;
	qp->bytes_received += m->bytes;
	QP_COUNT(qp, rdma_recvs, 1);
}

/* A group is known by its GID; without a GRH by its LID. */
static bool is_for(const struct mcast_member *member, const struct packet *p)
{
	return p->path.has_grh ? memcmp(member->gid, p->path.dgid, 16) == 0 : member->lid == p->path.dlid;
}

static bool is_sender(const struct qp *qp, const struct packet *p)
{
	if (qp->qpn != p->deth.src_qpn)
		return false;
	if (p->form == PACKET_IB)
		return device_has_lid(qp->dev, p->path.slid);
	for (int i = 0; i < CA_GIDS; i++)
		if (qp->dev->gid[i].valid && memcmp(qp->dev->gid[i].raw, p->path.sgid, 16) == 0)
			return true;
	return false;
}

void ud_multicast(struct ca *ca, const struct ca_device *dev, origin_t origin, const struct packet *p)
{
	if (opcode_row(p->opcode)->service != SERVICE_UD)
		return;
	list_for_each_safe(member, &ca->mcast, struct mcast_member, node)
		if (member->dev == dev && is_for(member, p) && !is_sender(member->qp, p) && engine_receives(member->qp))
			ud_input(member->qp, origin, p);
}
