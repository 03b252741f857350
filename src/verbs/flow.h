/* Flow steering: which raw packet QP gets an Ethernet frame. A process with rules is a member of one group of the device, so
 * that senders know who wants frames at all; in each such process the rules decide. Rules of one process do not see those of
 * another: each process is a station of its own on the segment. */
#ifndef WEFT_VERBS_FLOW_H
#define WEFT_VERBS_FLOW_H

#include "verbs/qp.h"

/* Where Ethernet frames go. A group like any other: a program that joins it gets datagrams, never frames. */
extern const uint8_t flow_group[16];

struct flow;

/* A rule for the specifications behind *attr. The QP outlives it. -EINVAL: malformed, or not a raw packet QP; -EOPNOTSUPP: a
 * flag, type or specification that is not known here; -ENOMEM. attr->size is not read, as the stock library does not. */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **flow);
void flow_destroy(struct flow *flow);
void flow_destroy_all(struct ca *ca);

/* Hands the frame that p carries to every QP that the best matching rules name, once to each: rules before default rules,
 * then the lowest number in `priority`. False: no rule matches. */
bool flow_steer(struct ca *ca, const struct ca_device *dev, const struct packet *p,
		void (*deliver)(struct qp *qp, const struct packet *p));

#endif
