/* The process's conversation with weftd: requests that wait for their answer, and a box for what comes unasked. Any
 * thread may ask; whoever waits reads for all. Never waits for anybody but weftd. */
#ifndef WEFT_HOST_SESSION_H
#define WEFT_HOST_SESSION_H

#include "base/list.h"
#include "host/control.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* One message that came unasked. */
struct mail {
	struct list_node node;
	struct control_msg msg;
	char text[64];			/* terminated; what weftd asks a process is short */
	int fd[CONTROL_FDS];		/* owned */
	int fds;
};

struct session {
	int socket;			/* owned */
	int wake_fd;			/* borrowed: written when a waiting thread put mail into the box */
	_Atomic bool dead;		/* weftd is gone */
	_Atomic bool has_mail;		/* a waiting thread put something into a box */
	_Atomic uint32_t seq;
	pthread_mutex_t reading;	/* held by the one thread that reads the socket; guards the lists */
	struct list waiters;
	struct list inbox;		/* struct mail */
	struct list channel_box;	/* struct mail: CTL_CHANNEL and CTL_PEER_GONE, whose order matters to channels */
};

/* Connects to DIR/ctl. -ENODEV: nobody there. */
int session_open(struct session *s, const char *dir, int wake_fd);
void session_close(struct session *s);

/* Sends *msg with send_fds descriptors and blocks for the answer, which replaces *msg. 0 or -status, -ENOTCONN, -ETIMEDOUT.
 * The answer's descriptors go to fds/nfds on success when wanted (NULL: closed). */
int session_call(struct session *s, struct control_msg *msg, const int *send_fds, int nsend, int fds[CONTROL_FDS], int *nfds);
/* No answer wanted. */
int session_post(struct session *s, const struct control_msg *msg, const char *text);

/* Reads what is there without blocking. */
void session_read(struct session *s);
/* Takes the oldest mail about channels, or of the rest; NULL: none. The caller frees it (mail_free). */
struct mail *session_take_channel(struct session *s);
struct mail *session_take(struct session *s);
/* Mail about channels that others want to know of too. */
void session_pass_on(struct session *s, struct mail *mail);
void mail_free(struct mail *mail);	/* closes the descriptors that are left */

#endif
