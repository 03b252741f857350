/* Subnet managers over the agents of a fabric, in virtual time: datagrams take a while, and some are lost. The managers and the
 * agents are those of weftd. Who wants to hear what a subnet administration says is called with it. */
#ifndef WEFT_SIM_MAD_NET_H
#define WEFT_SIM_MAD_NET_H

#include "event_queue.h"

#include "agents/agents.h"
#include "base/rand.h"
#include "sm/sm.h"

enum { MAD_NET_MANAGERS = 3 };

struct mad_net_manager {
	struct sm sm;
	uint32_t port;
	bool runs;
};

struct mad_net {
	struct fabric *fabric;		/* borrowed */
	struct agents agents;
	wtime now;
	struct mad_net_manager manager[MAD_NET_MANAGERS];
	unsigned managers;
	uint32_t loss_ppm;		/* of requests and of answers */
	wtime delay_ns, jitter_ns;	/* from a request to its answer; so much more at most, by chance */
	struct rand rand;
	struct event_queue flights;
	uint64_t mads;			/* that managers have sent */
	void (*said)(void *arg, const struct mad_letter *letter);	/* by a subnet administration; NULL: nobody hears */
	void *said_arg;
	/* An agent has answered this SMP, by `mad`, which may become another answer; NULL: it does not. */
	void (*answers)(void *arg, const uint8_t *asked, uint8_t *mad);
	void *answers_arg;
};

/* The fabric as it is; it may be written, and stays open longer. Aborts without memory, as all that follows. */
void mad_net_init(struct mad_net *n, struct fabric *f, uint64_t seed);
/* The same as when it is switched on: without LIDs and tables. */
void mad_net_init_cold(struct mad_net *n, struct fabric *f, uint64_t seed);
void mad_net_fini(struct mad_net *n);

/* A manager begins at this port. It gives ports the partitions of the fabric (fabric_partitions), as they are now. */
struct mad_net_manager *mad_net_add(struct mad_net *n, uint32_t port, const struct sm_config *config);
/* It is killed: nobody hears of it but by its silence. */
void mad_net_kill(struct mad_net *n, struct mad_net_manager *m);
/* One that was killed begins anew, and knows nothing. */
void mad_net_revive(struct mad_net *n, struct mad_net_manager *m, const struct sm_config *config);
/* All links of a node go down, of which it tells nobody, or come up. */
void mad_net_set_node(struct mad_net *n, uint32_t node, bool is_up);

/* Sends everything that may leave now. */
void mad_net_pump(struct mad_net *n);
/* One event, after mad_net_pump. False: nothing happens any more, or not before `until`, which it is now. */
bool mad_net_step(struct mad_net *n, wtime until);
void mad_net_for(struct mad_net *n, wtime ns);
/* Nobody has anything to do. */
bool mad_net_is_quiet(const struct mad_net *n);
/* Until that, or for so long: is it? */
bool mad_net_until_quiet(struct mad_net *n, wtime most);

#endif
