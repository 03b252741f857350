#include "verbs/acks.h"

#include "verbs/qp.h"

void message_acks_init(struct message_acks *acks)
{
	list_init(&acks->unacked);
	list_init(&acks->untimed);
	list_init(&acks->postponed);
	list_init(&acks->withheld);
}

bool ca_release_acks(struct ca *ca)
{
	bool any = !list_empty(&ca->acks.withheld);
	struct list_node *node;

	while ((node = list_pop(&ca->acks.withheld)))
		qp_ready(container_of(node, struct qp, withheld));
	return any;
}

/* How many of `some` had a new ACK. Afterwards each is in ca.acks.unacked, or has nothing unacknowledged. */
static unsigned look_at(struct ca *ca, struct list *some, wtime now, unsigned *most)
{
	struct list_node *node;
	unsigned n = 0;

	for (; *most && (node = list_first(some)); --*most) {
		struct qp *qp = container_of(node, struct qp, unacked);

		n += qp->dev->transport->messages->qp_reap_acks(qp, now);
		if (list_first(some) == node) {	/* it still waits for some */
			list_remove(node);
			list_append(&ca->acks.unacked, node);
		}
	}
	return n;
}

unsigned ca_reap_untimed(struct ca *ca, wtime now)
{
	unsigned most = UINT32_MAX;

	ca->now = now;
	return look_at(ca, &ca->acks.untimed, now, &most);
}

unsigned ca_read_acks(struct ca *ca, wtime now, unsigned most)
{
	struct list rest;
	unsigned n;

	ca->now = now;
	list_init(&rest);
	list_splice(&rest, &ca->acks.unacked);
	n = look_at(ca, &ca->acks.untimed, now, &most);
	n += look_at(ca, &rest, now, &most);
	/* QPs that were not looked at are first next time */
	list_splice(&rest, &ca->acks.unacked);
	list_splice(&ca->acks.unacked, &rest);
	if (n || !ca_awaits_acks(ca))
		ca->acks.starved = false;
	return n;
}

bool ca_ack_all_postponed(struct ca *ca, wtime now)
{
	bool moved = false;
	struct qp *qp;

	ca->now = now;
	while ((qp = list_first_entry(&ca->acks.postponed, struct qp, postponed)))
		moved |= qp->dev->transport->messages->qp_ack_postponed(qp);
	return moved;
}
