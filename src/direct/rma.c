/* The invariant is the order in announce: write the hazard word, look the entries up, check the copies of them, move the
 * bytes, clear the word. */
#include "direct/rma.h"

#include "direct/copy.h"
#include "direct/hazard.h"
#include "verbs/mr.h"
#include "wire/pkey.h"

#include <string.h>

enum { REMOTE_RIGHTS = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };

/* Of the GIDs of a pair in the order remote, local. Nobody gains by a collision: both ends chose their GIDs. Never 0. */
static uint64_t digest_gids(const uint8_t remote[16], const uint8_t local[16])
{
	uint64_t word[4], sum = 0;

	memcpy(word, remote, 16);
	memcpy(word + 2, local, 16);
	for (int i = 0; i < 4; i++)
		sum = ((sum << 7 | sum >> 57) ^ word[i]) * 0x9e3779b97f4a7c15ull;
	return sum | 1;
}

bool rma_shows_region(const struct mr *mr)
{
	enum mr_kind kind = mr->kind;

	if (kind == MR_WINDOW && mr->bound_to)
		kind = mr->bound_to->kind;
	return kind == MR_MEMORY && mr->length && mr->access & REMOTE_RIGHTS;
}

void rma_describe_region(const struct mr *mr, struct share_region *out)
{
	*out = (struct share_region){
		.key = mr->key, .pd = mr->pd->handle, .iova = mr->iova, .length = mr->length, .address = (uintptr_t)mr->memory,
		.access = (uint32_t)mr->access, .device = mr->pd->dev->index,
		.qpn = mr->mw_qp ? mr->mw_qp->qpn : 0,
	};
}

/* How many reads and atomics it takes at a time. */
static uint32_t depth_of(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC ? qp->attr.max_dest_rd_atomic : 0;
}

void rma_describe_qp(const struct qp *qp, struct share_qp *out)
{
	*out = (struct share_qp){
		.qpn = qp->qpn, .pd = qp->pd->handle, .peer_qpn = qp->attr.dest_qp_num, .access = qp->attr.qp_access_flags,
		.type = qp->type, .device = qp->dev->device, .network = qp->dev->network,
		.depth = depth_of(qp), .pkey = qp_pkey(qp),
		.dlid = device_has(qp->dev, DEVICE_LIDS) ? qp->path.dlid : 0,
		.gids = qp->path.has_grh ? digest_gids(qp->path.dgid, qp->path.sgid) : 0,
	};
}

/* IBA 9.6.1.4: it expects us, from where we are. */
static bool expects_us(const struct qp *qp, const struct share_qp *remote)
{
	if (remote->qpn != qp->attr.dest_qp_num || remote->peer_qpn != qp->qpn || remote->type != qp->type ||
	    remote->network != qp->dev->network)
		return false;
	if (!pkey_matches(qp_pkey(qp), (uint16_t)remote->pkey))
		return false;
	if (device_has(qp->dev, DEVICE_LIDS) && remote->dlid != qp->path.slid)
		return false;
	return !remote->gids || (qp->path.has_grh && remote->gids == digest_gids(qp->path.sgid, qp->path.dgid));
}

/* IBA 9.7.4.1.3, 9.7.4.1.4 */
static inline bool allows(uint32_t access, uint32_t depth, enum opcode_op op)
{
	uint32_t need = remote_rights(op);

	return (access & need) == need && (op == OP_WRITE || depth);
}

/* IBA 9.7.4.1.5 */
static bool belongs(const struct share_region *region, const struct share_qp *remote)
{
	return region->pd == remote->pd && region->device == remote->device && (!region->qpn || region->qpn == remote->qpn);
}

static inline bool grants(const struct share_region *region, const struct direct_request *r, enum opcode_op op)
{
	uint32_t need = remote_rights(op);
	uint64_t offset = r->va - region->iova;

	return (region->access & need) == need && r->va >= region->iova && offset <= region->length &&
	       r->bytes <= region->length - offset;
}

static struct rma_hit *hit_of(const struct rma_peer *peer, const struct qp *qp, uint32_t rkey)
{
	return &peer->hits[(qp->qpn ^ rkey >> 8) % RMA_HITS];	/* keys differ in their upper bits */
}

/* In the one order of all sequentially consistent accesses: see hazard.h. */
static bool is_unchanged(const struct share_watch *w)
{
	return atomic_load(&w->entry->sequence) == w->sequence;
}

static bool is_hit(const struct rma_hit *h, const struct rma_peer *peer, const struct qp *qp, uint32_t rkey)
{
	return h->qpn == qp->qpn && h->dest_qpn == qp->attr.dest_qp_num && h->rkey == rkey && h->era == *peer->era &&
	       is_unchanged(&h->qp_watch) && is_unchanged(&h->region_watch);
}

static bool look_up(struct rma_hit *h, const struct rma_peer *peer, const struct qp *qp, uint32_t rkey)
{
	uint32_t dest = qp->attr.dest_qp_num;

	h->era = 0;
	h->mapped = NULL;
	if (!share_watch_qp(peer->share, dest, &h->remote, &h->qp_watch) || !expects_us(qp, &h->remote) ||
	    !share_watch_region(peer->share, rkey, &h->region, &h->region_watch) || !belongs(&h->region, &h->remote))
		return false;
	h->qpn = qp->qpn;
	h->dest_qpn = dest;
	h->rkey = rkey;
	h->era = *peer->era;
	return true;
}

static uint64_t atomic_result(const struct direct_request *r, uint64_t original)
{
	if (r->op == OP_FETCH_ADD)
		return original + r->operand;
	if (r->op == OP_ATOMIC_WRITE)
		return r->operand;
	return original == r->compare ? r->operand : original;
}

/* The caller has the lock. */
static bool change_word(const struct rma_peer *peer, uint64_t address, struct direct_request *r)
{
	uint64_t word, changed;
	struct iovec iov = { &word, sizeof(word) };

	if (!peer->mover->read(peer->arg, address, &iov, 1, sizeof(word)))
		return false;
	r->original = word;
	changed = atomic_result(r, word);
	if (changed == word)
		return true;
	iov.iov_base = &changed;
	return peer->mover->write(peer->arg, address, &iov, 1, sizeof(changed));
}

/* From here on `op` is r->op, and a constant for writes of one piece, as most requests are: they have copies of these functions
 * from which all else is gone. */
static inline __attribute__((always_inline)) bool copy(void *memory, struct direct_request *r, enum opcode_op op)
{
	if (op != OP_WRITE || r->iovs != 1)
		return copy_execute(memory, r);
	copy_write(memory, r->iov->iov_base, r->iov->iov_len);
	return true;
}

/* These bytes of the region, where both processes map them, or NULL. What is mapped is there to stay. */
static __attribute__((noinline)) void *map(const struct rma_peer *peer, struct rma_hit *h, uint64_t offset, uint32_t bytes)
{
	const struct share_region *region = &h->region;

	if (!region->file)
		return NULL;
	h->mapped = peer->mover->map(peer->arg, region->file, region->file_offset, region->length);
	return h->mapped ? h->mapped + offset :
			   peer->mover->map(peer->arg, region->file, region->file_offset + offset, bytes);
}

/* Mapped memory takes the lock for atomics too: others may reach the same word by change_word. */
static inline __attribute__((always_inline)) bool move(const struct rma_peer *peer, struct rma_hit *h, struct direct_request *r,
							enum opcode_op op)
{
	uint64_t offset = r->va - h->region.iova, address = h->region.address + offset;
	void *mapped = h->mapped ? h->mapped + offset : map(peer, h, offset, r->bytes);
	struct atomic_lock *lock = &peer->share->atomics;
	bool moved;

	r->is_mapped = mapped;
	if (op == OP_WRITE || !direct_is_atomic(r)) {
		if (mapped && !r->by_system_call)
			return copy(mapped, r, op);
		if (op == OP_WRITE)
			return peer->mover->write(peer->arg, address, r->iov, r->iovs, r->bytes);
		return peer->mover->read(peer->arg, address, r->iov, r->iovs, r->bytes);
	}
	if (!atomic_lock_take(lock, peer->self, peer->lock_ops, peer->lock_arg))
		return false;
	moved = mapped ? copy_execute(mapped, r) : change_word(peer, address, r);
	atomic_lock_give(lock, peer->self);
	return moved;
}

/* No bytes, no key. */
static bool execute_empty(const struct qp *qp, const struct rma_peer *peer, const struct direct_request *r)
{
	struct share_qp remote;

	return share_find_qp(peer->share, qp->attr.dest_qp_num, &remote) && expects_us(qp, &remote) &&
	       allows(remote.access, remote.depth, r->op);
}

/* Between hazard_begin and hazard_end. */
static inline __attribute__((always_inline)) bool execute(const struct qp *qp, const struct rma_peer *peer,
							   struct direct_request *r, enum opcode_op op)
{
	struct rma_hit *h = hit_of(peer, qp, r->rkey);

	if (r->bytes == 0)
		return execute_empty(qp, peer, r);
	if (!is_hit(h, peer, qp, r->rkey) && !look_up(h, peer, qp, r->rkey))
		return false;
	return allows(h->remote.access, h->remote.depth, op) && grants(&h->region, r, op) && move(peer, h, r, op);
}

static inline __attribute__((always_inline)) bool announce(const struct qp *qp, const struct rma_peer *peer,
							    struct direct_request *r, enum opcode_op op)
{
	bool done;

	hazard_begin(peer->hazard, qp->attr.dest_qp_num, r->rkey);
	done = execute(qp, peer, r, op);
	hazard_end(peer->hazard);
	return done;
}

bool rma_execute(const struct qp *qp, const struct rma_peer *peer, struct direct_request *r)
{
	if (direct_is_atomic(r) && r->va % ATOMIC_BYTES)
		return false;
	r->by_system_call = qp->ca->memory_may_go;
	return announce(qp, peer, r, r->op);
}

enum direct_write rma_write(const struct qp *qp, const struct rma_peer *peer, uint32_t rkey, uint64_t va, const void *data,
			    uint32_t bytes)
{
	const struct iovec iov = { (void *)(uintptr_t)data, bytes };
	struct direct_request r = { .op = OP_WRITE, .rkey = rkey, .va = va, .bytes = bytes, .iov = &iov, .iovs = 1 };

	if (!announce(qp, peer, &r, OP_WRITE))
		return WRITE_REFUSED;
	return r.is_mapped ? WRITE_MAPPED : WRITE_DONE;
}

bool rma_is_connected(const struct qp *qp, const struct rma_peer *peer)
{
	struct share_qp remote;

	return share_find_qp(peer->share, qp->attr.dest_qp_num, &remote) && expects_us(qp, &remote);
}

bool rma_watch(const struct qp *qp, const struct share_memory *m, struct share_watch *watch)
{
	struct share_qp remote;

	return share_watch_qp(m, qp->attr.dest_qp_num, &remote, watch) && expects_us(qp, &remote);
}

/* The memory that the request of the QP addresses, whose peer is in this process; NULL for no bytes. False: refused, or the
 * program may unmap that memory meanwhile, or what is copied there. */
static inline __attribute__((always_inline)) bool own_target(const struct qp *qp, uint32_t rkey, uint64_t va, uint32_t bytes,
							      enum opcode_op op, uint8_t **memory)
{
	struct qp *remote = qp_find(qp->ca, qp->attr.dest_qp_num);
	struct mr *mr;

	if (qp->ca->memory_may_go || !remote || !remote->published ||
	    !allows(remote->attr.qp_access_flags, depth_of(remote), op))
		return false;
	if (remote_check(remote, rkey, va, bytes, (int)remote_rights(op), &mr) != REMOTE_OK)
		return false;
	*memory = bytes ? mr_borrow(mr, va) : NULL;
	return !bytes || *memory;
}

bool rma_execute_own(const struct qp *qp, struct direct_request *r)
{
	uint8_t *memory;

	if (direct_is_atomic(r) && r->va % ATOMIC_BYTES)
		return false;
	return own_target(qp, r->rkey, r->va, r->bytes, r->op, &memory) && (!memory || copy_execute(memory, r));
}

bool rma_write_own(const struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes)
{
	uint8_t *memory;

	if (!own_target(qp, rkey, va, bytes, OP_WRITE, &memory))
		return false;
	if (memory)
		copy_write(memory, data, bytes);
	return true;
}
