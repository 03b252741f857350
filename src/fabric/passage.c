#include "fabric/passage.h"

/* Our choices: words of the longest packet, and how often a process takes its turn at a link that others take all the time. */
enum { LONGEST = (4096 + 128) / 4, TURNS = 64 };

bool passage_has_faults(const struct fabric *f, const struct traffic_way *way)
{
	bool has = false;

	for (uint32_t i = 0; i < way->links; i++) {
		has |= FABRIC_READ(f->port[way->out[i]].loss_ppm) || fabric_rate(f, way->out[i]);
	}
	return has;
}

/* What was drawn at this port. */
static uint64_t *drawn_at(struct passage *p, uint32_t port)
{
	for (uint32_t i = 0; i < PASSAGE_LINKS; i++) {
		uint32_t at = (port + i) % PASSAGE_LINKS;

		if (!p->link[at].port)
			p->link[at].port = port + 1;
		if (p->link[at].port == port + 1)
			return &p->link[at].drawn;
	}
	return &p->link[port % PASSAGE_LINKS].drawn;
}

void passage_restart(struct passage *p, uint32_t port)
{
	*drawn_at(p, port) = 0;
}

/* Each end of a link draws by itself. */
static bool draw(struct passage *p, uint32_t port, uint64_t seed, uint32_t process, uint32_t ppm)
{
	uint64_t *drawn = drawn_at(p, port);
	struct rand r;
	bool hit;

	rand_seed(&r, seed + port + ((uint64_t)process << 32));
	r.count = *drawn;
	hit = rand_chance(&r, ppm);
	*drawn = r.count;
	return hit;
}

bool passage_loses(struct passage *p, const struct fabric *f, uint32_t port, uint32_t process)
{
	uint32_t ppm = FABRIC_READ(f->port[port].loss_ppm);

	return ppm && draw(p, port, FABRIC_READ(f->port[port].fault_seed), process, ppm);
}

static wtime time_of(uint64_t words, uint32_t rate_kbps)
{
	return words * 32 * WTIME_MS / rate_kbps;
}

/* A word that is further ahead than packets can make it was written by nobody who means it. */
bool passage_occupy(struct traffic_block *block, uint32_t rate_kbps, uint64_t words, wtime *at)
{
	const wtime most = 2 * PASSAGE_QUEUE + time_of(LONGEST, rate_kbps), takes = time_of(words, rate_kbps);
	wtime busy = atomic_load_explicit(&block->busy_until, memory_order_relaxed), begin;
	unsigned turns = 0;

	do {
		begin = busy > *at && busy - *at <= most ? busy : *at;
		if (begin - *at > PASSAGE_QUEUE || turns++ == TURNS)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&block->busy_until, &busy, begin + takes, memory_order_relaxed,
							memory_order_relaxed));
	if (begin > *at)
		traffic_add(block, TRAFFIC_WAIT, 1);
	*at = begin + takes;
	return true;
}

void passage_count_error(const struct fabric *f, struct traffic_block *all, uint32_t port, uint64_t words, bool is_multicast)
{
	uint32_t peer = fabric_peer(f, port);

	if (peer == PORT_NONE)
		return;
	traffic_add(&all[peer], TRAFFIC_ERRORS, 1);
	traffic_add(&all[peer], TRAFFIC_ERROR_WORDS, words);
	if (is_multicast)
		traffic_add(&all[peer], TRAFFIC_MULTICAST_ERRORS, 1);
}

bool passage_take(struct passage *p, const struct fabric *f, struct traffic_block *all, const struct traffic_way *way,
		  uint32_t process, wtime now, uint64_t words, wtime *due)
{
	const struct wire_load load = { .packets = 1, .words = words };
	struct traffic_way one = { .links = 1, .drop = TRAFFIC_COUNTS };
	wtime at = now;

	for (uint32_t i = 0; i < way->links; i++) {
		uint32_t port = way->out[i], rate_kbps = fabric_rate(f, port);

		if (rate_kbps && !passage_occupy(&all[port], rate_kbps, words, &at)) {
			traffic_add(&all[port], TRAFFIC_TOO_SLOW, 1);
			return false;
		}
		one.out[0] = port;
		traffic_pass(all, &one, &load);
		if (passage_loses(p, f, port, process)) {
			passage_count_error(f, all, port, words, false);
			return false;
		}
	}
	if (way->drop != TRAFFIC_COUNTS)
		traffic_add(&all[way->at], way->drop, 1);
	*due = at;
	return true;
}
