/* What the files of the communication manager share. */
#ifndef WEFT_MGMT_CM_INTERNAL_H
#define WEFT_MGMT_CM_INTERNAL_H

#include "base/log.h"
#include "mgmt/cm.h"

enum {
	CM_SLOT_SHIFT = 20,		/* a communication id is slot << 20 | random */
	CM_MRA_TIMEOUT = 24,		/* 68.7 s: as Linux's rdma_cm asks for a consumer's time to accept */
};

/* IBA 12.7.x: 4.096 us << n */
static inline wtime cm_time(unsigned exponent)
{
	return 4096ull << (exponent & 31);
}

/* ---- cm.c ---- */

struct cm_id *cm_find_local(struct cm *cm, uint32_t local_id);
struct cm_id *cm_find_remote(struct cm *cm, uint32_t remote_id, uint32_t slot);
/* The peer is known from now on. */
void cm_set_peer(struct cm_id *id, uint32_t remote_id, uint32_t slot);
void cm_set_timer(struct cm_id *id, wtime at);		/* WTIME_NEVER: none */
void cm_enter_timewait(struct cm_id *id, wtime now);
/* Nothing is under way any more. */
void cm_enter_idle(struct cm_id *id);

/* ---- cm_send.c ---- */

/* Queues a message of this conversation. */
void cm_send(struct cm_id *id, struct cm_msg *msg);
/* Queues what id->mad holds once more. */
void cm_send_again(struct cm_id *id);
/* As cm_send, and keeps it for cm_send_again. */
void cm_send_kept(struct cm_id *id, struct cm_msg *msg);
/* As cm_send_kept, repeated until cm_set_timer, at most cm.max_retries times. */
void cm_send_until_answered(struct cm_id *id, wtime now, struct cm_msg *msg);
/* Outside any conversation: an answer to whoever sent something that has none here. */
void cm_send_stateless(struct cm *cm, int device, uint32_t slot, const struct cm_msg *msg);
void cm_send_rej(struct cm_id *id, enum cm_answered answered, uint16_t reason, const void *private_data, uint32_t bytes);
void cm_send_mra(struct cm_id *id, enum cm_answered answered);
void cm_send_rtu(struct cm_id *id);

#endif
