/* The direct path's requests: the checks of a request against another adapter whose memory a mover reaches. Its tables and its
 * lock are in export_test.c, mapped memory itself in mapped_test.c. */
#include "adapter.h"

#include "direct/hazard.h"
#include "direct/rma.h"

#include <sched.h>

static struct share_memory *make_memory(void)
{
	struct share_memory *m = aligned_alloc(SHARE_LINE, sizeof(*m));

	assert_non_null(m);
	memset(m, 0, sizeof(*m));
	return m;
}

static bool is_alive(void *owner, uint32_t holder)
{
	return holder != *(const uint32_t *)owner;
}

static void relax(void *owner)
{
	sched_yield();
}

static const struct atomic_lock_ops lock_ops = { is_alive, relax };

/* ---- requests ---- */

/* What one end sees of the other, changed one field at a time. */
struct stage {
	struct share_memory *memory;
	struct share share;
	struct ca ca;
	struct ca_device dev;
	struct qp qp;
	struct share_qp remote;
	struct share_region region;
	uint8_t target[256], source[256];
	_Atomic uint64_t access;
	uint32_t dead;
	struct rma_hit hits[RMA_HITS];
	uint32_t era;
	struct rma_peer peer;
};

static bool mover_fails;

/* Whenever the peer's memory is moved or mapped, its owner can see what is used. */
static void expect_said(const struct stage *s)
{
	assert_true(hazard_names_key(&s->access, s->region.key));
	assert_true(hazard_names_qp(&s->access, s->remote.qpn));
}

static bool move_write(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	uint8_t *to = (uint8_t *)(uintptr_t)address;

	expect_said(peer);
	for (unsigned i = 0; i < iovs; to += iov[i++].iov_len)
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
	return !mover_fails;
}

static bool move_read(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)address;

	expect_said(peer);
	for (unsigned i = 0; i < iovs; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	return !mover_fails;
}

/* File 1 of the peer is its target, and mapped; others are not. */
static uint8_t *mapped_target;

static void *move_map(void *peer, uint32_t file, uint64_t offset, uint64_t bytes)
{
	expect_said(peer);
	return file == 1 && offset <= 256 && bytes <= 256 - offset ? mapped_target + offset : NULL;
}

static const struct rma_mover mover = { move_write, move_read, move_map };

static struct stage *stage_make(void)
{
	struct stage *s = calloc(1, sizeof(*s));

	s->memory = make_memory();
	assert_int_equal(share_init(&s->share, s->memory), 0);
	s->dev.protocol = &protocol_ib;
	s->dev.pkey[0] = 0x0007;
	s->ca.dev = &s->dev;
	s->qp = (struct qp){ .ca = &s->ca, .dev = &s->dev, .type = IBV_QPT_RC, .qpn = 0x1001,
			     .attr.dest_qp_num = 0x2002, .path = { .slid = 5, .dlid = 6 } };
	s->remote = (struct share_qp){ .qpn = 0x2002, .peer_qpn = 0x1001, .pd = 4, .type = IBV_QPT_RC, .depth = 1, .dlid = 5,
					.pkey = 0x8007,
					.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	s->region = (struct share_region){ .key = 77, .pd = 4, .iova = 0x10000, .length = sizeof(s->target),
					    .address = (uintptr_t)s->target, .access = s->remote.access };
	s->peer = (struct rma_peer){ .share = s->memory, .hazard = &s->access, .mover = &mover, .arg = s, .self = 3,
					.lock_ops = &lock_ops, .lock_arg = &s->dead, .hits = s->hits, .era = &s->era };
	s->era = 1;
	for (unsigned i = 0; i < sizeof(s->source); i++)
		s->source[i] = (uint8_t)(i + 1);
	return s;
}

static void stage_free(struct stage *s)
{
	share_fini(&s->share);
	free(s->memory);
	free(s);
}

/* By rma_write where that can be, as adapters do; what comes of it is the same. */
static bool execute(struct stage *s, struct direct_request *r)
{
	enum direct_write how;

	if (r->op != OP_WRITE || r->iovs != 1)
		return rma_execute(&s->qp, &s->peer, r);
	how = rma_write(&s->qp, &s->peer, r->rkey, r->va, r->iov->iov_base, r->bytes);
	assert_int_equal(rma_execute(&s->qp, &s->peer, r), how != WRITE_REFUSED);
	if (how != WRITE_REFUSED)
		assert_int_equal(r->is_mapped, how == WRITE_MAPPED);
	return how != WRITE_REFUSED;
}

/* Shows both entries as they are, executes, hides them. */
static bool run(struct stage *s, struct direct_request *r)
{
	uint32_t qp = share_show_qp(&s->share, &s->remote), region = share_show_region(&s->share, &s->region);
	bool done = execute(s, r);

	assert_int_equal(atomic_load(&s->access), 0);
	assert_int_equal(atomic_load(&s->memory->atomics.holder), 0);
	share_hide_qp(&s->share, qp);
	share_hide_region(&s->share, region);
	return done;
}

static bool write_at(struct stage *s, uint64_t va, uint32_t bytes)
{
	struct iovec iov = { s->source, bytes };

	return run(s, &(struct direct_request){
		.op = OP_WRITE, .rkey = 77, .va = va, .bytes = bytes, .iov = &iov, .iovs = bytes > 0 });
}

static void data_arrives(void **state)
{
	struct stage *s = stage_make();
	uint8_t got[256] = { 0 };
	struct iovec two[2] = { { got, 100 }, { got + 100, 156 } };
	struct direct_request read = { .op = OP_READ_REQUEST, .rkey = 77, .va = 0x10000, .bytes = 256, .iov = two, .iovs = 2 };

	assert_true(write_at(s, 0x10000, 256));
	assert_memory_equal(s->target, s->source, 256);
	assert_true(run(s, &read));
	assert_memory_equal(got, s->source, 256);
	assert_true(write_at(s, 0x10000 + 256, 0));
	assert_true(write_at(s, 0xdead, 0));	/* no bytes, no key check */
	stage_free(s);
}

static void atomics_change_the_word(void **state)
{
	struct stage *s = stage_make();
	uint64_t word = 40;
	struct direct_request r = { .op = OP_FETCH_ADD, .rkey = 77, .va = 0x10008, .bytes = 8, .operand = 2 };

	memcpy(s->target + 8, &word, 8);
	assert_true(run(s, &r));
	assert_int_equal(r.original, 40);
	r = (struct direct_request){
		.op = OP_CMP_SWAP, .rkey = 77, .va = 0x10008, .bytes = 8, .compare = 41, .operand = 7,
	};
	assert_true(run(s, &r));
	assert_int_equal(r.original, 42);
	memcpy(&word, s->target + 8, 8);
	assert_int_equal(word, 42);
	r.compare = 42;
	assert_true(run(s, &r));
	memcpy(&word, s->target + 8, 8);
	assert_int_equal(word, 7);
	r = (struct direct_request){ .op = OP_ATOMIC_WRITE, .rkey = 77, .va = 0x10008, .bytes = 8, .operand = 11 };
	s->region.access = IBV_ACCESS_REMOTE_WRITE;
	assert_true(run(s, &r));
	memcpy(&word, s->target + 8, 8);
	assert_int_equal(word, 11);
	s->remote.depth = 0;
	assert_false(run(s, &r));
	s->remote.depth = 1;
	s->region.access = IBV_ACCESS_REMOTE_ATOMIC;
	assert_false(run(s, &r));
	r.va++;
	assert_false(run(s, &r));	/* misaligned */
	stage_free(s);
}

static void bounds_are_checked(void **state)
{
	struct stage *s = stage_make();

	assert_true(write_at(s, 0x10000 + 255, 1));
	assert_false(write_at(s, 0x10000 + 255, 2));
	assert_false(write_at(s, 0x10000 - 1, 1));
	assert_false(write_at(s, 0x10000 + 257, 1));
	assert_false(write_at(s, UINT64_MAX, 2));
	s->region.iova = UINT64_MAX - 255;
	assert_true(write_at(s, UINT64_MAX, 1));
	assert_false(write_at(s, UINT64_MAX, 2));
	stage_free(s);
}

/* Each fault alone sends the request to the packets. */
static void faults_are_left_to_packets(void **state)
{
	static const struct {
		const char *what;
		size_t offset;
		uint32_t bad;
	} fault[] = {
#define FAULT(member, bad) { #member, offsetof(struct stage, member), bad }
		FAULT(remote.qpn, 0x2003), FAULT(remote.peer_qpn, 0x1002), FAULT(remote.pd, 5), FAULT(remote.access, 0),
		FAULT(remote.type, IBV_QPT_UC), FAULT(remote.device, 1), FAULT(remote.dlid, 9),
		FAULT(remote.pkey, 0x0007), FAULT(remote.pkey, 0x8008),
		FAULT(region.key, 78), FAULT(region.pd, 9), FAULT(region.access, IBV_ACCESS_REMOTE_READ), FAULT(region.device, 1),
		FAULT(region.qpn, 0x2004),
#undef FAULT
	};
	struct stage *s = stage_make();
	struct direct_request read = { .op = OP_READ_REQUEST, .rkey = 77, .va = 0x10000 };

	for (unsigned i = 0; i < sizeof(fault) / sizeof(fault[0]); i++) {
		uint32_t *word = (uint32_t *)(void *)((uint8_t *)s + fault[i].offset), good = *word;

		*word = fault[i].bad;
		if (write_at(s, 0x10000, 16))
			fail_msg("a fault in %s was not seen", fault[i].what);
		*word = good;
		assert_true(write_at(s, 0x10000, 16));
	}
	s->remote.device = s->region.device = 1;	/* both of another adapter of our network; of another network */
	assert_true(write_at(s, 0x10000, 16));
	s->remote.network = 1;
	assert_false(write_at(s, 0x10000, 16));
	s->remote.network = s->remote.device = s->region.device = 0;
	s->remote.gids = 12345;		/* it expects a GRH, we have none */
	assert_false(write_at(s, 0x10000, 16));
	s->remote.gids = 0;
	s->remote.depth = 0;
	assert_false(run(s, &read));
	assert_true(write_at(s, 0x10000, 16));
	s->region.qpn = s->remote.qpn;	/* a window of just this QP */
	assert_true(write_at(s, 0x10000, 16));
	mover_fails = true;
	assert_false(write_at(s, 0x10000, 16));
	mover_fails = false;
	stage_free(s);
}

/* IBA 9.6.1.4.1: the peer expects both GIDs of a global path. */
static void a_global_path_is_expected_by_its_gids(void **state)
{
	struct stage *s = stage_make();
	struct pd pd = { .handle = 4 };
	struct qp theirs = { .ca = &s->ca, .dev = s->qp.dev, .type = IBV_QPT_RC, .pd = &pd };

	s->qp.path.has_grh = theirs.path.has_grh = true;
	for (unsigned fault = 0; fault < 3; fault++) {
		struct share_qp shown;

		memset(s->qp.path.sgid, 0xa1, 16);
		memset(s->qp.path.dgid, 0xa2, 16);
		memcpy(theirs.path.dgid, s->qp.path.sgid, 16);
		memcpy(theirs.path.sgid, s->qp.path.dgid, 16);
		theirs.path.dgid[15] ^= fault == 1;
		theirs.path.sgid[15] ^= fault == 2;
		rma_describe_qp(&theirs, &shown);
		s->remote.gids = shown.gids;
		assert_int_equal(write_at(s, 0x10000, 16), fault == 0);
	}
	stage_free(s);
}

/* What was found is used again, until either entry or our own QPs change. */
static void found_entries_are_remembered(void **state)
{
	struct stage *s = stage_make();
	uint32_t qp = share_show_qp(&s->share, &s->remote), region = share_show_region(&s->share, &s->region);
	struct iovec iov = { s->source, 16 };
	struct direct_request r = { .op = OP_WRITE, .rkey = 77, .va = 0x10000, .bytes = 16, .iov = &iov, .iovs = 1 };

	assert_true(execute(s, &r));
	memset(s->memory->regions.way, 0, sizeof(s->memory->regions.way));	/* it would not be found once more */
	assert_true(execute(s, &r));
	r.va = 0x10000 + sizeof(s->target) - 15;
	assert_false(execute(s, &r));
	r.va = 0x10000;
	s->qp.qpn++;
	assert_false(execute(s, &r));
	s->qp.qpn--;
	assert_true(execute(s, &r));
	share_hide_region(&s->share, region);
	assert_false(execute(s, &r));
	region = share_show_region(&s->share, &s->region);
	assert_true(execute(s, &r));
	share_hide_qp(&s->share, qp);
	assert_false(execute(s, &r));
	qp = share_show_qp(&s->share, &s->remote);
	assert_true(execute(s, &r));
	memset(s->memory->regions.way, 0, sizeof(s->memory->regions.way));
	s->era++;
	assert_false(execute(s, &r));
	stage_free(s);
}

/* The region says where; the mover says whether. What it does not map goes by the address. */
static void mapped_regions_are_used(void **state)
{
	struct stage *s = stage_make();
	uint8_t file[256] = { 0 }, zero[256] = { 0 };
	uint64_t word = 5;
	struct direct_request add = { .op = OP_FETCH_ADD, .rkey = 77, .va = 0x10000, .bytes = 8, .operand = 3 };

	mapped_target = file;
	s->region.file = 1;
	assert_true(write_at(s, 0x10000, 256));
	assert_memory_equal(file, s->source, 256);
	assert_memory_equal(s->target, zero, 256);
	memcpy(file, &word, 8);
	assert_true(run(s, &add));
	assert_int_equal(add.original, 5);
	memcpy(&word, file, 8);
	assert_int_equal(word, 8);
	add = (struct direct_request){ .op = OP_ATOMIC_WRITE, .rkey = 77, .va = 0x10000, .bytes = 8, .operand = 12 };
	assert_true(run(s, &add));
	memcpy(&word, file, 8);
	assert_int_equal(word, 12);
	s->region.file_offset = 16;
	assert_true(write_at(s, 0x10000 + 8, 8));
	assert_memory_equal(file + 24, s->source, 8);
	s->region.file_offset = 1;	/* more than the file has */
	memset(file, 0, sizeof(file));
	assert_true(write_at(s, 0x10000, 256));
	assert_memory_equal(s->target, s->source, 256);
	assert_memory_equal(file, zero, 256);
	assert_false(write_at(s, 0x10000 + 1, 256));
	s->region.file = 2;
	assert_true(write_at(s, 0x10000, 100));
	assert_memory_equal(file, zero, 256);
	stage_free(s);
}

/* The processor copies nothing while the program may unmap what is copied: the kernel says that it is gone. */
static void copies_of_the_helper_are_system_calls(void **state)
{
	struct stage *s = stage_make();
	uint8_t file[256] = { 0 }, zero[256] = { 0 };
	struct iovec iov = { s->source, 256 };
	struct direct_request write = { .op = OP_WRITE, .rkey = 77, .va = 0x10000, .bytes = 256, .iov = &iov, .iovs = 1 };

	(void)state;
	mapped_target = file;
	s->region.file = 1;
	s->ca.memory_may_go = true;
	share_show_qp(&s->share, &s->remote);
	share_show_region(&s->share, &s->region);
	assert_true(rma_execute(&s->qp, &s->peer, &write));
	assert_memory_equal(s->target, s->source, 256);
	assert_memory_equal(file, zero, 256);
	stage_free(s);
}

static void misaligned_atomics_are_left_to_packets(void **state)
{
	static const enum opcode_op ops[] = { OP_CMP_SWAP, OP_FETCH_ADD, OP_ATOMIC_WRITE };
	struct stage *s = stage_make();
	struct direct_request r = { .op = OP_FETCH_ADD, .rkey = 77, .va = 0x10008, .bytes = 8, .operand = 2 };

	for (unsigned i = 0; i < 3; i++) {
		r.op = ops[i];
		r.va = 0x10008;
		assert_true(run(s, &r));
		for (r.va = 0x10001; r.va < 0x10008; r.va++)
			assert_false(run(s, &r));
	}
	stage_free(s);
}

/* The other end is a QP of the same process: it is reached while it is shown, and only for what it takes. */
static bool execute_own(const struct qp *qp, struct direct_request *r)
{
	bool done = rma_execute_own(qp, r);

	if (r->op == OP_WRITE)
		assert_int_equal(rma_write_own(qp, r->rkey, r->va, r->iov->iov_base, r->bytes), done);
	return done;
}

static void own_qps_are_reached_as_others_are(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 32, NULL), *remote = adapter_qp(a, IBV_QPT_RC, 32, NULL);
	_Alignas(8) uint8_t target[16] = { 0 }, source[16] = { 1, 2, 3 };
	struct iovec iov = { source, 8 };
	struct mr *mr;

	adapter_move(qp, IBV_QPS_RTS);
	adapter_move(remote, IBV_QPS_RTS);
	qp->attr.dest_qp_num = remote->qpn;
	assert_int_equal(mr_create(remote->pd, target, sizeof(target), 0x10000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, &mr), 0);
	struct direct_request write = { .op = OP_WRITE, .rkey = mr->key, .va = 0x10000, .bytes = 8,
					.iov = &iov, .iovs = 1 };
	struct direct_request read = { .op = OP_READ_REQUEST, .rkey = mr->key, .va = 0x10000, .bytes = 8,
				       .iov = &iov, .iovs = 1 };
	struct direct_request add = { .op = OP_FETCH_ADD, .rkey = mr->key, .va = 0x10008, .bytes = 8, .operand = 1 };

	assert_false(execute_own(qp, &write));
	assert_int_equal(target[0], 0);
	remote->published = 1;
	assert_true(execute_own(qp, &write));
	assert_memory_equal(target, source, 8);
	a->ca.memory_may_go = true;
	assert_false(execute_own(qp, &write));
	a->ca.memory_may_go = false;
	assert_true(rma_execute_own(qp, &read));
	assert_true(rma_execute_own(qp, &add));
	assert_int_equal(add.original, 0);
	add.va--;
	assert_false(rma_execute_own(qp, &add));
	add.va++;
	remote->attr.max_dest_rd_atomic = 0;	/* IBA 9.7.4.1.4: it takes neither reads nor atomics */
	assert_false(rma_execute_own(qp, &read));
	assert_false(rma_execute_own(qp, &add));
	assert_true(execute_own(qp, &write));
	remote->attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	assert_false(execute_own(qp, &write));
	remote->published = 0;
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_arrives),
		cmocka_unit_test(atomics_change_the_word),
		cmocka_unit_test(bounds_are_checked),
		cmocka_unit_test(faults_are_left_to_packets),
		cmocka_unit_test(a_global_path_is_expected_by_its_gids),
		cmocka_unit_test(found_entries_are_remembered),
		cmocka_unit_test(mapped_regions_are_used),
		cmocka_unit_test(copies_of_the_helper_are_system_calls),
		cmocka_unit_test(misaligned_atomics_are_left_to_packets),
		cmocka_unit_test(own_qps_are_reached_as_others_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
