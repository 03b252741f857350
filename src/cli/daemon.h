/* The weft command's way to weftd: finding it, starting it, asking it. */
#ifndef WEFT_CLI_DAEMON_H
#define WEFT_CLI_DAEMON_H

#include "control/protocol.h"
#include "weftd/rundir.h"

#include <jansson.h>
#include <stdbool.h>

/* Where things are, relative to the executable. */
struct places {
	char weftd[4096];
	char library_dir[4096];
	char shim[4096 + 32];
};

/* 0 or -errno. */
int places_find(struct places *p);

/* The runtime directory, with a message when it cannot be used. 0 or an exit status. */
int daemon_directory(bool system, struct rundir *d);

/* Connects as this kind. The socket, -ENOENT when no weftd serves, or another -errno, told on the standard error. */
int daemon_connect(const struct rundir *d, enum control_kind kind);

/* Where no weftd serves: the last one did not leave by itself. Its network is there still, and the next one takes it up. */
bool daemon_was_killed(const struct rundir *d);

/* As daemon_connect, starting weftd when it does not run. The socket, or -1 with everything told. */
int daemon_start(const struct rundir *d, enum control_kind kind, bool keep);

/* As daemon_start of a command; weftd stays when idle from now on. */
int daemon_keep(const struct rundir *d);

/* What an error of asking weftd means, for which a command has no words of its own: that the weftd connected to last does not
 * answer, or cause, with next as the step. EXIT_FAILED. */
int daemon_fail(int err, const char *next, const char *cause);

/* Moves a descriptor far from those that programs count on; it stays open across exec. The descriptor, or -1 with errno. */
int fd_park(int fd);

/* Ends the weftd of this directory, if one runs, and waits until it has left. An exit status, with everything told. */
int daemon_end(const struct rundir *d, bool force, bool *was_running);

/* Sends *msg with this text (or NULL) and replaces it by its answer. 0 or -errno; -ETIMEDOUT: weftd does not answer. */
int daemon_call(int socket, struct control_msg *msg, const char *text);
/* As daemon_call without a text: a file goes along, or comes with the answer and is the caller's. */
int daemon_give(int socket, struct control_msg *msg, int file);
int daemon_get(int socket, struct control_msg *msg, int *file);
/* As daemon_call without a text; text: room for CONTROL_TEXT bytes of the answer's, which has msg->text_bytes. */
int daemon_read(int socket, struct control_msg *msg, char *text);
/* As daemon_call; the answer's text as JSON, the caller's. NULL with *err. */
json_t *daemon_ask(int socket, enum control_type type, const char *text, int *err);
/* What weftd says of itself, its processes and its devices, the caller's; closes the socket. NULL with everything told. */
json_t *daemon_status(int socket);

#endif
