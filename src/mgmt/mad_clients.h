/* Programs that send and receive management datagrams at ports: which agent of which file a MAD is for, and what becomes of what
 * they send. Pure: a table of functions carries MADs and takes what is for a file; time and random numbers are injected.
 *
 * As Linux has it: an agent is a class, its version and the methods that it answers; a method of a class at a port is one
 * agent's. Of what an agent sends, the upper half of the transaction id is replaced by a number of the agent's own, so that the
 * answer finds it; it is put back in the answer, which Linux leaves as it came. A request with a timeout is sent again as
 * often as it says, and comes back with the status ETIMEDOUT when nobody answers; more than MAD_TIMEOUT_MOST and MAD_RETRIES_MOST
 * count as these. Requests that nobody is registered for are refused by what carries MADs. An agent with an RMPP version gets,
 * and gives, whole datagrams (rmpp.h), or an answer that is made while it is sent (mad_source.h).
 *
 * A MAD whose way has slow links is kept until it is there, of a port's no more than a bound; more are lost (mad_late.h).
 *
 * What comes for an agent takes one of the receive buffers of its port's QP, or is lost (mad_buffers.h). A segment gives it back
 * when it was copied to its place; a datagram that a file holds, when mad_gave_back says so. */
#ifndef WEFT_MGMT_MAD_CLIENTS_H
#define WEFT_MGMT_MAD_CLIENTS_H

#include "base/list.h"
#include "base/rand.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "mgmt/mad_buffers.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MAD_AGENTS = 32,		/* of a file */
	MAD_REQUESTS = 1024,		/* of a file, under way: our choice */
	MAD_TRANSFERS = 64,		/* of a file, coming in: our choice */
	MAD_TRANSFERS_UNASKED = 48,	/* of these, without a request: our choice */
	MAD_TRANSFERS_OF_ONE = 16,	/* of these, from one LID: our choice */
	MAD_LONGEST = 3 << 19,		/* bytes of a request with all of its segments: our choice */
	MAD_FILE_BYTES = 8 << 20,	/* of datagrams that weftd's own have under way: our choice; others: mad_buffers.h */
	MAD_BYTES_UNASKED = 6 << 20,	/* of these, those that come without a request: our choice */
	MAD_BYTES_OF_ONE = 2 << 20,	/* of these, from one LID: our choice; a MAD_LONGEST fits */
	MAD_SENT_TO_ONE = 3 << 20,	/* of these, answers to one LID: our choice; a MAD_LONGEST fits */
	MAD_HELD_OF_ONE = 1024,		/* datagrams of one LID, of those that an agent has not given back: our choice */
	MAD_TIMEOUT_MOST = 600000,	/* ms that an answer is awaited, at each try: our choice */
	MAD_RETRIES_MOST = 16,		/* our choice */
	MAD_LATE = 1024,		/* from one port, on slow links: our choice */
	MAD_LATE_PLACES = 64,		/* ports a multiple of it apart have this bound together: our choice */
};

/* The other side of a MAD. */
struct mad_remote {
	uint32_t qpn, qkey, flow_label;
	uint16_t lid, pkey_index;
	uint8_t sl, path_bits;
	bool has_grh;
	uint8_t gid_index, hop_limit, tclass;
	uint8_t gid[16];
};

struct mad_registration {
	uint8_t mgmt_class, class_version, rmpp_version;
	bool is_user_rmpp;		/* RMPP is the program's business */
	uint32_t oui;			/* of classes 0x30 to 0x4f */
	uint64_t methods[2];		/* bit n: it answers method n; none: it only asks */
	uint32_t buffers;		/* its own number of receive buffers (GSA-10); 0: the default */
};

struct mad_agent {
	bool is_used;
	uint32_t tid;			/* the upper half of its transaction ids */
	uint32_t client;		/* of the receive buffers of its QP */
	uint64_t unasked;		/* answers that came to it, and which it waits for from nobody, or from another */
	struct mad_sources *sources;	/* owned: of what it has and did not give back */
	struct mad_registration what;
};

/* What a program has opened. */
struct mad_file {
	struct list_node node;		/* mad_clients.files */
	struct list_node pool_node;	/* mad_pool.files, with its first agent */
	uint32_t port;
	struct mad_pool *pool;		/* counted: of its agents; NULL: it has none */
	uint32_t agents;
	struct mad_agent agent[MAD_AGENTS];
	struct list request_list, transfer_list;
	uint32_t requests, transfers;
	size_t bytes, bytes_in;		/* of its requests; of its transfers */
	size_t unread;			/* of whole ones that its owner keeps for it: the owner's to count */
};

struct mad_source;

/* A whole datagram for a file, or from it. */
struct mad_letter {
	uint32_t agent, status, timeout_ms, retries;
	struct mad_remote remote;
	const uint8_t *data;
	uint32_t bytes;
	/* Where `data` is kept, from malloc: who takes it writes NULL there. NULL: who needs it copies it. */
	uint8_t **gift;
	/* Of an answer in segments that is made while it is sent: what follows `data`. Who takes it writes NULL there. */
	struct mad_source **source;
};

enum mad_fate { MAD_WAS_ANSWERED, MAD_HAS_ARRIVED, MAD_WAS_LOST };

/* Where a MAD comes to, and when; from whom, and to which of the port's addresses. */
struct mad_coming {
	uint32_t port;
	uint16_t lid;
	uint8_t gid[16];
	wtime due;			/* not after now: it is there */
	struct mad_remote sender;
};

struct mad_ops {
	/* Sends one MAD from a port's QP0 or QP1; all of *at is zero. ANSWERED: `mad` is what comes back, as *at says. ARRIVED:
	 * it comes as *at says. */
	enum mad_fate (*carry)(void *arg, wtime now, uint32_t from, unsigned qpn, const struct mad_remote *to,
			       uint8_t mad[MAD_BYTES], struct mad_coming *at);
	/* Nobody is registered for what has arrived so. ANSWERED: as carry. ARRIVED: somebody is now, where it has arrived. */
	enum mad_fate (*refuse)(void *arg, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES]);
	/* True: the file has it until mad_gave_back. What has a status is no message, and takes no buffer. */
	bool (*deliver)(void *arg, struct mad_file *file, const struct mad_letter *letter);
	/* Does a port, any that MADs were sent from, have this LID? */
	bool (*has_lid)(void *arg, uint32_t port, uint16_t lid);
	/* May whoever has this file hold so many bytes more? mad_file.bytes and bytes_in are what it
	 * holds. */
	bool (*may_hold)(void *arg, const struct mad_file *file, size_t more);
};

struct mad_clients {
	const struct mad_ops *ops;	/* borrowed */
	void *arg;
	struct rand rand;
	struct list files;
	struct timer_heap requests, transfers;
	struct timer_heap late;			/* mad_late.h */
	uint16_t late_from[MAD_LATE_PLACES];	/* of these, by the port that has sent them */
	struct list hops;
	uint32_t waiting;			/* of these */
	struct mad_buffers buffers;
};

void mad_clients_init(struct mad_clients *c, const struct mad_ops *ops, void *arg, const struct siphash_key *key);
/* All files are closed. */
void mad_clients_fini(struct mad_clients *c);

/* A file's memory is the caller's, and zero. */
void mad_file_open(struct mad_clients *c, struct mad_file *f, uint32_t port);
void mad_file_close(struct mad_clients *c, struct mad_file *f);

/* 0 and the agent's number. -EINVAL: there can be no such agent; -EBUSY: another one answers one of the methods; -EDQUOT,
 * -ENOSPC, -ENOMEM. */
int mad_register(struct mad_clients *c, struct mad_file *f, const struct mad_registration *what, uint32_t *agent);
/* -ENOENT: there is none. */
int mad_unregister(struct mad_clients *c, struct mad_file *f, uint32_t agent);
/* So many more receive buffers for this agent, or fewer (GSA-11). -ENOENT; else as gsa_change. */
int mad_change_buffers(struct mad_file *f, uint32_t agent, int32_t by);
/* The file is done with so many datagrams of this agent. Any numbers: more than it has count as all. */
void mad_gave_back(struct mad_file *f, uint32_t agent, uint32_t datagrams);

/* 0; -EINVAL: no such agent, bytes that are no datagram, one of the other QP than the agent's, or a request whose id another one
 * under way has; -EDQUOT, -ENOMEM: it is not sent. */
int mad_send(struct mad_clients *c, wtime now, struct mad_file *f, const struct mad_letter *letter);
/* May weftd's own file send a datagram of MAD_LONGEST bytes now? And an answer to this LID, which leaves room to others? */
bool mad_has_room(const struct mad_file *f);
bool mad_has_room_for(const struct mad_file *f, uint16_t lid);
/* A MAD comes to a port by itself. */
void mad_comes(struct mad_clients *c, wtime now, const struct mad_coming *at, const uint8_t mad[MAD_BYTES]);

void mad_clients_expire(struct mad_clients *c, wtime now);
/* 0: more is to be sent than one call sends. */
wtime mad_clients_deadline(const struct mad_clients *c);

/* QP0 or QP1: where MADs of a class go (IBA 13.4.4). */
unsigned mad_class_qpn(uint8_t mgmt_class);

#endif
