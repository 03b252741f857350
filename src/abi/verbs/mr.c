/* Memory regions: registration, re-registration, the null region, device memory, dmabufs, prefetch advice. */
#include "abi/verbs/object.h"
#include "runtime/entry.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int destroy_mr(struct abi_object *o)
{
	struct abi_mr *mr = container_of(o, struct abi_mr, object);
	int err = mr->imported ? 0 : mr_destroy(mr->mr);

	if (err < 0)
		return err;
	if (mr->dm)
		mr->dm->refs--;
	if (mr->map)
		munmap(mr->map, mr->map_bytes);
	return 0;
}

/* Enters the verbs region into a new object of the ABI; consumes it on failure. */
static struct abi_mr *wrap(struct ibv_pd *pd, void *addr, size_t length)
{
	struct abi_mr *mr = calloc(1, sizeof(*mr));

	if (mr) {
		mr->ibv.context = pd->context;
		mr->ibv.pd = pd;
		mr->ibv.addr = addr;
		mr->ibv.length = length;
	}
	return mr;
}

static struct ibv_mr *finish(struct abi_mr *mr, int err)
{
	struct abi_context *ctx = to_context(mr->ibv.context);

	if (err == 0) {
		mr->mr->user = mr;
		mr->ibv.handle = mr->mr->handle;
		mr->ibv.lkey = mr->ibv.rkey = mr->mr->key;
		context_enrol(ctx, &mr->object, destroy_mr);
	}
	runtime_leave(ctx->rt);
	if (err == 0)
		return &mr->ibv;
	free(mr);
	return fail(err);
}

static struct ibv_mr *reg(struct ibv_pd *pd, enum mr_kind kind, void *addr, size_t length, uint64_t iova, int access)
{
	struct abi_mr *mr = wrap(pd, addr, length);

	if (!mr)
		return fail(-ENOMEM);
	runtime_enter(to_context(pd->context)->rt);
	return finish(mr, mr_create_kind(to_pd(pd)->pd, kind, addr, length, iova, access, &mr->mr));
}

/* An on-demand region of everything from NULL on is an implicit one. */
ABI_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	int err = context_call(to_context(pd->context), FAULT_reg_mr);

	if (err < 0)
		return fail(err);
	if (access & IBV_ACCESS_ON_DEMAND) {
		if (!addr && length == SIZE_MAX)
			return reg(pd, MR_IMPLICIT, NULL, length, 0, (int)access);
		return reg(pd, MR_ON_DEMAND, addr, length, iova, (int)access);
	}
	if (access & IBV_ACCESS_HUGETLB || length == 0)
		return fail(-EINVAL);
	err = memory_probe(addr, length, (int)access);
	return err < 0 ? fail(err) : reg(pd, MR_MEMORY, addr, length, iova, (int)access);
}

ABI_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

ABI_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

/* As for a new region, of what the region will be: on-demand memory need not be there, and a region without an address is none
 * that can change. */
static int rereg_check(const struct abi_mr *mr, int flags, const void *addr, size_t length, int access)
{
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;

	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)))
		return -EINVAL;
	if (moves && (!addr || !length))
		return -EINVAL;
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = mr->mr->access;
	if (!moves) {
		addr = mr->ibv.addr;
		length = mr->ibv.length;
	}
	if (!(flags & (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS)) || access & IBV_ACCESS_ON_DEMAND || !addr)
		return 0;
	return memory_probe(addr, length, access);
}

/* Whatever fails leaves the old region as it was, so every failure is one of input. */
ABI_EXPORT int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct abi_mr *mr = to_mr(ibv);
	struct runtime *rt = to_context(ibv->context)->rt;
	int err = mr->imported || mr->dm || mr->map ? -EINVAL : rereg_check(mr, flags, addr, length, access);

	if (err == 0)
		err = context_call(to_context(ibv->context), FAULT_rereg_mr);
	if (err == 0) {
		runtime_enter(rt);
		err = mr_rereg(mr->mr, flags, flags & IBV_REREG_MR_CHANGE_PD ? behind(pd, to_pd, pd) : NULL,
			       addr, length, access);
		if (err == 0)
			ibv->lkey = ibv->rkey = mr->mr->key;
		runtime_leave(rt);
	}
	if (err < 0) {
		errno = -err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		ibv->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		ibv->addr = addr;
		ibv->length = length;
	}
	return 0;
}

ABI_EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct abi_mr *mr = to_mr(ibv);
	struct runtime *rt = to_context(ibv->context)->rt;
	int err;

	runtime_enter(rt);
	err = destroy_mr(&mr->object);
	if (err == 0)
		list_remove(&mr->object.node);
	runtime_leave(rt);
	if (err < 0)
		return answer(err);
	free(mr);
	return 0;
}

ABI_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct abi_context *ctx = to_context(pd->context);
	struct abi_mr *mr = wrap(pd, NULL, 0);
	struct mr *found;

	if (!mr)
		return fail(-ENOMEM);
	runtime_enter(ctx->rt);
	found = mr_find(ctx->ca, mr_handle);
	if (!found || found->kind == MR_WINDOW || found->pd != to_pd(pd)->pd)
		return finish(mr, -ENOENT);
	mr->imported = true;
	mr->ibv.length = found->length;
	mr->ibv.handle = found->handle;
	mr->ibv.lkey = mr->ibv.rkey = found->key;
	context_enrol(ctx, &mr->object, destroy_mr);
	runtime_leave(ctx->rt);
	return &mr->ibv;
}

ABI_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	ibv_dereg_mr(mr);
}

struct ibv_mr *mr_alloc_null(struct ibv_pd *pd)
{
	struct ibv_mr *mr = reg(pd, MR_NULL, NULL, SIZE_MAX, 0, IBV_ACCESS_LOCAL_WRITE);

	if (mr)
		mr->length = 0;
	return mr;
}

struct ibv_mr *mr_reg_dm(struct ibv_pd *pd, struct ibv_dm *ibv_dm, uint64_t offset, size_t length, unsigned int access)
{
	struct abi_dm *dm = to_dm(ibv_dm);
	struct abi_mr *mr;
	int err;

	if (!(access & IBV_ACCESS_ZERO_BASED) || offset > dm->bytes || length > dm->bytes - offset)
		return fail(-EINVAL);
	mr = wrap(pd, NULL, length);
	if (!mr)
		return fail(-ENOMEM);
	runtime_enter(to_context(pd->context)->rt);
	err = mr_create_kind(to_pd(pd)->pd, MR_DEVICE, dm->memory + offset, length, 0, (int)access, &mr->mr);
	if (err == 0) {
		mr->dm = dm;
		dm->refs++;
	}
	return finish(mr, err);
}

/* Registers the descriptor's memory, mapped here for as long as the region lives. */
ABI_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	uint64_t inside = offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	struct abi_mr *mr;
	int err;

	if (length == 0 || length + inside < length || access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB))
		return fail(-EINVAL);
	err = context_call(to_context(pd->context), FAULT_reg_mr);
	if (err < 0)
		return fail(err);
	mr = wrap(pd, (void *)(uintptr_t)offset, length);
	if (!mr)
		return fail(-ENOMEM);
	mr->map_bytes = length + inside;
	mr->map = mmap(NULL, mr->map_bytes, PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0), MAP_SHARED, fd,
		       (off_t)(offset - inside));
	if (mr->map == MAP_FAILED) {
		err = -errno;
		free(mr);
		return fail(err);
	}
	runtime_enter(to_context(pd->context)->rt);
	err = mr_create_kind(to_pd(pd)->pd, MR_MEMORY, (uint8_t *)mr->map + inside, length, iova, access, &mr->mr);
	if (err < 0)
		munmap(mr->map, mr->map_bytes);
	return finish(mr, err);
}

static int advise_one(struct abi_pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *sg)
{
	struct mr *mr = mr_find(pd->pd->ca, sg->lkey);

	if (!mr || mr->kind == MR_WINDOW)
		return ENOENT;
	if (mr->pd != pd->pd)
		return EPERM;
	if (mr->kind != MR_ON_DEMAND && mr->kind != MR_IMPLICIT)
		return EINVAL;
	if (mr->kind == MR_ON_DEMAND &&
	    (sg->addr < mr->iova || sg->length > mr->length || sg->addr - mr->iova > mr->length - sg->length))
		return EFAULT;
	return advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(mr->access & IBV_ACCESS_LOCAL_WRITE) ? EPERM : 0;
}

/* The region's pages are the program's own: prefetching faults them in, and what cannot be there now may be there later. */
static int prefetch(enum ibv_advise_mr_advice advice, const struct ibv_sge *sg)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = sg->addr & ~(page - 1);
	size_t bytes = sg->addr + sg->length - start;

	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return 0;
	return madvise((void *)start, bytes, MADV_WILLNEED) < 0 && errno == ENOMEM ? EFAULT : 0;
}

int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg, uint32_t num_sge)
{
	struct runtime *rt = to_context(pd->context)->rt;
	int err = 0;

	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || num_sge == 0)
		return EINVAL;
	runtime_enter(rt);
	for (uint32_t i = 0; i < num_sge && err == 0; i++)
		err = advise_one(to_pd(pd), advice, &sg[i]);
	runtime_leave(rt);
	for (uint32_t i = 0; i < num_sge && err == 0 && flags & IBV_ADVISE_MR_FLAG_FLUSH; i++)
		err = prefetch(advice, &sg[i]);
	return err;
}
