/* weft ping of a host of the network's fabric: a question to its performance management agent, from QP1 of another host. */
#ifndef WEFT_CLI_FABRIC_PING_H
#define WEFT_CLI_FABRIC_PING_H

#include "cli/cli.h"
#include "cli/node_mads.h"
#include "cli/pinger.h"

enum { FABRIC_PING_NAME = 64, FABRIC_PING_BYTES = 256 };	/* of a MAD: IBA 13.4.2 */

struct fabric_ping {
	struct node_mads file;		/* owned from fabric_ping_open() on */
	uint16_t lid;
	uint32_t questions;
	char to[FABRIC_PING_NAME], from[FABRIC_PING_NAME];	/* their names */
	char what[200];			/* GUID, LID, GID and address of the host */
};

/* Finds the host by its name, and the one that asks (--node, or the first other one). An exit status; what went wrong is told. */
int fabric_ping_open(struct fabric_ping *p, const struct cli_options *o, const char *name);
/* 0; -ETIMEDOUT; another -errno. */
int fabric_ping_ask(struct fabric_ping *p, wtime patience, struct pong *pong);

#endif
