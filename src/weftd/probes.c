#include "weftd/probes.h"

#include "control/devices.h"
#include "weftd/pings.h"
#include "weftd/random.h"
#include "weftd/roce_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Our choices: who connects notices no twentieth of a second, and every path between hosts of one site is shorter; what is lost
 * is asked for once more at half of that. A path that changes is found ten seconds later. */
static const wtime AGAIN = 25 * WTIME_MS, OVER = 50 * WTIME_MS, HOLDS = 10 * WTIME_S;

enum { PROBES = 64, WAITERS = 64, LENGTHS = 5 };	/* 256, 512, 1024, 2048, 4096 */

struct probe {
	uint8_t gid[16], dgid[16];
	uint32_t most, best;		/* bytes of payload; best 0: nothing was answered */
	uint64_t tid[LENGTHS];		/* of the pings: most, most / 2 ... */
	wtime asked;			/* 0: never */
	bool is_over, was_repeated;
	unsigned waiters;
	struct { struct client *client; uint32_t seq; } waiter[WAITERS];	/* client NULL: it has left */
};

struct probes {
	unsigned under_way;
	struct probe probe[PROBES];	/* each pair of addresses has one place */
};

static bool is_length(uint32_t bytes)
{
	return bytes >= PING_LEAST && bytes <= PING_MOST && !(bytes & (bytes - 1));
}

static void answer(struct hub *h, struct client *c, uint32_t seq, uint32_t bytes)
{
	struct control_msg msg = { .type = CTL_PATH_MTU, .seq = seq, .b = bytes };

	h->ops->send(h, c, &msg, NULL, NULL, 0);
}

static uint32_t found(const struct probe *p)
{
	return p->best ? p->best : p->most;
}

static void finish(struct hub *h, struct probe *p)
{
	for (unsigned i = 0; i < p->waiters; i++)
		if (p->waiter[i].client)
			answer(h, p->waiter[i].client, p->waiter[i].seq, found(p));
	p->waiters = 0;
	p->is_over = true;
	h->probes->under_way--;
}

/* The lengths that are longer than what was answered. Who has answered none is asked with the shortest alone: a datagram that is
 * longer than a MAD ends QP1 of rdma_rxe, and with it all of its rdma_cm. */
static void ask(struct hub *h, const struct probe *p)
{
	uint32_t bytes = p->most;

	for (unsigned i = 0; bytes >= PING_LEAST && bytes > p->best; i++, bytes /= 2)
		if (p->best || bytes == PING_LEAST)
			pings_ask(h, p->gid, p->dgid, p->tid[i], bytes);
}

static void start(struct hub *h, struct probe *p, const struct control_msg *msg)
{
	*p = (struct probe){ .most = msg->b, .asked = h->now };
	memcpy(p->gid, msg->gid, 16);
	memcpy(p->dgid, msg->dgid, 16);
	random_bytes(p->tid, sizeof(p->tid));
	h->probes->under_way++;
	ask(h, p);
}

static bool is_about(const struct probe *p, const struct control_msg *msg)
{
	return p->asked && p->most == msg->b && memcmp(p->gid, msg->gid, 16) == 0 && memcmp(p->dgid, msg->dgid, 16) == 0;
}

static struct probe *place_of(struct hub *h, const struct control_msg *msg)
{
	uint8_t key[32];

	if (!h->probes)
		h->probes = calloc(1, sizeof(*h->probes));
	memcpy(key, msg->gid, 16);
	memcpy(key + 16, msg->dgid, 16);
	return h->probes ? &h->probes->probe[hash_table_hash(&h->listeners, key, sizeof(key)) % PROBES] : NULL;
}

/* False: it cannot be tried now. */
static bool try(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct probe *p = h->roce.link ? place_of(h, msg) : NULL;

	if (!p || (!is_about(p, msg) && p->asked && !p->is_over))
		return false;
	if (is_about(p, msg) && p->is_over && h->now - p->asked < HOLDS) {
		answer(h, c, msg->seq, found(p));
		return true;
	}
	if (!is_about(p, msg) || p->is_over)
		start(h, p, msg);
	if (p->waiters == WAITERS)
		return false;
	p->waiter[p->waiters].client = c;
	p->waiter[p->waiters++].seq = msg->seq;
	return true;
}

void probes_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	const struct page_device *dev = roce_port_device(h) < h->page->devices ? &h->page->device[roce_port_device(h)] : NULL;

	if (!dev || !is_length(msg->b) || !page_device_has_gid(dev, msg->gid) || page_device_has_gid(dev, msg->dgid))
		hub_answer(h, c, msg, EINVAL);
	else if (!try(h, c, msg))
		answer(h, c, msg->seq, msg->b);
}

void probes_leave(struct hub *h, const struct client *c)
{
	for (unsigned i = 0; h->probes && i < PROBES; i++)
		for (unsigned k = 0; k < h->probes->probe[i].waiters; k++)
			if (h->probes->probe[i].waiter[k].client == c)
				h->probes->probe[i].waiter[k].client = NULL;
}

static bool takes(struct probe *p, const struct ping *ping)
{
	uint32_t bytes = p->most;

	if (!p->asked || p->is_over || memcmp(p->dgid, ping->path.sgid, 16) != 0)
		return false;
	for (unsigned i = 0; bytes >= PING_LEAST; i++, bytes /= 2)
		if (bytes == ping->bytes && p->tid[i] == ping->tid) {
			p->best = bytes > p->best ? bytes : p->best;
			return true;
		}
	return false;
}

bool probes_answered(struct hub *h, const struct ping *ping)
{
	for (unsigned i = 0; h->probes && i < PROBES; i++) {
		struct probe *p = &h->probes->probe[i];
		bool is_first = !p->best;

		if (!takes(p, ping))
			continue;
		if (p->best == p->most)
			finish(h, p);
		else if (is_first)
			ask(h, p);
		return true;
	}
	return false;
}

static wtime due(const struct probe *p)
{
	return p->asked + (p->was_repeated ? OVER : AGAIN);
}

void probes_expire(struct hub *h)
{
	for (unsigned i = 0; h->probes && h->probes->under_way && i < PROBES; i++) {
		struct probe *p = &h->probes->probe[i];

		if (!p->asked || p->is_over || h->now < due(p))
			continue;
		if (p->was_repeated) {
			finish(h, p);
			continue;
		}
		p->was_repeated = true;
		ask(h, p);
	}
}

wtime probes_deadline(const struct hub *h)
{
	wtime at = WTIME_NEVER;

	for (unsigned i = 0; h->probes && h->probes->under_way && i < PROBES; i++) {
		const struct probe *p = &h->probes->probe[i];

		if (p->asked && !p->is_over)
			at = wtime_min(at, due(p));
	}
	return at;
}

void probes_free(struct hub *h)
{
	free(h->probes);
	h->probes = NULL;
}
