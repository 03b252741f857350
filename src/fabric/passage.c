#include "fabric/passage.h"

/* Our choices: words of the longest packet, and how often a process takes its turn at a link that others take all the time. */
enum { LONGEST = (4096 + 128) / 4, TURNS = 64 };

bool passage_has_faults(const struct fabric *f, const struct traffic_way *way)
{
	bool has = false;

	for (uint32_t i = 0; i < way->links; i++) {
		const struct fabric_port *p = &f->port[way->out[i]];

		has |= FABRIC_READ(p->loss_ppm) || FABRIC_READ(p->rate_kbps);
	}
	return has;
}

void passage_restart(struct passage *p, uint32_t port)
{
	p->drawn[port % PASSAGE_LINKS] = 0;
}

/* Each end of a link draws by itself. */
static bool draw(struct passage *p, uint32_t port, uint64_t seed, uint32_t process, uint32_t ppm)
{
	struct rand r;
	bool hit;

	rand_seed(&r, seed + port + ((uint64_t)process << 32));
	r.count = p->drawn[port % PASSAGE_LINKS];
	hit = rand_chance(&r, ppm);
	p->drawn[port % PASSAGE_LINKS] = r.count;
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

/* A packet that comes at *at has passed a link of this rate, behind all that have come to it. False: the queue is full. A word
 * that is further ahead than packets can make it was written by nobody who means it. */
static bool occupy(struct traffic_block *block, uint32_t rate_kbps, uint64_t words, wtime *at)
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

/* The port at the other end of a link got it spoilt. */
static void count_error(const struct fabric *f, struct traffic_block *all, uint32_t port, uint64_t words)
{
	uint32_t peer = fabric_peer(f, port);

	if (peer == PORT_NONE)
		return;
	traffic_add(&all[peer], TRAFFIC_ERRORS, 1);
	traffic_add(&all[peer], TRAFFIC_ERROR_WORDS, words);
}

bool passage_take(struct passage *p, const struct fabric *f, struct traffic_block *all, const struct traffic_way *way,
		  uint32_t process, wtime now, uint64_t words, wtime *due)
{
	const struct wire_load load = { .packets = 1, .words = words };
	struct traffic_way one = { .links = 1, .drop = TRAFFIC_COUNTS };
	wtime at = now;

	for (uint32_t i = 0; i < way->links; i++) {
		uint32_t port = way->out[i], rate_kbps = FABRIC_READ(f->port[port].rate_kbps);

		if (rate_kbps && !occupy(&all[port], rate_kbps, words, &at)) {
			traffic_add(&all[port], TRAFFIC_XMIT_DISCARDS, 1);
			return false;
		}
		one.out[0] = port;
		traffic_pass(all, &one, &load);
		if (passage_loses(p, f, port, process)) {
			count_error(f, all, port, words);
			return false;
		}
	}
	if (way->drop != TRAFFIC_COUNTS)
		traffic_add(&all[way->at], way->drop, 1);
	*due = at;
	return true;
}
