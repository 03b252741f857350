/* The fabric of a running network, for the weft command. */
#ifndef WEFT_CLI_FABRIC_NET_H
#define WEFT_CLI_FABRIC_NET_H

#include "cli/cli.h"

#include "control/protocol.h"

#include <stdint.h>

/* weft fabric load FILE, unload, link NODE:PORT down|up */
int fabric_net_load(const struct cli_options *o, int argc, char **argv);
int fabric_net_unload(const struct cli_options *o, int argc, char **argv);
int fabric_net_link(const struct cli_options *o, int argc, char **argv);

/* The fabric of the network as it stands, of this process alone: for fabric_unload(). An exit status; what went wrong is told. */
struct loaded;
int fabric_net_copy(const struct cli_options *o, struct loaded *l);

/* Does a network run that has a fabric with a host of this name? Nothing is told. */
bool fabric_net_has(const struct cli_options *o, const char *name);

/* The same, and what each port has counted since weftd began: by port, to be freed. */
int fabric_net_counts(const struct cli_options *o, struct loaded *l, struct control_port_count **counts);

/* Fills in a and b of a CTL_LINK for the port of this name. An exit status; what went wrong is told. */
int fabric_net_find_link(int socket, const char *name, struct control_msg *msg);
/* A message that changes the network; *msg becomes the answer. An exit status; what went wrong is told. */
int fabric_net_call(int socket, struct control_msg *msg);

/* Finds the host of this name in the fabric of the network at the other end of the socket, and has the device files of programs
 * there made: of all devices (only = 0), or of those of these bits. *at: its port and 1. An exit status with what went wrong
 * told, or -errno with nothing told: weftd has ended (message_peer_ended). */
int fabric_net_node(int socket, const char *name, uint32_t only, uint32_t *at);

#endif
