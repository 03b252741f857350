/* The messages that the communication manager sends. */
#ifndef WEFT_MGMT_CM_SEND_H
#define WEFT_MGMT_CM_SEND_H

#include "mgmt/cm.h"

/* Queues a message of this conversation. */
void cm_send(struct cm_id *id, struct cm_msg *msg);
/* Queues what id->mad holds once more. */
void cm_send_again(struct cm_id *id);
/* As cm_send, and keeps it for cm_send_again. */
void cm_send_kept(struct cm_id *id, struct cm_msg *msg);
/* As cm_send_kept, repeated until cm_set_timer, at most cm.max_retries times. */
void cm_send_until_answered(struct cm_id *id, wtime now, struct cm_msg *msg);
/* Outside any conversation: an answer to who sent `in`. */
void cm_send_back(struct cm *cm, const struct gmp *in, const struct cm_msg *msg);
void cm_send_rej(struct cm_id *id, enum cm_answered answered, uint16_t reason, const void *private_data, uint32_t bytes);
void cm_send_mra(struct cm_id *id, enum cm_answered answered);
void cm_send_rtu(struct cm_id *id);
void cm_put_path(struct cm_req_path *to, const struct cm_path *path);
/* By which the MADs of a conversation with this path go. */
struct packet_path cm_mad_path(const struct cm_path *path);

#endif
