/* Receive buffers of QP0 and QP1 of the ports of a subnet at which somebody receives management datagrams: a struct gsa for each
 * (GSA-28, GSA-42). Its clients are the agents that programs register, and those that are always there: the subnet management
 * agent of QP0, and of QP1 the performance agent and the connection manager. Ports where nobody is registered have no clients but
 * these, which give back at once, and no pool. Pure: it counts; a datagram that finds no buffer is dropped by the caller. */
#ifndef WEFT_MGMT_MAD_BUFFERS_H
#define WEFT_MGMT_MAD_BUFFERS_H

#include "base/list.h"
#include "mgmt/gsa.h"

/* Those that are always there. */
enum mad_resident { MAD_RESIDENT_SMA, MAD_RESIDENT_PMA, MAD_RESIDENT_CM, MAD_RESIDENTS };

/* Bounds of tunables: our choices. The least are what programs have had without any. */
enum {
	MAD_ANSWER_LEAST_KB = 1536, MAD_ANSWER_MOST_KB = 1 << 20,
	MAD_PROGRAM_LEAST_KB = 8192, MAD_PROGRAM_MOST_KB = 4 << 20,
};

struct mad_pool {
	struct list_node node;		/* mad_buffers.pools */
	uint32_t port, users;
	struct list files;		/* of struct mad_file that have agents there */
	struct gsa qp[2];		/* QP0, QP1 */
	uint32_t resident[MAD_RESIDENTS];	/* which client it is */
};

struct mad_buffers {
	struct gsa_tunables tunables;	/* of all pools */
	struct list pools;
	struct mad_pool **at;		/* owned: by port, of so many */
	uint32_t ports;
	struct mad_pool *nowhere;	/* of programs at no port of a fabric; NULL: there are none */
};

unsigned mad_resident_qpn(enum mad_resident who);

void mad_buffers_init(struct mad_buffers *b);
/* All pools were put. */
void mad_buffers_fini(struct mad_buffers *b);
/* 0; -EINVAL: they make no sense, and nothing changes. */
int mad_buffers_set(struct mad_buffers *b, const struct gsa_tunables *t);

/* The pool of this port, any number, which is made for its first user; or NULL: there is no memory. */
struct mad_pool *mad_pool_get(struct mad_buffers *b, uint32_t port);
/* A user goes; the last one with the pool. */
void mad_pool_put(struct mad_buffers *b, struct mad_pool *p);
/* The pool of this port, or NULL: nobody receives there. */
struct mad_pool *mad_pool_find(const struct mad_buffers *b, uint32_t port);

/* A datagram for this client of QP qpn has come. False: it is lost. The client has a buffer until gsa_release. */
bool mad_pool_arrive(wtime now, struct mad_pool *p, unsigned qpn, uint32_t client);
/* One has come that is not given to the client: GSA_NONE, as nobody waits for it, or as its sender has enough there. */
void mad_pool_discard(wtime now, struct mad_pool *p, unsigned qpn, uint32_t client);
/* The same of one that nobody at this port waits for. */
void mad_buffers_discard(const struct mad_buffers *b, wtime now, uint32_t port, unsigned qpn);
/* One for who is always there, and is done with at once. */
bool mad_pool_pass(wtime now, struct mad_pool *p, enum mad_resident who);
/* The same at any port; where nobody receives but who is always there, there is a buffer. */
bool mad_buffers_pass(const struct mad_buffers *b, wtime now, uint32_t port, enum mad_resident who);

/* Looks at periods that have ended. An arrival does it for its QP, so that it needs no timer: who shows pools calls it before. */
void mad_buffers_expire(struct mad_buffers *b, wtime now);

#endif
