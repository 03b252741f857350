#include "peers/direct_target.h"

#include "direct/rma.h"
#include "link/shm.h"
#include "peers/direct_messages.h"
#include "peers/peer.h"
#include "peers/peers.h"
#include "peers/route.h"

/* ---- atomics on our memory, whoever wants them ---- */

static struct atomic_lock *own_lock(struct peers *ps)
{
	return &ps->published.share.memory->atomics;
}

/* A holder that was stopped in the middle must not stop us: then the lock is ours all the same. */
static void atomic_begin(void *peers)
{
	struct peers *ps = peers;

	if (!atomic_lock_take(own_lock(ps), peer_self(ps), &peer_lock_ops, ps))
		atomic_store(&own_lock(ps)->holder, peer_self(ps));
}

static void atomic_end(void *peers)
{
	struct peers *ps = peers;

	atomic_lock_give(own_lock(ps), peer_self(ps));
}

/* ---- where our requests go ---- */

/* Word of a slot that was given away comes later than the page has it. */
static inline __attribute__((always_inline)) struct channel *channel_of(const struct peers *ps, struct qp *qp)
{
	const struct route *r = qp_route(qp);

	return route_goes_both_ways(r->kind) && peers_has_owner(ps, route_slot(r)) ? r->place : NULL;
}

struct channel *direct_target_channel(const struct peers *ps, struct qp *qp)
{
	return channel_of(ps, qp);
}

static inline bool is_connected(struct peers *ps, struct qp *qp)
{
	return direct_path_is_current(&qp->direct_path) || direct_messages_connect(ps, qp);
}

static bool execute_own(struct peers *ps, struct qp *qp, struct direct_request *r)
{
	bool is_atomic = direct_is_atomic(r), done;

	if (!is_connected(ps, qp))
		return false;
	if (is_atomic)
		atomic_begin(ps);
	done = rma_execute_own(qp, r);
	if (is_atomic)
		atomic_end(ps);
	return done;
}

/* A peer that has not opened the channel yet does not look at our hazard word before its memory goes. */
static bool is_at_hand(const struct channel *ch)
{
	return ch->peer && !ch->gone && shm_peer_heeds(ch->shm);
}

static bool execute(void *peers, struct qp *qp, struct direct_request *r)
{
	struct peers *ps = peers;
	const struct channel *ch = channel_of(ps, qp);

	if (!ch)
		return false;
	if (ch->is_loop)
		return execute_own(ps, qp, r);
	return is_at_hand(ch) && !peer_has_left(ch->peer) && rma_execute(qp, peer_rma(ch->peer), r);
}

static enum direct_write write(void *peers, struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes)
{
	struct peers *ps = peers;
	const struct channel *ch = channel_of(ps, qp);

	if (!ch)
		return WRITE_REFUSED;
	if (!ch->is_loop)
		return is_at_hand(ch) && !peer_has_left(ch->peer) ? rma_write(qp, peer_rma(ch->peer), rkey, va, data, bytes) :
								    WRITE_REFUSED;
	return is_connected(ps, qp) && rma_write_own(qp, rkey, va, data, bytes) ? WRITE_DONE : WRITE_REFUSED;
}

static bool reaches(void *peers, struct qp *qp)
{
	struct peers *ps = peers;
	const struct channel *ch = direct_target_channel(ps, qp);

	return ch && (ch->is_loop || (is_at_hand(ch) && rma_is_connected(qp, peer_rma(ch->peer))));
}

const char *direct_tier_name(struct peers *ps, struct qp *qp)
{
	const struct channel *ch;

	if (!ps->ca->direct || !qp->published || !reaches(ps, qp))
		return "packets";
	ch = direct_target_channel(ps, qp);
	return ch->is_loop ? "direct (own memory)" : peer_tier(ch->peer);
}

const struct direct_ops peers_direct_ops = {
	.publish_mr = publish_mr,
	.unpublish_mr = unpublish_mr,
	.publish_qp = publish_qp,
	.unpublish_qp = unpublish_qp,
	.republish_qp = republish_qp,
	.execute = execute,
	.write = write,
	.reaches = reaches,
	.connect = direct_messages_connect,
	.send = direct_messages_send,
	.send_short = direct_messages_send_short,
	.send_datagram = direct_messages_send_datagram,
	.stands = direct_messages_stands,
	.keep_promise = direct_messages_keep_promise,
	.pull = direct_messages_pull,
	.publish = direct_messages_publish,
	.received = direct_messages_received,
	.atomic_begin = atomic_begin,
	.atomic_end = atomic_end,
};
