#include "cli/replay_engine.h"

#include "ib/ib.h"
#include "link/trace_engine.h"
#include "verbs/mr.h"

#include <errno.h>
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

struct replay_engine {
	struct ca ca;
	void *arena;			/* owned */
	uint32_t next_qpn;		/* for the QP being made */
	struct pd *pd[CA_DEVICES];
	struct cq *cq[CA_DEVICES];
	struct mr *all[CA_DEVICES];	/* covers every address; has no memory */
	struct ib_options options;
	struct packet_out out;
};

/* ---- what the adapter asks of its host ---- */

static void ignore_cq_event(void *host, struct cq *cq)
{
}

static void ignore_async_event(void *host, enum ibv_event_type type, void *object)
{
}

static bool has_room(void *host, const struct ca_device *dev, uint32_t dest_qpn, const struct av *av)
{
	return true;
}

/* The program's memory is not in the trace. */
static int copy_nothing(void *host, void *to, const void *from, size_t bytes)
{
	return 0;
}

static int no_mcast(void *host, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	return 0;
}

static int take_qpn(void *host, uint32_t *qpn)
{
	*qpn = ((struct replay_engine *)host)->next_qpn;
	return 0;
}

static void drop_qpn(void *host, uint32_t qpn)
{
}

static const struct ca_host host_ops = {
	.cq_event = ignore_cq_event, .async_event = ignore_async_event, .room = has_room, .copy_safely = copy_nothing,
	.mcast = no_mcast, .qpn_alloc = take_qpn, .qpn_free = drop_qpn,
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
	return err;
}

static int make_adapter(struct replay_engine *e)
{
	struct ca_device dev[IMPAIR_FORMS];
	struct ca_config config = { .host_ops = &host_ops, .host = e, .transport = &ib_transport, .arena = e->arena,
				    .arena_bytes = ARENA_BYTES, .dev = dev, .devices = IMPAIR_FORMS };
	int err;

	for (int i = 0; i < IMPAIR_FORMS; i++) {
		dev[i] = (struct ca_device){ .name = "replay", .form = (enum packet_form)i, .lid = 1, .active_mtu = IBV_MTU_4096,
					     .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkey = { 0xffff } };
		dev[i].gid[0].valid = true;
	}
	err = ca_init(&e->ca, &config);
	e->ca.transport_options = &e->options;
	for (int i = 0; i < IMPAIR_FORMS && err == 0; i++)
		err = make_objects(e, i);
	return err;
}

struct replay_engine *replay_engine_new(void)
{
	struct replay_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->options = ib_default_options;
	e->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (e->arena != MAP_FAILED && make_adapter(e) == 0)
		return e;
	if (e->arena != MAP_FAILED)
		munmap(e->arena, ARENA_BYTES);
	free(e);
	return NULL;
}

void replay_engine_delete(struct replay_engine *e)
{
	if (!e)
		return;
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

	for (int i = 0; i < IMPAIR_FORMS; i++) {
		while (cq_poll(e->cq[i], &cqe))
			;
	}
}

static bool is_replayed(const struct trace_qp *t)
{
	return (t->type == IBV_QPT_RC || t->type == IBV_QPT_UC) && !t->has_srq && !t->exchange_start && !t->ack_when_consumed;
}

static struct qp *make_qp(struct replay_engine *e, const struct trace_record *r, const struct trace_qp *t)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = (enum ibv_qp_type)t->type, .sq_sig_all = 1,
		.cap = { .max_send_wr = (uint32_t)t->max_send_wr, .max_recv_wr = (uint32_t)t->max_recv_wr,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct qp *qp;

	e->options = (struct ib_options){
		.profile = (enum ib_profile)t->profile, .ack_mode = (enum ib_ack_mode)t->ack_mode,
		.window_pkts = (uint16_t)t->window_pkts, .ack_every = (uint16_t)t->ack_every,
		.report_last_only = t->report_last_only, .start_msn = (uint32_t)t->start_msn,
		.completion = (enum ib_completion)t->completion,
	};
	if (ib_options_check(&e->options, &e->ca.dev[r->form]) || r->to == 0)
		return NULL;
	e->next_qpn = r->to;
	if (qp_create(&e->ca, &e->ca.dev[r->form], &attr, e->pd[r->form], e->cq[r->form], e->cq[r->form], NULL, NULL, &qp) < 0)
		return NULL;
	return qp;
}

static void set_path(struct qp *qp, const struct trace_qp *t)
{
	qp->path = (struct packet_path){ .slid = (uint16_t)t->slid, .dlid = (uint16_t)t->dlid, .has_grh = t->has_grh };
	memcpy(qp->path.sgid, t->sgid, sizeof(qp->path.sgid));
	memcpy(qp->path.dgid, t->dgid, sizeof(qp->path.dgid));
}

static enum replay_end modify(struct replay_engine *e, struct qp *qp, const struct trace_record *r, char *why, size_t room)
{
	struct ibv_qp_attr attr;
	struct trace_qp t;
	int mask;

	if (!trace_get_numbers(r, &t, sizeof(t)) || t.pkey_index >= CA_PKEYS)
		return differs(why, room, "the record of a QP is damaged");
	if (!is_replayed(&t))
		return REPLAY_NOT_OURS;
	if (!qp)
		qp = make_qp(e, r, &t);
	if (!qp)
		return differs(why, room, "the QP cannot be made");
	qp->dev->pkey[t.pkey_index] = (uint16_t)t.pkey;
	mask = trace_qp_attr(&t, &attr);
	if (qp_modify(qp, r->time, &attr, mask) < 0)
		return differs(why, room, "the QP does not take its new attributes");
	set_path(qp, &t);
	return REPLAY_SAME;
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
	wqe->remote_addr = t.remote_addr;
	wqe->rkey = (uint32_t)t.rkey;
	wqe->compare_add = t.opcode == IBV_WR_ATOMIC_WRITE ? t.atomic_write : t.compare_add;
	wqe->swap = t.swap;
	wqe->length = (uint32_t)t.length;
	wqe->num_sge = 1;
	wqe->seg[0] = (struct wqe_seg){ .addr = 0, .length = (uint32_t)t.length, .lkey = e->all[r->form]->key };
	if (qp_send_written(qp, wqe) < 0)
		return differs(why, room, "the request is not taken");
	qp_send_ring(qp, r->time);
	return REPLAY_SAME;
}

static enum replay_end post_receives(struct replay_engine *e, struct qp *qp, const struct trace_record *r, char *why, size_t room)
{
	struct ibv_sge sge = { .addr = 0, .length = RECEIVE_BYTES, .lkey = e->all[r->form]->key };
	const struct ibv_recv_wr *bad;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct trace_receives t;

	if (!trace_get_numbers(r, &t, sizeof(t)))
		return differs(why, room, "the record of receives is damaged");
	while (qp->rq.announced != (uint32_t)t.announced) {
		if (qp_post_recv(qp, r->time, &wr, &bad) < 0)
			return differs(why, room, "the receive queue is full: receives that were used are not");
	}
	return REPLAY_SAME;
}

enum replay_end replay_engine_enter(struct replay_engine *e, const struct trace_record *r, char *why, size_t room)
{
	struct qp *qp = r->to <= PSN_MASK ? qp_find(&e->ca, r->to) : NULL;
	enum replay_end end = REPLAY_SAME;

	if (r->form == PACKET_ETHERNET || r->to > PSN_MASK || (!qp && r->kind != TRACE_QP))
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
		e->ca.transport->qp_expire(qp, r->time);
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
	struct packet p;
	struct qp *qp;

	if (packet_parse(&p, r->form, r->data, r->bytes, true) != PACKET_OK)
		return REPLAY_NOT_OURS;
	qp = qp_find(&e->ca, p.dest_qpn);
	if (!qp)
		return REPLAY_NOT_OURS;
	/* what its owner's keys allowed was recorded as the outcome */
	p.reth.rkey = p.atomiceth.rkey = r->marks & TRACE_STOPPED ? 0 : e->all[r->form]->key;
	ca_input(&e->ca, qp->dev, r->time, &p);
	reap(e);
	if (r->marks & TRACE_STOPPED && qp->state != IBV_QPS_ERR)
		return differs(why, room, "this frame stopped the QP, and does not any more");
	return REPLAY_SAME;
}

static struct qp *sender_of(struct replay_engine *e, const struct packet *p)
{
	list_for_each(qp, &e->ca.all_qps, struct qp, all) {
		if (qp->attr.dest_qp_num == p->dest_qpn && qp->dev->form == p->form)
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
	       a->imm == b->imm && a->ieth_rkey == b->ieth_rkey;
}

/* The engine fills members that its packet has no header for; the wire shows which those are. */
static void pass_wire(struct packet *p, struct packet *seen, uint8_t frame[PACKET_MAX_BYTES])
{
	size_t bytes = packet_build(p, frame, PACKET_MAX_BYTES);

	if (!bytes || packet_parse(seen, p->form, frame, bytes, true) != PACKET_OK)
		memset(seen, 0, sizeof(*seen));
}

enum replay_end replay_engine_output(struct replay_engine *e, const struct trace_record *r, char *why, size_t room)
{
	uint8_t frame[PACKET_MAX_BYTES];
	char text[400];
	struct packet recorded, made;
	struct qp *qp;

	if (packet_parse(&recorded, r->form, r->data, r->bytes, false) != PACKET_OK)
		return REPLAY_NOT_OURS;
	qp = sender_of(e, &recorded);
	if (!qp)
		return REPLAY_NOT_OURS;
	if (!e->ca.transport->qp_output(qp, r->time, &e->out))
		return differs(why, room, "the engine has nothing to send");
	reap(e);
	pass_wire(&e->out.packet, &made, frame);
	if (same_packet(&made, &recorded))
		return REPLAY_SAME;
	packet_dump(&made, text, sizeof(text));
	snprintf(why, room, "the engine sends %s", text);
	return REPLAY_DIFFERS;
}
