/* The process's conversation with weftd: requests that wait for their answer, and a box for what comes unasked. Any thread may
 * send a request; the thread that waits reads answers for all. A thread that holds the adapter's lock never waits for weftd: it
 * asks for channels and memory files, and the answer comes as mail.
 *
 * What is established needs no weftd: memory, channels, eventfds and timers are the processes' own. When weftd is killed the
 * session comes back to the next one, which it starts if need be (control/starter.h; not after weft down). The fabric page and
 * the claims (who has which slot, with a secret) are files of the runtime directory that are complete at every instruction, so
 * the next weftd maps the page that all processes have. HELLO with the slot and its secret keeps the QP numbers valid; then
 * the session tells what the process had: ports, listeners, groups, channels (control/journal.h). A channel is known again
 * when both ends name it; one that a single end has is opened anew. weftd frees the slots of processes that have died
 * meanwhile. A request during the outage waits some seconds. */
#ifndef WEFT_CONTROL_SESSION_H
#define WEFT_CONTROL_SESSION_H

#include "base/list.h"
#include "base/time.h"
#include "control/backlog.h"
#include "control/journal.h"
#include "control/protocol.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MAIL_TEXT = 512 };

/* One message that came unasked. */
struct mail {
	struct list_node node;
	struct control_msg msg;
	char text[MAIL_TEXT];		/* terminated; what weftd asks a process is short, and so are frames of QP1 */
	int fd[CONTROL_FDS];		/* owned */
	int fds;
};

enum session_state {
	SESSION_ATTACHED,
	SESSION_AWAY,			/* weftd is gone; another may come */
	SESSION_OVER,			/* for good */
};

struct session {
	int socket;			/* owned; keeps its number */
	char dir[96];
	int own_fds[3], own_fd_count;	/* borrowed: what HELLO gives; the first is the eventfd that is written when a waiting
					 * thread put mail into a box */
	uint32_t slot;			/* as weftd gave it */
	uint32_t number;		/* no other process attached to it has this one */
	uint8_t secret[16];		/* proves that it is ours */
	_Atomic enum session_state state;
	_Atomic bool has_mail;		/* a waiting thread put something into a box */
	_Atomic uint32_t seq;
	_Atomic uint32_t losses;	/* how often weftd went: what it was asked before is not answered */
	_Atomic bool is_read;		/* by a thread that waits for its answer: nobody else is to wait for the socket */
	_Atomic bool is_left;		/* the helper thread does not, and is told when it is no longer read */
	pthread_mutex_t reading;	/* held by the one thread that reads the socket; guards waiters, next_try, pause */
	struct list waiters;
	wtime next_try, pause;		/* of coming back */
	pthread_mutex_t books;		/* held for moments only; guards what follows */
	struct list inbox;		/* struct mail */
	struct list channel_box;	/* struct mail: CTL_CHANNEL and CTL_PEER_GONE, whose order matters to channels; CTL_MAP */
	struct journal journal;
	struct backlog backlog;		/* what was posted and not sent */
	int loads_fd;			/* owned: of what ports carry, as the last HELLO gave it; -1: it was taken */
	int file[CONTROL_FILES];	/* owned: what CTL_MEMORY gave, by number - 1 */
	uint32_t files;
};

/* Connects to DIR/ctl and says HELLO as a process, with fds as CTL_HELLO has them; a weftd that was killed is started again.
 * *page_fd is the caller's. -ENODEV: nobody there; -errno of the HELLO. */
int session_open(struct session *s, const char *dir, const int *fds, int nfds, int *page_fd);
void session_close(struct session *s);
/* In a forked child: it is the parent's. */
void session_forget(struct session *s);

/* The file of what ports carry (fabric/loads.h), the caller's from now on; -1: there is no other than was taken. */
int session_take_loads(struct session *s);

/* Sends *msg with send_fds descriptors and blocks for the answer, which replaces *msg. 0 or -status, -ENOTCONN, -ETIMEDOUT.
 * The answer's descriptors go to fds/nfds on success when wanted (NULL: closed). While weftd is away it waits some seconds. */
int session_call(struct session *s, struct control_msg *msg, const int *send_fds, int nsend, int fds[CONTROL_FDS], int *nfds);
/* As session_call, but while weftd is away it fails at once. */
int session_try(struct session *s, struct control_msg *msg, const int *send_fds, int nsend, int fds[CONTROL_FDS], int *nfds);
/* Sends it without waiting for anything; the answer comes as mail. 0, -ENOTCONN, -EAGAIN: weftd does not read. */
int session_ask(struct session *s, struct control_msg *msg);
/* Gives a memory file of ours to weftd, without waiting. *number is what others ask for it by. 0, -EDQUOT, -errno. */
int session_give_file(struct session *s, int fd, uint32_t *number);
/* No answer wanted. When weftd does not read, multicast leaves are lost, what has no text and frames are kept until it does
 * (session_flush; own_fds[0] is written when there begins to be something to flush), and the rest waits. */
int session_post(struct session *s, const struct control_msg *msg, const char *text);
/* Sends what was kept. False: some is left, to be sent when the socket is writable. */
bool session_flush(struct session *s);

/* While weftd is away, to be called again and again: tries to come back. When to call next; WTIME_NEVER: no need. */
wtime session_return(struct session *s);

/* Is the helper thread to sleep until the socket is readable? False: somebody reads it, and writes own_fds[0] when it is done. */
bool session_needs_reader(struct session *s);
/* Reads what is there without blocking. */
void session_read(struct session *s);
/* Takes the oldest mail about channels, or of the rest; NULL: none. The caller frees it (mail_free). */
struct mail *session_take_channel(struct session *s);
struct mail *session_take(struct session *s);
/* Mail about channels that others want to know of too. */
void session_pass_on(struct session *s, struct mail *mail);
void mail_free(struct mail *mail);	/* closes the descriptors that are left */

#endif
