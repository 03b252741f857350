/* weftd's state and its answers: who is attached, which slots, channels, groups, listeners and ports each has. Messages
 * come in through hub_input and go out through one table of functions, so that the whole can be driven without a socket.
 * No client can make it grow without bound: each kind of thing has a quota (EDQUOT). */
#ifndef WEFT_WEFTD_HUB_H
#define WEFT_WEFTD_HUB_H

#include "base/list.h"
#include "base/time.h"
#include "fabric/page.h"
#include "host/control.h"
#include "weftd/state.h"

#include <stdbool.h>
#include <sys/types.h>

/* Quotas per client. Our choice: several times what any program of the test matrix uses. */
enum {
	QUOTA_SLOTS = 64,		/* 262,080 QPs */
	QUOTA_CHANNELS = 2048,
	QUOTA_GROUPS = 64,
	QUOTA_LISTENERS = 8192,
	QUOTA_PORTS = 16384,
	QUOTA_CLIENTS = PAGE_SLOTS,	/* in all */
	QUOTA_USER_CLIENTS = 1024,	/* of one user who is neither root nor weftd's own */
	QUOTA_USER_SLOTS = 1024,
	HUB_BUCKETS = 1024,		/* of listeners and of ports */
};

enum client_kind { CLIENT_NEW, CLIENT_PROCESS, CLIENT_COMMAND, CLIENT_LEASE };

struct client {
	struct list_node node;		/* hub.clients */
	enum client_kind kind;
	pid_t pid;
	uid_t uid;
	char program[32];
	int wake_fd;			/* owned; -1 unless a process */
	int direct_fd[2];		/* owned; -1, or export and memory */
	int file_fd[CONTROL_FILES];	/* owned: memory files that its peers may map */
	uint32_t files;
	uint32_t slot;			/* the first; 0: none */
	uint32_t slots;
	uint32_t number;		/* of a process: the least that no other had when it came */
	uint32_t channels;
	struct list ends;		/* struct channel_end */
	struct list listeners, ports;
	uint32_t listener_count, port_count;
	struct list kept;		/* channels that it says it has, and the other side has not said yet */
	uint32_t kept_count;
	uint16_t joined[PAGE_GROUPS];	/* how often, by group */
	uint32_t group_count;
	uint64_t known[PAGE_SLOTS / 64];	/* first slots of the processes that must hear when it leaves */
	uint64_t mads_sent, mads_dropped;
};

struct hub;

/* The transport. Nothing here blocks or re-enters the hub. */
struct hub_ops {
	/* Queues a message. Descriptors stay the caller's. False: the client is too slow or gone; the transport sees to it. */
	bool (*send)(struct hub *hub, struct client *c, const struct control_msg *msg, const char *text,
		     const int *fds, int nfds);
	/* May more be queued for it that may also be dropped? */
	bool (*has_room)(struct hub *hub, const struct client *c);
	/* The client broke the rules: nothing more of it is taken in, and hub_leave follows soon. */
	void (*drop)(struct hub *hub, struct client *c, const char *why);
};

struct hub {
	const struct hub_ops *ops;
	struct fabric_page *page;	/* borrowed, shared with all clients */
	struct claims *claims;		/* borrowed */
	int page_fd;			/* borrowed */
	uid_t uid;			/* ours: this user and root may command */
	bool stopping;			/* CTL_DOWN was granted */
	bool is_closing;		/* who is attached now is left to the next weftd */
	bool was_used;			/* somebody said HELLO */
	struct list clients;
	uint32_t client_count, process_count, lease_count;
	struct client *slot_owner[PAGE_SLOTS];
	uint32_t slots_used;		/* awaited ones too */
	uint32_t awaited;		/* slots of processes of the last weftd that have not come back yet */
	uint32_t awaited_leases;
	wtime look_at;			/* when to look which of them live */
	uint32_t channel_count;
	struct list listeners[HUB_BUCKETS], ports[HUB_BUCKETS];
	struct list reports;
	uint32_t report_seq, report_count;
	wtime now;			/* of the event at hand */
	wtime start;
	const char *dir;		/* borrowed */
};

/* Whom the state knows, and nobody is yet, is awaited. */
void hub_init(struct hub *h, const struct hub_ops *ops, const struct state *state, wtime now);
/* From now on leaving takes nothing from a process: the state is for the next weftd. */
void hub_close(struct hub *h);

/* A client came: zeroed memory of the caller's with pid and uid set. */
void hub_join(struct hub *h, struct client *c);
/* It is gone: everything it had is freed, and who dealt with it is told. The memory stays the caller's. */
void hub_leave(struct hub *h, struct client *c);

/* One message of c. Descriptors stay the caller's (what is kept is duplicated). */
void hub_input(struct hub *h, struct client *c, wtime now, const struct control_msg *msg, const char *text, const int *fds,
	       int nfds);

/* What is due by now; hub_deadline says when something next is. */
void hub_expire(struct hub *h, wtime now);
wtime hub_deadline(const struct hub *h);

/* The fabric page's addresses changed: tells every process. */
void hub_page_changed(struct hub *h);

/* For the parts of the hub: the answer to `msg`, its fields kept but for status. */
void hub_answer(struct hub *h, struct client *c, const struct control_msg *msg, int status);
/* a and b deal with each other: when one leaves, the other is told. */
void hub_acquaint(struct client *a, struct client *b);
/* Tells every process that these slots' processes are gone. */
void hub_tell_gone(struct hub *h, const uint64_t gone[PAGE_SLOTS / 64]);
/* Is this client allowed to command and to see all? */
bool hub_is_owner(const struct hub *h, const struct client *c);

#endif
