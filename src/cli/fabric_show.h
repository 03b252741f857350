/* What weft fabric show and top tell of a fabric: its nodes, ports and links, and what they carry. */
#ifndef WEFT_CLI_FABRIC_SHOW_H
#define WEFT_CLI_FABRIC_SHOW_H

#include "cli/cli.h"
#include "cli/fabric.h"
#include "control/protocol.h"

#include <jansson.h>

/* A fabric and what its ports have counted. */
struct shown {
	struct loaded l;
	struct control_port_count *counts;	/* owned: by port */
};

/* Of the network. An exit status; what went wrong is told. What it fills is released by fabric_shown_fini(). */
int fabric_shown_init(struct shown *s, const struct cli_options *o);
void fabric_shown_fini(struct shown *s);

/* A port with a link: {"port", "lid", "gid", "state", "to", ...}; NULL: no memory. */
json_t *fabric_show_port(const struct shown *s, uint32_t port);

/* Bytes that went over the link of this port, in the direction that has more. */
uint64_t fabric_show_load(const struct shown *s, uint32_t port);

/* Draws nodes and links, by load, into a file of this name. An exit status; what went wrong is told. */
int fabric_svg(const struct shown *s, const char *path);

/* weft fabric show [NODE], and top */
int fabric_show(const struct cli_options *o, int argc, char **argv);
int fabric_top(const struct cli_options *o, int argc, char **argv);

#endif
