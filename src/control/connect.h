/* A connection with weftd, and questions that are answered before anything else comes. All of it may block, for ten seconds at
 * most: weftd answers in microseconds. */
#ifndef WEFT_CONTROL_CONNECT_H
#define WEFT_CONTROL_CONNECT_H

#include "control/protocol.h"

/* The socket of DIR/ctl, before any HELLO. -ECONNREFUSED: nobody serves it, -ENODEV: it is not there, -ETIMEDOUT. */
int connect_to_weftd(const char *dir);
/* 0 when there is something to receive, or the end; -ETIMEDOUT. */
int connect_await(int fd);

/* A connection of this kind (not a process's), with HELLO said and answered. The socket or -errno. */
int connect_as(const char *dir, enum control_kind kind);
/* Sends a request with its text and waits for the answer, which replaces *msg; descriptors that come with it are closed. What
 * comes instead is -EPROTO: nothing else may be due. 0, -status or -errno. */
int connect_ask(int fd, struct control_msg *msg, const void *text);

#endif
