/* The hosts of weft run --nodes: local rank r of a launcher's program is at host r modulo their number. */
#ifndef WEFT_CLI_NODES_H
#define WEFT_CLI_NODES_H

#include <stdint.h>

/* Finds each host of a list HOST,HOST,... in the fabric of the network at the other end of the socket, and has its device files
 * made (fabric_net_node). Sets WEFT_NODES, from which the shim places ranks, and WEFT_NODE, the first one's name: what has no
 * rank is there. *at: of the first. An exit status, or -errno as fabric_net_node. */
int nodes_place(int socket, const char *list, uint32_t only, uint32_t *at);

#endif
