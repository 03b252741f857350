/* A file of management datagrams at a host of the network's fabric, for commands that ask from there. */
#ifndef WEFT_CLI_NODE_MADS_H
#define WEFT_CLI_NODE_MADS_H

#include "control/protocol.h"
#include "weftd/rundir.h"

struct node_mads {
	int fd;				/* a connection of CONTROL_MADS; owned */
	uint32_t agent;
	uint16_t seed_lid, sa_lid;	/* where the seed's administration answers, and a subnet manager's; or 0 */
	struct control_times times;
};

/* buffers: of the agent, besides the default. Starts weftd if it does not run. An exit status; what went wrong is told. */
int node_mads_open(const struct rundir *d, const char *node, const struct control_agent *agent, uint16_t buffers,
		   struct node_mads *f);

#endif
