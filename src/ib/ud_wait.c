/* What waits is on the heap: it is more than a QP may keep for itself, and seldom there. */
#include "ib/ud_wait.h"

#include "ib/ud.h"
#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

/* Our choice: what a ring of the shortest datagrams takes here, half as much again. */
enum { WAITING_BYTES = 8 << 20 };

/* Our choice: a tenth of the time for who takes 10,000 datagrams in a second. */
static const wtime EARNED = 10 * WTIME_US;

struct waiting {
	struct list_node node;
	struct packet packet;
	uint8_t payload[];
};

static size_t bytes_of(const struct packet *p)
{
	return sizeof(struct waiting) + p->payload_bytes;
}

static struct ud_wait *waits_of(struct qp *qp)
{
	struct ud_wait *w = engine_of(qp)->waiting;

	if (w)
		return w;
	w = engine_of(qp)->waiting = malloc(sizeof(*w));
	if (!w)
		return NULL;
	*w = (struct ud_wait){ .until = WTIME_NEVER, .patience = CA_PATIENCE };
	list_init(&w->waiting);
	return w;
}

static wtime reckon_patience(const struct qp *qp, struct ud_wait *w)
{
	uint64_t received = qp->messages_received - w->received, enough = CA_PATIENCE / EARNED;

	w->received = qp->messages_received;
	w->patience = wtime_min(CA_PATIENCE, w->patience + (received < enough ? received : enough) * EARNED);
	return w->patience;
}

static struct waiting *copy(struct qp *qp, const struct packet *p)
{
	struct waiting *copy = qp->ca->waiting_bytes + bytes_of(p) <= WAITING_BYTES ? malloc(bytes_of(p)) : NULL;

	if (!copy)
		return NULL;
	copy->node = (struct list_node){ 0 };
	packet_copy(&copy->packet, p);
	copy->packet.payload = &copy->packet.payload_one;
	copy->packet.payload_one = (struct iovec){ copy->payload, p->payload_bytes };
	if (p->payload_bytes)
		memcpy(copy->payload, p->payload->iov_base, p->payload_bytes);
	return copy;
}

static struct waiting *take_oldest(struct qp *qp, struct ud_wait *w)
{
	struct list_node *n = list_pop(&w->waiting);
	struct waiting *oldest = n ? container_of(n, struct waiting, node) : NULL;

	if (oldest)
		qp->ca->waiting_bytes -= bytes_of(&oldest->packet);
	return oldest;
}

/* None waits any more. */
static void end(struct qp *qp, struct ud_wait *w, wtime now)
{
	wtime used = now - w->since;

	if (w->until == WTIME_NEVER)
		return;
	w->until = WTIME_NEVER;
	w->patience = used < w->patience ? w->patience - used : 0;
	qp->ca->ops->let_go(qp->ca->owner, qp->qpn);
	qp_rearm(qp);
}

static void drop(struct qp *qp, struct ud_wait *w, wtime now)
{
	struct waiting *oldest;

	while ((oldest = take_oldest(qp, w))) {
		ud_count_drop(qp);
		free(oldest);
	}
	end(qp, w, now);
}

bool ud_wait_keep(struct qp *qp, origin_t origin, const struct packet *p)
{
	const struct ca_ops *ops = qp->ca->ops;
	struct waiting *kept;
	struct ud_wait *w;

	if (ud_wait_deadline(qp) != WTIME_NEVER)	/* where the engine runs apart receives may have come */
		ud_wait_serve(qp, qp->ca->now);
	if (!engine_receives(qp) || !ops->hold || origin == ORIGIN_NETWORK || p->dest_qpn != qp->qpn || !qp_recv_is_dry(qp))
		return false;
	w = waits_of(qp);
	if (!w || (w->until == WTIME_NEVER && !reckon_patience(qp, w)))
		return false;
	kept = copy(qp, p);
	if (!kept)
		return false;
	if (!ops->hold(qp->ca->owner, p->deth.src_qpn, qp->qpn)) {
		free(kept);
		return false;
	}
	qp->ca->waiting_bytes += bytes_of(p);
	qp->ca->counters.waited_datagrams++;
	list_append(&w->waiting, &kept->node);
	if (w->until != WTIME_NEVER)
		return true;
	w->since = qp->ca->now;
	w->until = w->since + w->patience;
	qp_rearm(qp);
	return true;
}

/* A receive may find its CQ overrun: then the QP is in error, and nothing waits. */
void ud_wait_serve(struct qp *qp, wtime now)
{
	struct ud_wait *w = engine_of(qp)->waiting;

	while (!list_empty(&w->waiting) && !qp_recv_is_dry(qp)) {
		struct waiting *oldest = take_oldest(qp, w);

		ud_receive(qp, &oldest->packet);
		free(oldest);
	}
	if (list_empty(&w->waiting))
		end(qp, w, now);
}

void ud_wait_expire(struct qp *qp, wtime now)
{
	struct ud_wait *w = engine_of(qp)->waiting;

	if (w && now >= w->until)
		drop(qp, w, now);
}

void ud_wait_drop(struct qp *qp)
{
	struct ud_wait *w = engine_of(qp)->waiting;

	if (w)
		drop(qp, w, qp->ca->now);
}

void ud_wait_fini(struct qp *qp)
{
	ud_wait_drop(qp);
	free(engine_of(qp)->waiting);
	engine_of(qp)->waiting = NULL;
}
