/* Control messages on their socket: one datagram each, with descriptors and text. Both sides use this. */
#ifndef WEFT_CONTROL_MESSAGE_H
#define WEFT_CONTROL_MESSAGE_H

#include "control/protocol.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>

/* Sends msg with msg->text_bytes of text and nfds <= CONTROL_FDS descriptors. flags: MSG_DONTWAIT or 0. 0, -EAGAIN, or
 * another -errno when the socket is of no more use. */
int message_send(int socket, const struct control_msg *msg, const char *text, const int *fds, int nfds, int flags);

/* Does this error of a connection say that the other side has ended, and not that it does not answer? */
bool message_peer_ended(int err);

/* A message whose text is no longer than a management datagram's. */
struct message_short {
	struct control_msg msg;
	char text[sizeof(struct control_mad) + MAD_BYTES];
};

enum { MESSAGES_AT_ONCE = 32 };		/* our choice */

/* Sends these, at most MESSAGES_AT_ONCE, by one system call: how many went, or what message_send gives for the first. */
int message_send_all(int socket, const struct message_short *m, unsigned count, int flags);

/* Receives short messages without descriptors, at most MESSAGES_AT_ONCE, by four system calls: how many. *has_other: what comes
 * next is for message_peek before this is called again: another message, none, or the end. Never blocks. */
unsigned message_receive_all(int socket, struct message_short *m, unsigned most, bool *has_other);

/* The first message of a connection, blocking. 0 also when weftd has refused us and left: its answer waits to be received. */
int message_greet(int socket, const struct control_msg *msg, const int *fds, int nfds);

/* Looks at the message that is received next, which stays where it is: its head (zero when it is shorter), and whether
 * descriptors come with it. They are not touched. Never blocks. 0, -EAGAIN or -ENOTCONN. */
int message_peek(int socket, struct control_msg *msg, bool *has_fds);

/* Receives one message. fds NULL: one without descriptors, as message_peek says. text: room bytes (its content is not
 * terminated), or NULL with 0. *nfds descriptors are the caller's on success. -EAGAIN; -ENOTCONN: the other side is gone;
 * -EPROTO: not a message (its descriptors are closed); -EMFILE: no room for its descriptors, which are lost, but *msg and text
 * are there. */
int message_receive(int socket, struct control_msg *msg, char *text, size_t room, int fds[CONTROL_FDS], int *nfds, int flags);

#endif
