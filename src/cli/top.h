/* A table that is drawn again and again from two looks at what it shows: weft top, and weft fabric top. */
#ifndef WEFT_CLI_TOP_H
#define WEFT_CLI_TOP_H

#include "cli/cli.h"
#include "cli/rates.h"

enum top_kind { TOP_TEXT, TOP_NUMBER, TOP_HEX, TOP_BYTES, TOP_EVENTS };

struct top_column {
	const char *member, *title;	/* the last column's member is NULL */
	enum top_kind kind;
	int width;		/* less than 0: to the left */
};

enum { TOP_TABLES = 3 };

struct top_subject {
	const char *command;	/* as in examples */
	int (*look)(const struct cli_options *o, struct rates_look *look);	/* as rates_look() */
	json_t *(*between)(const struct rates_look *before, const struct rates_look *after);	/* as rates_between() */
	void (*tell)(const json_t *rates, char *line, size_t room);	/* the first line */
	struct {
		const char *member;	/* of the rates: an array of rows */
		const struct top_column *columns;
	} table[TOP_TABLES];	/* members behind the last: NULL */
};

/* Until the user ends it. An exit status. */
int top_run(const struct cli_options *o, const struct top_subject *subject);

#endif
