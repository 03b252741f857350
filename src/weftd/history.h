/* Why QPs of processes that have left had stopped: a report of the process, kept for weft qp --history. The last ones, of each
 * user a few; what a process says is looked at as any report. */
#ifndef WEFT_WEFTD_HISTORY_H
#define WEFT_WEFTD_HISTORY_H

#include "weftd/hub.h"

#include <jansson.h>

/* Our choices. */
enum { HISTORY_ENTRIES = 32, HISTORY_USER = 8 };

struct history_entry {
	json_t *entry;		/* owned: who it was; NULL: none */
	uid_t uid;
	uint32_t user;		/* whose account it is on */
	uint64_t number;	/* the later, the greater */
	char *text;		/* owned: an array of objects, without the bracket that ends it */
	size_t bytes;
};

struct history {
	uint64_t number;
	struct history_entry word[HISTORY_ENTRIES];
};

void history_add(struct hub *h, const struct client *c, const char *text, size_t bytes);
/* The oldest first: those that the client may see. False behind the last; *at begins with 0. */
const struct history_entry *history_next(const struct hub *h, const struct client *asker, uint64_t *at);
void history_free(struct hub *h);

#endif
