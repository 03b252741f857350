#include "cli/replay_engine.h"

#include "base/qpn.h"
#include "ib/ib.h"
#include "impair/trace_engine.h"
#include "verbs/mr.h"
#include "wire/addr.h"
#include "wire/pkey.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	ARENA_BYTES = 256 << 20,	/* not reserved: queues that are touched cost memory */
	CQES = 1 << 16,			/* polled after each record */
	RECEIVE_BYTES = 1 << 30,	/* our choice: longer than any message of a test */
	WQE_FLAGS = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
};

/* A shared receive queue, which has another number here. */
struct shared {
	struct list_node node;
	uint32_t number;		/* recorded */
	struct srq *srq;		/* the adapter's */
};

struct replay_engine {
	struct ca ca;
	void *arena;			/* owned */
	uint32_t next_qpn;		/* for the QP being made */
	struct pd *pd[CA_DEVICES];
	struct cq *cq[CA_DEVICES];
	struct mr *all[CA_DEVICES];	/* covers every address; has no memory */
	struct xrcd *xrcd[CA_DEVICES];
	struct list shared;		/* struct shared, owned */
	struct ib_options options;
	struct burst burst;		/* of one packet */
	uint8_t frame[PACKET_MAX_BYTES];	/* what was made last, as the wire shows it */
	struct packet to_group;		/* the last datagram to a group */
};

/* ---- what the adapter asks of its owner ---- */

static void ignore_cq_event(void *owner, struct cq *cq)
{
}

static void ignore_async_event(void *owner, enum ibv_event_type type, void *object)
{
}

/* It leads into the trace, wherever. */
static void lead_on(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	r->kind = ROUTE_CHANNEL;
}

static unsigned has_room(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	return 1;
}

/* Frames that were not their sender's are marked in the trace, and not entered. */
static bool speak_for_all(void *owner, origin_t origin, const struct route *back)
{
	return true;
}

/* What a trace has was sent over a wire, as faults and traces make one. */
static bool keeps_nothing(void *owner, const struct route *r, uint64_t *mark)
{
	return false;
}

/* The program's memory is not in the trace. */
static int copy_nothing(void *owner, void *to, const void *from, size_t bytes)
{
	return 0;
}

static int no_mcast(void *owner, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	return 0;
}

static int take_qpn(void *owner, uint32_t *qpn)
{
	*qpn = ((struct replay_engine *)owner)->next_qpn;
	return 0;
}

static void drop_qpn(void *owner, uint32_t qpn)
{
}

static const struct ca_ops ops = {
	.cq_event = ignore_cq_event, .async_event = ignore_async_event, .route = lead_on, .space = has_room,
	.origin_matches = speak_for_all, .undelivered = keeps_nothing, .read_program = copy_nothing,
	.write_program = copy_nothing, .mcast = no_mcast, .qpn_alloc = take_qpn, .qpn_free = drop_qpn,
};

/* ---- life ---- */

static int make_objects(struct replay_engine *e, int i)
{
	struct ca_device *dev = &e->ca.dev[i];
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	int err = pd_create(&e->ca, dev, &e->pd[i]);

	if (err == 0)
		err = cq_create(&e->ca, dev, CQES, &e->cq[i]);
	if (err == 0)
		err = mr_create_kind(e->pd[i], MR_ON_DEMAND, NULL, UINT64_MAX, 0, access, &e->all[i]);
	if (err == 0)
		err = xrcd_open(&e->ca, dev, 0, 0, O_CREAT, &e->xrcd[i]);
	return err;
}

static int fill_devices(const struct trace_process *process, struct ca_device dev[IMPAIR_DEVICES])
{
	for (unsigned i = 0; i < process->devices; i++) {
		dev[i] = (struct ca_device){ .name = "replay", .transport = &ib_transport,
					     .protocol = device_protocol_named(process->device[i].protocol),
					     .lid = 1, .active_mtu = IBV_MTU_4096, .max_mtu = IBV_MTU_4096,
					     .port_state = IBV_PORT_ACTIVE, .pkeys = CA_PKEYS, .pkey = { PKEY_DEFAULT } };
		dev[i].gid[0].valid = true;
		if (!dev[i].protocol)
			return -EPROTONOSUPPORT;
	}
	return 0;
}

static int make_adapter(struct replay_engine *e, const struct trace_process *process)
{
	struct ca_device dev[IMPAIR_DEVICES];
	struct ca_config config = { .ops = &ops, .owner = e, .arena = e->arena,
				    .arena_bytes = ARENA_BYTES, .dev = dev, .devices = (int)process->devices };
	int err = fill_devices(process, dev);

	if (err == 0)
		err = ca_init(&e->ca, &config);
	if (err)
		return err;
	e->ca.engine_options = &e->options;
	for (int i = 0; i < e->ca.devices && err == 0; i++)
		err = make_objects(e, i);
	if (err)
		ca_fini(&e->ca);
	return err;
}

struct replay_engine *replay_engine_new(const struct trace_process *process, int *err)
{
	struct replay_engine *e = calloc(1, sizeof(*e));

	*err = -ENOMEM;
	if (!e)
		return NULL;
	list_init(&e->shared);
	e->options = ib_default_options;
	e->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (e->arena != MAP_FAILED)
		*err = make_adapter(e, process);
	if (*err == 0)
		return e;
	if (e->arena != MAP_FAILED)
		munmap(e->arena, ARENA_BYTES);
	free(e);
	return NULL;
}

void replay_engine_delete(struct replay_engine *e)
{
	struct list_node *node;

	if (!e)
		return;
	while ((node = list_pop(&e->shared)))
		free(container_of(node, struct shared, node));
	ca_fini(&e->ca);
	munmap(e->arena, ARENA_BYTES);
	free(e);
}

/* ---- entries ---- */

static enum replay_end differs(char *why, size_t room, const char *what)
{
	snprintf(why, room, "%s", what);
	return REPLAY_DIFFERS;
}

/* The program took its completions, so that its queues have their credits again. */
static void reap(struct replay_engine *e)
{
	struct cqe cqe;

	for (int i = 0; i < e->ca.devices; i++) {
		while (cq_poll(e->cq[i], &cqe))
			;
	}
}

static bool is_replayed(const struct trace_qp *t)
{
	bool is_known = t->type == IBV_QPT_RC || t->type == IBV_QPT_UC || t->type == IBV_QPT_UD || t->type == IBV_QPT_XRC_SEND ||
			t->type == IBV_QPT_XRC_RECV;

	if (t->type == IBV_QPT_RC && t->profile == IB_MULTIPATH)	/* its packets have a CRC over the program's memory */
		return false;
	return is_known && !t->exchange_start && !t->ack_when_consumed;
}

static struct shared *find_shared(struct replay_engine *e, uint64_t number)
{
	list_for_each(s, &e->shared, struct shared, node) {
		if (s->number == number)
			return s;
	}
	return NULL;
}

static struct qp *make_qp(struct replay_engine *e, const struct trace_record *r, const struct trace_qp *t)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = (enum ibv_qp_type)t->type, .sq_sig_all = 1,
		.cap = { .max_send_wr = (uint32_t)t->max_send_wr, .max_recv_wr = (uint32_t)t->max_recv_wr,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct shared *shared = t->srq ? find_shared(e, t->srq - 1) : NULL;
	bool is_receiver = t->type == IBV_QPT_XRC_RECV, is_sender = t->type == IBV_QPT_XRC_SEND;
	struct cq *cq = is_receiver ? NULL : e->cq[r->device];
	struct qp *qp;

	e->options = (struct ib_options){
		.profile = (enum ib_profile)t->profile, .ack_mode = (enum ib_ack_mode)t->ack_mode,
		.window_pkts = (uint16_t)t->window_pkts, .ack_every = (uint16_t)t->ack_every,
		.report_last_only = t->report_last_only, .start_msn = (uint32_t)t->start_msn,
		.completion = (enum ib_completion)t->completion, .selective_repeat = t->selective_repeat,
	};
	if (ib_options_check(&e->options, &e->ca.dev[r->device]) || r->to == 0 || (t->srq && !shared))
		return NULL;
	e->next_qpn = r->to;
	if (qp_create(&e->ca, &e->ca.dev[r->device], &attr, is_receiver ? NULL : e->pd[r->device], cq, is_sender ? NULL : cq,
		      shared ? shared->srq : NULL, is_receiver ? e->xrcd[r->device] : NULL, &qp) < 0)
		return NULL;
	return qp;
}

static void set_path(struct qp *qp, const struct trace_qp *t)
{
	qp->path = (struct packet_path){ .slid = (uint16_t)t->slid, .dlid = (uint16_t)t->dlid, .has_grh = t->has_grh };
	memcpy(qp->path.sgid, t->sgid, sizeof(qp->path.sgid));
	memcpy(qp->path.dgid, t->dgid, sizeof(qp->path.dgid));
	if (!qp->migration)
		return;
	qp->migration->alternate = (struct packet_path){
		.slid = (uint16_t)t->alt_slid, .dlid = (uint16_t)t->alt_dlid, .has_grh = t->alt_has_grh,
	};
	memcpy(qp->migration->alternate.sgid, t->alt_sgid, sizeof(t->alt_sgid));
	memcpy(qp->migration->alternate.dgid, t->alt_dgid, sizeof(t->alt_dgid));
}

static enum replay_end modify(struct replay_engine *e, struct qp *qp, const struct trace_record *r, char *why, size_t room)
{
	struct ibv_qp_attr attr;
	struct trace_qp t;
	int mask;

	if (!trace_get_numbers(r, &t, sizeof(t)) || t.pkey_index >= CA_PKEYS || t.alt_pkey_index >= CA_PKEYS ||
	    t.path_mtu > IBV_MTU_4096)
		return differs(why, room, "the record of a QP is damaged");
	if (!is_replayed(&t))
		return REPLAY_NOT_OURS;
	if (!qp)
		qp = make_qp(e, r, &t);
	if (!qp)
		return differs(why, room, "the QP cannot be made");
	qp->dev->pkey[t.pkey_index] = (uint16_t)t.pkey;
	if (t.alt_pkey)
		qp->dev->pkey[t.alt_pkey_index] = (uint16_t)t.alt_pkey;
	if (qp_is_datagram(qp) && t.path_mtu)
		qp->dev->active_mtu = (enum ibv_mtu)t.path_mtu;
	mask = trace_qp_attr(&t, &attr);
	if (qp_modify(qp, r->time, &attr, mask) < 0)
		return differs(why, room, "the QP does not take its new attributes");
	set_path(qp, &t);
	return REPLAY_SAME;
}

/* What a request addresses at the other side. */
static void set_target(const struct qp *qp, struct send_wqe *wqe, const struct trace_send *t)
{
	wqe->remote_qpn = (uint32_t)t->remote_qpn & QPN_MASK;
	if (qp_is_datagram(qp)) {
		wqe->av = (struct av){ .is_global = true, .port_num = 1, .dlid = 1 };
		wqe->qkey = (uint32_t)t->qkey;
		return;
	}
	wqe->remote_addr = t->remote_addr;
	wqe->rkey = (uint32_t)t->rkey;
	wqe->compare_add = t->opcode == IBV_WR_ATOMIC_WRITE ? t->atomic_write : t->compare_add;
	wqe->swap = t->swap;
}

static enum replay_end post_send(struct replay_engine *e, struct qp *qp, const struct trace_record *r, char *why, size_t room)
{
	struct send_wqe *wqe;
	struct trace_send t;

	if (!trace_get_numbers(r, &t, sizeof(t)))
		return differs(why, room, "the record of a request is damaged");
	wqe = qp_send_slot(qp);
	if (!wqe)
		return differs(why, room, "the send queue is full: requests that had completed have not");
	wqe->opcode = (uint8_t)t.opcode;
	wqe->flags = (uint8_t)t.flags & WQE_FLAGS;
	wqe->imm = (uint32_t)t.imm;
	set_target(qp, wqe, &t);
	wqe->length = (uint32_t)t.length;
	wqe->num_sge = 1;
	wqe->seg[0] = (struct wqe_seg){ .addr = 0, .length = (uint32_t)t.length, .lkey = e->all[r->device]->key };
	if (qp_send_written(qp, wqe) < 0)
		return differs(why, room, "the request is not taken");
	qp_send_ring(qp, r->time);
	return REPLAY_SAME;
}

/* Receives until so many were announced in all. False: the queue is full. */
static bool fill_up(struct replay_engine *e, const struct trace_record *r, struct wq *wq, uint64_t announced)
{
	struct ibv_sge sge = { .addr = 0, .length = RECEIVE_BYTES, .lkey = e->all[r->device]->key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;

	while (wq->engine.announced != (uint32_t)announced) {
		if (recv_post(wq, 1, &wr, &bad) < 0)
			return false;
		wq_doorbell_read(&wq->engine);
	}
	return true;
}

/* What a datagram used decides nothing that is sent, and those of groups are not followed: there a full queue means nothing. */
static enum replay_end post_receives(struct replay_engine *e, struct qp *qp, const struct trace_record *r, char *why, size_t room)
{
	struct trace_receives t;

	if (!trace_get_numbers(r, &t, sizeof(t)))
		return differs(why, room, "the record of receives is damaged");
	if (!fill_up(e, r, &qp->rq, t.announced) && !qp_is_datagram(qp))
		return differs(why, room, "the receive queue is full: receives that were used are not");
	ib_transport.qp_recv_doorbell(qp, r->time);
	return REPLAY_SAME;
}

/* A QP that has it and should have gone keeps it. */
static void drop_shared(struct shared *s)
{
	(void)srq_destroy(s->srq);
	list_remove(&s->node);
	free(s);
}

static struct shared *make_shared(struct replay_engine *e, const struct trace_record *r, const struct trace_srq *t)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = (uint32_t)t->max_wr, .max_sge = 1 },
					     .srq_type = t->is_xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC };
	struct xrcd *xrcd = t->is_xrc ? e->xrcd[r->device] : NULL;
	struct cq *cq = t->is_xrc ? e->cq[r->device] : NULL;
	struct shared *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (srq_create(e->pd[r->device], &attr, xrcd, cq, &s->srq) < 0) {
		free(s);
		return NULL;
	}
	s->number = r->to;
	list_append(&e->shared, &s->node);
	return s;
}

static enum replay_end post_shared(struct replay_engine *e, const struct trace_record *r, char *why, size_t room)
{
	struct shared *s = find_shared(e, r->to);
	struct trace_srq t;

	if (!trace_get_numbers(r, &t, sizeof(t)) || t.max_wr > UINT32_MAX)
		return differs(why, room, "the record of a shared receive queue is damaged");
	if (s && (t.is_new || !t.max_wr)) {
		drop_shared(s);
		s = NULL;
	}
	if (!t.max_wr)
		return REPLAY_SAME;
	if (!s)
		s = make_shared(e, r, &t);
	if (!s)
		return differs(why, room, "the shared receive queue cannot be made");
	if (t.max_wr > s->srq->max_wr)
		(void)srq_modify(s->srq, &(struct ibv_srq_attr){ .max_wr = (uint32_t)t.max_wr }, IBV_SRQ_MAX_WR);
	(void)fill_up(e, r, &s->srq->wq, t.announced);	/* full: what used them is not followed */
	return REPLAY_SAME;
}

enum replay_end replay_engine_enter(struct replay_engine *e, const struct trace_record *r, char *why, size_t room)
{
	struct qp *qp = r->to <= QPN_MASK ? qp_find(&e->ca, r->to) : NULL;
	enum replay_end end = REPLAY_SAME;

	if (r->form == PACKET_ETHERNET)
		return REPLAY_NOT_OURS;
	if (r->kind == TRACE_SRQ)
		return post_shared(e, r, why, room);
	if (r->to > QPN_MASK || (!qp && r->kind != TRACE_QP))
		return REPLAY_NOT_OURS;
	switch (r->kind) {
	case TRACE_QP:
		end = modify(e, qp, r, why, room);
		break;
	case TRACE_QP_GONE:
		qp_destroy(qp);
		break;
	case TRACE_SEND:
		end = post_send(e, qp, r, why, room);
		break;
	case TRACE_RECEIVES:
		end = post_receives(e, qp, r, why, room);
		break;
	case TRACE_EXPIRE:
		ib_transport.qp_expire(qp, r->time);
		break;
	default:
		return REPLAY_NOT_OURS;
	}
	reap(e);
	return end;
}

/* ---- frames ---- */

enum replay_end replay_engine_input(struct replay_engine *e, const struct trace_record *r, char *why, size_t room)
{
	struct ca_device *dev = &e->ca.dev[r->device];
	struct shared *shared;
	struct packet p;
	struct qp *qp;

	if (r->marks & TRACE_REFUSED || packet_parse(&p, r->form, r->data, r->bytes, true) != PACKET_OK)
		return REPLAY_NOT_OURS;
	qp = qp_find(&e->ca, p.dest_qpn);
	if (!qp)
		return REPLAY_NOT_OURS;
	/* of several adapters of a host the trace names the first, and the frame was for the port of its address */
	if (r->form == PACKET_IB)
		dev = qp->dev;
	/* what its owner's keys allowed was recorded as the outcome */
	p.reth.rkey = p.atomiceth.rkey = r->marks & TRACE_STOPPED ? 0 : e->all[dev->index]->key;
	shared = qp->type == IBV_QPT_XRC_RECV ? find_shared(e, p.xrceth.srqn) : NULL;
	if (shared)
		p.xrceth.srqn = shared->srq->srqn;
	ca_input(&e->ca, dev, r->time, r->to, &p);
	reap(e);
	if (r->marks & TRACE_STOPPED && qp->state != IBV_QPS_ERR)
		return differs(why, room, "this frame stopped the QP, and does not any more");
	return REPLAY_SAME;
}

static struct qp *sender_of(struct replay_engine *e, unsigned device, const struct packet *p)
{
	if (opcode_row(p->opcode)->service == SERVICE_UD)
		return qp_find(&e->ca, p->deth.src_qpn);
	list_for_each(qp, &e->ca.all_qps, struct qp, all) {
		if (qp->attr.dest_qp_num == p->dest_qpn && qp->dev->index == device)
			return qp;
	}
	return NULL;
}

/* Payloads and the results of atomics come from memory. */
static bool same_packet(const struct packet *a, const struct packet *b)
{
	return a->opcode == b->opcode && a->psn == b->psn && a->dest_qpn == b->dest_qpn &&
	       a->ack_requested == b->ack_requested && a->solicited == b->solicited && a->payload_bytes == b->payload_bytes &&
	       a->aeth.syndrome == b->aeth.syndrome && a->aeth.msn == b->aeth.msn &&
	       a->reth.va == b->reth.va && a->reth.rkey == b->reth.rkey && a->reth.length == b->reth.length &&
	       a->atomiceth.va == b->atomiceth.va && a->atomiceth.rkey == b->atomiceth.rkey &&
	       a->atomiceth.swap_add == b->atomiceth.swap_add && a->atomiceth.compare == b->atomiceth.compare &&
	       a->imm == b->imm && a->ieth_rkey == b->ieth_rkey &&
	       a->xrceth.srqn == b->xrceth.srqn && a->deth.qkey == b->deth.qkey && a->deth.src_qpn == b->deth.src_qpn;
}

/* The engine fills members that its packet has no header for; the wire shows which those are. */
static void pass_wire(struct packet *p, struct packet *seen, uint8_t frame[PACKET_MAX_BYTES])
{
	size_t bytes = packet_build(p, frame, PACKET_MAX_BYTES);

	if (!bytes || packet_parse(seen, p->form, frame, bytes, true) != PACKET_OK)
		memset(seen, 0, sizeof(*seen));
}

/* The next packet of the QP. */
static bool make(struct replay_engine *e, struct qp *qp, wtime now, struct packet *made)
{
	struct packet_out *out;

	burst_begin(&e->burst, qp->dev);
	out = burst_place(&e->burst);
	if (!ib_transport.packets->qp_output(qp, now, out))
		return false;
	reap(e);
	pass_wire(&out->packet, made, e->frame);
	if (made->dest_qpn == MULTICAST_QPN)
		e->to_group = *made;
	return true;
}

/* A datagram leaves one frame for each member process of its group, or none. */
static bool had_members(const struct packet *made, const struct packet *recorded)
{
	return made->dest_qpn != MULTICAST_QPN || made->psn == recorded->psn;
}

enum replay_end replay_engine_output(struct replay_engine *e, const struct trace_record *r, char *why, size_t room)
{
	char text[400];
	struct packet recorded, made;
	struct qp *qp;
	bool was_made;

	if (packet_parse(&recorded, r->form, r->data, r->bytes, false) != PACKET_OK)
		return REPLAY_NOT_OURS;
	qp = sender_of(e, r->device, &recorded);
	if (!qp)
		return REPLAY_NOT_OURS;
	if (qp->type == IBV_QPT_UD && same_packet(&e->to_group, &recorded))
		return REPLAY_SAME;	/* another member's copy */
	do {
		was_made = make(e, qp, r->time, &made);
	} while (was_made && !had_members(&made, &recorded));
	if (!was_made)
		return differs(why, room, "the engine has nothing to send");
	if (same_packet(&made, &recorded))
		return REPLAY_SAME;
	packet_dump(&made, text, sizeof(text));
	snprintf(why, room, "the engine sends %s", text);
	return REPLAY_DIFFERS;
}
