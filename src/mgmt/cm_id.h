/* A conversation of the communication manager, as its files see it: found, its timer, its ends. */
#ifndef WEFT_MGMT_CM_ID_H
#define WEFT_MGMT_CM_ID_H

#include "base/log.h"
#include "mgmt/cm.h"

/* IBA 12.6.6: what an MRA asks for. For a consumer's time to accept 68.7 s, as Linux's rdma_cm does: the REP is repeated anyway.
 * For a consumer's time to take a REP 4.3 s, our choice: an RTU that is lost is repeated only when the peer's next REP comes, and
 * another MRA answers that if it is still too early. */
enum { CM_MRA_TIMEOUT = 24, CM_MRA_REP_TIMEOUT = 20 };

/* IBA 12.7.x: 4.096 us << n */
static inline wtime cm_time(unsigned exponent)
{
	return 4096ull << (exponent & 31);
}

/* What the path adds to a wait. Who tells the path chooses it, be it the peer by its REQ, and 31 are hours. Our choice is 4.3 s
 * at most, as long as a CM may take for an answer; what is said for a process that has ended waits less (weftd/farewells.c). */
enum { CM_PATH_TIMEOUT_MOST = 20 };

static inline wtime cm_path_time(const struct cm_id *id)
{
	return cm_time(id->path.ack_timeout < CM_PATH_TIMEOUT_MOST ? id->path.ack_timeout : CM_PATH_TIMEOUT_MOST);
}

struct cm_id *cm_find_local(struct cm *cm, uint32_t local_id);
/* By the id that the sender of `in` has given it. */
struct cm_id *cm_find_remote(struct cm *cm, uint32_t remote_id, const struct gmp *in);
/* Did the peer of the conversation send `in`? */
bool cm_is_from(const struct cm_id *id, const struct gmp *in);
/* The QP of the peer is known from now on. */
void cm_set_remote_qpn(struct cm_id *id, uint32_t qpn);
/* Another conversation with the peer of this one, connected, whose QP there is the same. */
struct cm_id *cm_find_connected(const struct cm_id *id);
/* The peer, who sent `in`, is known from now on. */
void cm_set_peer(struct cm_id *id, uint32_t remote_id, const struct gmp *in);
/* cm.note is told, where the state has made that due. */
void cm_note(struct cm_id *id);
/* Its path is another one. */
void cm_note_again(struct cm_id *id);
void cm_set_timer(struct cm_id *id, wtime at);		/* WTIME_NEVER: none */
void cm_enter_timewait(struct cm_id *id, wtime now);
/* A path that the peer tells: what it calls remote is local here. Device, P_Key and MTU are left 0. */
struct cm_path cm_path_seen_here(const struct cm_req_path *from);
/* The same of an alternate path, whose device, P_Key and MTU are those of the primary one. */
struct cm_path cm_alternate_seen_here(const struct cm_id *id, const struct cm_req_path *from);

/* LAP and APR of a conversation in CM_ESTABLISHED. TAKEN: CM_EVENT_LAP is due; the others are answered. */
enum cm_lap_verdict { CM_LAP_TAKEN, CM_LAP_AGAIN, CM_LAP_REFUSED };
enum cm_lap_verdict cm_take_lap(struct cm_id *id, const struct gmp *in, const struct cm_msg *msg);
/* True: it answers our LAP. */
bool cm_take_apr(struct cm_id *id, const struct cm_msg *msg);
/* True: it asks for more time to answer our LAP. */
bool cm_take_lap_mra(struct cm_id *id, const struct cm_msg *msg);
void cm_give_up_lap(struct cm_id *id);

/* Nothing is under way any more. */
void cm_enter_idle(struct cm_id *id);

#endif
