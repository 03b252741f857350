/* Frames of processes that run, for a command. Each process gets the end of a pipe, to which it writes what goes out of it and
 * comes in to it (runtime/faults.h); the command gets the other end, and weftd keeps neither. weftd tells all in the fabric page
 * whose traffic is to be packets. A capture ends with the command's connection. A process has one at a time. Only processes that
 * the command may trace (weftd/trust.h) are captured: frames have their memory in them. */
#ifndef WEFT_WEFTD_CAPTURES_H
#define WEFT_WEFTD_CAPTURES_H

#include "weftd/hub.h"

/* CTL_CAPTURE of a command. */
void captures_input(struct hub *h, struct client *c, const struct control_msg *msg);

/* A process has attached: a command may be capturing all. */
void captures_join(struct hub *h, struct client *c);

/* A command or a process goes. */
void captures_leave(struct hub *h, struct client *c);

/* No command of the last weftd's is there any more. */
void captures_start(struct hub *h);

#endif
