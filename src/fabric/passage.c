#include "fabric/passage.h"

/* Our choices: words of the longest packet, and how often a process takes its turn at a link that others take all the time. */
enum { LONGEST = (4096 + 128) / 4, TURNS = 64 };
/* A link, as parts of it are counted; of VLHighLimit (7.6.9.2): bytes of a unit, and the value that says that there is none. */
enum { WHOLE = 1 << 16, HIGH_UNIT = 4096, NO_LIMIT = 255 };
enum { LEAST = WHOLE / 1024 };	/* our choice: of a lane that has to wait for others */

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

/* A word that is further ahead than packets can make it was written by nobody who means it: of one lane's queue, or of all. */
static wtime sane(wtime until, wtime at, uint32_t rate_kbps, unsigned queues)
{
	return until > at && until - at <= (queues + 1) * PASSAGE_QUEUE + time_of(LONGEST, rate_kbps) ? until : at;
}

/* Other lanes whose queues are not empty, by bits. */
static unsigned waiting_beside(const struct traffic_block *block, uint32_t rate_kbps, unsigned lane, wtime at)
{
	unsigned lanes = 0;

	for (unsigned i = 0; i < TRAFFIC_LANES; i++) {
		wtime until = atomic_load_explicit(&block->lane_until[i], memory_order_relaxed);

		if (i != lane && sane(until, at, rate_kbps, 1) > at)
			lanes |= 1u << i;
	}
	return lanes;
}

/* The part of a link that a lane has beside others, of WHOLE (7.6.9.2): those in the table of high priority send as many bytes as
 * the limit says, or one packet, before a packet of low priority may go, and so on; within a table by weights. A lane that has to
 * wait for the others gets nearly nothing. Lanes without any weight take turns. bytes: of the packet, and of those that it is
 * counted against. */
static uint64_t part_of(const struct fabric *f, uint32_t port, unsigned lane, unsigned lanes, uint64_t bytes)
{
	const struct fabric_vlarb *arb = fabric_vlarb(f, port);
	uint64_t all[2] = { 0 }, own[2] = { 0 }, limit = FABRIC_READ(f->port[port].vl_high_limit), high;
	unsigned count = 0;

	for (unsigned i = 0; i < TRAFFIC_LANES; i++)
		count += lanes >> i & 1;
	for (unsigned i = 0; i < FABRIC_VLARB; i++) {
		unsigned vl = FABRIC_READ(arb[i].vl), weight = FABRIC_READ(arb[i].weight), is_low = i >= FABRIC_VLARB / 2;

		if (vl >= TRAFFIC_LANES || !(lanes >> vl & 1))
			continue;
		all[is_low] += weight;
		own[is_low] += vl == lane ? weight : 0;
	}
	if (!all[0] && !all[1])
		return WHOLE / count;
	high = limit ? limit * HIGH_UNIT : bytes;
	high = !all[0] ? 0 : !all[1] || limit == NO_LIMIT ? WHOLE : WHOLE * high / (high + bytes);
	high = (all[0] ? high * own[0] / all[0] : 0) + (all[1] ? (WHOLE - high) * own[1] / all[1] : 0);
	return high > LEAST ? high : LEAST;
}

/* A turn behind all that has come; not before `first`. */
static bool take_turn(struct traffic_block *block, uint32_t rate_kbps, wtime first, wtime takes, wtime at, wtime *end)
{
	wtime busy = atomic_load_explicit(&block->busy_until, memory_order_relaxed), begin;
	unsigned turns = 0;

	do {
		begin = sane(busy, at, rate_kbps, TRAFFIC_LANES);
		begin = begin > first ? begin : first;
		if (begin - at > PASSAGE_QUEUE || turns++ == TURNS)
			return false;
		*end = begin + takes;
	} while (!atomic_compare_exchange_weak_explicit(&block->busy_until, &busy, *end, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* A turn behind what has come to the lane, at its part of the rate. What waits elsewhere has more to wait for. */
static bool take_part(struct traffic_block *block, uint32_t rate_kbps, unsigned lane, uint64_t part, wtime takes, wtime at,
		      wtime *end)
{
	wtime until = atomic_load_explicit(&block->lane_until[lane], memory_order_relaxed);
	wtime busy = atomic_load_explicit(&block->busy_until, memory_order_relaxed);
	unsigned turns = 0;

	do {
		*end = sane(until, at, rate_kbps, 1) + takes * WHOLE / part;
		if (*end - takes - at > PASSAGE_QUEUE || turns++ == TURNS)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&block->lane_until[lane], &until, *end, memory_order_relaxed,
							memory_order_relaxed));
	for (turns = 0; turns < TURNS; turns++) {
		if (atomic_compare_exchange_weak_explicit(&block->busy_until, &busy,
							  sane(busy, at, rate_kbps, TRAFFIC_LANES) + takes,
							  memory_order_relaxed, memory_order_relaxed))
			break;
	}
	return true;
}

bool passage_occupy(const struct fabric *f, struct traffic_block *all, uint32_t port, unsigned lane, uint64_t words, wtime *at)
{
	uint32_t rate_kbps = fabric_rate(f, port);
	struct traffic_block *block = &all[port];
	wtime takes = rate_kbps ? time_of(words, rate_kbps) : 0, first, end;
	unsigned beside;

	if (!rate_kbps)
		return true;
	beside = waiting_beside(block, rate_kbps, lane, *at);
	if (beside) {
		if (!take_part(block, rate_kbps, lane, part_of(f, port, lane, beside | 1u << lane, words * 4), takes, *at, &end))
			return false;
	} else {
		first = sane(atomic_load_explicit(&block->lane_until[lane], memory_order_relaxed), *at, rate_kbps, 1);
		if (!take_turn(block, rate_kbps, first, takes, *at, &end))
			return false;
		atomic_store_explicit(&block->lane_until[lane], end, memory_order_relaxed);
	}
	if (end - takes > *at)
		traffic_add(block, TRAFFIC_WAIT, 1);
	*at = end;
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
		uint32_t port = way->out[i];

		if (!passage_occupy(f, all, port, way->lane[i], words, &at)) {
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
