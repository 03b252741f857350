/* What a poll does beside taking in messages is done in some polls alone. Which, is told by counts: of all polls of the process,
 * and of those of the thread, in a row, that nothing came for and that found nothing. Pure: no thread, no clock. */
#ifndef WEFT_RUNTIME_TURNS_H
#define WEFT_RUNTIME_TURNS_H

#include <stdbool.h>

/* Our choices: the clock costs as much as the rest of an idle poll. While messages come again and again few polls in vain lie
 * between two, and what else there is waits for longer, but not for ever. */
enum { TURNS_ASKED = 8, TURNS_IDLE = 32, TURNS_BUSY = 128 };

/* Our choices: what a peer executed is seen from its next message, if one comes soon. Reading its word takes the line from it,
 * which it must fetch back. */
enum { TURNS_ACKS = 64, TURNS_ACKS_BUSY = 256 };

/* May this poll, for which nothing came, do nothing? often: there is what tells nothing by itself, or the program is not trusted
 * to poll; asks: some of that are links that are asked oftener still. */
static inline bool turns_is_idle(unsigned polls, unsigned in_vain, bool often, bool asks)
{
	if (often)
		return polls % TURNS_ASKED || (polls % TURNS_IDLE && !asks);
	return in_vain % TURNS_IDLE && polls % TURNS_BUSY;
}

/* Is what peers executed read in this poll, so many after it was read last? */
static inline bool turns_reads_acks(unsigned since, unsigned in_vain)
{
	return since >= TURNS_ACKS_BUSY || (since >= TURNS_ACKS && in_vain >= TURNS_ACKS);
}

#endif
