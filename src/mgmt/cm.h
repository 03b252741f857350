/* The InfiniBand Communication Manager (IBA vol. 1, chapter 12) as an engine: REQ, REP, RTU, REJ, MRA, DREQ, DREP,
 * LAP, APR and the SIDR pair, with their timeouts and retries. Pure: time is injected, MADs are pulled with cm_output, and what
 * the consumer must hear comes back from cm_input, cm_expire and cm_next_gone as one event a call. The caller holds a lock
 * around every entry. Memory is bounded by cm_config.max_ids. Message rules are in cm_input.c, those of LAP and APR in cm_lap.c.
 *
 * A peer is a port and a communication id there. MADs go to QP1 of the port (mgmt/gmp.h), by the path of the conversation or
 * back by the path that its first MAD came by. Which of the processes that share a port a MAD is for is the business of QP1's
 * owner: the upper 12 bits of a communication id are the slot of the process that made it. */
#ifndef WEFT_MGMT_CM_H
#define WEFT_MGMT_CM_H

#include "base/list.h"
#include "base/psn.h"
#include "base/rand.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "mgmt/gmp.h"
#include "wire/cm.h"

/* The slot of the process that made this communication id, on this host. */
enum { CM_SLOT_SHIFT = 20 };	/* a communication id is slot << 20 | random */
#define CM_ID_SLOT(id) ((id) >> CM_SLOT_SHIFT)

enum cm_state {		/* IBA 12.9.5: active and passive side; 12.11: SIDR */
	CM_IDLE,
	CM_REQ_SENT,
	CM_MRA_REQ_RECEIVED,	/* the peer asked for more time to answer our REQ */
	CM_REQ_RECEIVED,
	CM_REP_SENT,
	CM_MRA_REP_RECEIVED,
	CM_REP_RECEIVED,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RECEIVED,
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_RECEIVED,
	CM_SIDR_REP_SENT,	/* kept to repeat the answer, as is */
	CM_REQ_REJECTED,	/* our REJ */
};

/* Of an id in CM_ESTABLISHED: how far the exchange of LAP and APR is (IBA 12.8). */
enum cm_alt {
	CM_ALT_NONE,
	CM_ALT_LAP_SENT,
	CM_ALT_MRA_RECEIVED,	/* the peer asked for more time to answer our LAP */
	CM_ALT_LAP_RECEIVED,
	CM_ALT_ANSWERED,	/* the APR is kept to be repeated */
};

/* The peer's MADs may come by it, too. */
enum cm_alternate {
	CM_ALTERNATE_NONE,	/* there is none, or a LAP has only asked for it */
	CM_ALTERNATE_OFFERED,	/* by a REQ, which a REP has not answered */
	CM_ALTERNATE_AGREED,	/* both ends have loaded it */
	CM_ALTERNATE_LEFT,	/* this side has gone over, and it is the path before that */
};

/* What the packets of a conversation will use, and the MADs that the active side sends. */
struct cm_path {
	int device;
	uint8_t sgid[16], dgid[16];
	uint16_t slid, dlid;		/* 0xffff on RoCE */
	uint16_t pkey;
	uint8_t sl, tclass, hop_limit, rate;
	uint32_t flow_label;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t ack_timeout;		/* 4.096 us << n; IBA 9.7.6.1.3 */
};

/* What one side contributes to a connection. */
struct cm_param {
	uint8_t qp_type;		/* enum ibv_qp_type */
	uint32_t qpn, qkey;
	psn_t psn;			/* that the other side is to begin with */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	bool flow_control, srq;
	bool symmetric;			/* cm_req only */
	uint32_t ece_vendor, ece_options;
	const struct cm_path *alternate;	/* cm_req only; borrowed, or NULL: the peer is to load this path, too */
	const uint8_t *private_data;	/* borrowed */
	uint32_t private_bytes;
};

/* One end of a conversation, owned by the consumer once it was told of it. */
struct cm_id {
	struct cm *cm;			/* borrowed */
	void *user;			/* the consumer's */
	enum cm_state state;
	uint32_t local_id, remote_id;	/* communication ids; for SIDR the request id. remote_id 0: not known yet */
	struct packet_path to;		/* to QP1 of the peer's port */
	bool peer_is_here;		/* once remote_id is known: on this host */
	bool is_noted;			/* cm.note was told that it is connected */
	bool is_orphan;			/* the consumer has destroyed it; it ends with its DREQ */
	uint64_t tid, service_id;
	struct cm_path path;
	enum cm_alt alt;
	enum cm_alternate alternate_is;
	struct cm_path alternate;	/* of the REQ or the last LAP, seen from this side; or the one before this */
	uint64_t alt_tid;		/* of that LAP and its APR */
	uint8_t qp_type;		/* as seen from this side: XRC_SEND is active, XRC_RECV passive */
	uint32_t local_qpn, remote_qpn, remote_qkey;
	uint64_t remote_ca_guid;	/* of the adapter that has remote_qpn; 0: not known */
	psn_t sq_psn, rq_psn;		/* sq_psn is the peer's to choose: IBA 12.7, Starting PSN */
	uint8_t responder_resources, initiator_depth;	/* this side's */
	uint8_t retry_count, rnr_retry_count;
	struct list_node symmetric;	/* in cm.symmetric: the other side may open at the same time; see cm_req */
	/* the message that waits for its answer, and the timer of that or of timewait */
	uint8_t mad[MAD_BYTES];
	uint8_t tries_left;
	uint8_t returns;		/* how often we heard that nobody listens */
	wtime period;			/* of one try, and until it is repeated */
	wtime wait;
	struct timer_heap_node timer;
	struct cm_id *next_local, *next_remote, *next_qpn;	/* hash chains */
	struct list_node all;
	struct list_node gone;		/* in cm.gone: its peer's process is gone, which is not told yet */
};

enum cm_event_type {
	CM_EVENT_REQ,		/* a new id, in CM_REQ_RECEIVED: cm_rep, cm_rej or cm_drop it, and ask cm_end_stale before it is
				 * taken. Who takes one whose alternate is OFFERED by cm_rep has loaded that path */
	CM_EVENT_REP,		/* CM_REP_RECEIVED: cm_rtu or cm_rej; id->alternate is AGREED if the peer took it */
	CM_EVENT_RTU,		/* ESTABLISHED, passive side */
	CM_EVENT_REJ,		/* msg.rej.reason */
	CM_EVENT_DREQ,		/* answer with cm_drep */
	CM_EVENT_DREP,
	CM_EVENT_UNREACHABLE,	/* REQ, REP or SIDR_REQ got no answer */
	CM_EVENT_DREQ_LOST,	/* no DREP came; in timewait */
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_LAP,		/* id->alternate is wanted: cm_apr says whether it is loaded */
	CM_EVENT_APR,		/* msg.apr.status; success: the peer has loaded id->alternate, this side is to do the same */
	CM_EVENT_LAP_LOST,	/* no APR came; the connection stands as it is */
	CM_EVENT_SIDR_REQ,	/* a new id: cm_sidr_rep or cm_drop it */
	CM_EVENT_SIDR_REP,
};

struct cm_event {
	enum cm_event_type type;
	struct cm_id *id;
	struct cm_msg msg;	/* the message that made it; not for timers */
};

enum { CM_BUCKETS = 1024, CM_OUTS = 256, CM_DEVICES = 8 };	/* devices: as many ports as an adapter has at most */

struct cm_counters {
	uint64_t received, malformed, unexpected, duplicates, retries, timeouts, out_dropped, over_quota, stale;
};

struct cm {
	uint32_t slot;			/* upper 12 bits of every communication id */
	uint64_t ca_guid[CM_DEVICES];
	uint32_t max_ids, ids, orphans;
	struct rand rand;
	struct siphash_key remote_key;	/* of by_remote, whose ids the peers choose */
	struct timer_heap timers;
	struct list all, symmetric, gone;
	struct cm_id *by_local[CM_BUCKETS], *by_remote[CM_BUCKETS], *by_qpn[CM_BUCKETS];
	struct gmp *out;		/* owned: ring of CM_OUTS */
	uint32_t out_first, out_count;
	struct cm_counters counters;
	void (*note)(const struct cm_id *id, bool is_connected);
	/* our choice: as Linux's rdma_cm, 15 retries of 4.096 us << 20 */
	uint8_t response_timeout, max_retries;
};

struct cm_config {
	uint32_t slot;
	uint64_t ca_guid[CM_DEVICES];	/* by device, host order */
	const struct siphash_key *key;	/* from the kernel in the product; NULL: */
	uint64_t seed;
	uint32_t max_ids;
	/* NULL, or who ends connections with other hosts when this process cannot: told of each as soon as a DREQ must end it,
	 * and when none must any more. Calls nothing here. */
	void (*note)(const struct cm_id *id, bool is_connected);
};

/* A connection with another host that another process's engine has made, as far as its end needs it. */
struct cm_connection {
	uint32_t local_id, remote_id, local_qpn, remote_qpn;
	int device;
	uint16_t pkey;
	uint8_t ack_timeout;
	struct packet_path to;
};

int cm_init(struct cm *cm, const struct cm_config *config);
void cm_fini(struct cm *cm);	/* frees all ids, sends nothing */

/* ---- the consumer's calls. -EINVAL: not in this state, or too much private data; nothing changes then ---- */

/* A fresh id in CM_IDLE. NULL with *error: -ENOMEM, -EMFILE over the quota. */
struct cm_id *cm_id_create(struct cm *cm, void *user);
/* Ends the conversation as IBA 12.9.8 wants (REJ, DREQ or DREP as the state needs); the id is the consumer's no more. A DREQ is
 * repeated until its answer comes, for as many ids as fit in a quarter of the quota. The connection of an XRC target stands
 * until cm_dreq of either side. */
void cm_id_destroy(struct cm_id *id, wtime now);
/* An id in CM_ESTABLISHED, with that connection's ids. NULL as cm_id_create. */
struct cm_id *cm_adopt(struct cm *cm, const struct cm_connection *connection);
/* Is a conversation of this communication id here? */
bool cm_knows(struct cm *cm, uint32_t local_id);
/* Frees it without a word to the peer, who will ask again. */
void cm_drop(struct cm_id *id);

/* When both sides open symmetrically to each other with one service id, one of them is told CM_EVENT_REQ for its own id and
 * becomes the passive side, the other side's REQ counts: exactly one connection (IBA 12.10.4). */
int cm_req(struct cm_id *id, wtime now, uint64_t service_id, const struct cm_path *path, const struct cm_param *param);
int cm_rep(struct cm_id *id, wtime now, const struct cm_param *param);
/* Is the QP that this REQ asks for connected here already? Then its peer has lost that connection (IBA 12.9.8.3.1), which ends
 * with a DREQ, and the REQ is to be rejected as stale: the peer may ask again. To be asked last: a REQ that is rejected for
 * another reason ends nothing. */
bool cm_end_stale(struct cm_id *id, wtime now);
int cm_rtu(struct cm_id *id, wtime now);
int cm_rej(struct cm_id *id, wtime now, uint16_t reason, const void *private_data, uint32_t bytes);
int cm_dreq(struct cm_id *id, wtime now);
int cm_drep(struct cm_id *id, wtime now);
/* The first packet came before the RTU (IBA 12.9.7.2): -EISCONN when established already. */
int cm_established(struct cm_id *id);
/* Asks the peer of a connection to load an alternate path on the same device. One at a time, from either side; when both ask at
 * once both are rejected. */
int cm_lap(struct cm_id *id, wtime now, const struct cm_path *alternate, const void *private_data, uint32_t bytes);
/* Answers CM_EVENT_LAP. status: enum cm_apr_status. */
int cm_apr(struct cm_id *id, uint8_t status, const void *private_data, uint32_t bytes);
/* The QP has gone over to the alternate path, and the conversation does too: -EINVAL without one. */
int cm_migrated(struct cm_id *id);
int cm_sidr_req(struct cm_id *id, wtime now, uint64_t service_id, const struct cm_path *path, const void *private_data,
		uint32_t bytes);
int cm_sidr_rep(struct cm_id *id, wtime now, uint8_t status, const struct cm_param *param);

/* ---- the network's side ---- */

/* A MAD that came to QP1. True: *event is for the consumer. A request that nobody listens to is tried a few times more before
 * that is told, 0.3 s in all: where resolving an address takes its time, a peer that is just about to listen is found, and
 * programs that only synchronise before (perftest -R) rely on it. */
bool cm_input(struct cm *cm, wtime now, const struct gmp *in, struct cm_event *event);
/* What the CM of a port answers to a message for which it has no conversation and nobody listens: IBA 12.9.8, 12.11. False:
 * nothing. The answer goes back by the path that the message came by. */
bool cm_answer_stray(const struct cm_msg *msg, struct cm_msg *answer);
/* The process of that slot of this host is gone: cm_next_gone says what follows, call it until false. Requests whose receiver is
 * not known yet are sent again. */
void cm_peer_gone(struct cm *cm, uint32_t slot);
bool cm_next_gone(struct cm *cm, wtime now, struct cm_event *event);
/* Runs due timers up to the next event; call until false, pull, and call again at cm_deadline, which has passed if cm_output
 * was not pulled meanwhile and has no room. */
bool cm_expire(struct cm *cm, wtime now, struct cm_event *event);
wtime cm_deadline(const struct cm *cm);
bool cm_output(struct cm *cm, struct gmp *out);

const char *cm_state_name(enum cm_state state);

#endif
