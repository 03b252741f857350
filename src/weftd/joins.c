/* A membership lives while it is used, and then until the administration has taken note, or did not answer. Answers are noted
 * where they arrive, and taken in by joins_expire alone: one may come while its request is being sent. */
#include "weftd/joins.h"

#include "base/log.h"
#include "fabric/host.h"
#include "fabric/walk.h"
#include "weftd/mcast.h"
#include "weftd/page.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"
#include "wire/sa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Our choice: as often and as long as the kernel's, whose first user gives up later. */
enum { ANSWER_MS = 3000, RETRIES = 3 };

enum { SA_QKEY = 0x80010000u };		/* IBA 3.9.5: of QP1 */

struct waiter {
	struct list_node node;		/* join.waiters */
	struct client *client;		/* borrowed */
	struct control_msg msg;
};

struct join {
	struct list_node node;		/* hub.joins */
	struct mad_port *file;		/* owned */
	uint32_t port, user;
	int group;			/* its index in the page */
	uint8_t gid[16];
	uint32_t uses;
	enum { JOIN_ASKED, JOIN_MEMBER, JOIN_LEAVING } state;
	bool was_answered;
	int status;			/* 0, or an errno, once it was */
	struct sa_mcmember record;
	uint32_t tid;
	struct list waiters;
};

bool joins_are_needed(const struct hub *h, const struct client *c)
{
	uint32_t port = subnet_port(h, c);

	return port != PORT_NONE && FABRIC_READ(h->subnet->fabric.port[port].sm_lid);
}

/* ---- what is asked and answered ---- */

static void heard(void *arg, const struct mad_letter *l)
{
	struct join *j = arg;
	struct mad_header h;
	unsigned expected = j->state == JOIN_LEAVING ? SA_DELETE_RESP : MAD_GET_RESP;

	if (l->bytes < MAD_HEADER_BYTES)
		return;
	mad_header_parse(&h, l->data);
	if ((uint32_t)h.tid != j->tid)
		return;		/* of what was asked before */
	if (l->status) {
		j->was_answered = true;
		j->status = ETIMEDOUT;
		return;
	}
	if (l->bytes < MAD_BYTES || h.method != expected || h.attr_id != SA_MCMEMBER_RECORD)
		return;
	j->was_answered = true;
	j->status = h.status ? EACCES : 0;
	if (!h.status)
		sa_mcmember_get(&j->record, l->data);
}

static void ask(struct hub *h, struct join *j, unsigned method, uint32_t qkey)
{
	const struct fabric *f = &h->subnet->fabric;
	const struct fabric_port *p = &f->port[j->port];
	uint16_t pkey = FABRIC_READ(fabric_pkeys(f, j->port)[0]);
	int index = fabric_find_pkey(f, j->port, PKEY_DEFAULT);
	const struct mad_header head = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
		.method = (uint8_t)method, .tid = ++j->tid, .attr_id = SA_MCMEMBER_RECORD,
	};
	struct sa_mcmember m = { .mask = SA_MC_MGID | SA_MC_PORT_GID | SA_MC_JOIN_STATE, .join_state = SA_FULL_MEMBER };
	uint8_t mad[MAD_BYTES] = { 0 };
	struct mad_letter letter = {
		.timeout_ms = ANSWER_MS, .retries = RETRIES, .data = mad, .bytes = sizeof(mad),
		.remote = { .qpn = 1, .qkey = SA_QKEY, .lid = FABRIC_READ(p->sm_lid), .sl = FABRIC_READ(p->sm_sl),
			    .pkey_index = (uint16_t)(index < 0 ? 0 : index) },
	};

	if (method == MAD_SET) {
		/* what a group is made with that nobody has made yet (15.2.5.17.2) */
		m.mask |= SA_MC_QKEY | SA_MC_TCLASS | SA_MC_PKEY | SA_MC_SL | SA_MC_FLOW_LABEL;
		m.qkey = qkey;
		m.pkey = pkey;
	}
	memcpy(m.mgid, j->gid, sizeof(m.mgid));
	host_write_gid(f, j->port, 0, m.port_gid);
	mad_header_build(&head, mad);
	sa_mcmember_put(&m, mad);
	j->was_answered = false;
	if (umad_ask(h, j->file, &letter)) {
		j->was_answered = true;
		j->status = ENOMEM;
	}
}

/* ---- coming and going ---- */

static struct join *find(const struct hub *h, uint32_t port, const uint8_t gid[16])
{
	list_for_each(j, &h->joins, struct join, node) {
		if (j->port == port && !memcmp(j->gid, gid, sizeof(j->gid)))
			return j;
	}
	return NULL;
}

static bool is_full(const struct hub *h, const struct client *c)
{
	unsigned all = 0, own = 0;

	list_for_each(j, &h->joins, struct join, node) {
		all++;
		own += j->user == c->uid;
	}
	return all >= JOINS_MOST || (!hub_is_owner(h, c) && own >= JOINS_USER);
}

static void drop_waiter(struct waiter *w)
{
	list_remove(&w->node);
	free(w);
}

static void end(struct hub *h, struct join *j)
{
	list_for_each_safe(w, &j->waiters, struct waiter, node)
		drop_waiter(w);
	umad_close(h, j->file);
	list_remove(&j->node);
	free(j);
}

static struct join *make(struct hub *h, const struct client *c, uint32_t port, const uint8_t gid[16])
{
	struct join *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->file = umad_open(h, port, &(struct mad_registration){ .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION },
			    heard, j);
	if (!j->file) {
		free(j);
		return NULL;
	}
	j->port = port;
	j->user = c->uid;
	memcpy(j->gid, gid, sizeof(j->gid));
	list_init(&j->waiters);
	list_append(&h->joins, &j->node);
	return j;
}

static void fill_answer(const struct join *j, struct control_msg *answer)
{
	answer->b = j->record.mlid | (uint32_t)j->record.sl << 16;
	answer->c = j->record.qkey;
}

/* A process that comes back after a restart of weftd is still a member. */
static bool is_back(const struct client *c)
{
	return c->has_returned && !c->told_kept;
}

int joins_enter(struct hub *h, struct client *c, const struct control_msg *msg, int i, struct control_msg *answer)
{
	uint32_t port = subnet_port(h, c);
	struct join *j = find(h, port, msg->gid);
	bool is_known = j && j->state == JOIN_MEMBER && (j->record.mlid || is_back(c));
	struct waiter *w = is_known || is_back(c) ? NULL : calloc(1, sizeof(*w));

	if (!w && !is_known && !is_back(c))
		return -ENOMEM;
	if (!j && !is_full(h, c))
		j = make(h, c, port, msg->gid);
	if (!j) {
		free(w);
		return -EDQUOT;
	}
	j->group = i;
	j->uses++;
	if (!w) {
		j->state = JOIN_MEMBER;
		fill_answer(j, answer);
		return 0;
	}
	w->client = c;
	w->msg = *msg;
	if (list_empty(&j->waiters)) {
		j->state = JOIN_ASKED;
		ask(h, j, MAD_SET, msg->c);
	}
	list_append(&j->waiters, &w->node);
	return -EINPROGRESS;
}

static void use_less(struct hub *h, struct join *j, unsigned uses)
{
	j->uses -= uses < j->uses ? uses : j->uses;
	if (j->uses || !list_empty(&j->waiters))
		return;
	j->state = JOIN_LEAVING;
	ask(h, j, SA_DELETE, 0);
}

void joins_leave(struct hub *h, const struct client *c, int i, unsigned uses)
{
	struct join *j = find(h, subnet_port(h, c), h->page->group[i].gid);

	if (j && uses)
		use_less(h, j, uses);
}

void joins_forget(struct hub *h, const struct client *c)
{
	list_for_each(j, &h->joins, struct join, node) {
		list_for_each_safe(w, &j->waiters, struct waiter, node) {
			if (w->client == c)
				drop_waiter(w);
		}
	}
}

void joins_end(struct hub *h)
{
	list_for_each_safe(j, &h->joins, struct join, node)
		end(h, j);
}

/* ---- in each round ---- */

static void answer_waiters(struct hub *h, struct join *j)
{
	uint32_t refused = 0;

	list_for_each_safe(w, &j->waiters, struct waiter, node) {
		struct client *c = w->client;
		struct control_msg answer = w->msg;

		drop_waiter(w);
		fill_answer(j, &answer);
		refused += j->status && mcast_take_back(h, c, j->group);
		hub_answer(h, c, &answer, j->status);
	}
	if (!j->status)
		mcast_set_lid(h->page, j->group, j->record.mlid);
	j->state = JOIN_MEMBER;
	use_less(h, j, refused);
}

/* A membership that nobody uses is over, whether the administration said so or not. */
static void take_in(struct hub *h, struct join *j)
{
	j->was_answered = false;
	if (j->state == JOIN_LEAVING)
		end(h, j);
	else
		answer_waiters(h, j);
}

void joins_expire(struct hub *h)
{
	list_for_each_safe(j, &h->joins, struct join, node) {
		if (j->was_answered)
			take_in(h, j);
	}
}
