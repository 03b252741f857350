/* Device memory: what a NIC has on board is ordinary memory here, reached only through its object. */
#include "abi/verbs/object.h"
#include "runtime/entry.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORD = 4 };	/* devices' memory is read and written by words */

static uint32_t last_handle;

static int destroy_dm(struct abi_object *o)
{
	struct abi_dm *dm = container_of(o, struct abi_dm, object);

	if (dm->refs)
		return -EBUSY;
	if (dm->origin)
		dm->origin->refs--;
	else
		munmap(dm->memory, dm->bytes);
	return 0;
}

static int range_check(const struct abi_dm *dm, uint64_t offset, size_t length)
{
	if (offset % WORD || length % WORD)
		return EINVAL;
	return offset > dm->bytes || length > dm->bytes - offset ? EFAULT : 0;
}

static int copy_to(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
	struct abi_dm *dm = to_dm(ibv);
	int err = range_check(dm, offset, length);

	if (err == 0)
		memcpy(dm->memory + offset, from, length);
	return err;
}

static int copy_from(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	struct abi_dm *dm = to_dm(ibv);
	int err = range_check(dm, offset, length);

	if (err == 0)
		memcpy(to, dm->memory + offset, length);
	return err;
}

static struct abi_dm *create(struct ibv_context *context)
{
	struct abi_dm *dm = calloc(1, sizeof(*dm));

	if (dm) {
		dm->ibv.context = context;
		dm->ibv.memcpy_to_dm = copy_to;
		dm->ibv.memcpy_from_dm = copy_from;
		dm->ibv.comp_mask = IBV_DM_MASK_HANDLE;
	}
	return dm;
}

struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct abi_context *ctx = to_context(context);
	struct abi_dm *dm;
	int err;

	if (attr->comp_mask || attr->length == 0 || attr->log_align_req >= 32 ||
	    1l << attr->log_align_req > sysconf(_SC_PAGESIZE))
		return fail(-EINVAL);
	if (attr->length > ctx->dev->attr.max_dm_size)
		return fail(-ENOMEM);
	err = context_call(ctx, FAULT_alloc_dm);
	if (err < 0)
		return fail(err);
	dm = create(context);
	if (!dm)
		return fail(-ENOMEM);
	dm->bytes = attr->length;
	dm->memory = mmap(NULL, dm->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (dm->memory == MAP_FAILED) {
		free(dm);
		return fail(-ENOMEM);
	}
	runtime_enter(ctx->rt);
	dm->ibv.handle = ++last_handle;
	context_enrol(ctx, &dm->object, destroy_dm);
	runtime_leave(ctx->rt);
	return &dm->ibv;
}

int dm_free(struct ibv_dm *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	struct abi_dm *dm = to_dm(ibv);
	int err;

	runtime_enter(rt);
	err = destroy_dm(&dm->object);
	if (err == 0)
		list_remove(&dm->object.node);
	runtime_leave(rt);
	if (err == 0)
		free(dm);
	return answer(err);
}

static struct abi_dm *find(const struct ca_device *dev, uint32_t handle)
{
	list_for_each(ctx, &contexts, struct abi_context, all) {
		if (ctx->dev != dev)
			continue;
		list_for_each(o, &ctx->objects, struct abi_object, node) {
			struct abi_dm *dm = container_of(o, struct abi_dm, object);

			if (o->destroy == destroy_dm && dm->ibv.handle == handle)
				return dm;
		}
	}
	return NULL;
}

ABI_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	struct abi_context *ctx = to_context(context);
	struct abi_dm *dm = create(context);

	if (!dm)
		return fail(-ENOMEM);
	runtime_enter(ctx->rt);
	dm->origin = find(ctx->dev, dm_handle);
	if (dm->origin) {
		dm->origin->refs++;
		dm->memory = dm->origin->memory;
		dm->bytes = dm->origin->bytes;
		dm->ibv.handle = ++last_handle;
		context_enrol(ctx, &dm->object, destroy_dm);
	}
	runtime_leave(ctx->rt);
	if (dm->origin)
		return &dm->ibv;
	free(dm);
	return fail(-ENOENT);
}

ABI_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	dm_free(dm);
}
