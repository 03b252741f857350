/* Raw packets: Ethernet frames that programs write whole, steered to raw packet QPs by rules. The device's segment joins all
 * processes that have rules: a frame travels to each of them as a datagram to one group, and is steered there. */
#ifndef WEFT_VERBS_FLOW_H
#define WEFT_VERBS_FLOW_H

#include "verbs/qp.h"

/* The datagrams that carry frames: fully private to weft, so any group and Q_Key no program has do. */
enum { FLOW_QKEY = 0x77726177 };
extern const uint8_t flow_group[16];

struct flow;

/* The rule in attr, which num_of_specs specifications follow; attr->size is not read, as many programs leave it 0. The QP
 * outlives the rule. -EINVAL: malformed, or not a
 * raw packet QP; -EOPNOTSUPP: a flag, type or specification that is not known here; -ENOMEM. */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **flow);
void flow_destroy(struct flow *flow);
void flow_destroy_all(struct ca *ca);

/* Hands the frame in p's payload to every QP that should have it: sniffers; then, of the rules that match, those of the best
 * (lowest) priority; when none does, the default rules. Never to the QP numbered p->deth.src_qpn: it sent the frame. */
void flow_steer(struct ca *ca, const struct ca_device *dev, const struct packet *p, void (*deliver)(struct qp *qp, const struct packet *p));

#endif
