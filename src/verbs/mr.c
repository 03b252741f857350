/* Regions: registration, and remote access by key. One table holds regions and windows, so one lookup finds either. */
#include "verbs/mr.h"

#include "base/log.h"
#include "verbs/direct.h"
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	REREG_KNOWN = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
};

/* IBA 10.6.3.1: whoever may write from afar must be allowed to write at home. */
static int access_check(int access)
{
	if (access & ~MR_ACCESS_KNOWN)
		return -EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static int range_check(uint64_t start, uint64_t length)
{
	return length && start + (length - 1) < start ? -EINVAL : 0;
}

void mr_publish(struct mr *mr)
{
	struct ca *ca = mr->pd->ca;

	if (ca->direct)
		ca->direct->publish_mr(ca->direct_arg, mr);
}

int mr_unpublish(struct mr *mr)
{
	struct ca *ca = mr->pd->ca;

	if (mr->is_known)
		qps_forget_region(mr);
	return !ca->direct || !mr->direct || ca->direct->unpublish_mr(ca->direct_arg, mr) ? 0 : -EBUSY;
}

int mr_create_kind(struct pd *pd, enum mr_kind kind, void *memory, uint64_t length, uint64_t iova, int access, struct mr **out)
{
	struct mr *mr;

	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	if (kind == MR_WINDOW || access_check(access) < 0 || range_check((uintptr_t)memory, length) < 0 ||
	    range_check(iova, length) < 0)
		return -EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	*mr = (struct mr){ .kind = kind, .pd = pd, .iova = iova, .length = length, .memory = memory, .access = access };
	if (table_insert(&pd->ca->keys, mr, &mr->key) < 0) {
		free(mr);
		return -ENOMEM;
	}
	mr->handle = mr->key;
	pd_get(pd);
	mr_publish(mr);
	*out = mr;
	return 0;
}

int mr_create(struct pd *pd, void *memory, uint64_t length, uint64_t iova, int access, struct mr **mr)
{
	return mr_create_kind(pd, access & IBV_ACCESS_ON_DEMAND ? MR_ON_DEMAND : MR_MEMORY, memory, length, iova, access, mr);
}

int mr_rereg(struct mr *mr, int flags, struct pd *pd, void *memory, uint64_t length, int access)
{
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;

	if (!flags || flags & ~REREG_KNOWN || (mr->kind != MR_MEMORY && mr->kind != MR_ON_DEMAND))
		return -EINVAL;
	if (moves && (!memory || !length || range_check((uintptr_t)memory, length) < 0))
		return -EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS && access_check(access) < 0)
		return -EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_PD && (!pd || pd->dev != mr->pd->dev))
		return -EINVAL;
	if (mr->windows || mr_unpublish(mr) < 0)
		return -EBUSY;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		mr->access = access;
		mr->kind = access & IBV_ACCESS_ON_DEMAND ? MR_ON_DEMAND : MR_MEMORY;
	}
	if (moves) {
		mr->memory = memory;
		mr->length = length;
		mr->iova = mr->access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)memory;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		pd_get(pd);
		pd_put(mr->pd);
		mr->pd = pd;
	}
	mr_publish(mr);
	return 0;
}

int mr_destroy(struct mr *mr)
{
	weft_bug_on(mr->kind == MR_WINDOW);
	if (mr->windows || mr_unpublish(mr) < 0)
		return -EBUSY;
	table_remove(&mr->pd->ca->keys, mr->key);
	pd_put(mr->pd);
	free(mr);
	return 0;
}

/* Type 2 windows belong to the QP that bound them (2B, IBA 10.6.7.2.4), everything else to its PD. */
static bool may_use(const struct mr *mr, const struct qp *qp, const struct pd *pd)
{
	if (mr->kind == MR_WINDOW && (!mr->bound_to || (mr->mw_type == IBV_MW_TYPE_2 && mr->mw_qp != qp)))
		return false;
	return pd ? mr->pd == pd : mr->pd->dev == device_first(qp->dev);
}

enum remote_verdict remote_check_pd(struct qp *qp, const struct pd *pd, uint32_t rkey, uint64_t va, uint64_t bytes, int need,
				    struct mr **out)
{
	struct mr *mr;

	if ((qp->attr.qp_access_flags & (unsigned)need) != (unsigned)need)
		return REMOTE_ACCESS_ERROR;
	if (bytes == 0) {
		*out = NULL;
		return REMOTE_OK;
	}
	mr = mr_find(qp->ca, rkey);
	if (!mr || !may_use(mr, qp, pd) || (mr->access & need) != need || !mr_covers(mr, va, bytes))
		return REMOTE_ACCESS_ERROR;
	*out = mr;
	return REMOTE_OK;
}

enum remote_verdict remote_check(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t bytes, int need, struct mr **mr)
{
	return remote_check_pd(qp, qp->pd, rkey, va, bytes, need, mr);
}

/* Must it be reached by system calls, which survive that it is not there? */
static bool may_be_gone(const struct mr *mr, enum mr_kind kind)
{
	return kind == MR_MEMORY ? mr->pd->ca->memory_may_go : kind == MR_ON_DEMAND || kind == MR_IMPLICIT;
}

bool mr_is_there(const struct mr *mr, uint64_t va, uint32_t bytes)
{
	const struct ca *ca = mr->pd->ca;
	uint64_t word;

	return mr_memory_kind(mr) != MR_MEMORY || !ca->memory_may_go ||
	       (bytes <= sizeof(word) && ca->ops->read_program(ca->owner, &word, mr_address(mr, va), bytes) == 0);
}

int mr_write(struct mr *mr, uint64_t va, const void *data, uint32_t bytes)
{
	enum mr_kind kind = bytes ? mr_memory_kind(mr) : MR_NULL;
	struct ca *ca = mr->pd->ca;
	int err;

	if (may_be_gone(mr, kind)) {
		if (kind == MR_MEMORY && ca->ops->write_later) {
			ca->ops->write_later(ca->owner, mr_address(mr, va), data, bytes);
			return 0;
		}
		err = ca->ops->write_program(ca->owner, mr_address(mr, va), data, bytes);
		return kind == MR_MEMORY ? 0 : err;
	}
	if (kind != MR_NULL)
		memcpy(mr_address(mr, va), data, bytes);
	return 0;
}

void mr_settle(const struct mr *mr)
{
	const struct ca *ca = mr->pd->ca;

	if (ca->ops->settle)
		ca->ops->settle(ca->owner);
}

int mr_read(struct mr *mr, uint64_t va, void *data, uint32_t bytes)
{
	enum mr_kind kind = bytes ? mr_memory_kind(mr) : MR_NULL;
	struct ca *ca = mr->pd->ca;
	int err;

	if (may_be_gone(mr, kind)) {
		err = ca->ops->read_program(ca->owner, data, mr_address(mr, va), bytes);
		if (!err || kind != MR_MEMORY)
			return err;
		kind = MR_NULL;
	}
	if (kind == MR_NULL)
		memset(data, 0, bytes);
	else
		memcpy(data, mr_address(mr, va), bytes);
	return 0;
}
