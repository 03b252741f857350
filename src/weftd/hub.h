/* weftd's state and its answers: who is attached, which slots, channels, groups, listeners and ports each has. Messages
 * come in through hub_input and go out through one table of functions, so that the whole can be driven without a socket.
 * No client and no user can make it grow without bound: each kind of thing has a quota (EDQUOT). */
#ifndef WEFT_WEFTD_HUB_H
#define WEFT_WEFTD_HUB_H

#include "agents/agents.h"
#include "base/list.h"
#include "base/time.h"
#include "control/protocol.h"
#include "fabric/page.h"
#include "mgmt/mad_clients.h"
#include "mgmt/sa_tunables.h"
#include "weftd/account.h"
#include "weftd/hash_table.h"
#include "weftd/rate.h"
#include "weftd/state.h"

#include <stdbool.h>
#include <sys/types.h>

/* Quotas per client; those of users are account.c's. Our choice: several times what any program of the test matrix uses. */
enum {
	QUOTA_SLOTS = 64,		/* 262,080 QPs */
	QUOTA_CHANNELS = 2048,
	QUOTA_FOREIGN = 128,		/* channels of a process with other users': 2 descriptors each in it */
	QUOTA_FOREIGN_USER = 32,	/* of which with processes of one other user */
	QUOTA_GROUPS = 64,
	QUOTA_LISTENERS = 8192,
	QUOTA_PORTS = 16384,
	QUOTA_CLIENTS = PAGE_SLOTS,	/* in all */
	QUOTA_USER_CLIENTS = 1024,	/* of one user who is neither root nor weftd's own */
	QUOTA_USER_SLOTS = 1024,
	QUOTA_QUESTIONS = 32,		/* reports under way, in all */
	QUOTA_USER_QUESTIONS = 2,
};

/* Our choice: requests of one process that can be taken back at a time, in 2 KB. */
enum { QP1_ASKED = 256 };

/* The ports that rdma_cm chooses from: the kernel's default of net.ipv4.ip_local_port_range. */
enum { PORT_FIRST = 32768, PORT_COUNT = 60999 - PORT_FIRST + 1, PORT_WORDS = (PORT_COUNT + 63) / 64, PORT_SPACES = 4 };

/* Members of the group of UDP port 4791: our choice, as many processes of one host as leave it by then. A member's slots have
 * 65,520 QP numbers. And descriptors that weftd keeps for other things than their sockets. */
enum { ROCE_PORT_MEMBERS = 256, WIRE_RESERVE = 256 };

enum client_kind { CLIENT_NEW, CLIENT_PROCESS, CLIENT_COMMAND, CLIENT_LEASE, CLIENT_MADS };

/* Who got a request with this communication id: its first slot. */
struct asked {
	uint32_t id, slot;
};

struct client {
	struct list_node node;		/* hub.clients */
	struct account *account;	/* counted */
	enum client_kind kind;
	pid_t pid;
	uid_t uid;
	gid_t gid;
	uint64_t start;			/* when the process began (trust_start) */
	char program[32];
	int wake_fd;			/* owned; -1 unless a process */
	int direct_fd[2];		/* owned; -1, or share and memory */
	int file_fd[CONTROL_FILES];	/* owned: memory files that its peers may map */
	uint32_t files;
	uint32_t slot;			/* the first; 0: none */
	uint32_t slots;
	uint32_t number;		/* of a process, as long as it lives: the least that no other had when it came */
	uint32_t channels;
	struct list ends;		/* struct channel_end */
	struct list listeners, ports;
	struct list connections;	/* with other hosts: farewells.c */
	uint32_t connection_count;
	uint32_t listener_count, port_count;
	struct list kept;		/* channels that it says it has, and the other side has not said yet */
	uint32_t kept_count;
	bool has_returned;		/* was attached to another weftd */
	bool told_kept;			/* has said which channels are open, or had none */
	uint16_t joined[PAGE_GROUPS];	/* how often, by group */
	uint16_t joined_port[PAGE_GROUPS];	/* of these, by its port: joins.c */
	uint16_t joined_sends[PAGE_GROUPS];	/* of these, as one who only sends */
	uint32_t group_count;
	uint64_t known[PAGE_SLOTS / 64];	/* first slots of the processes that must hear when it leaves */
	uint64_t mads_sent, mads_dropped;
	struct rate bad_keys;		/* that it tells of: bad_keys.c */
	bool has_socket;		/* of UDP port 4791: roce_port.c */
	bool is_deaf;			/* the kernel refused its socket a multicast group */
	bool holds_wire;		/* a command wants the port open, as long as it lives: pings.c */
	uint32_t lease_port;		/* as in struct claims */
	struct mad_port *mad_port;	/* owned: umad.c; NULL: it has opened none */
	struct mad_pool *mad_pool[PAGE_DEVICES];	/* counted: receive buffers of its ports; NULL: nothing has come yet */
	bool captures;			/* a command gets frames of others: captures.c */
	uint32_t capture_pid;		/* of this process, as long as it lives; 0: of all */
	uint32_t capture_tries;		/* how often it has asked */
	struct client *captured_by;	/* who has a process's frames; NULL: nobody */
	struct asked asked[QP1_ASKED];	/* who got its last requests, by communication id: qp1.c */
	uint32_t late_frames;		/* that it has sent: late_frames.c */
};

struct hub;
struct subnet;

/* The transport. Nothing here blocks or re-enters the hub. */
struct hub_ops {
	/* Queues a message. Descriptors stay the caller's. False: the client is too slow or gone; the transport sees to it. */
	bool (*send)(struct hub *hub, struct client *c, const struct control_msg *msg, const char *text,
		     const int *fds, int nfds);
	/* May more be queued for it that may also be dropped? */
	bool (*has_room)(struct hub *hub, const struct client *c);
	/* This descriptor, readable, is what roce_port_ready takes in; until it is closed. */
	int (*watch)(struct hub *hub, int fd);
	/* The client broke the rules: nothing more of it is taken in, and hub_leave follows soon. */
	void (*drop)(struct hub *hub, struct client *c, const char *why);
};

/* What becomes of packets of other hosts for QP1: qp1.h. */
enum qp1_fate {
	QP1_PASSED,		/* to the process that it is for */
	QP1_ANSWERED,		/* by weftd: no process is there */
	QP1_NO_MAD,		/* malformed, or of no class and attribute that anybody here takes */
	QP1_WRONG_KEY,		/* not from QP1 to QP1 with QP1's Q_Key */
	QP1_PORT_DOWN,
	QP1_WRONG_PARTITION,
	QP1_WRONG_SOURCE,	/* says that it comes from this host, or goes to no port of it */
	QP1_ENDED,		/* of a connection that weftd ends, as its process has ended */
	QP1_NOBODY,		/* no process is there, and there is nothing to answer */
	QP1_NO_SOCKET,		/* for a process that cannot answer other hosts */
	QP1_NO_ROOM,		/* the process does not read, or weftd has answered enough */
	QP1_FATES,
};

/* Our choices. Requests of other hosts that can be taken back at a time, in 28 KB. Messages without a receiver that weftd answers
 * in a second, to each source and to all: several times what hosts that start or stop ask, and no flood. Messages of one source
 * that it passes on in a second: several times what connections are made of at their fastest, and what a process gets done. */
enum { QP1_STRANGERS = 1024, QP1_ANSWERS_EACH = 1024, QP1_ANSWERS = 4096, QP1_PASSED_EACH = 32768 };

/* roce_port.c's. */
struct roce_port {
	uint16_t port;			/* 0: this network has no wire */
	struct udp_group *group;	/* owned; NULL: it is not open */
	struct link *link;		/* owned: weftd's own socket, of QP1; NULL: the group is not open */
	bool is_pending;		/* packets have come that were not taken in yet */
	uint32_t sockets;		/* that processes have */
	uint32_t holders;		/* commands that want it open */
	uint64_t dead_letters;		/* of groups that are closed */
	uint64_t fates[QP1_FATES];
	struct rates answers, passed;
	struct stranger {
		uint8_t gid[16];
		struct asked asked;
	} strangers[QP1_STRANGERS];	/* who got their last requests: qp1.c */
};

/* loads.c's: what ports carry. */
struct loads {
	int fd;				/* owned: a memory file of fixed size, which processes write; -1: there is none */
	const struct port_loads *all;	/* owned mapping of it, read-only */
	uint64_t link_downed[PAGE_DEVICES];
};

/* Our choices: answers in a second to each source, and to all; questions of this host that are under way. */
enum { PINGS_EACH = 256, PINGS_ALL = 4096, PINGS_ASKED = 64 };

/* pings.c's. */
struct pings {
	struct rates rates;
	struct ping_asked {
		struct client *client;	/* NULL: nobody */
		uint32_t seq, bytes;
		uint64_t tid;
		wtime sent;
		uint8_t gid[16];
	} asked[PINGS_ASKED];
	uint32_t next;
};

struct hub {
	const struct hub_ops *ops;
	struct fabric_page *page;	/* borrowed, shared with all clients */
	struct claims *claims;		/* borrowed */
	int page_fd;			/* borrowed */
	uid_t uid;			/* ours: this user and root may command */
	bool gives_to_user;		/* memory is given to all processes of a user, whatever ptrace(2) allows */
	bool stopping;			/* CTL_DOWN was granted */
	bool is_closing;		/* who is attached now is left to the next weftd */
	bool was_used;			/* somebody said HELLO */
	struct list clients, accounts;
	uint64_t descriptors;		/* how many weftd may have */
	uint32_t group_user[PAGE_GROUPS];	/* whose account a multicast group is on: who made it */
	uint32_t group_sends[PAGE_GROUPS];	/* how often those are in it who only send, whom the page does not name */
	uint32_t client_count, process_count, lease_count;
	struct client *slot_owner[PAGE_SLOTS];
	uint32_t slots_used;		/* awaited ones too */
	uint16_t member_slots[ROCE_PORT_MEMBERS];	/* of these, those of each member */
	uint32_t awaited;		/* slots of processes of the last weftd that have not come back yet */
	uint32_t awaited_leases;
	wtime look_at;			/* when to look which of them live */
	uint32_t channel_count;
	struct hash_table listeners, tallies;	/* listeners.c */
	struct hash_table ports;		/* ports.c */
	uint64_t ports_used[PORT_SPACES][PORT_WORDS];
	struct list reports;
	struct mad_clients mads;		/* umad.c */
	struct timer_heap late_frames;		/* late_frames.c */
	wtime parcels_at;			/* umad.c: long datagrams that wait for room are looked at then */
	struct list joins;			/* joins.c */
	struct list paths;			/* paths.c */
	struct seed_sa *seed_sa;		/* owned: seed_sa.c; NULL: nobody has asked it */
	struct sa_tunables sa_tunables;		/* of it */
	struct manager *manager;	/* owned; NULL: the fabric has none of weftd's */
	uint32_t report_seq, report_count;
	struct history *history;	/* owned; NULL: nobody has left any */
	struct roce_port roce;
	struct loads loads;
	struct pings pings;
	struct probes *probes;		/* owned; probes.c's; NULL: nobody has asked */
	struct farewells *farewells;		/* owned; NULL: no process has told of a connection */
	bool packets_untold;		/* slot_packets changed, and nobody knows: impairs.c */
	wtime tell_packets_at;		/* not before */
	wtime now;			/* of the event at hand */
	wtime start;
	const char *dir;		/* borrowed */
	struct subnet *subnet;		/* borrowed; NULL: fabrics are not kept here */
	uint32_t last_fabric;		/* the number of the fabric that was loaded last */
};

/* The processes of the state that have not attached again are awaited. */
void hub_init(struct hub *h, const struct hub_ops *ops, const struct state *state, wtime now);
/* From now on leaving takes nothing from a process: the state is for the next weftd. */
void hub_close(struct hub *h);

/* A client came: zeroed memory of the caller's with pid and uid set. 0, -ENOMEM, or -EDQUOT with the limit that it is beyond. */
int hub_join(struct hub *h, struct client *c, enum control_limit *limit);
/* It is gone: everything it had is freed, and who dealt with it is told. The memory stays the caller's. */
void hub_leave(struct hub *h, struct client *c);

/* May descriptors come with this message of c? */
bool hub_takes_fds(const struct client *c, const struct control_msg *msg);
/* One message of c. Descriptors stay the caller's (what is kept is duplicated). */
void hub_input(struct hub *h, struct client *c, wtime now, const struct control_msg *msg, const char *text, const int *fds,
	       int nfds);

/* What is due by now; hub_deadline says when something next is. */
void hub_expire(struct hub *h, wtime now);
wtime hub_deadline(const struct hub *h);

/* Tells every process. */
void hub_page_changed(struct hub *h, enum control_page what);

/* For the parts of the hub: the answer to `msg`, its fields kept but for status. */
void hub_answer(struct hub *h, struct client *c, const struct control_msg *msg, int status);
/* As hub_answer, with EDQUOT. */
void hub_refuse(struct hub *h, struct client *c, const struct control_msg *msg, enum control_limit limit);
/* a and b deal with each other: when one leaves, the other is told. */
void hub_acquaint(struct client *a, struct client *b);
/* Tells every process that these slots' processes are gone. */
void hub_tell_gone(struct hub *h, const uint64_t gone[PAGE_SLOTS / 64]);
/* Does weftd stay when nobody is there? After weft up, and while a port is down: it would be up in the next weftd's network. */
bool hub_stays(const struct hub *h);
/* Is this client allowed to command and to see all? */
bool hub_is_owner(const struct hub *h, const struct client *c);

#endif
