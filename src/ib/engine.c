/* The table of operations verbs calls, and the way of an inbound packet to its QP. */
#include "ib/engine.h"

#include "ib/answers.h"
#include "ib/completer.h"
#include "ib/direct_load.h"
#include "ib/direct_rma.h"
#include "ib/direct_send.h"
#include "ib/msn_exchange.h"
#include "ib/multi.h"
#include "ib/pace.h"
#include "ib/path.h"
#include "ib/raw.h"
#include "ib/reflect.h"
#include "ib/requester.h"
#include "ib/spread.h"
#include "ib/ud.h"
#include "ib/ud_wait.h"

#include "base/log.h"
#include "verbs/qp_context.h"
#include "wire/addr.h"
#include "wire/packet.h"

#include <errno.h>
#include <stdlib.h>

const struct ib_options ib_default_options = {
	.profile = IB_STANDARD, .ack_mode = IB_ACK_ON_REQUEST, .window_pkts = IB_WINDOW, .ack_every = 1, .selective_repeat = true,
	.congestion_control = true, .paths = 1,
};

static bool has_requester(const struct qp *qp)
{
	return qp->type != IBV_QPT_XRC_RECV;
}

static bool has_responder(const struct qp *qp)
{
	return qp->type != IBV_QPT_XRC_SEND && !qp_is_datagram(qp);
}

static uint32_t window_of(const struct qp *qp, const struct ib_options *options)
{
	return has_requester(qp) && engine_is_reliable(qp) ? options->window_pkts : 0;
}

void ib_check(const struct qp *qp)
{
	flight_check(&engine_of(qp)->flight);
	answers_check(qp);
	responder_check(qp);
	pace_check(qp);
	spread_check(qp);
	multi_check(qp);
}

static void check(const struct qp *qp)
{
#ifdef WEFT_DEBUG
	ib_check(qp);
#endif
}

static enum opcode_service service_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UC:
		return SERVICE_UC;
	case IBV_QPT_UD:
		return SERVICE_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SERVICE_XRC;
	default:
		return SERVICE_RC;
	}
}

static void take_options(struct qp *qp, struct engine *e, const struct ib_options *o)
{
	e->options = *o;
	e->selective = o->selective_repeat && o->profile == IB_STANDARD &&
		       (e->service == SERVICE_RC || e->service == SERVICE_XRC);
	e->acks_as_usual = o->profile == IB_STANDARD && o->ack_mode == IB_ACK_ON_REQUEST &&
			   o->completion == ib_default_options.completion && !o->ack_when_consumed;
	e->paces = o->congestion_control && o->profile == IB_STANDARD && e->service != SERVICE_UD;
	e->takes_short = e->acks_as_usual && e->service == SERVICE_RC;
	qp->paths_most = o->profile == IB_SEED ? 1 : o->paths;
}

static int init(struct qp *qp)
{
	struct engine *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->service = service_of(qp->type);
	take_options(qp, e, ib_options_of(qp->ca));
	origin_forget(&e->origin);
	direct_load_forget(e);
	qp->engine = e;
	err = ib_options_check(&e->options, qp->dev);
	if (err == 0)
		err = multi_init(qp);
	if (err == 0)
		err = flight_init(&e->flight, window_of(qp, &e->options));
	if (err < 0) {
		multi_fini(qp);
		free(e);
		qp->engine = NULL;
	}
	return err;
}

static void fini(struct qp *qp)
{
	struct engine *e = engine_of(qp);

	responder_fini(qp);
	reflect_close(qp);
	answers_fini(qp);
	spread_close(qp);
	pace_forget(qp);
	multi_fini(qp);
	ud_wait_fini(qp);
	flight_fini(&e->flight);
	free(e);
	qp->engine = NULL;
}

int ib_options_check(const struct ib_options *o, const struct ca_device *dev)
{
	uint32_t window = o->window_pkts;

	if (window < 1 || window > IB_WINDOW_MAX || (window & (window - 1)) || o->start_msn > PSN_MASK || !o->ack_every ||
	    o->paths > BTH_PATHS)
		return -EINVAL;
	return o->ack_mode == IB_ACK_COALESCED && dev->may_reorder ? -EOPNOTSUPP : 0;
}

int ib_set_options(struct qp *qp, const struct ib_options *options)
{
	struct engine *e = engine_of(qp);
	struct flight flight;
	int err = ib_options_check(options, qp->dev);

	if (qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT)
		return -EINVAL;
	if (err < 0)
		return err;
	if (flight_init(&flight, window_of(qp, options)) < 0)
		return -ENOMEM;
	answers_fini(qp);
	pace_forget(qp);
	multi_fini(qp);
	flight_fini(&e->flight);
	e->flight = flight;
	take_options(qp, e, options);
	return multi_init(qp);
}

static void stop(struct qp *qp, enum ibv_qp_state to)
{
	requester_close(qp);
	responder_close(qp, to);
	ud_wait_drop(qp);
	if (multi_of(qp))
		multi_close(qp, to);
}

/* To RTS: a new connection, a send queue that stood (SQE), or one that was drained and goes on (SQD). */
static void start_sending(struct qp *qp, enum ibv_qp_state from)
{
	struct flight *f = &engine_of(qp)->flight;

	if (!has_requester(qp))
		return;
	if (multi_of(qp)) {
		if (from == IBV_QPS_RTR)
			multi_open_requester(qp);
	} else if (from == IBV_QPS_RTR) {
		f->has_sent = false;
		requester_open(qp, qp->attr.sq_psn);
	} else if (from == IBV_QPS_SQE)
		requester_open(qp, f->psn);
	qp->attr.sq_draining = 0;
	qp_ready(qp);
}

static void modified(struct qp *qp, wtime now, enum ibv_qp_state from, int mask)
{
	completer_ack_postponed(qp);	/* what was executed is not flushed */
	origin_forget(&engine_of(qp)->origin);
	direct_load_forget(engine_of(qp));
	if (mask & (IBV_QP_AV | IBV_QP_ALT_PATH)) {
		spread_close(qp);	/* its paths were those of the address before; one that may migrate has none */
		reflect_close(qp);
	}
	if (mask & IBV_QP_PATH_MIG_STATE && qp->attr.path_mig_state == IBV_MIG_MIGRATED)
		requester_migrated(qp, now);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && has_responder(qp))
		responder_resize(qp);
	if (mask & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY) && multi_of(qp))
		multi_take_limits(qp);
	else if (mask & (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY) && has_requester(qp))
		requester_reset_retries(qp);
	switch (qp->state) {
	case IBV_QPS_RTR:
		if (multi_of(qp) && from != IBV_QPS_RTR)
			multi_open_responder(qp);
		else if (has_responder(qp) && from != IBV_QPS_RTR)
			responder_open(qp);
		break;
	case IBV_QPS_RTS:
		start_sending(qp, from);
		break;
	case IBV_QPS_SQD:
		if (from != IBV_QPS_SQD)
			qp->attr.sq_draining = 1;
		if (multi_of(qp))
			multi_complete(qp, now);
		else if (has_requester(qp))
			requester_complete(qp);
		break;
	case IBV_QPS_SQE:
		requester_close(qp);
		break;
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		stop(qp, qp->state);
		break;
	default:
		break;
	}
	check(qp);
}

static void doorbell(struct qp *qp, wtime now)
{
	enum flight_phase phase = engine_of(qp)->flight.phase;

	if (multi_of(qp) || phase == FLIGHT_SENDING_MSN || (phase == FLIGHT_OPEN && !requester_run_direct(qp)))
		qp_ready(qp);
}

/* A connected sender that was told RNR comes back by itself. */
static void recv_doorbell(struct qp *qp, wtime now)
{
	if (engine_of(qp)->waiting)
		ud_wait_serve(qp, now);
}

/* Answers go before requests: a peer waits for them. But an ACK that was withheld goes behind the first request: being shorter,
 * it leaves in the same datagram (UDP_SEGMENT). */
static bool output(struct qp *qp, wtime now, struct packet_out *out)
{
	bool waits = list_linked(&qp->withheld) && !out->follows && has_requester(qp), made;

	if (qp_is_datagram(qp))
		return requester_output(qp, now, out);
	if (multi_of(qp)) {
		made = multi_output(qp, now, out);
		out->is_cut = made && qp->ca->cuts && path_is_cut(qp, &out->packet, true);
		return made;
	}
	made = pace_output(qp, out) || reflect_output(qp, out) || spread_output(qp, now, out) ||
	       (waits && requester_output(qp, now, out)) ||
	       (has_responder(qp) && responder_output(qp, now, out)) ||
	       (!waits && has_requester(qp) && requester_output(qp, now, out));
	out->is_cut = made && qp->ca->cuts && path_is_cut(qp, &out->packet, true);
	check(qp);
	return made;
}

static wtime deadline(const struct qp *qp)
{
	if (multi_of(qp))
		return multi_deadline(qp);
	if (qp->type == IBV_QPT_UD)
		return ud_wait_deadline(qp);
	return wtime_min(wtime_min(engine_of(qp)->flight.deadline, pace_deadline(qp)), spread_deadline(qp));
}

static void expire(struct qp *qp, wtime now)
{
	if (multi_of(qp)) {
		multi_expire(qp, now);
	} else if (qp->type == IBV_QPT_UD) {
		ud_wait_expire(qp, now);
	} else {
		pace_expire(qp, now);
		spread_expire(qp, now);
		requester_expire(qp, now);
	}
	check(qp);
}

static bool reap_acks(struct qp *qp, wtime now)
{
	bool moved = direct_send_reap_acks(qp, now);

	check(qp);
	return moved;
}

static bool ack_postponed(struct qp *qp)
{
	bool moved = completer_ack_postponed(qp);

	engine_rearm(qp);
	check(qp);
	return moved;
}

static void message(struct qp *qp, wtime now, const void *channel, const struct direct_message *m)
{
	struct ca *ca = qp->ca;

	if (!direct_send_is_for(qp, m)) {
		ca->counters.dropped_no_qp++;
		return;
	}
	if (qp->type == IBV_QPT_UD) {
		ud_message(qp, m);
		return;
	}
	if (!direct_send_is_of_peer(qp, channel, m)) {
		ca->counters.dropped_source++;
		return;
	}
	direct_send_input(qp, now, m);
	qp_rearm(qp);
	check(qp);
}

static bool send_short(struct qp *qp, const struct wqe_seg *seg, unsigned flags)
{
	bool sent = direct_send_post(qp, seg, flags);

	check(qp);
	return sent;
}

static bool write_short(struct qp *qp, const struct wqe_seg *seg, bool is_inline, uint32_t rkey, uint64_t va)
{
	bool written = direct_rma_post(qp, seg, is_inline, rkey, va);

	check(qp);
	return written;
}

static bool fetch_short(struct qp *qp, const struct wqe_seg *seg, const struct ibv_send_wr *wr)
{
	bool fetched = direct_rma_post_fetch(qp, seg, wr);

	check(qp);
	return fetched;
}

static bool short_message(struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited)
{
	bool taken = direct_send_short_input(qp, psn, received, data, bytes, solicited);

	check(qp);
	return taken;
}

static void query(const struct qp *qp, struct ibv_qp_attr *attr)
{
	const struct engine *e = engine_of(qp);

	if (has_requester(qp) && e->flight.phase != FLIGHT_CLOSED)
		attr->sq_psn = e->flight.psn;
	if (has_responder(qp) && e->responder.phase != RESPONDER_CLOSED)
		attr->rq_psn = e->responder.psn;
}

static uint32_t mtu_or_least(const struct qp *qp)
{
	return qp->attr.path_mtu || qp_is_datagram(qp) ? engine_mtu(qp) : mtu_bytes(IBV_MTU_256);
}

static void context(const struct qp *qp, struct qp_context *c)
{
	const struct flight *f = &engine_of(qp)->flight;

	c->ulp.window_out_bytes = (uint64_t)(f->limit ? f->limit : f->window) * mtu_or_least(qp);
	if (f->phase != FLIGHT_CLOSED)
		c->engine.retries = (uint32_t)(f->retries_granted - f->retries);
	c->engine.receives_awaiting_ack = engine_of(qp)->responder.unacked_receives;
	pace_describe(qp, &c->path);
	spread_describe(qp, c);
	if (multi_of(qp))
		multi_describe(qp, c);
}

static int set_window(struct qp *qp, uint64_t bytes)
{
	struct flight *f = &engine_of(qp)->flight;
	uint64_t packets = bytes / mtu_or_least(qp);

	if (packets > f->window || !f->window || multi_of(qp))
		return -EINVAL;
	if (packets < flight_most(f) && packets < flight_under_way(f))
		return -EBUSY;
	f->limit = packets ? (uint32_t)packets : 1;
	return 0;
}

/* Congestion notifications are for all connected QPs (A17.9.3). */
static bool is_of_service(const struct qp *qp, const struct opcode_row *row)
{
	if (row->op == OP_MULTIPATH || engine_of(qp)->multi)
		return row->op == OP_MULTIPATH && engine_of(qp)->multi;
	if (row->op == OP_CNP)
		return !qp_is_datagram(qp);
	return row->service == engine_service(qp) || (row->service == SERVICE_MAKER && engine_of(qp)->selective);
}

/* A packet of the peer, to the part of the QP that it is for. */
static void pass_on(struct qp *qp, wtime now, const struct opcode_row *row, const struct packet *p)
{
	if (row->op == OP_CNP) {
		pace_notified(qp);
	} else if (row->op == OP_PATH_PROBE) {
		reflect_probe(qp, p);
	} else if (row->op == OP_PATH_ANSWER) {
		spread_answered(qp, now, p);
	} else if (row->op == OP_MULTIPATH) {
		multi_input(qp, now, p);
	} else if (msn_exchange_is_for(qp, p)) {
		msn_exchange_input(qp, now, p);
	} else if (!row->is_response && has_responder(qp)) {
		responder_input(qp, now, p);
		if (spread_of(qp))
			spread_peer_sends(qp, now);
	} else if (row->is_response && has_requester(qp)) {
		completer_input(qp, now, p);
	}
}

/* IBA 9.6.1.1 to 9.6.1.4: the QP exists, has this service, may receive, and the packet comes from its peer. What fails
 * is dropped silently. */
static void input(struct ca *ca, struct ca_device *dev, wtime now, origin_t origin, const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	enum path path;
	struct qp *qp;

	ca_count(ca, dev, COUNTER_INDEX(rcvd_pkts), 1);
	if (p->form == PACKET_ETHERNET) {
		raw_input(ca, dev, p);
		return;
	}
	if (p->dest_qpn == MULTICAST_QPN) {
		ud_multicast(ca, dev, origin, p);
		return;
	}
	qp = qp_find(ca, p->dest_qpn);
	if (!qp || qp->dev != dev || !device_takes(dev, p->form) || qp->type == IBV_QPT_RAW_PACKET) {
		ca->counters.dropped_no_qp++;
		return;
	}
	if (!is_of_service(qp, row) || !engine_receives(qp))
		return;
	if (qp->type == IBV_QPT_UD) {
		ud_input(qp, origin, p);
		return;
	}
	path = path_of(qp, p);
	if ((path == PATH_NONE && !qp->migration) || !origin_is_peer(&engine_of(qp)->origin, qp, origin, p))
		return;
	if (path == PATH_NONE) {
		path_refuse(qp, p);
		return;
	}
	if (!path_pkey_matches(qp, path, p))
		return;
	if (qp->migration)
		path_follow(qp, now, path, p);
	pace_input(qp, now, p);
	pass_on(qp, now, row, p);
	qp_rearm(qp);
	check(qp);
}

static const struct packet_ops packets = { .qp_output = output, .input = input };

static const struct message_ops messages = {
	.qp_message = message, .qp_short = short_message, .qp_send_short = send_short,
	.qp_write_short = write_short, .qp_fetch_short = fetch_short,
	.qp_reap_acks = reap_acks, .qp_ack_postponed = ack_postponed,
};

const struct transport_ops ib_transport = {
	.name = "ib",
	.qp_types = (1 << QP_KINDS) - 1,
	.send_ops = UINT32_MAX,
	.transitions = &qp_iba_transitions,
	.packets = &packets,
	.messages = &messages,
	.qp_init = init,
	.qp_fini = fini,
	.qp_modified = modified,
	.qp_doorbell = doorbell,
	.qp_recv_doorbell = recv_doorbell,
	.qp_deadline = deadline,
	.qp_expire = expire,
	.qp_context = context,
	.qp_set_window = set_window,
	.qp_query = query,
};
