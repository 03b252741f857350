/* What `weft qp`, `weft cq`, `weft mr` and `weft counters` show of this process: JSON for weftd, which joins all processes'. An
 * array of flat objects for qp, cq and mr, in as many parts as weftd asks for; one object for counters. */
#include "runtime/entry.h"
#include "runtime/faults.h"
#include "runtime/report.h"

#include "peers/direct_target.h"
#include "peers/route.h"
#include "runtime/json_row.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/mr.h"
#include "verbs/qp_context.h"
#include "wire/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(names, value) ((size_t)(value) < sizeof(names) / sizeof(*(names)) && (names)[value] ? (names)[value] : "unknown")

static const char *const state_names[] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR", [IBV_QPS_RTS] = "RTS",
	[IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE", [IBV_QPS_ERR] = "ERR",
};

static const char *const migration_names[] = {
	[IBV_MIG_MIGRATED] = "migrated", [IBV_MIG_REARM] = "rearm", [IBV_MIG_ARMED] = "armed",
};

static const char *const type_names[] = {
	[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD", [IBV_QPT_RAW_PACKET] = "RAW",
	[IBV_QPT_XRC_SEND] = "XRC_SEND", [IBV_QPT_XRC_RECV] = "XRC_RECV",
};

static const char *const kind_names[] = {
	[MR_MEMORY] = "memory", [MR_ON_DEMAND] = "on-demand", [MR_IMPLICIT] = "implicit", [MR_NULL] = "null",
	[MR_DEVICE] = "device", [MR_WINDOW] = "window",
};

static const char *const arm_names[] = { [CQ_DISARMED] = "no", [CQ_ARMED_SOLICITED] = "solicited", [CQ_ARMED_ANY] = "any" };

/* One part of an array: the rows from one on, as many as fit a message. */
struct part {
	uint64_t skip;		/* rows before the part */
	uint64_t rows;		/* in the part */
	bool is_full;
	size_t bytes;
	char *text;		/* owned; CONTROL_TEXT bytes */
};

/* Does the part want the next row? */
static bool part_wants(struct part *p)
{
	if (p->skip) {
		p->skip--;
		return false;
	}
	return !p->is_full;
}

/* Where the next row goes, behind a bracket or a comma and before the bracket that closes. */
static struct json_row part_row(const struct part *p)
{
	size_t used = p->bytes + 2;
	struct json_row r;

	json_row_begin(&r, p->text + p->bytes + 1, used < CONTROL_TEXT ? CONTROL_TEXT - used : 0);
	return r;
}

/* Takes the row. What does not fit is the next part's. */
static void part_add(struct part *p, struct json_row *r)
{
	size_t bytes = json_row_end(r);

	if (bytes == 0) {
		p->is_full = true;
		return;
	}
	p->text[p->bytes] = p->rows ? ',' : '[';
	p->bytes += bytes + 1;
	p->rows++;
}

/* A member of one of several: its name begins with which. */
static void add_number(struct json_row *r, const char *which, const char *member, uint64_t value)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", which, member);
	json_row_number(r, name, value);
}

static void add_string(struct json_row *r, const char *which, const char *member, const char *value)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", which, member);
	json_row_string(r, name, value);
}

/* IPS-16, IPS-23 to IPS-27. */
static void add_queue(struct json_row *o, const char *queue, const struct wq *wq, const struct wq_context *c)
{
	if (!wq->engine.ring.capacity)
		return;
	add_number(o, queue, "capacity", wq->engine.ring.capacity);
	add_number(o, queue, "credits", wq->ulp.credits);
	add_number(o, queue, "doorbell", atomic_load_explicit(wq->ulp.ring.doorbell, memory_order_relaxed));
	add_number(o, queue, "pending", c->pending_wqes);
	add_number(o, queue, "transfers", c->pending_transfers);
	add_number(o, queue, "head", c->head);
	add_number(o, queue, "next", c->next_wqe);
	add_number(o, queue, "cq", c->cq);
	add_number(o, queue, "after", c->after_logical);
	add_number(o, queue, "after_memory", c->after_memory);
}

/* Of a queue pair whose packets went to another host. */
static void add_path(struct json_row *o, const struct qp_context_path *path)
{
	if (!path->is_known)
		return;
	json_row_number(o, "rate_bytes_per_s", path->bytes_per_s);
	json_row_number(o, "round_trip_ns", path->round_trip_ns);
	json_row_number(o, "shortest_round_trip_ns", path->shortest_ns);
	json_row_number(o, "lost", path->lost);
	json_row_number(o, "marked", path->marked);
	json_row_number(o, "notified", path->notified);
}

static const char *address_name(const uint8_t gid[16], char *text, socklen_t room)
{
	bool is_ipv4 = gid_is_ipv4(gid);

	return inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? gid + 12 : gid, text, room);
}

/* An end of a path: a LID of the port, or an address. */
static const char *end_name(uint16_t lid, const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
	if (!lid)
		return address_name(gid, text, INET6_ADDRSTRLEN);
	snprintf(text, INET6_ADDRSTRLEN, "LID %u", lid);
	return text;
}

/* Of one of several paths. */
static void add_way(struct json_row *o, unsigned number, const struct qp_context_way *way)
{
	char text[INET6_ADDRSTRLEN], which[16];

	snprintf(which, sizeof(which), "path%u_", number);
	add_string(o, which, "state", way->state);
	add_string(o, which, "from", end_name(way->slid, way->sgid, text));
	add_string(o, which, "to", end_name(way->dlid, way->dgid, text));
	add_number(o, which, "port", way->variant);
	add_number(o, which, "rate_bytes_per_s", way->bytes_per_s);
	add_number(o, which, "round_trip_ns", way->round_trip_ns);
	add_number(o, which, "sent", way->sent);
	add_number(o, which, "lost", way->lost);
	add_number(o, which, "set_aside", way->set_aside);
	if (way->slid)
		add_number(o, which, "messages", way->messages);
}

/* IPS-13, IPS-14. */
static void add_context(struct json_row *o, const struct qp *qp)
{
	struct qp_context c;

	qp_context_get(qp, &c);
	json_row_number(o, "pd", c.fixed.pd);
	json_row_number(o, "ip_version", c.ulp.ip_version);
	json_row_number(o, "pmtu_bytes", c.ulp.pmtu_bytes);
	json_row_number(o, "retry_limit", c.ulp.retry_limit);
	json_row_number(o, "retries", c.engine.retries);
	json_row_number(o, "ack_wait_ns", c.ulp.ack_wait_ns == WTIME_NEVER ? 0 : c.ulp.ack_wait_ns);
	json_row_number(o, "max_reads", c.ulp.max_reads);
	json_row_number(o, "window_out_bytes", c.ulp.window_out_bytes);
	json_row_number(o, "window_in_bytes", c.engine.window_in_bytes);
	json_row_number(o, "receives_awaiting_ack", c.engine.receives_awaiting_ack);
	json_row_number(o, "data_segments", c.fixed.data_segments);
	add_path(o, &c.path);
	if (c.ways)
		json_row_number(o, "paths", c.ways);
	for (unsigned i = 0; i < c.ways; i++)
		add_way(o, i, &c.way[i]);
	add_queue(o, "send_", &qp->sq, &c.send);
	if (qp->srq)
		json_row_number(o, "srqn", qp->srq->srqn);
	add_queue(o, "recv_", qp->srq ? &qp->srq->wq : &qp->rq, &c.recv);
}

static void add_peer(struct json_row *o, struct qp *qp)
{
	const struct route *r = qp_route(qp);
	char text[INET6_ADDRSTRLEN];

	json_row_number(o, "dest_qpn", qp->attr.dest_qp_num);
	if (device_has(qp->dev, DEVICE_LIDS)) {
		json_row_number(o, "dlid", qp->path.dlid);
		json_row_number(o, "sl", qp->path.sl);
	}
	json_row_string(o, "route", route_name(r));
	if (r->kind == ROUTE_NONE || route_has_channel(r->kind))
		json_row_number(o, "route_slot", route_slot(r));
	if (r->kind == ROUTE_LINK || r->kind == ROUTE_NO_LINK)
		json_row_string(o, "route_address", address_name(qp->path.dgid, text, sizeof(text)));
}

static void report_qp(struct runtime *rt, void *object, struct json_row *o)
{
	struct qp *qp = object;

	json_row_string(o, "device", qp->dev->name);
	json_row_number(o, "qpn", qp->qpn);
	json_row_string(o, "type", NAME(type_names, qp->type));
	json_row_string(o, "state", NAME(state_names, qp->state));
	if (!qp_is_datagram(qp) && qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQE)
		add_peer(o, qp);
	if (qp->migration)
		json_row_string(o, "migration", NAME(migration_names, qp->attr.path_mig_state));
	json_row_string(o, "path", direct_tier_name(&rt->peers, qp));
	json_row_string(o, "engine", rt->ca.doorbells ? "thread" : "caller");
	json_row_number(o, "bytes_sent", qp->bytes_sent);
	json_row_number(o, "bytes_received", qp->bytes_received);
	json_row_number(o, "messages_sent", qp->messages_sent);
	json_row_number(o, "messages_received", qp->messages_received);
	add_context(o, qp);
}

static const char *cq_state(const struct cq *cq)
{
	if (cq->overrun)
		return "overrun";
	return cq->asked ? "full" : "ok";
}

/* IPS-36 to IPS-47. */
static void report_cq(struct runtime *rt, void *object, struct json_row *o)
{
	const struct cq *cq = object;

	json_row_string(o, "device", cq->dev->name);
	json_row_number(o, "cq", cq->handle);
	json_row_number(o, "entries", cq->requested);
	json_row_number(o, "capacity", cq->engine.ring.capacity);
	json_row_number(o, "waiting", cq->engine.tail - cq->ulp.head);
	json_row_number(o, "free_space", cq->engine.free_space);
	json_row_number(o, "credits", cq->ulp.credit_count);
	json_row_number(o, "doorbell", atomic_load_explicit(cq->ulp.ring.doorbell, memory_order_relaxed));
	json_row_number(o, "written", cq->engine.tail);
	json_row_string(o, "armed", NAME(arm_names, cq->arm));
	json_row_string(o, "state", cq_state(cq));
	json_row_number(o, "kept", cq_kept(cq));
	json_row_number(o, "users", cq->refs);
}

static const char *tier_name(const struct mr *mr)
{
	const struct region *g = region_of(mr);

	if (!g || !g->published)
		return "packets";
	return g->is_mapped ? "mapped" : "private";
}

static void report_mr(struct runtime *rt, void *object, struct json_row *o)
{
	const struct mr *mr = object;
	const char *remap = mr->direct ? remap_reason(region_of(mr)->placed) : NULL;
	char key[16], address[24];

	snprintf(key, sizeof(key), "0x%08x", mr->key);
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)mr->iova);
	json_row_string(o, "device", mr->pd->dev->name);
	json_row_string(o, "kind", NAME(kind_names, mr->kind));
	json_row_string(o, "key", key);
	json_row_string(o, "iova", address);
	json_row_number(o, "length", mr->length);
	json_row_number(o, "access", mr->access);
	json_row_string(o, "tier", tier_name(mr));
	if (remap)
		json_row_string(o, "remap", remap);
}

/* A row for each object of the table. */
static void report_table(struct runtime *rt, struct part *p, struct table *t,
			 void (*describe)(struct runtime *rt, void *object, struct json_row *o))
{
	uint32_t cursor = 0;
	void *object;

	while ((object = table_next(t, &cursor))) {
		struct json_row row;

		if (!part_wants(p))
			continue;
		row = part_row(p);
		describe(rt, object, &row);
		part_add(p, &row);
	}
}

static void report_counters(struct runtime *rt, struct part *p)
{
	struct counters now = runtime_counters(rt);
	struct json_row row, *o = &row;

	json_row_begin(o, p->text, CONTROL_TEXT);
	for (unsigned i = 0; i < COUNTERS; i++)
		json_row_number(o, counters_name(i), counters_value(&now, i));
	p->bytes = json_row_end(o);
}

#define STATUS(name) [IBV_WC_##name] = #name
#define REQUEST(name) [IBV_WR_##name] = #name

static const char *status_name(enum ibv_wc_status status)
{
	static const char *const names[] = {
		STATUS(SUCCESS), STATUS(LOC_LEN_ERR), STATUS(LOC_QP_OP_ERR), STATUS(LOC_PROT_ERR), STATUS(WR_FLUSH_ERR),
		STATUS(MW_BIND_ERR), STATUS(BAD_RESP_ERR), STATUS(LOC_ACCESS_ERR), STATUS(REM_INV_REQ_ERR),
		STATUS(REM_ACCESS_ERR), STATUS(REM_OP_ERR), STATUS(RETRY_EXC_ERR), STATUS(RNR_RETRY_EXC_ERR),
		STATUS(REM_INV_RD_REQ_ERR), STATUS(REM_ABORT_ERR), STATUS(FATAL_ERR), STATUS(RESP_TIMEOUT_ERR),
		STATUS(GENERAL_ERR),
	};

	return NAME(names, status);
}

static const char *opcode_name(unsigned opcode)
{
	static const char *const names[] = {
		REQUEST(RDMA_WRITE), REQUEST(RDMA_WRITE_WITH_IMM), REQUEST(SEND), REQUEST(SEND_WITH_IMM), REQUEST(RDMA_READ),
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "CMP_AND_SWP", [IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_AND_ADD",
		REQUEST(LOCAL_INV), REQUEST(BIND_MW), REQUEST(SEND_WITH_INV), REQUEST(ATOMIC_WRITE),
	};

	return NAME(names, opcode);
}

static void report_stop(struct runtime *rt, const struct qp_stop *s, struct json_row *o)
{
	json_row_string(o, "device", rt->ca.dev[s->device].name);
	json_row_number(o, "qpn", s->qpn);
	json_row_number(o, "dest_qpn", s->dest_qpn);
	json_row_string(o, "side", s->is_request ? "requester" : "responder");
	if (s->is_request) {
		json_row_string(o, "request", opcode_name(s->opcode));
		json_row_number(o, "wr_id", s->wr_id);
	}
	json_row_string(o, "status", status_name(s->status));
	json_row_string(o, "cause", s->cause);
	if (s->next)
		json_row_string(o, "next", s->next);
	json_row_number(o, "clock_ns", s->at);
}

/* The oldest first. */
static void report_history(struct runtime *rt, struct part *p)
{
	const struct qp_history *all = &rt->ca.history;
	uint64_t first = all->stops > QP_HISTORY ? all->stops - QP_HISTORY : 0;

	for (uint64_t i = first; i < all->stops; i++) {
		struct json_row row;

		if (!part_wants(p))
			continue;
		row = part_row(p);
		report_stop(rt, &all->stop[i % QP_HISTORY], &row);
		part_add(p, &row);
	}
}

/* A setting a row. */
static void report_faults(struct runtime *rt, struct part *p)
{
	const char *at = faults_text(rt);
	char setting[IMPAIR_TEXT];

	while (*at) {
		int bytes = (int)strcspn(at, ",");
		struct json_row row;

		snprintf(setting, sizeof(setting), "%.*s", bytes, at);
		at += bytes + (at[bytes] == ',');
		if (!part_wants(p))
			continue;
		row = part_row(p);
		json_row_string(&row, "fault", setting);
		part_add(p, &row);
	}
}

/* False: there is no such report. */
static bool report(struct runtime *rt, const char *what, struct part *p)
{
	struct ca *ca = &rt->ca;

	if (strcmp(what, "counters") == 0) {
		report_counters(rt, p);
		return true;
	}
	if (strcmp(what, "qp") == 0)
		report_table(rt, p, &ca->qps, report_qp);
	else if (strcmp(what, "cq") == 0)
		report_table(rt, p, &ca->cqs, report_cq);
	else if (strcmp(what, "mr") == 0)
		report_table(rt, p, &ca->keys, report_mr);
	else if (strcmp(what, "impair") == 0)
		report_faults(rt, p);
	else if (strcmp(what, "history") == 0)
		report_history(rt, p);
	else
		return false;
	if (!p->rows)
		p->text[p->bytes++] = '[';
	p->text[p->bytes++] = ']';
	return true;
}

void report_answer(struct runtime *rt, const struct control_msg *request, const char *what)
{
	struct control_msg msg = { .type = CTL_REPORT, .seq = request->seq };
	struct part part = { .skip = request->a, .text = malloc(CONTROL_TEXT + 1) };
	bool is_known = false;

	if (part.text) {
		runtime_enter(rt);
		is_known = report(rt, what, &part);
		runtime_leave(rt);
	}
	if (is_known) {
		part.text[part.bytes] = '\0';
		msg.text_bytes = (uint32_t)part.bytes;
		msg.a = request->a;
		msg.b = part.is_full ? request->a + (uint32_t)part.rows : 0;
	} else {
		msg.status = part.text ? EINVAL : ENOMEM;
	}
	session_post(&rt->session, &msg, is_known ? part.text : NULL);
	free(part.text);
}

char *report_at_end(struct runtime *rt)
{
	struct part part = { .text = malloc(CONTROL_TEXT + 1) };

	if (part.text && rt->ca.history.stops && report(rt, "history", &part) && part.bytes <= CONTROL_LAST_WORDS) {
		part.text[part.bytes] = '\0';
		return part.text;
	}
	free(part.text);
	return NULL;
}
