/* Why QPs of processes that have left had stopped: a report of the process, kept for weft qp --history. The last ones, of each
 * user a few; what a process says is looked at as any report. */
#ifndef WEFT_WEFTD_LAST_WORDS_H
#define WEFT_WEFTD_LAST_WORDS_H

#include "weftd/hub.h"

#include <jansson.h>

/* Our choices. */
enum { LAST_WORDS = 32, LAST_WORDS_USER = 8 };

struct last_word {
	json_t *entry;		/* owned: who it was; NULL: none */
	uint32_t user;
	uint64_t number;	/* the later, the greater */
	char *text;		/* owned: an array of objects, without the bracket that ends it */
	size_t bytes;
};

struct last_words {
	uint64_t number;
	struct last_word word[LAST_WORDS];
};

void last_words_add(struct hub *h, const struct client *c, const char *text, size_t bytes);
/* The oldest first: those that the client may see. False behind the last; *at begins with 0. */
const struct last_word *last_words_next(const struct hub *h, const struct client *asker, uint64_t *at);
void last_words_free(struct hub *h);

#endif
