/* The responder of a connection over several paths (REQUIREMENTS MPT-08..10, 19..22, 27, 29, 31, 34): pure, without timers. Each
 * packet that comes has at most one reply, which leaves on the path that the packet came by, in the same order: so a BARRIER is
 * answered behind all that came before it on its path (MPT-29). */
#ifndef WEFT_MULTIPATH_RESPONDER_H
#define WEFT_MULTIPATH_RESPONDER_H

#include "multipath/config.h"
#include "multipath/packet.h"

/* The memory and the receive buffers. Does what `request` asks for, all or nothing, and writes mp_answer_bytes of it to `answer`.
 * Not MP_OK: nothing was done. An unordered request may come again while its span lasts (MPT-22). */
struct mp_target {
	enum mp_status (*execute)(void *arg, const struct mp_packet *request, uint8_t *answer);
	void *arg;			/* borrowed */
};

/* V(name): what became of packets */
#define MP_VERDICTS(V)					\
	V(EXECUTED)					\
	V(REFUSED)	/* by the target */		\
	V(AHEAD)	/* MPT-19 */			\
	V(REPLAYED)	/* MPT-20 */			\
	V(STALE)	/* MPT-21, or older than the replay window, or not the request that was answered */	\
	V(FILTERED)	/* MPT-31: by a path that is down */	\
	V(BARRIER_ANSWERED)				\
	V(PATH_CHANGED)					\
	V(PATH_REPEATED)				\
	V(PATH_OLD)	/* MPT-34 */			\
	V(FOREIGN)	/* of another connection, path, width or type */	\
	V(ENDED)	/* an error has ended the connection */

enum mp_verdict {
#define VALUE(name) MP_##name,
	MP_VERDICTS(VALUE)
#undef VALUE
	MP_VERDICT_COUNT,
};

struct mp_record {
	struct mp_packet reply;		/* its payload in `answers` */
};

struct mp_responder {
	struct mp_config config;
	struct mp_target target;
	uint32_t rsn;
	uint64_t ordered;		/* requests that were executed: RSN is the start and so many */
	struct mp_record *record;	/* owned; of request n in n modulo R */
	uint8_t *answers;		/* owned; R of them, and one for unordered requests */
	uint32_t epoch[MP_PATHS];	/* odd: the path is down */
	enum mp_status ended;		/* the error that has ended the connection, or MP_OK */
	uint64_t count[MP_VERDICT_COUNT];
};

/* 0, -EINVAL or -ENOMEM. */
int mp_responder_init(struct mp_responder *r, const struct mp_config *c, const struct mp_target *target);
void mp_responder_fini(struct mp_responder *r);
/* True: `reply` leaves on this path; its payload is borrowed until the next call. */
bool mp_responder_input(struct mp_responder *r, unsigned path, const struct mp_packet *p, struct mp_packet *reply);

#endif
