/* The path between two ends that exchange MADs, as the input commands: deliver, lose, repeat, change, let time pass. */
#ifndef WEFT_FUZZ_MAD_WAY_H
#define WEFT_FUZZ_MAD_WAY_H

#include "fuzz.h"

#include "base/time.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <string.h>

enum { MAD_WAY_HELD = 16 };

struct mad_way {
	struct input in;
	uint8_t mad[2][MAD_WAY_HELD][MAD_BYTES];	/* to this end */
	unsigned held[2];
	bool is_changed;		/* one was */
	wtime now;
};

enum mad_way_event {
	MAD_WAY_NOTHING,
	MAD_WAY_TIME,		/* it has passed */
	MAD_WAY_SEND,		/* the ends may send */
	MAD_WAY_ARRIVED,	/* `mad` is at the end `to` */
};

static inline void mad_way_put(struct mad_way *w, int to, const uint8_t mad[MAD_BYTES])
{
	if (w->held[to] < MAD_WAY_HELD)
		memcpy(w->mad[to][w->held[to]++], mad, MAD_BYTES);
}

/* The next command. tick: the unit of time; changed: so many bytes at the begin of a MAD may be changed. */
static inline enum mad_way_event mad_way_step(struct mad_way *w, wtime tick, unsigned changed, int *to, uint8_t mad[MAD_BYTES])
{
	uint8_t what = take_byte(&w->in);
	unsigned i;

	*to = what >> 3 & 1;
	i = w->held[*to] ? (what >> 4) % w->held[*to] : 0;
	switch (what % 8) {
	case 0:
		w->now += take_byte(&w->in) * tick;
		return MAD_WAY_TIME;
	case 1:
		if (w->held[*to]) {
			w->mad[*to][i][take_byte(&w->in) % changed] ^= take_byte(&w->in);
			w->is_changed = true;
		}
		return MAD_WAY_NOTHING;
	case 2:		/* it is also repeated */
		if (w->held[*to])
			mad_way_put(w, *to, w->mad[*to][i]);
		return MAD_WAY_NOTHING;
	case 3:
	case 4:
		return MAD_WAY_SEND;
	default:
		if (!w->held[*to])
			return MAD_WAY_NOTHING;
		memcpy(mad, w->mad[*to][i], MAD_BYTES);
		memcpy(w->mad[*to][i], w->mad[*to][--w->held[*to]], MAD_BYTES);
		return what % 8 != 7 || what < 128 ? MAD_WAY_ARRIVED : MAD_WAY_NOTHING;
	}
}

#endif
