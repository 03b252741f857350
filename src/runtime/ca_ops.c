/* What the adapter asks of its owner. */
#include "peers/peer.h"
#include "peers/space.h"
#include "peers/route.h"
#include "runtime/bad_keys.h"
#include "runtime/faults.h"
#include "runtime/state.h"
#include "verbs/qp.h"

#include <errno.h>
#include <string.h>

static void cq_event(void *owner, struct cq *cq)
{
	const struct runtime *rt = owner;

	if (rt->events)
		rt->events->cq_event(cq);
}

static void async_event(void *owner, enum ibv_event_type type, void *object)
{
	const struct runtime *rt = owner;

	if (rt->events)
		rt->events->async_event(type, object);
}

static void route(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	struct runtime *rt = owner;

	route_find(&rt->peers, dev, path, r);
}

static unsigned lid_paths(void *owner, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
			  const struct route *r, struct lid_pair pair[LID_PATHS])
{
	struct runtime *rt = owner;

	return sa_paths_find(&rt->peers, dev, pkey, path, r, pair);
}

static int path_mtu(void *owner, const struct route *r, const struct packet_path *path)
{
	(void)owner;
	return r->kind == ROUTE_LINK || r->kind == ROUTE_NO_LINK ? roce_socket_path_mtu(path) : 0;
}

static unsigned room(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	struct runtime *rt = owner;
	unsigned space = space_for(&rt->peers, dev, r, av);

	if (!space && r->way && route_has_channel(r->kind))
		node_count_wait(&rt->peers.node, r->way);
	return space;
}

/* Traces are replayed without senders that wait. */
static bool hold(void *owner, uint32_t src_qpn, uint32_t dest_qpn)
{
	struct runtime *rt = owner;

	return !rt->faults && space_hold(&rt->peers, src_qpn, dest_qpn);
}

static void let_go(void *owner, uint32_t dest_qpn)
{
	struct runtime *rt = owner;

	space_let_go(&rt->peers, dest_qpn);
}

static bool origin_matches(void *owner, origin_t origin, const struct route *back)
{
	const struct runtime *rt = owner;

	return route_leads_to(&rt->peers, back, origin);
}

/* weftd tells when a process ends; while there is none, its own word does, of those whose word we can see. */
static bool lives(const struct runtime *rt, const struct channel *ch)
{
	if (ch->peer)
		return !peer_has_left(ch->peer);
	return atomic_load(&rt->session.state) == SESSION_ATTACHED;
}

/* Frames that are spoilt or recorded on their way have a wire's timeouts. What we send to ourselves is taken at once. */
static bool undelivered(void *owner, const struct route *r, uint64_t *mark)
{
	struct runtime *rt = owner;
	struct channel *ch = r->kind == ROUTE_CHANNEL ? r->place : NULL;

	if (faults_meet_all(rt) || !ch || ch->gone || ch->link->broken)
		return false;
	if (!shm_undelivered(ch->shm, mark) || !lives(rt, ch))
		return false;
	ch->link->ops->flush(ch->link);		/* nothing is sent that would wake it once more */
	return true;
}

static int read_program(void *owner, void *to, const void *from, size_t bytes)
{
	struct runtime *rt = owner;

	memory_settle(&rt->copy_file);
	return memory_read_safely(to, from, bytes);
}

static int write_program(void *owner, void *to, const void *from, size_t bytes)
{
	struct runtime *rt = owner;

	return memory_write_safely(&rt->copy_file, to, from, bytes);
}

static void write_later(void *owner, void *to, const void *from, size_t bytes)
{
	struct runtime *rt = owner;

	if (rt->gathers)
		memory_write_later(&rt->copy_file, to, from, bytes);
	else
		memory_write_safely(&rt->copy_file, to, from, bytes);
}

static void settle(void *owner)
{
	struct runtime *rt = owner;

	memory_settle(&rt->copy_file);
}

/* Leaving is posted; joining needs weftd's answer first (runtime_join). */
static int mcast(void *owner, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	struct runtime *rt = owner;
	struct control_msg msg = { .type = CTL_MCAST, .device = dev->index, .a = joined };
	bool granted;

	memcpy(msg.gid, gid, sizeof(msg.gid));
	if (!joined)
		return session_post(&rt->session, &msg, NULL);
	granted = rt->join_state == JOIN_GRANTED && rt->join.device == msg.device && !memcmp(rt->join.gid, gid, sizeof(msg.gid));
	rt->join = msg;
	rt->join_state = granted ? JOIN_NONE : JOIN_WANTED;
	return granted ? 0 : -EINPROGRESS;
}

static int qpn_alloc(void *owner, uint32_t *qpn)
{
	struct runtime *rt = owner;

	return qpn_pool_take(&rt->qpns, qpn);
}

static void qpn_free(void *owner, uint32_t qpn)
{
	struct runtime *rt = owner;

	qpn_pool_give(&rt->qpns, qpn);
}

static void carried(void *owner, const struct route *r, const struct wire_load *there, const struct wire_load *back)
{
	const struct runtime *rt = owner;
	const struct way *way = ways_at(&rt->peers.node.ways, r->way);

	node_count(&rt->peers.node, &way->there, there);
	if (back->packets)
		node_count(&rt->peers.node, &way->back, back);
}

const struct ca_ops runtime_ca_ops = {
	.cq_event = cq_event,
	.async_event = async_event,
	.route = route,
	.lid_paths = lid_paths,
	.space = room, .hold = hold, .let_go = let_go,
	.path_mtu = path_mtu,
	.origin_matches = origin_matches,
	.undelivered = undelivered,
	.carried = carried,
	.bad_key = bad_keys_received,
	.read_program = read_program,
	.write_program = write_program, .write_later = write_later, .settle = settle,
	.mcast = mcast,
	.qpn_alloc = qpn_alloc,
	.qpn_free = qpn_free,
};
