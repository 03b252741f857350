/* A topology's file as a fabric in memory of this process; shared by the verbs of weft fabric. */
#ifndef WEFT_CLI_FABRIC_H
#define WEFT_CLI_FABRIC_H

#include "cli/cli.h"

#include "fabric/route.h"

struct loaded {
	struct fabric f;
	void *mapping;	/* owned */
	size_t bytes;
};

/* Reads, judges and maps a file, or "-"; lmc: bits of LIDs of hosts' ports, or NULL. An exit status; what went wrong is told. */
int fabric_load(const char *path, const uint8_t *lmc, struct loaded *l);
/* Makes and maps one of a kind, by settings of NAME=VALUE. An exit status; what went wrong is told. */
int fabric_make(const char *kind, unsigned settings, char *const setting[], struct loaded *l);
/* All of a file, or of the standard input, with a zero behind it, in memory that is to be freed. An exit status; what went wrong
 * is told. */
int fabric_read_text(const char *path, char **text, size_t *bytes);
/* Judges the mapping, which is l's; it is freed when it is not sound. An exit status; what went wrong is told. */
int fabric_take(struct loaded *l);
void fabric_unload(struct loaded *l);

/* An option's number, from 0 to `most`. False: it is none, which is told. */
bool fabric_number(const char *option, const char *text, uint32_t most, uint32_t *number);

/* Routes by the engine of this name, NULL: auto, and makes all links active. An exit status; what went wrong is told. */
int fabric_set_up(struct loaded *l, const char *routing, enum route_engine *used);

/* A port with the name of its node, as it may be shown: s1[3]. Returns `to`. */
const char *fabric_port_name(const struct fabric *f, uint32_t port, char *to, size_t room);
enum { PORT_NAME = 4 * NODE_DESCRIPTION + 8 };

int fabric_no_memory(void);

/* weft fabric path FILE FROM TO */
int fabric_path(const struct cli_options *o, int argc, char **argv);

#endif
