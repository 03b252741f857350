/* A question lives until its answer, which the clients of MADs give after its last try at the latest (mgmt/mad_clients.h). It is
 * noted where it arrives, and taken in by paths_expire alone: one may come while its request is being sent. A request that was
 * discarded, as the administration is busy (IBA 13.4.7), is repeated until then, after the time of one without an answer. */
#include "weftd/paths.h"

#include "fabric/host.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"
#include "wire/field.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

enum {
	RETRIES = 3,			/* our choice */
	TRY_LEAST = 50, TRY_MOST = 3000,	/* ms; our choice */
	LIFE = 16,			/* as rdma_cm's where no record says it (abi/ucm/ucm_route.c) */
};

struct path_question {
	struct list_node node;		/* hub.paths */
	struct mad_port *file;		/* owned */
	struct client *client;		/* borrowed; NULL: it has left */
	uint32_t user;
	struct control_msg msg;
	uint32_t tid;			/* of its last request */
	wtime until;			/* the end of its last try */
	wtime again;			/* when a busy administration is asked again; WTIME_NEVER: a request is under way */
	bool was_answered;
	int status;			/* an errno, once it was; EBUSY: it is to be asked again */
	struct sa_path path;		/* of CTL_PATH */
	unsigned pairs;			/* of CTL_PATHS */
	struct control_lids pair[CONTROL_PATHS];
};

enum { RECORD_BYTES = 64 };	/* of a PathRecord in a table (15.2.5.16) */

static bool wants_table(const struct path_question *q)
{
	return q->msg.type == CTL_PATHS;
}

static void put(const struct sa_path *p, struct control_msg *answer)
{
	answer->a = (uint32_t)p->dlid << ROUTE_DLID | (uint32_t)p->slid << ROUTE_SLID;
	answer->b = (uint32_t)p->pkey << ROUTE_PKEY | (uint32_t)p->mtu << ROUTE_MTU | (uint32_t)p->rate << ROUTE_RATE;
	answer->c = p->flow_label << ROUTE_FLOW_LABEL | (uint32_t)p->sl << ROUTE_SL;
	answer->service = (uint64_t)p->tclass << ROUTE_TCLASS | (uint64_t)p->hop_limit << ROUTE_HOP_LIMIT |
			  (uint64_t)p->life << ROUTE_LIFE;
}

/* What makes no sense to a QP counts as no path. */
static bool is_sound(const struct sa_path *p)
{
	return p->dlid && p->slid && p->mtu >= IBV_MTU_256 && p->mtu <= IBV_MTU_4096 && p->life < 32;
}

/* The records of a table, each of which is read where it would be in a datagram of its own. Other records than those of paths are
 * longer or shorter. */
static void read_table(struct path_question *q, const struct mad_letter *l)
{
	for (uint32_t at = 0; l->bytes >= SA_HEAD + RECORD_BYTES && at <= l->bytes - SA_HEAD - RECORD_BYTES;
	     at += RECORD_BYTES) {
		uint8_t mad[MAD_BYTES] = { 0 };
		struct sa_path path;

		memcpy(mad + SA_HEAD, l->data + SA_HEAD + at, RECORD_BYTES);
		sa_path_get(&path, mad);
		if (is_sound(&path) && q->pairs < q->msg.b)
			q->pair[q->pairs++] = (struct control_lids){ path.slid, path.dlid };
	}
}

static void heard(void *arg, const struct mad_letter *l)
{
	struct path_question *q = arg;
	struct mad_header h;

	if (q->was_answered)
		return;
	q->was_answered = true;
	q->status = ETIMEDOUT;
	/* a table of few records is shorter than a MAD (13.6.2) */
	if (l->status || l->bytes < (wants_table(q) ? SA_HEAD : MAD_BYTES))
		return;
	mad_header_parse(&h, l->data);
	if (h.method != (wants_table(q) ? SA_GET_TABLE_RESP : MAD_GET_RESP) || h.attr_id != SA_PATH_RECORD)
		return;
	if (h.status & MAD_STATUS_BUSY) {
		q->status = EBUSY;
		return;
	}
	if (wants_table(q)) {
		if (!h.status && wire_get(l->data, SA_ATTRIBUTE_OFFSET) == RECORD_BYTES / 8)
			read_table(q, l);
		q->status = q->pairs ? 0 : EHOSTUNREACH;
		return;
	}
	sa_path_get(&q->path, l->data);
	q->status = h.status || !is_sound(&q->path) ? EHOSTUNREACH : 0;
}

static uint32_t try_ms(const struct path_question *q)
{
	uint32_t each = q->msg.c / (RETRIES + 1);

	return each < TRY_LEAST ? TRY_LEAST : each > TRY_MOST ? TRY_MOST : each;
}

static int ask(struct hub *h, struct path_question *q)
{
	const struct sa_request r = { .method = wants_table(q) ? SA_GET_TABLE : MAD_GET, .attr_id = SA_PATH_RECORD,
				      .tid = ++q->tid, .timeout_ms = try_ms(q), .until = q->until };
	struct sa_path path = {
		.mask = SA_PATH_DGID | SA_PATH_SGID | SA_PATH_REVERSIBLE | SA_PATH_COUNT | SA_PATH_PKEY,
		.reversible = 1, .count = wants_table(q) ? (uint8_t)q->msg.b : 1, .pkey = (uint16_t)q->msg.a,
	};
	uint8_t mad[MAD_BYTES] = { 0 };

	memcpy(path.sgid, q->msg.gid, sizeof(path.sgid));
	memcpy(path.dgid, q->msg.dgid, sizeof(path.dgid));
	sa_path_put(&path, mad);
	return umad_ask_sa(h, q->file, &r, mad);
}

static bool is_full(const struct hub *h, const struct client *c)
{
	unsigned all = 0, own = 0;

	list_for_each(q, &h->paths, struct path_question, node) {
		all++;
		own += q->user == c->account->user;
	}
	return hub_is_owner(h, c) ? all >= PATHS_MOST : all >= PATHS_USERS || own >= PATHS_USER;
}

static void end(struct hub *h, struct path_question *q)
{
	umad_close(h, q->file);
	list_remove(&q->node);
	free(q);
}

static int start(struct hub *h, struct client *c, const struct control_msg *msg, uint32_t port)
{
	struct path_question *q = is_full(h, c) ? NULL : calloc(1, sizeof(*q));

	if (!q)
		return -EAGAIN;
	q->client = c;
	q->user = c->account->user;
	q->msg = *msg;
	q->until = h->now + (RETRIES + 1) * try_ms(q) * WTIME_MS;
	q->again = WTIME_NEVER;
	q->file = umad_open(h, port, &(struct mad_registration){
		.mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .rmpp_version = wants_table(q),
	}, heard, q);
	if (!q->file) {
		free(q);
		return -EAGAIN;
	}
	list_append(&h->paths, &q->node);
	if (!ask(h, q))
		return 0;
	end(h, q);
	return -EAGAIN;
}

static void answer_table(struct hub *h, struct client *c, const struct control_msg *msg, const struct control_lids *pair,
			 unsigned pairs)
{
	struct control_msg answer = *msg;

	answer.status = 0;
	answer.text_bytes = (uint32_t)(pairs * sizeof(*pair));
	h->ops->send(h, c, &answer, (const char *)pair, NULL, 0);
}

/* Without an administration: LIDs with the same path bits, as far as both ports have them. */
static void look_up_table(struct hub *h, struct client *c, const struct control_msg *msg, uint32_t port)
{
	const struct fabric *f = &h->subnet->fabric;
	uint32_t to = host_find_gid(f, msg->dgid);
	struct control_lids pair[CONTROL_PATHS];
	unsigned lmc, n = 0;

	if (to == PORT_NONE || !FABRIC_READ(f->port[to].lid) || !FABRIC_READ(f->port[port].lid)) {
		hub_answer(h, c, msg, EHOSTUNREACH);
		return;
	}
	lmc = FABRIC_READ(f->port[to].lmc) & LMC_MOST;
	if ((FABRIC_READ(f->port[port].lmc) & LMC_MOST) < lmc)
		lmc = FABRIC_READ(f->port[port].lmc) & LMC_MOST;
	for (; n < 1u << lmc && n < msg->b; n++)
		pair[n] = (struct control_lids){ (uint16_t)(FABRIC_READ(f->port[port].lid) + n),
						 (uint16_t)(FABRIC_READ(f->port[to].lid) + n) };
	answer_table(h, c, msg, pair, n);
}

/* Nobody decides on paths here: they are what the tables have, with the P_Key that was asked for. */
static int look_up(const struct fabric *f, const struct control_msg *msg, uint32_t port, struct control_msg *answer)
{
	uint32_t to = host_find_gid(f, msg->dgid);
	struct sa_path path = { .pkey = (uint16_t)msg->a, .life = LIFE, .rate = IBV_RATE_100_GBPS };

	if (to == PORT_NONE)
		return -EHOSTUNREACH;
	path.dlid = FABRIC_READ(f->port[to].lid);
	path.slid = FABRIC_READ(f->port[port].lid);
	path.mtu = FABRIC_READ(f->port[to].mtu) < FABRIC_READ(f->port[port].mtu) ? FABRIC_READ(f->port[to].mtu) :
		   FABRIC_READ(f->port[port].mtu);
	if (!is_sound(&path))
		return -EHOSTUNREACH;
	put(&path, answer);
	return 0;
}

/* The process's port that has this GID, or PORT_NONE. */
static uint32_t own_port(const struct hub *h, const struct client *c, const uint8_t gid[16])
{
	for (uint32_t index = 0, port; index < PAGE_DEVICES; index++) {
		port = subnet_port(h, c, index);
		if (port != PORT_NONE && host_has_gid(&h->subnet->fabric, port, gid))
			return port;
	}
	return PORT_NONE;
}

void paths_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	uint32_t port = own_port(h, c, msg->gid);
	struct control_msg answer = *msg;
	int err;

	if (port == PORT_NONE || (msg->type == CTL_PATHS && (msg->b < 2 || msg->b > CONTROL_PATHS))) {
		hub_answer(h, c, msg, EINVAL);
		return;
	}
	if (FABRIC_READ(h->subnet->fabric.port[port].sm_lid)) {
		err = start(h, c, msg, port);
		if (err)
			hub_answer(h, c, msg, -err);
		return;
	}
	if (msg->type == CTL_PATHS) {
		look_up_table(h, c, msg, port);
		return;
	}
	err = look_up(&h->subnet->fabric, msg, port, &answer);
	hub_answer(h, c, &answer, -err);
}

void paths_forget(struct hub *h, const struct client *c)
{
	list_for_each(q, &h->paths, struct path_question, node) {
		if (q->client == c)
			q->client = NULL;
	}
}

void paths_end(struct hub *h)
{
	list_for_each_safe(q, &h->paths, struct path_question, node)
		end(h, q);
}

/* One that is still busy when the time is over is as one that has not answered. */
static void repeat(struct hub *h, struct path_question *q)
{
	q->again = WTIME_NEVER;
	if (h->now < q->until && !ask(h, q))
		return;
	q->was_answered = true;
	q->status = ETIMEDOUT;
}

static void wait_or_repeat(struct hub *h, struct path_question *q)
{
	if (q->again <= h->now)
		repeat(h, q);
	if (q->was_answered && q->status == EBUSY) {
		q->was_answered = false;
		q->again = h->now + try_ms(q) * WTIME_MS;
	}
}

void paths_expire(struct hub *h)
{
	list_for_each_safe(q, &h->paths, struct path_question, node) {
		struct control_msg answer = q->msg;

		if (q->client)
			wait_or_repeat(h, q);
		if (q->client && !q->was_answered)
			continue;
		if (q->client && wants_table(q) && !q->status) {
			answer_table(h, q->client, &q->msg, q->pair, q->pairs);
			end(h, q);
			continue;
		}
		if (q->was_answered && !q->status)
			put(&q->path, &answer);
		if (q->client)
			hub_answer(h, q->client, &answer, q->status);
		end(h, q);
	}
}

wtime paths_deadline(const struct hub *h)
{
	wtime at = WTIME_NEVER;

	list_for_each(q, &h->paths, struct path_question, node)
		at = wtime_min(at, q->was_answered || !q->client ? h->now : q->again);
	return at;
}
