#include "runtime/link_faults.h"

#include "runtime/state.h"
#include "wire/addr.h"
#include "wire/packet.h"

/* Our choice: frames that wait for slow links, as --impair has it. */
enum { QUEUE = 1000 };

bool link_faults_init(struct link_faults *l)
{
	struct impair_spec spec = { .rules[0][IMPAIR_OUT].queue_frames = QUEUE };

	if (!l->holds)
		l->holds = !impair_init(&l->held, &spec, 0, IMPAIR_OUT);
	return l->holds;
}

void link_faults_fini(struct link_faults *l)
{
	if (l->holds)
		impair_fini(&l->held);
	l->holds = false;
}

/* The way of a frame, if it has faults. */
static const struct way *way_of(struct runtime *rt, const struct ca_device *dev, const struct packet *p)
{
	struct node *node = &rt->peers.node;
	uint16_t number = node_find_way(node, dev, p->pkey, &p->path, rt->ca.routes.generation);
	const struct way *way = number ? ways_at(&node->ways, number) : NULL;

	return way && way->has_faults ? way : NULL;
}

static bool hold(struct link_faults *l, wtime due, unsigned kind, const void *frame, size_t bytes, uint32_t to)
{
	l->device = link_device(kind);
	return l->holds && impair_hold(&l->held, due, link_form(kind), frame, bytes, to);
}

enum link_fate link_faults_hold(struct link_faults *l, wtime now, wtime due, unsigned kind, const void *frame, size_t bytes,
				uint32_t to)
{
	if (due <= now && !(l->holds && l->held.waiting))
		return LINK_PASSED;
	return hold(l, due, kind, frame, bytes, to) ? LINK_HELD : LINK_LOST;
}

enum link_fate link_faults_take(struct link_faults *l, struct runtime *rt, unsigned kind, const void *frame, size_t bytes,
				uint32_t to)
{
	const struct ca_device *dev = &rt->ca.dev[link_device(kind)];
	struct node *node = &rt->peers.node;
	const struct way *way;
	struct packet p;
	wtime due;

	if (!node_is_somewhere(node) || !node->traffic || !fabric_has_faults(&node->fabric) || !device_has(dev, DEVICE_LIDS) ||
	    packet_parse(&p, link_form(kind), frame, bytes, false) != PACKET_OK || p.path.dlid >= MLID_FIRST)
		return LINK_PASSED;
	way = way_of(rt, dev, &p);
	if (!way)
		return LINK_PASSED;
	if (!passage_take(&l->passage, &node->fabric, node->traffic, &way->there, rt->session.number, rt->ca.now, bytes / 4,
			  &due))
		return LINK_LOST;
	return link_faults_hold(l, rt->ca.now, due, kind, frame, bytes, to);
}

const struct impair_frame *link_faults_pop(struct link_faults *l, wtime now)
{
	return l->holds ? impair_pop(&l->held, now) : NULL;
}

wtime link_faults_deadline(const struct link_faults *l)
{
	return l->holds ? impair_deadline(&l->held) : WTIME_NEVER;
}
