/* A datagram that is made while it is sent, as it is too long to be kept (an SA's table): its head and what is at hand of it are
 * in memory, and what follows is asked for as the receiver's window opens. A receiver that asks for much, or opens any window,
 * costs MAD_AT_HAND_BYTES and no more, once what was there at first has gone. */
#ifndef WEFT_MGMT_MAD_SOURCE_H
#define WEFT_MGMT_MAD_SOURCE_H

#include "mgmt/rmpp.h"

enum {
	MAD_AT_HAND = 2 * RMPP_WINDOW_MOST,	/* segments that are kept, once what was there at first has gone: our choice */
	MAD_AT_HAND_BYTES = MAD_AT_HAND * MAD_BYTES,
};

enum mad_given { MAD_GIVES_MORE, MAD_GAVE_ALL, MAD_GIVES_UP };

struct mad_source {
	/* Writes what follows, at most `room` bytes, and how many these are. MAD_GIVES_MORE: there is more; with less than
	 * `room`, it goes on when it is asked again. MAD_GIVES_UP: it cannot be gone on with. */
	enum mad_given (*give)(struct mad_source *s, uint8_t *to, uint32_t room, uint32_t *bytes);
	/* It is not asked any more, and frees itself. */
	void (*end)(struct mad_source *s);
};

/* Of one datagram. */
struct mad_flow {
	struct mad_source *source;	/* owned; NULL: it has given all, or there is none */
	bool gave_up;
	uint32_t room;			/* of the memory of what is at hand */
};

/* As much as may go now is at hand in *data, from malloc, which may move, and the sender knows of it. */
void mad_flow_fill(struct mad_flow *f, struct rmpp_send *s, uint8_t **data);
void mad_flow_end(struct mad_flow *f);

#endif
