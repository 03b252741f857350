/* The channels to other processes, by slot: asked of weftd, taken up, rested, closed. What a channel has beyond its link:
 * messages in order with the frames, bells, the direct path to the peer. */
#ifndef WEFT_PEERS_CHANNEL_H
#define WEFT_PEERS_CHANNEL_H

#include "direct/channel_bells.h"
#include "fabric/page.h"
#include "link/links.h"
#include "link/shm.h"
#include "verbs/ca.h"

struct peers;

/* One open channel: to another process, or the loop to ourselves. */
struct channel {
	struct shm *shm;	/* owned */
	struct link *link;	/* of shm: what carries frames to the peer; its origin is the peer's number in the page */
	struct peer *peer;	/* owned: the direct path to it, or NULL */
	uint32_t id;		/* weftd's; the loop has none */
	bool is_loop;
	bool is_foreign;	/* to a process of another user */
	bool sees_us;		/* its peer was given our share and memory: its hazard word counts */
	uint32_t bell;		/* its place in channels.open */
	wtime full_since;	/* a datagram found no room; 0: there was some since */
	bool gone;		/* no slot leads to it: closed by the next sweep */
};

/* What weftd was asked about a slot. */
enum channel_question { NOT_ASKED, ASKED, ASKED_AGAIN /* we have not what it says we have */, ASKED_FOR_LOST };

struct channels {
	struct links *links;	/* borrowed */
	struct channel **open;	/* owned, elements too */
	uint32_t count, room;
	struct channel *by_slot[PAGE_SLOTS];	/* borrowed from open */
	struct refusal {
		uint32_t generation;	/* of the slot's process, for which there is no channel */
		enum { REFUSED_NEVER, REFUSED_FOR_NOW,
			REFUSED_LOST,		/* for now; its process has opened one to us, which did not arrive */
			REFUSED_FOR_GOOD,	/* its process broke the rules of the ring: it gets no other */
		} why;
		wtime until;		/* for now and lost: then weftd is asked again */
	} refused[PAGE_SLOTS];
	wtime regain_at;	/* when to ask for lost ones */
	uint8_t asked[PAGE_SLOTS];	/* enum channel_question: weftd's answer has not come */
	struct channel *loop;	/* borrowed from open */
	struct channel_bells *bells;	/* borrowed from the share; NULL: all are watched but foreign ones */
	wtime give_up_at;	/* when one for a datagram is waited for no more */
	bool sweep;		/* some channel is gone or broken */
	bool told_missing;	/* a QP that no process of this network has */
};

int channels_init(struct channels *cs, struct links *links, struct channel_bells *bells);
/* Closes everything. */
void channels_fini(struct channels *cs);
/* In a forked child, which has not inherited their mappings: other memory may be at their addresses. Frees what
 * can be freed, or nothing when another thread may have been changing the list. */
void channels_forget(struct channels *cs, bool is_consistent);

/* The slot is this process's: packets for it go through the loop. */
void channels_own(struct peers *ps, uint32_t slot);

/* The channel to a slot's process; NULL: there is none. Packets find theirs by a route (peers/route.h). */
static inline struct channel *channel_to(const struct channels *cs, uint32_t slot)
{
	return cs->by_slot[slot];
}
/* The one with this number of weftd's, or NULL. */
struct channel *channel_find(const struct channels *cs, uint32_t id);

/* Where there is none: is one on its way? weftd is asked for it, which is not waited for; QPs are unblocked when it comes. */
bool channel_comes(struct peers *ps, uint32_t slot);
/* Is any? */
bool channels_come(const struct peers *ps);
/* weftd has gone: what it was asked is not answered. */
void channels_unasked(struct peers *ps);
/* Asks for channels that peers opened and for which there was no room here. When next. */
wtime channels_regain(struct peers *ps, wtime now);
/* Acts on weftd's mail about channels: peers open them and go. For the thread that sets the sleeper words. */
void channels_collect(struct peers *ps);

/* Watches the channels whose bells rang; there are bells. */
void channels_listen(struct channels *cs);
/* Polls look at it no more until its bell rings or its timer wakes us, if its peer can do that. */
void channel_rest(struct channels *cs, struct channel *ch);

/* Channels that are to be closed, as their peer broke the rules or is gone: the next one, or NULL. What is left in it can be
 * taken in before channel_leave closes it. */
struct channel *channels_leaving(struct channels *cs);
void channel_leave(struct peers *ps, struct channel *ch);

#endif
