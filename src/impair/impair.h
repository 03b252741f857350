/* Faults on demand: what a bad network does to frames. A lane takes the frames of one direction of one device and gives
 * them back when they are due: lost, doubled, late, out of order or spoiled, as its rules and its seed say. The same seed,
 * times and frames give the same outcome. Pure; allocates nothing after impair_init. */
#ifndef WEFT_IMPAIR_IMPAIR_H
#define WEFT_IMPAIR_IMPAIR_H

#include "base/list.h"
#include "base/rand.h"
#include "base/time.h"
#include "impair/device_faults.h"
#include "impair/partition.h"
#include "verbs/device.h"

enum impair_direction { IMPAIR_OUT, IMPAIR_IN };

enum {
	IMPAIR_DEVICES = CA_DEVICES,
	IMPAIR_DIRECTIONS = 2,
	IMPAIR_DROPS = 16,		/* entries of drop= */
	IMPAIR_GAP_MOST = 64,
	IMPAIR_QUEUE_MOST = 65536,
	IMPAIR_TEXT = 512,		/* a specification, NUL included */
	IMPAIR_QPS = 1024,		/* QPs whose packets drop= counts; a power of two. Those beyond lose none */
};

struct impair_rules {
	uint32_t loss_ppm, dup_ppm, reorder_ppm, corrupt_ppm;
	wtime delay_ns, jitter_ns;	/* every frame waits delay and up to jitter more, in order */
	uint64_t rate_bps;		/* bits a second; 0: no limit */
	uint32_t queue_frames;		/* as many wait; what comes then is dropped */
	uint32_t gap_frames;		/* a reordered frame is held back behind 1 .. gap of the following ones ... */
	wtime hold_ns;			/* ... but no longer than this */
	/* Gilbert and Elliott's loss: a burst begins with this chance at a frame, has so many on average, and loses them with
	 * this chance; loss_ppm is for all others */
	uint32_t burst_ppm, burst_loss_ppm, burst_frames;
	wtime from_ns, until_ns;	/* the rules are for frames of this time, from the lane's first on; until_ns 0: for all */
	uint32_t drop[IMPAIR_DROPS];	/* the n-th packet for each QP, from 1; 0 ends the list */
	uint32_t drop_ack;		/* every n-th acknowledge packet; 0: none */
	struct partition partition;	/* peers whose frames are all lost */
};

struct impair_spec {
	uint64_t seed;
	bool has_seed;			/* the text named one; otherwise the caller may choose */
	unsigned named;			/* bit d: the text has a setting of weft<d> alone */
	struct impair_rules rules[IMPAIR_DEVICES][IMPAIR_DIRECTIONS];
	struct device_fault fault[DEVICE_FAULTS];	/* of the devices themselves */
	unsigned faults;
};

/* ---- impair_spec.c ---- */
/* Reads "loss=5%,in.delay=50us,seed=7" (man weft-run). On -EINVAL `why` has one line that names the bad part; *spec is
 * written only on success. */
int impair_parse(const char *text, struct impair_spec *spec, char *why, size_t room);

/* A time such as 1.5s, 20ms or 7us, from 1 ns to `most`, which is at most a day. False: it is none. */
bool impair_parse_time(const char *text, wtime most, wtime *ns);
/* A share such as 5%. False: it is none. */
bool impair_parse_share(const char *text, uint32_t *ppm);

/* The same specification with this seed in place of any other. 0, or -ENAMETOOLONG. */
int impair_set_seed(const char *text, uint64_t seed, char *to, size_t room);
/* Do these rules do anything? */
bool impair_rules_act(const struct impair_rules *rules);
/* May frames of this device arrive in another order than they were sent? */
bool impair_reorders(const struct impair_spec *spec, unsigned device);
/* Processes that share a specification each need chances of their own: with the same ones, two that answer each other frame by
 * frame lose a frame and its answer together, for ever. 0, the first process, keeps the seed. */
void impair_for_process(struct impair_spec *spec, uint32_t number);

/* ---- impair.c ---- */
/* What was done to a frame. */
enum impair_mark {
	IMPAIR_LOST = 1 << 0,
	IMPAIR_SCHEDULED = 1 << 1,	/* dropped by drop= or drop-ack= */
	IMPAIR_OVERRUN = 1 << 2,	/* it, or its second copy, found the queue full */
	IMPAIR_DUPLICATED = 1 << 3,
	IMPAIR_REORDERED = 1 << 4,
	IMPAIR_CORRUPTED = 1 << 5,
	IMPAIR_DELAYED = 1 << 6,
	IMPAIR_MARKS = 7,		/* how many there are */
};

/* "lost", of the mark 1 << i; i < IMPAIR_MARKS. */
const char *impair_mark_name(unsigned i);

struct impair_frame {
	struct list_node node;
	wtime due;
	uint32_t behind;		/* frames that must still pass it; 0: it keeps its place */
	uint32_t to;			/* the caller's */
	enum packet_form form;
	uint32_t bytes;
	uint8_t data[PACKET_MAX_BYTES];
};

struct impair_lane {
	struct impair_rules rules;
	struct rand rand, burst_rand;
	enum impair_direction direction;
	bool has_begun, in_burst;
	wtime begun;			/* when the first frame came */
	struct impair_frame *pool;	/* owned */
	uint32_t used;			/* frames of the pool that have ever waited: the first ones */
	struct list queue, spare;	/* queue: by due. spare: of those used */
	struct impair_frame *given;	/* by the last impair_pop */
	uint32_t waiting;		/* frames of the queue */
	uint32_t held;			/* of those, with behind set */
	wtime busy_until;		/* of the link of limited rate */
	wtime last_due;
	uint64_t acks;
	struct { uint32_t qpn, packets; } qp[IMPAIR_QPS];
};

/* 0 or -ENOMEM. impair_fini may follow a zeroed lane too. */
int impair_init(struct impair_lane *lane, const struct impair_spec *spec, unsigned device, enum impair_direction direction);
void impair_fini(struct impair_lane *lane);

/* Takes a copy of a whole frame of this form, bytes <= PACKET_MAX_BYTES. Returns its marks; a frame with IMPAIR_LOST or
 * IMPAIR_SCHEDULED is gone. */
unsigned impair_push(struct impair_lane *lane, wtime now, enum packet_form form, const void *frame, size_t bytes, uint32_t to);

/* Takes a copy that is due then, and meets no rules. False: the queue is full. */
bool impair_hold(struct impair_lane *lane, wtime due, enum packet_form form, const void *frame, size_t bytes, uint32_t to);

/* The next frame that is due, or NULL. Valid until the next impair_pop. */
const struct impair_frame *impair_pop(struct impair_lane *lane, wtime now);

/* When the next frame is due, or WTIME_NEVER. */
wtime impair_deadline(const struct impair_lane *lane);

#endif
