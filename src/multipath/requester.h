/* The requester of a connection over several paths (REQUIREMENTS 5): what is posted leaves as packets, ordered ones one behind
 * the other on one path, unordered ones over all GOOD paths. Pure, with injected time; nothing is allocated after init.
 *
 * An ordered packet separates groups of unordered ones: those before it are in the target's memory when it executes, those behind
 * it are not (MPT-16). Requests complete in the order in which they were posted.
 *
 * The host, after each call with a time: takes packets out until there is none, and comes again at the deadline. */
#ifndef WEFT_MULTIPATH_REQUESTER_H
#define WEFT_MULTIPATH_REQUESTER_H

#include "base/rand.h"
#include "multipath/config.h"
#include "multipath/packet.h"

/* ---- requests ---- */

struct mp_request {
	enum mp_opcode opcode;		/* all but MP_NOP */
	bool is_unordered;		/* MPT-02: WRITE and READ only (MPT-23) */
	bool ends_ordered;		/* of a WRITE: all but its last packet are unordered (MPT-38) */
	bool is_solicited;		/* its last packet says so, and has this trailer, where it is ordered */
	enum mp_trailer trailer;
	uint32_t extra;
	uint32_t key, bytes;
	uint32_t space;			/* what differs here may be the same memory under other addresses (MPT-24) */
	uint64_t address;		/* of the target's memory */
	const void *from;		/* SEND, WRITE: `bytes`; borrowed until the completion. NULL: the host adds the payload */
	void *into;			/* READ: `bytes`, atomics: 8 as the target has them; borrowed until the completion */
	uint64_t operand[2];		/* compare and swap; or add; or write */
	uint64_t id;
};

struct mp_completion {
	uint64_t id;
	enum mp_status status;
};

struct mp_work {			/* a request, and how far it is */
	struct mp_request request;
	uint32_t sent;			/* bytes that have left once */
	uint32_t unanswered;		/* packets */
	bool has_left;			/* all of it */
};

/* ---- packets in flight ---- */

enum mp_phase {
	MP_FREE,
	MP_READY,	/* to be sent again, from `deadline` on; 0: at once */
	MP_SENT,	/* this attempt is not accounted for (MPT-25); `deadline`: its timer */
	MP_STUCK,	/* on a path that failed, until it has a new number (MPT-37) */
};

struct mp_flight {
	enum mp_phase phase;
	bool is_ordered;
	bool is_answered;		/* the request has what it wants of it */
	enum mp_opcode opcode;		/* MP_NOP: of no request (MPT-37) */
	uint8_t attempt, path;
	unsigned retries, refusals;
	uint64_t place;			/* among all packets, as first sent */
	size_t work;
	uint32_t pkn, tag, offset, bytes, space;
	uint64_t address;
	uint64_t leaving;		/* which packet it was of all that have left, when it left last */
	wtime deadline, sent_at;
};

/* ---- paths ---- */

enum mp_path_state {
	MP_PATH_GOOD,
	MP_PATH_SUSPECT,	/* a packet was not answered in time: no new ones, a BARRIER is under way (MPT-28) */
	MP_PATH_LEAVING,	/* no BARRIER was answered: PATH-DOWN is under way over another (MPT-31) */
	MP_PATH_BAD,		/* its packets are elsewhere; probed (MPT-33) */
	MP_PATH_RETURNING,	/* a probe was answered: PATH-UP is under way over another */
};

struct mp_path {
	enum mp_path_state state;
	uint32_t epoch;			/* of the last PATH-DOWN (odd) or PATH-UP (even) (MPT-34) */
	uint64_t barrier;		/* identification data */
	unsigned tries;
	unsigned carrier;		/* of the last PATH-DOWN or PATH-UP */
	bool is_due;			/* a BARRIER, PATH-DOWN or PATH-UP is to leave */
	wtime deadline;
	uint64_t failed_at;		/* ordered packets that had left then */
	unsigned flights;		/* not accounted for */
	wtime trip_ns, deviation_ns;	/* the round trip, as RFC 6298 has it; 0: not known */
};

/* N(name): what is counted */
#define MP_NOTES(N)					\
	N(requests) N(ordered) N(unordered) N(responses) N(late) N(timeouts) N(barriers) N(retries) N(sequence_naks)	\
	N(refusals) N(path_failures) N(path_returns) N(path_changes) N(nops) N(foreign)

struct mp_counts {
#define MEMBER(name) uint64_t name;
	MP_NOTES(MEMBER)
#undef MEMBER
};

/* Where answers go of requests without `into`. Not MP_OK: the connection ends. */
struct mp_sink {
	enum mp_status (*place)(void *arg, const struct mp_request *request, uint32_t offset, const void *data, uint32_t bytes);
	void *arg;			/* borrowed */
};

struct mp_requester {
	struct mp_config config;
	struct mp_sink sink;		/* place is NULL: such answers are dropped */
	struct rand rand;
	uint32_t rqn;
	struct mp_work *work;		/* owned; a ring of config.requests */
	uint64_t posted, started, done;	/* requests: done <= started <= posted, modulo the ring's size its places */
	struct mp_flight *flight;	/* owned; config.flights, of which the last is kept for a MP_NOP */
	unsigned ordered, unordered;	/* in flight */
	uint64_t places, ordered_sent, leavings;
	const struct mp_flight *left;	/* the packet that left last, while it is in flight */
	uint32_t tag;
	unsigned ordered_path, turn;
	struct mp_path path[MP_PATHS];
	bool must_renumber;		/* a path has failed under unordered packets (MPT-37) */
	enum mp_status error;		/* MP_OK: it works */
	uint8_t operands[16];		/* of the packet that leaves */
	struct mp_counts count;
};

/* 0, -EINVAL or -ENOMEM. */
int mp_requester_init(struct mp_requester *r, const struct mp_config *c);
void mp_requester_fini(struct mp_requester *r);

/* -EINVAL: the request makes no sense; -ENOMEM: config.requests are posted and not polled; -EPIPE: the connection has ended. */
int mp_requester_post(struct mp_requester *r, const struct mp_request *request);
/* After an error what was not done is flushed; the first of that has the error as its status. */
bool mp_requester_poll(struct mp_requester *r, struct mp_completion *c);

/* All that was posted has left once: the next one would leave as soon as it may. */
static inline bool mp_requester_is_through(const struct mp_requester *r)
{
	return r->started == r->posted;
}

/* The connection ends here: what was not done is flushed, but for the first of that, which has this status. */
static inline void mp_requester_end(struct mp_requester *r, enum mp_status status)
{
	if (!r->error)
		r->error = status;
}

void mp_requester_input(struct mp_requester *r, wtime now, unsigned path, const struct mp_packet *p);
/* True: `out` leaves now on this path; its payload is borrowed until the next call. It is NULL where the request has no `from`:
 * then the host adds its payload_bytes of what mp_requester_left says. */
bool mp_requester_output(struct mp_requester *r, wtime now, unsigned *path, struct mp_packet *out);
/* Of what request the REQ is that left last, and from where on; not of MP_NOP. */
static inline const struct mp_request *mp_requester_left(const struct mp_requester *r, uint32_t *offset)
{
	*offset = r->left->offset;
	return &r->work[r->left->work].request;
}

wtime mp_requester_deadline(const struct mp_requester *r);
void mp_requester_expire(struct mp_requester *r, wtime now);

#endif
