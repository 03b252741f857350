#include "impair/impair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FLIPS_MOST = 3 };	/* the ICRC finds any three wrong bits in a frame of this length (Koopman 2002: distance 4) */

const char *impair_mark_name(unsigned i)
{
	static const char *const names[IMPAIR_MARKS] = {
		"lost", "scheduled", "overrun", "duplicated", "reordered", "corrupted", "delayed",
	};

	return names[i];
}

int impair_init(struct impair_lane *lane, const struct impair_spec *spec, unsigned device, enum impair_direction direction)
{
	const struct impair_rules *rules = &spec->rules[device][direction];
	uint64_t seed;

	memset(lane, 0, sizeof(*lane));
	/* nothing touches it before frames wait, as that costs time and memory. One more is with impair_pop's caller */
	lane->pool = malloc(((size_t)rules->queue_frames + 1) * sizeof(*lane->pool));
	if (!lane->pool)
		return -ENOMEM;
	lane->rules = *rules;
	lane->direction = direction;
	seed = spec->seed + IMPAIR_DIRECTIONS * device + (unsigned)direction;
	rand_seed(&lane->rand, seed);
	rand_seed(&lane->burst_rand, ~seed);
	list_init(&lane->queue);
	list_init(&lane->spare);
	return 0;
}

void impair_fini(struct impair_lane *lane)
{
	free(lane->pool);
	lane->pool = NULL;
}

/* How many packets this QP has got, this one included; 0: too many QPs to count. */
static uint32_t count_packet(struct impair_lane *lane, uint32_t qpn)
{
	uint32_t key = qpn + 1;		/* 0 is an empty place */

	for (uint32_t i = 0; i < IMPAIR_QPS; i++) {
		uint32_t at = (qpn * 2654435769u / (UINT32_MAX / IMPAIR_QPS + 1) + i) % IMPAIR_QPS;	/* Fibonacci hashing */

		if (lane->qp[at].qpn == 0)
			lane->qp[at].qpn = key;
		if (lane->qp[at].qpn == key)
			return ++lane->qp[at].packets;
	}
	return 0;
}

static bool is_scheduled(struct impair_lane *lane, enum packet_form form, const void *frame, size_t bytes)
{
	const struct impair_rules *rules = &lane->rules;
	const struct opcode_row *row;
	struct packet p;
	bool drop = false;

	if ((!rules->drop[0] && !rules->drop_ack) || form == PACKET_ETHERNET ||
	    packet_parse(&p, form, frame, bytes, false) != PACKET_OK)
		return false;
	if (rules->drop[0]) {
		uint32_t n = count_packet(lane, p.dest_qpn);

		for (unsigned i = 0; i < IMPAIR_DROPS && rules->drop[i]; i++)
			drop |= n == rules->drop[i];
	}
	row = opcode_row(p.opcode);
	if (rules->drop_ack && row && (row->op == OP_ACK || row->op == OP_ATOMIC_ACK || row->op == OP_SELECTIVE_ACK))
		drop |= ++lane->acks % rules->drop_ack == 0;
	return drop;
}

/* When a frame that comes now has passed the link. Never before the one in front of it. */
static wtime pass_link(struct impair_lane *lane, wtime now, size_t bytes)
{
	const struct impair_rules *rules = &lane->rules;
	wtime due = now;

	if (rules->rate_bps) {
		if (lane->busy_until < now)
			lane->busy_until = now;
		lane->busy_until += bytes * 8 * WTIME_S / rules->rate_bps;
		due = lane->busy_until;
	}
	due += rules->delay_ns;
	if (rules->jitter_ns)
		due += rand_below(&lane->rand, rules->jitter_ns + 1);
	if (due < lane->last_due)
		due = lane->last_due;
	lane->last_due = due;
	return due;
}

/* Behind those that are due at the same time; most frames go to the end. */
static void enqueue(struct impair_lane *lane, struct impair_frame *f)
{
	struct list_node *at = &lane->queue.head;

	while (at->prev != &lane->queue.head && container_of(at->prev, struct impair_frame, node)->due > f->due)
		at = at->prev;
	list_insert_before(at, &f->node);
}

static struct impair_frame *take_spare(struct impair_lane *lane)
{
	if (list_empty(&lane->spare))
		return &lane->pool[lane->used++];
	return container_of(list_pop(&lane->spare), struct impair_frame, node);
}

/* Queues a copy. NULL: the queue is full. */
static struct impair_frame *admit(struct impair_lane *lane, wtime due, enum packet_form form, const void *frame, size_t bytes,
				  uint32_t to)
{
	struct impair_frame *f;

	if (lane->waiting == lane->rules.queue_frames)
		return NULL;
	lane->waiting++;
	f = take_spare(lane);
	f->due = due;
	f->behind = 0;
	f->to = to;
	f->form = form;
	f->bytes = (uint32_t)bytes;
	memcpy(f->data, frame, bytes);
	enqueue(lane, f);
	return f;
}

/* A frame passes all that are held back; those for which it was the last follow it. */
static void pass_held(struct impair_lane *lane, wtime due)
{
	struct list follow;

	if (!lane->held)
		return;
	list_init(&follow);
	list_for_each_safe(f, &lane->queue, struct impair_frame, node) {
		if (!f->behind || --f->behind)
			continue;
		lane->held--;
		list_remove(&f->node);
		list_append(&follow, &f->node);
	}
	while (!list_empty(&follow)) {
		struct impair_frame *f = container_of(list_pop(&follow), struct impair_frame, node);

		f->due = due;
		enqueue(lane, f);
	}
}

static void hold_back(struct impair_lane *lane, struct impair_frame *f)
{
	f->behind = 1 + (uint32_t)rand_below(&lane->rand, lane->rules.gap_frames);
	f->due += lane->rules.hold_ns;
	lane->held++;
	list_remove(&f->node);
	enqueue(lane, f);
}

static void spoil(struct impair_lane *lane, struct impair_frame *f)
{
	uint64_t bits = (uint64_t)f->bytes * 8, bit = rand_below(&lane->rand, bits);
	unsigned flips = 1 + (unsigned)rand_below(&lane->rand, FLIPS_MOST);

	f->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	/* others than the first, so that it stays wrong */
	while (--flips) {
		uint64_t other = (bit + 1 + rand_below(&lane->rand, bits - 1)) % bits;

		f->data[other / 8] ^= (uint8_t)(1 << other % 8);
	}
}

/* The state goes over from frame to frame (Gilbert 1960, Elliott 1963). It draws by itself, so that bursts shift no other
 * choice. */
static bool burst_loses(struct impair_lane *lane)
{
	const struct impair_rules *rules = &lane->rules;
	bool loses;

	if (!rules->burst_ppm)
		return false;
	if (lane->in_burst)
		lane->in_burst = rand_below(&lane->burst_rand, rules->burst_frames) != 0;
	else
		lane->in_burst = rand_chance(&lane->burst_rand, rules->burst_ppm);
	loses = rand_chance(&lane->burst_rand, rules->burst_loss_ppm);
	return lane->in_burst && loses;
}

static bool is_in_window(struct impair_lane *lane, wtime now)
{
	if (!lane->has_begun)
		lane->begun = now;
	lane->has_begun = true;
	return !lane->rules.until_ns ||
	       (now - lane->begun >= lane->rules.from_ns && now - lane->begun < lane->rules.until_ns);
}

/* Behind those that wait, and otherwise as it is. */
static unsigned pass_by(struct impair_lane *lane, wtime now, enum packet_form form, const void *frame, size_t bytes, uint32_t to)
{
	if (lane->last_due < now)
		lane->last_due = now;
	if (!admit(lane, lane->last_due, form, frame, bytes, to))
		return IMPAIR_OVERRUN;
	pass_held(lane, lane->last_due);
	return lane->last_due > now ? IMPAIR_DELAYED : 0;
}

unsigned impair_push(struct impair_lane *lane, wtime now, enum packet_form form, const void *frame, size_t bytes, uint32_t to)
{
	const struct impair_rules *rules = &lane->rules;
	bool lost, twice, late, spoilt;
	struct impair_frame *f;
	unsigned marks;
	wtime due;

	if (bytes == 0 || bytes > PACKET_MAX_BYTES)
		return IMPAIR_LOST;
	if (!is_in_window(lane, now))
		return pass_by(lane, now, form, frame, bytes, to);
	/* all drawn whatever becomes of the frame, so that one rule's rate does not shift another's choice for it; jitter, and
	 * what becomes of a frame that comes late or spoilt, draw more where they act */
	lost = rand_chance(&lane->rand, rules->loss_ppm) | burst_loses(lane);
	twice = rand_chance(&lane->rand, rules->dup_ppm);
	late = rand_chance(&lane->rand, rules->reorder_ppm);
	spoilt = rand_chance(&lane->rand, rules->corrupt_ppm);
	if (is_scheduled(lane, form, frame, bytes))
		return IMPAIR_SCHEDULED;
	if (lost || partition_cuts(&rules->partition, lane->direction == IMPAIR_OUT, form, frame, bytes, to))
		return IMPAIR_LOST;
	if (lane->waiting == rules->queue_frames)
		return IMPAIR_OVERRUN;
	due = pass_link(lane, now, bytes);
	marks = due > now ? IMPAIR_DELAYED : 0;
	f = admit(lane, due, form, frame, bytes, to);
	pass_held(lane, due);
	if (twice)
		marks |= admit(lane, pass_link(lane, now, bytes), form, frame, bytes, to) ? IMPAIR_DUPLICATED : IMPAIR_OVERRUN;
	if (late) {
		hold_back(lane, f);
		marks |= IMPAIR_REORDERED;
	}
	if (spoilt) {
		spoil(lane, f);
		marks |= IMPAIR_CORRUPTED;
	}
	return marks;
}

bool impair_hold(struct impair_lane *lane, wtime due, enum packet_form form, const void *frame, size_t bytes, uint32_t to)
{
	return bytes && bytes <= PACKET_MAX_BYTES && admit(lane, due, form, frame, bytes, to);
}

const struct impair_frame *impair_pop(struct impair_lane *lane, wtime now)
{
	struct impair_frame *f;

	if (lane->given)
		list_prepend(&lane->spare, &lane->given->node);
	lane->given = NULL;
	f = list_first_entry(&lane->queue, struct impair_frame, node);
	if (!f || f->due > now)
		return NULL;
	list_remove(&f->node);
	lane->waiting--;
	if (f->behind)
		lane->held--;
	lane->given = f;
	return f;
}

wtime impair_deadline(const struct impair_lane *lane)
{
	const struct impair_frame *f = list_first_entry(&lane->queue, struct impair_frame, node);

	return f ? f->due : WTIME_NEVER;
}
