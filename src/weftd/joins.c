/* A membership lives while it is used, and then until the administration has taken note, or did not answer. That of a full member
 * and that of one who only sends are two, though they make one record of the port. Each has one request under way at most, so
 * that none overtakes another; what is due next is asked when the answer was taken in. Answers are noted where they arrive, and
 * taken in by joins_expire alone: one may come while its request is being sent. A request that was discarded, as the
 * administration is busy (IBA 13.4.7), is repeated as often, and after the same time, as one without an answer.
 *
 * A manager that was started anew knows no groups, and one that saw a port go has taken it out of them. It says so to the port
 * (PortInfo.ClientReregister, IBA 14.4.11), and weftd joins again all that the port is in. Linux ends the memberships instead and
 * leaves joining again to programs, of which few do. */
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

struct waiter {
	struct list_node node;		/* join.waiters */
	struct client *client;		/* borrowed */
	struct control_msg msg;
};

struct join {
	struct list_node node;		/* hub.joins */
	struct mad_port *file;		/* owned */
	uint32_t port, user;
	int group;			/* its index in the page, while programs use it */
	uint8_t device;			/* of that */
	uint8_t state;			/* JoinState: a full member, or one that only sends */
	uint8_t gid[16];
	uint32_t qkey;			/* of a group that it makes */
	uint32_t uses;
	enum { ASKED_NOTHING, ASKED_TO_JOIN, ASKED_TO_LEAVE } asked;
	bool is_member;			/* as was answered last */
	bool is_due;			/* to be asked for: not joined yet, or of another manager's time */
	uint8_t reregistered;		/* of the port, when it was looked at last */
	uint8_t asked_of;		/* that, when it was asked last: a later manager has not heard of it */
	bool was_answered;
	int status;			/* 0, or an errno, once it was; EBUSY: it is to be asked again */
	wtime until;			/* what is asked is repeated until then */
	wtime again;			/* when it is repeated, or has failed; WTIME_NEVER: it does not wait for that */
	struct sa_mcmember record;
	uint32_t tid;
	struct list waiters;
};

static bool has_manager(const struct hub *h, uint32_t port)
{
	return FABRIC_READ(h->subnet->fabric.port[port].sm_lid);
}

bool joins_are_needed(const struct hub *h, const struct client *c, uint32_t index)
{
	uint32_t port = subnet_port(h, c, index);

	return port != PORT_NONE && has_manager(h, port);
}

/* NULL: its programs have left, and the page may have another one there. */
static const struct page_group *page_group(const struct hub *h, const struct join *j)
{
	const struct page_group *g = &h->page->group[j->group];

	return g->used && g->device == j->device && !memcmp(g->gid, j->gid, sizeof(j->gid)) ? g : NULL;
}

/* ---- what is asked and answered ---- */

static void heard(void *arg, const struct mad_letter *l)
{
	struct join *j = arg;
	struct mad_header h;
	unsigned expected = j->asked == ASKED_TO_LEAVE ? SA_DELETE_RESP : MAD_GET_RESP;

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
	j->was_answered = true;
	/* what answers something else says nothing, and nothing else will come */
	if (l->bytes < MAD_BYTES || h.method != expected || h.attr_id != SA_MCMEMBER_RECORD) {
		j->status = EBUSY;
		return;
	}
	j->status = h.status & MAD_STATUS_BUSY ? EBUSY : h.status ? EACCES : 0;
	if (!h.status)
		sa_mcmember_get(&j->record, l->data);
}

static void ask(struct hub *h, struct join *j, unsigned method)
{
	const struct fabric *f = &h->subnet->fabric;
	const struct sa_request r = { .method = (uint8_t)method, .attr_id = SA_MCMEMBER_RECORD, .tid = ++j->tid,
				      .timeout_ms = ANSWER_MS, .until = j->until };
	struct sa_mcmember m = { .mask = SA_MC_MGID | SA_MC_PORT_GID | SA_MC_JOIN_STATE, .join_state = j->state };
	uint8_t mad[MAD_BYTES] = { 0 };

	if (method == MAD_SET) {
		/* what a group is made with that nobody has made yet (15.2.5.17.2) */
		m.mask |= SA_MC_QKEY | SA_MC_TCLASS | SA_MC_PKEY | SA_MC_SL | SA_MC_FLOW_LABEL;
		m.qkey = j->qkey;
		m.pkey = FABRIC_READ(fabric_pkeys(f, j->port)[0]);
		/* without its mask: a manager may give a group that it has forgotten the LID that programs send to */
		if (page_group(h, j) && (list_empty(&j->waiters) || j->record.mlid))
			m.mlid = page_group(h, j)->mlid;
	}
	memcpy(m.mgid, j->gid, sizeof(m.mgid));
	host_write_gid(f, j->port, 0, m.port_gid);
	sa_mcmember_put(&m, mad);
	j->asked = method == MAD_SET ? ASKED_TO_JOIN : ASKED_TO_LEAVE;
	j->asked_of = j->reregistered;
	j->was_answered = false;
	if (umad_ask_sa(h, j->file, &r, mad)) {
		j->was_answered = true;
		j->status = ENOMEM;
	}
}

/* ---- coming and going ---- */

static uint8_t state_of(bool sends)
{
	return sends ? SA_SEND_ONLY_FULL_MEMBER : SA_FULL_MEMBER;
}

static struct join *find(const struct hub *h, uint32_t port, uint8_t state, const uint8_t gid[16])
{
	list_for_each(j, &h->joins, struct join, node) {
		if (j->port == port && j->state == state && !memcmp(j->gid, gid, sizeof(j->gid)))
			return j;
	}
	return NULL;
}

static bool is_full(const struct hub *h, const struct client *c)
{
	unsigned all = 0, own = 0;

	list_for_each(j, &h->joins, struct join, node) {
		all++;
		own += j->user == c->account->user;
	}
	return hub_is_owner(h, c) ? all >= JOINS_MOST : all >= JOINS_USERS || own >= JOINS_USER;
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

static struct join *make(struct hub *h, const struct client *c, uint32_t port, uint8_t state, const uint8_t gid[16])
{
	struct join *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->file = umad_open_sa(h, port, heard, j);
	if (!j->file) {
		free(j);
		return NULL;
	}
	j->port = port;
	j->state = state;
	j->reregistered = FABRIC_READ(h->subnet->fabric.port[port].reregistered);
	j->is_due = true;
	j->again = WTIME_NEVER;
	j->user = c->account->user;
	memcpy(j->gid, gid, sizeof(j->gid));
	list_init(&j->waiters);
	list_append(&h->joins, &j->node);
	return j;
}

/* Of programs that have left again before there was an answer. */
static void cancel_waiters(struct hub *h, struct join *j)
{
	list_for_each_safe(w, &j->waiters, struct waiter, node) {
		struct client *c = w->client;
		struct control_msg answer = w->msg;

		drop_waiter(w);
		hub_answer(h, c, &answer, ECANCELED);
	}
}

/* What is due, if nothing is under way. A membership that nobody uses is over, whether the administration can be told or not. */
static void proceed(struct hub *h, struct join *j)
{
	if (j->asked)
		return;
	j->until = h->now + (RETRIES + 1) * ANSWER_MS * WTIME_MS;
	if (j->uses && j->is_due && has_manager(h, j->port))
		ask(h, j, MAD_SET);
	else if (!j->uses && j->is_member && has_manager(h, j->port))
		ask(h, j, SA_DELETE);
	if (j->asked || j->uses)
		return;
	cancel_waiters(h, j);
	end(h, j);
}

static void fill_answer(const struct join *j, struct control_msg *answer)
{
	if (!j->record.mlid)
		return;
	answer->b = j->record.mlid | (uint32_t)j->record.sl << 16;
	answer->c = j->record.qkey;
}

/* A process that comes back after a restart of weftd knows its answer; its port joins again. */
static bool is_back(const struct client *c)
{
	return c->has_returned && !c->told_kept;
}

/* A member that neither leaves nor joins again. */
static bool is_settled(const struct join *j)
{
	return j->is_member && !j->is_due && j->asked != ASKED_TO_LEAVE;
}

int joins_enter(struct hub *h, struct client *c, const struct control_msg *msg, int i, struct control_msg *answer)
{
	const uint8_t state = state_of(msg->service == MCAST_SENDS);
	uint32_t port = subnet_port(h, c, msg->device);
	struct join *j = find(h, port, state, msg->gid);
	bool waits = has_manager(h, port) && !is_back(c) && !(j && is_settled(j));
	struct waiter *w = waits ? calloc(1, sizeof(*w)) : NULL;

	if (waits && !w)
		return -ENOMEM;
	if (!j && !is_full(h, c))
		j = make(h, c, port, state, msg->gid);
	if (!j) {
		free(w);
		return has_manager(h, port) ? -EDQUOT : 0;
	}
	j->group = i;
	j->device = (uint8_t)msg->device;
	/* of the first: others of the port have the group's */
	if (!j->is_member && !j->record.mlid)
		j->qkey = msg->c;
	j->uses++;
	if (w) {
		j->is_due = true;
		w->client = c;
		w->msg = *msg;
		list_append(&j->waiters, &w->node);
	} else {
		fill_answer(j, answer);
	}
	proceed(h, j);
	return w ? -EINPROGRESS : 0;
}

static void use_less(struct hub *h, struct join *j, unsigned uses)
{
	j->uses -= uses < j->uses ? uses : j->uses;
	proceed(h, j);
}

void joins_leave(struct hub *h, const struct client *c, int i, bool sends, unsigned uses)
{
	const struct page_group *g = &h->page->group[i];
	struct join *j = uses ? find(h, subnet_port(h, c, g->device), state_of(sends), g->gid) : NULL;

	if (j)
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

/* Those that wait, of whom some use it no more. How many. */
static uint32_t answer_waiters(struct hub *h, struct join *j)
{
	const bool sends = j->state == SA_SEND_ONLY_FULL_MEMBER;
	uint32_t refused = 0;

	list_for_each_safe(w, &j->waiters, struct waiter, node) {
		struct client *c = w->client;
		struct control_msg answer = w->msg;

		drop_waiter(w);
		fill_answer(j, &answer);
		refused += j->status && page_group(h, j) && mcast_take_back(h, c, j->group, sends);
		hub_answer(h, c, &answer, j->status);
	}
	return refused;
}

/* Nobody waits for a manager that has left. How many use the group no more. */
static uint32_t refuse_without_manager(struct hub *h, struct join *j)
{
	if (j->asked || list_empty(&j->waiters) || has_manager(h, j->port))
		return 0;
	j->status = ETIMEDOUT;
	return answer_waiters(h, j);
}

/* A port that has programs in the group asks a manager that does not answer until one does, and one that refuses when it says
 * again that ports are to join. Returns how many use it no more. */
static uint32_t have_joined(struct hub *h, struct join *j)
{
	uint32_t refused;

	j->is_member = !j->status;
	if (j->status != ETIMEDOUT && j->asked_of == j->reregistered)
		j->is_due = false;
	if (j->is_member)
		j->qkey = j->record.qkey;
	if (j->is_member && j->uses)
		mcast_set_lid(h->page, j->group, j->record.mlid);
	refused = answer_waiters(h, j);
	if (j->status && !j->is_due && j->uses > refused)
		log_line(LOG_WARNING, "the subnet administration lets a port not join a group again: what is sent to the group "
			 "does not reach its programs");
	return refused;
}

/* OpenSM takes a port out when it leaves with one of two states, and no other port is a full member: it joins again. */
static void look_at_other(struct hub *h, const struct join *left)
{
	struct join *j = find(h, left->port, state_of(left->state == SA_FULL_MEMBER), left->gid);

	if (j && !left->status && !(left->record.join_state & j->state))
		j->is_due = true;
}

static void take_in(struct hub *h, struct join *j)
{
	bool has_left = j->asked == ASKED_TO_LEAVE;
	uint32_t refused = 0;

	j->was_answered = false;
	if (j->status == EBUSY) {
		j->again = h->now + ANSWER_MS * WTIME_MS;
		return;
	}
	j->asked = ASKED_NOTHING;
	if (has_left) {
		j->is_member = false;
		j->is_due = true;
		look_at_other(h, j);
	} else {
		refused = have_joined(h, j);
	}
	use_less(h, j, refused);
}

/* The administration is still busy when its time is over, or is gone: it is as if it had not answered. */
static void repeat(struct hub *h, struct join *j)
{
	j->again = WTIME_NEVER;
	if (h->now < j->until && has_manager(h, j->port)) {
		ask(h, j, j->asked == ASKED_TO_LEAVE ? SA_DELETE : MAD_SET);
		return;
	}
	j->status = ETIMEDOUT;
	take_in(h, j);
}

/* What a manager says while a request is under way is of later than that. */
static void look_at_port(struct hub *h, struct join *j)
{
	uint8_t reregistered = FABRIC_READ(h->subnet->fabric.port[j->port].reregistered);

	j->is_due |= j->reregistered != reregistered;
	j->reregistered = reregistered;
}

void joins_expire(struct hub *h)
{
	list_for_each_safe(j, &h->joins, struct join, node) {
		if (j->was_answered)
			take_in(h, j);
		else if (j->again <= h->now)
			repeat(h, j);
	}
	list_for_each_safe(j, &h->joins, struct join, node) {
		look_at_port(h, j);
		use_less(h, j, refuse_without_manager(h, j));
	}
}

wtime joins_deadline(const struct hub *h)
{
	wtime at = WTIME_NEVER;

	list_for_each(j, &h->joins, struct join, node)
		at = wtime_min(at, j->was_answered ? h->now : j->again);
	return at;
}
