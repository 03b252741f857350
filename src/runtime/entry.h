/* The ways into the adapter and out of it: everything that a call does with it stands between one of each. */
#ifndef WEFT_RUNTIME_ENTRY_H
#define WEFT_RUNTIME_ENTRY_H

#include "base/time.h"

#include <stdbool.h>

struct cq;
struct runtime;

/* Enters the adapter: takes the lock; returns `now`, one value for the whole entry. Every way in ends with runtime_leave. */
wtime runtime_enter(struct runtime *rt);
/* As runtime_enter, to post sends: `now` may be what was told last, unless somebody reads timestamps; packets that leave have the
 * right time. The clock costs as much as all else of posting a small write. */
wtime runtime_enter_post(struct runtime *rt);
/* As runtime_enter_post, when only receives are posted: nothing follows from them before something arrives. */
wtime runtime_enter_receive(struct runtime *rt);
/* For a moment, in which nothing is sent, completed or told, and that needs no time: the lock and nothing else. */
void runtime_enter_briefly(struct runtime *rt);
/* As runtime_enter, and takes in what arrived: for poll_cq and other calls of a program that polls. Cheap when idle: one
 * load per watched channel, and the time of an earlier entry. A program that takes frames in this way again and again is
 * trusted to, so that its helper thread need not be woken. May yield the CPU after many polls in vain. */
wtime runtime_enter_poll(struct runtime *rt);
/* The same in three steps, for a program that polls a CQ. POLL_IN_VAIN: it has nothing, nothing has come, nothing else is due,
 * and the adapter is left already. POLL_REAPS: what waits in the CQ may be taken before the other two steps, or instead of them;
 * in some polls it may not, so that what arrives is never put off for long. */
enum runtime_poll { POLL_IN_VAIN, POLL_REAPS, POLL_LOOKS };
enum runtime_poll runtime_poll_begin(struct runtime *rt, const struct cq *cq);
enum runtime_news { NEWS_NONE, NEWS_PERHAPS, NEWS_ARRIVED };
enum runtime_news runtime_look(struct runtime *rt);
void runtime_take_in(struct runtime *rt, enum runtime_news news, const struct cq *cq);
/* After runtime_enter_poll, before runtime_leave: this thread found completions, so its poll was not in vain. */
void runtime_poll_found(void);

/* Before what has arrived would find its QP in another state: takes it in, from links that polls do not look at as well. */
void runtime_take_in_all(struct runtime *rt);

/* Leaves it, however it was entered: sends what became ready, raises events, wakes peers, releases the lock. */
void runtime_leave(struct runtime *rt);
/* The same for a thread of the runtime's own, which has set ca.memory_may_go. */
void runtime_leave_helper(struct runtime *rt);

/* Would runtime_look_again have anything to do? */
bool runtime_has_put_off(const struct runtime *rt);
/* The CQ has nothing: does what was put off. True: completions have come of it, perhaps here. */
bool runtime_look_again(struct runtime *rt);

/* Only under the lock and before sleeping on a completion or event fd: the helper thread takes over at once. */
void runtime_will_sleep(struct runtime *rt);

#endif
