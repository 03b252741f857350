/* Multicast: which datagram QPs listen to which group. The adapter's owner is told when a device's first QP joins and its last
 * leaves. IBA 10.5, 11.3. */
#include "verbs/qp.h"

#include "wire/addr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int group_check(const struct qp *qp, const uint8_t gid[16], uint16_t lid)
{
	if (qp->type != IBV_QPT_UD || !(gid_is_multicast(gid) || gid_is_ipv4_multicast(gid)))
		return -EINVAL;
	return device_has(qp->dev, DEVICE_LIDS) && (lid < MLID_FIRST || lid > MLID_LAST) ? -EINVAL : 0;
}

static struct mcast_member *find(const struct qp *qp, const uint8_t gid[16], uint16_t lid)
{
	list_for_each(member, &qp->ca->mcast, struct mcast_member, node)
		if (member->qp == qp && member->lid == lid && !memcmp(member->gid, gid, sizeof(member->gid)))
			return member;
	return NULL;
}

static unsigned listeners(const struct ca *ca, const struct ca_device *dev, const uint8_t gid[16])
{
	unsigned n = 0;

	list_for_each(member, &ca->mcast, struct mcast_member, node)
		n += member->dev == dev && !memcmp(member->gid, gid, sizeof(member->gid));
	return n;
}

int mcast_attach(struct qp *qp, const uint8_t gid[16], uint16_t lid)
{
	struct ca *ca = qp->ca;
	struct mcast_member *member;
	int err = group_check(qp, gid, lid);

	if (err < 0)
		return err;
	if (find(qp, gid, lid))
		return 0;	/* as the kernel: attaching again changes nothing */
	if (listeners(ca, qp->dev, gid) >= (unsigned)qp->dev->attr.orig_attr.max_mcast_qp_attach)
		return -ENOMEM;
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	if (listeners(ca, qp->dev, gid) == 0) {
		err = ca->ops->mcast(ca->owner, qp->dev, gid, true);
		if (err < 0) {
			free(member);
			return err;
		}
	}
	member->qp = qp;
	member->dev = qp->dev;
	member->lid = lid;
	memcpy(member->gid, gid, sizeof(member->gid));
	list_append(&ca->mcast, &member->node);
	qp->mcasts++;
	return 0;
}

static void leave(struct mcast_member *member)
{
	struct qp *qp = member->qp;
	struct ca *ca = qp->ca;

	list_remove(&member->node);
	qp->mcasts--;
	/* the owner can do nothing about a failure that we could: the group is left at the latest when the process goes */
	if (listeners(ca, member->dev, member->gid) == 0)
		(void)ca->ops->mcast(ca->owner, member->dev, member->gid, false);
	free(member);
}

int mcast_detach(struct qp *qp, const uint8_t gid[16], uint16_t lid)
{
	struct mcast_member *member = find(qp, gid, lid);

	if (!member)
		return -EINVAL;
	leave(member);
	return 0;
}

void mcast_detach_all(struct qp *qp)
{
	list_for_each_safe(member, &qp->ca->mcast, struct mcast_member, node)
		if (member->qp == qp)
			leave(member);
}
