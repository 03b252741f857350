/* Options of weft's subnet manager for a fabric that is loaded, from a file like OpenSM's: NAME VALUE on each line. */
#ifndef WEFT_CLI_MANAGER_OPTIONS_H
#define WEFT_CLI_MANAGER_OPTIONS_H

#include "fabric/fabric.h"
#include "fabric/route.h"

#include <stdbool.h>
#include <stdint.h>

struct manager_options {
	uint8_t priority, lmc;
	bool has_lmc;			/* else hosts have as many LIDs as the topology's file says */
	uint64_t sm_key;		/* 0: the manager's own choice */
	uint64_t m_key;			/* 0: ports have none */
	uint8_t m_key_protect;
	uint16_t m_key_lease;
	uint8_t subnet_timeout;		/* 0: the manager's own choice */
	enum route_choice routing;
	struct fabric_qos qos;
};

/* path NULL: all as without a file. An exit status; what went wrong is told. */
int manager_options_read(struct manager_options *o, const char *path);
/* Writes them into the fabric's head, but for its LMC. */
void manager_options_apply(const struct manager_options *o, struct fabric_head *head);

#endif
