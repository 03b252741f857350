/* Raw packet QPs: a message is an Ethernet frame, complete but for the FCS. Frames go to every process that has steering
 * rules; the rules say which QP gets one (verbs/flow.h). */
#ifndef WEFT_IB_RAW_H
#define WEFT_IB_RAW_H

#include "verbs/qp.h"

/* The WQE as a packet. LOC_LEN_ERR: shorter than a header, or longer than the MTU with a header and a tag. */
enum ibv_wc_status raw_build(struct qp *qp, const struct send_wqe *wqe, struct packet_out *out);

/* A frame that arrived. What no rule wants, or no receive takes, is dropped and counted. */
void raw_input(struct ca *ca, const struct ca_device *dev, const struct packet *p);

#endif
