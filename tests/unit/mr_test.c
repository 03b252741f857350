/* Regions, windows and segment lists: key, PD, rights and bounds. SAN-25, IPS-34, IPS-123. */
#include "adapter.h"

enum {
	LW = IBV_ACCESS_LOCAL_WRITE, RW = IBV_ACCESS_REMOTE_WRITE, RR = IBV_ACCESS_REMOTE_READ, RA = IBV_ACCESS_REMOTE_ATOMIC,
	BIND = IBV_ACCESS_MW_BIND, ZERO = IBV_ACCESS_ZERO_BASED, ODP = IBV_ACCESS_ON_DEMAND,
	BYTES = 1024,
};

struct world {
	struct adapter *a;
	struct pd *pd, *other_pd;
	struct qp *qp, *other_qp;
	struct mr *mr;
	uint8_t memory[BYTES];
};

static int open_world(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->a = adapter_new();
	w->qp = adapter_qp(w->a, IBV_QPT_RC, 32, NULL);
	w->other_qp = adapter_qp(w->a, IBV_QPT_RC, 32, NULL);
	adapter_move(w->qp, IBV_QPS_RTS);
	adapter_move(w->other_qp, IBV_QPS_RTS);
	w->pd = w->qp->pd;
	w->other_pd = w->other_qp->pd;
	assert_int_equal(mr_create(w->pd, w->memory, BYTES, (uintptr_t)w->memory, LW | RW | RR | RA | BIND, &w->mr), 0);
	*state = w;
	return 0;
}

static int close_world(void **state)
{
	struct world *w = *state;

	adapter_delete(w->a);
	free(w);
	return 0;
}

static uint64_t va(const struct world *w, uint64_t offset)
{
	return (uintptr_t)w->memory + offset;
}

static void registration_checks_its_arguments(void **state)
{
	static const struct { uint64_t address, length, iova; int access, result; } row[] = {
		{ 0x1000, 0x1000, 0x1000, 0, 0 },
		{ 0x1000, 0, 0x1000, 0, 0 },
		{ 0x1000, 0x1000, 0x1000, RR, 0 },
		{ 0x1000, 0x1000, 0x1000, RW, -EINVAL },
		{ 0x1000, 0x1000, 0x1000, RA, -EINVAL },
		{ 0x1000, 0x1000, 0x1000, RA | RR | LW | RW | BIND, 0 },
		{ 0x1000, 0x1000, 0x1000, 1 << 15, -EINVAL },
		{ 0x1000, 0x1000, 0x1000, IBV_ACCESS_RELAXED_ORDERING, 0 },
		{ 0x1000, 0x1000, 0x1000, 1 << 29, 0 },		/* optional flags may be ignored */
		{ UINT64_MAX - 10, 11, 0, 0, 0 },
		{ UINT64_MAX - 10, 12, 0, 0, -EINVAL },
		{ 0x1000, UINT64_MAX, 0, 0, -EINVAL },
		{ 0x1000, 0x1000, UINT64_MAX - 10, 0, -EINVAL },
	};
	struct world *w = *state;

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct mr *mr = NULL;

		assert_int_equal(mr_create(w->pd, (void *)(uintptr_t)row[i].address, row[i].length, row[i].iova,
					   row[i].access, &mr), row[i].result);
		assert_true(!mr == (row[i].result < 0));
		if (mr)
			assert_int_equal(mr_destroy(mr), 0);
	}
}

static void stale_and_foreign_keys_miss(void **state)
{
	struct world *w = *state;
	uint32_t stale[300];
	struct mr *mr;

	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(mr_create(w->pd, w->memory, BYTES, va(w, 0), LW | RW, &mr), 0);
		stale[i] = mr->key;
		assert_int_equal(mr_destroy(mr), 0);
		for (unsigned k = i > 200 ? i - 200 : 0; k <= i; k++)
			assert_null(mr_find(&w->a->ca, stale[k]));
	}
	assert_ptr_equal(mr_find(&w->a->ca, w->mr->key), w->mr);
	for (unsigned bit = 0; bit < 32; bit++)
		assert_null(mr_find(&w->a->ca, w->mr->key ^ 1u << bit));
}

static void remote_access_is_checked(void **state)
{
	struct world *w = *state;
	const struct { uint64_t offset, bytes; int need; enum remote_verdict verdict; } row[] = {
		{ 0, 1, RW, REMOTE_OK },
		{ 0, BYTES, RW, REMOTE_OK },
		{ BYTES - 1, 1, RR, REMOTE_OK },
		{ BYTES, 0, RW, REMOTE_OK },
		{ 1 << 20, 0, RW, REMOTE_OK },
		{ 0, BYTES + 1, RW, REMOTE_ACCESS_ERROR },
		{ BYTES, 1, RW, REMOTE_ACCESS_ERROR },
		{ (uint64_t)-1, 1, RW, REMOTE_ACCESS_ERROR },
		{ 1, UINT64_MAX, RW, REMOTE_ACCESS_ERROR },
		{ 0, 8, RA, REMOTE_OK },
	};
	struct mr *mr;

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(remote_check(w->qp, w->mr->key, va(w, row[i].offset), row[i].bytes, row[i].need, &mr),
				 row[i].verdict);
		if (row[i].verdict == REMOTE_OK)
			assert_ptr_equal(mr, row[i].bytes ? w->mr : NULL);
	}
	/* the right key from another protection domain, and another key */
	assert_int_equal(remote_check(w->other_qp, w->mr->key, va(w, 0), 1, RW, &mr), REMOTE_ACCESS_ERROR);
	assert_int_equal(remote_check(w->qp, w->mr->key + 1, va(w, 0), 1, RW, &mr), REMOTE_ACCESS_ERROR);
	assert_int_equal(remote_check_pd(w->other_qp, w->pd, w->mr->key, va(w, 0), 1, RW, &mr), REMOTE_OK);
	/* rights of the region and of the QP, each alone */
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW | RR), 0);
	assert_int_equal(remote_check(w->qp, w->mr->key, va(w, 0), 1, RW, &mr), REMOTE_ACCESS_ERROR);
	assert_int_equal(remote_check(w->qp, w->mr->key, va(w, 0), 1, RR, &mr), REMOTE_OK);
	w->qp->attr.qp_access_flags = RW;
	assert_int_equal(remote_check(w->qp, w->mr->key, va(w, 0), 1, RR, &mr), REMOTE_ACCESS_ERROR);
}

static void kinds_move_bytes(void **state)
{
	struct world *w = *state;
	uint8_t in[16] = "fifteen letters", out[16];
	struct mr *mr;

	for (enum mr_kind kind = MR_MEMORY; kind <= MR_DEVICE; kind++) {
		bool is_implicit = kind == MR_IMPLICIT;

		memset(w->memory, 0, BYTES);
		assert_int_equal(mr_create_kind(w->pd, kind, is_implicit ? NULL : w->memory, is_implicit ? UINT64_MAX : BYTES,
						is_implicit ? 0 : va(w, 0), LW | RW | RR, &mr), 0);
		assert_int_equal(mr_write(mr, va(w, 100), in, 16), 0);
		memset(out, 0xff, 16);
		assert_int_equal(mr_read(mr, va(w, 100), out, 16), 0);
		if (kind == MR_NULL) {
			assert_int_equal(w->memory[100], 0);
			assert_int_equal(out[3], 0);
		} else {
			assert_memory_equal(out, in, 16);
			assert_memory_equal(w->memory + 100, in, 16);
		}
		assert_int_equal(!mr_borrow(mr, va(w, 1)), kind != MR_MEMORY && kind != MR_DEVICE);
		w->a->fault = true;
		assert_int_equal(mr_write(mr, va(w, 100), in, 16), kind == MR_ON_DEMAND || kind == MR_IMPLICIT ? -EFAULT : 0);
		w->a->fault = false;
		assert_int_equal(mr_destroy(mr), 0);
	}
}

/* A program may unmap what it has registered: a thread of the host that comes upon it meanwhile copies with care. */
static void memory_may_go_while_the_engine_runs_apart(void **state)
{
	struct world *w = *state;
	uint8_t bounce[PACKET_MAX_PAYLOAD], out[16];
	struct wqe_seg seg = { va(w, 100), 16, w->mr->key };
	struct iovec iov;
	unsigned iovs;

	memset(w->memory, 'x', BYTES);
	assert_ptr_equal(mr_borrow_to_copy(w->mr, va(w, 100)), w->memory + 100);
	w->a->ca.memory_may_go = true;
	assert_null(mr_borrow_to_copy(w->mr, va(w, 100)));
	assert_non_null(mr_borrow(w->mr, va(w, 100)));
	assert_int_equal(seg_gather(w->qp, &seg, 1, 0, 16, &iov, 1, &iovs, bounce), IBV_WC_SUCCESS);
	assert_ptr_equal(iov.iov_base, bounce);
	assert_memory_equal(bounce, w->memory, 16);
	w->a->fault = true;
	assert_int_equal(mr_write(w->mr, va(w, 100), "fifteen letters", 16), 0);
	assert_int_equal(w->memory[100], 'x');
	memset(out, 'y', 16);
	assert_int_equal(mr_read(w->mr, va(w, 100), out, 16), 0);
	assert_memory_equal(out, (uint8_t[16]){ 0 }, 16);
	w->a->fault = false;
	assert_int_equal(mr_write(w->mr, va(w, 100), "fifteen letters", 16), 0);
	assert_string_equal((char *)w->memory + 100, "fifteen letters");
	w->a->ca.memory_may_go = false;
}

static void zero_based_regions_count_from_zero(void **state)
{
	struct world *w = *state;
	struct mr *mr, *found;

	assert_int_equal(mr_create(w->pd, w->memory, BYTES, va(w, 0), LW | RW | ZERO, &mr), 0);
	assert_int_equal(remote_check(w->qp, mr->key, 10, 4, RW, &found), REMOTE_OK);
	assert_int_equal(remote_check(w->qp, mr->key, va(w, 10), 4, RW, &found), REMOTE_ACCESS_ERROR);
	assert_int_equal(mr_write(mr, 10, "abc", 4), 0);
	assert_string_equal((char *)w->memory + 10, "abc");
}

static void reregistration_changes_what_it_names(void **state)
{
	struct world *w = *state;
	uint8_t elsewhere[64];
	uint32_t key = w->mr->key;
	struct pd *roce_pd;
	struct mr *mr;

	assert_int_equal(mr_rereg(w->mr, 0, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(mr_rereg(w->mr, 8, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RW), -EINVAL);
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 0, 0), -EINVAL);
	assert_int_equal(pd_create(&w->a->ca, w->a->roce, &roce_pd), 0);
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_PD, roce_pd, NULL, 0, 0), -EINVAL);
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL,
				  elsewhere, 64, RW), -EINVAL);
	assert_int_equal(w->mr->length, BYTES);
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD, w->other_pd,
				  elsewhere, 64, 0), 0);
	assert_int_equal(w->mr->key, key);
	assert_int_equal(remote_check(w->qp, key, (uintptr_t)elsewhere, 64, RW, &mr), REMOTE_ACCESS_ERROR);
	assert_int_equal(remote_check(w->other_qp, key, (uintptr_t)elsewhere, 64, RW, &mr), REMOTE_OK);
	assert_int_equal(remote_check(w->other_qp, key, va(w, 0), 1, RW, &mr), REMOTE_ACCESS_ERROR);
	assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW | ODP), 0);
	assert_int_equal(w->mr->kind, MR_ON_DEMAND);
}

static void scatter_and_gather_walk_the_list(void **state)
{
	struct world *w = *state;
	struct wqe_seg seg[4] = {
		{ va(w, 0), 10, w->mr->key }, { va(w, 100), 0, 12345 },
		{ va(w, 200), 5, w->mr->key }, { va(w, 300), 20, w->mr->key },
	};
	uint8_t bounce[PACKET_MAX_PAYLOAD], data[35];
	struct iovec iov[8];
	unsigned iovs;

	for (unsigned i = 0; i < 35; i++)
		data[i] = (uint8_t)(i + 1);
	assert_int_equal(seg_scatter(w->pd, seg, 4, 0, data, 35), IBV_WC_SUCCESS);
	assert_memory_equal(w->memory, data, 10);
	assert_int_equal(w->memory[10], 0);
	assert_memory_equal(w->memory + 200, data + 10, 5);
	assert_memory_equal(w->memory + 300, data + 15, 20);
	for (uint32_t offset = 0; offset <= 35; offset++)
		for (uint32_t bytes = 0; offset + bytes <= 35; bytes++) {
			uint32_t at = offset;

			assert_int_equal(seg_gather(w->qp, seg, 4, offset, bytes, iov, 8, &iovs, bounce), IBV_WC_SUCCESS);
			for (unsigned i = 0; i < iovs; at += (uint32_t)iov[i++].iov_len)
				assert_memory_equal(iov[i].iov_base, data + at, iov[i].iov_len);
			assert_int_equal(at, offset + bytes);
		}
	assert_int_equal(seg_gather(w->qp, seg, 4, 0, 36, iov, 8, &iovs, bounce), IBV_WC_LOC_LEN_ERR);
	assert_int_equal(seg_gather(w->qp, seg, 4, 0, 35, iov, 2, &iovs, bounce), IBV_WC_LOC_LEN_ERR);
	assert_int_equal(seg_scatter(w->pd, seg, 4, 30, data, 6), IBV_WC_LOC_LEN_ERR);
}

static void gathering_copies_what_cannot_be_borrowed(void **state)
{
	struct world *w = *state;
	uint8_t bounce[PACKET_MAX_PAYLOAD];
	struct mr *odp, *null;
	struct iovec iov[4];
	unsigned iovs;

	assert_int_equal(mr_create(w->pd, w->memory, BYTES, va(w, 0), ODP, &odp), 0);
	assert_int_equal(mr_create_kind(w->pd, MR_NULL, NULL, 0, 0, LW, &null), 0);
	memcpy(w->memory, "hello", 5);
	memset(bounce, 0xee, sizeof(bounce));
	struct wqe_seg seg[3] = { { va(w, 0), 5, odp->key }, { 0x123, 7, null->key }, { va(w, 0), 2, w->mr->key } };

	assert_int_equal(seg_gather(w->qp, seg, 3, 0, 14, iov, 4, &iovs, bounce), IBV_WC_SUCCESS);
	assert_int_equal(iovs, 3);
	assert_memory_equal(bounce, "hello\0\0\0\0\0\0\0", 12);
	assert_ptr_equal(iov[2].iov_base, w->memory);
	w->a->fault = true;
	assert_int_equal(seg_gather(w->qp, seg, 3, 0, 14, iov, 4, &iovs, bounce), IBV_WC_LOC_PROT_ERR);
}

static void bad_segments_are_refused_and_nothing_written(void **state)
{
	struct world *w = *state;
	struct mr *read_only, *foreign, *mw;
	uint8_t data[8] = "1234567";

	assert_int_equal(mr_create(w->pd, w->memory, BYTES, va(w, 0), 0, &read_only), 0);
	assert_int_equal(mr_create(w->other_pd, w->memory, BYTES, va(w, 0), LW, &foreign), 0);
	assert_int_equal(mw_create(w->pd, IBV_MW_TYPE_1, &mw), 0);
	const struct wqe_seg bad[] = {
		{ va(w, 0), 8, read_only->key }, { va(w, 0), 8, foreign->key }, { va(w, 0), 8, mw->key }, { va(w, 0), 8, 0 },
		{ va(w, BYTES - 7), 8, w->mr->key }, { va(w, -1), 8, w->mr->key }, { UINT64_MAX - 3, 8, w->mr->key },
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(seg_check(w->pd, &bad[i], 1, LW), IBV_WC_LOC_PROT_ERR);
		assert_int_equal(seg_scatter(w->pd, &bad[i], 1, 0, data, 8), IBV_WC_LOC_PROT_ERR);
		assert_false(seg_fill(w->pd, &bad[i], data, 8));
		assert_null(seg_memory(w->pd, &bad[i], 8, LW));
	}
	for (unsigned i = 0; i < BYTES; i++)
		assert_int_equal(w->memory[i], 0);
	assert_int_equal(seg_check(w->pd, &bad[0], 1, 0), IBV_WC_SUCCESS);
}

/* As other adapters have it: what counts is where the bytes go. */
static void a_receive_may_be_longer_than_its_region(void **state)
{
	struct world *w = *state;
	const struct wqe_seg seg = { va(w, BYTES - 8), 64, w->mr->key };
	struct iovec iov[DIRECT_IOVS];
	uint8_t data[9] = "12345678";

	assert_int_equal(seg_scatter(w->pd, &seg, 1, 0, data, 4), IBV_WC_SUCCESS);
	assert_int_equal(seg_scatter(w->pd, &seg, 1, 4, data + 4, 4), IBV_WC_SUCCESS);
	assert_memory_equal(w->memory + BYTES - 8, data, 8);
	memset(w->memory, 0, BYTES);
	assert_true(seg_fill(w->pd, &seg, data, 8));
	assert_memory_equal(w->memory + BYTES - 8, data, 8);
	assert_int_equal(seg_borrow(w->pd, &seg, 1, LW, 8, iov), 1);
	assert_ptr_equal(iov[0].iov_base, w->memory + BYTES - 8);
	assert_int_equal(iov[0].iov_len, 8);
	memset(w->memory, 0, BYTES);
	assert_int_equal(seg_scatter(w->pd, &seg, 1, 0, data, 9), IBV_WC_LOC_PROT_ERR);
	assert_int_equal(seg_scatter(w->pd, &seg, 1, 8, data, 1), IBV_WC_LOC_PROT_ERR);
	assert_false(seg_fill(w->pd, &seg, data, 9));
	assert_int_equal(seg_borrow(w->pd, &seg, 1, LW, 9, iov), -1);
	for (unsigned i = 0; i < BYTES; i++)
		assert_int_equal(w->memory[i], 0);
}

static struct send_wqe bind_wqe(const struct world *w, const struct mr *mw, uint64_t offset, uint64_t length, int access)
{
	return (struct send_wqe){
		.opcode = IBV_WR_BIND_MW, .bind_mw_rkey = mw->key, .bind_new_rkey = ibv_inc_rkey(mw->key),
		.bind_mr_lkey = w->mr->key, .bind_access = (uint32_t)access,
		.bind_addr = va(w, offset), .bind_length = length,
	};
}

static void windows_narrow_a_region(void **state)
{
	struct world *w = *state;
	struct mr *mw, *found;
	struct send_wqe wqe;
	uint32_t old;

	for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		assert_int_equal(mw_create(w->pd, type, &mw), 0);
		old = mw->key;
		assert_int_equal(remote_check(w->qp, old, va(w, 100), 1, RW, &found), REMOTE_ACCESS_ERROR);
		wqe = bind_wqe(w, mw, 100, 50, RW);
		assert_int_equal(mw_bind(w->qp, &wqe), IBV_WC_SUCCESS);
		assert_int_not_equal(mw->key, old);
		assert_null(mr_find(&w->a->ca, old));
		assert_int_equal(remote_check(w->qp, mw->key, va(w, 100), 50, RW, &found), REMOTE_OK);
		assert_int_equal(mr_write(found, va(w, 101), "x", 1), 0);
		assert_int_equal(w->memory[101], 'x');
		assert_int_equal(remote_check(w->qp, mw->key, va(w, 100), 51, RW, &found), REMOTE_ACCESS_ERROR);
		assert_int_equal(remote_check(w->qp, mw->key, va(w, 99), 1, RW, &found), REMOTE_ACCESS_ERROR);
		assert_int_equal(remote_check(w->qp, mw->key, va(w, 100), 1, RR, &found), REMOTE_ACCESS_ERROR);
		assert_int_equal(mr_destroy(w->mr), -EBUSY);
		assert_int_equal(mr_rereg(w->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW), -EBUSY);
		if (type == IBV_MW_TYPE_1) {
			wqe = bind_wqe(w, mw, 0, 0, 0);
			assert_int_equal(mr_invalidate(w->qp, mw->key, false), IBV_WC_MW_BIND_ERR);
			assert_int_equal(mw_bind(w->qp, &wqe), IBV_WC_SUCCESS);
		} else {
			struct qp *sibling = w->other_qp;

			assert_int_equal(remote_check_pd(sibling, w->pd, mw->key, va(w, 100), 50, RW, &found),
					 REMOTE_ACCESS_ERROR);
			wqe = bind_wqe(w, mw, 0, 8, RW);
			assert_int_equal(mw_bind(w->qp, &wqe), IBV_WC_MW_BIND_ERR);
			assert_int_equal(mr_invalidate(sibling, mw->key, true), IBV_WC_REM_ACCESS_ERR);
			assert_int_equal(mr_invalidate(w->qp, mw->key, true), IBV_WC_SUCCESS);
			assert_int_equal(mr_invalidate(w->qp, mw->key, true), IBV_WC_REM_ACCESS_ERR);
		}
		assert_int_equal(remote_check(w->qp, mw->key, va(w, 100), 1, RW, &found), REMOTE_ACCESS_ERROR);
		assert_int_equal(w->mr->windows, 0);
		assert_int_equal(mw_destroy(mw), 0);
	}
	assert_int_equal(mr_invalidate(w->qp, w->mr->key, false), IBV_WC_MW_BIND_ERR);
}

static void binds_that_grant_too_much_fail(void **state)
{
	struct world *w = *state;
	struct mr *mw, *foreign_mw, *unbindable, *read_only;

	assert_int_equal(mw_create(w->pd, IBV_MW_TYPE_2, &mw), 0);
	assert_int_equal(mw_create(w->other_pd, IBV_MW_TYPE_2, &foreign_mw), 0);
	assert_int_equal(mr_create(w->pd, w->memory, BYTES, va(w, 0), LW | RW, &unbindable), 0);
	assert_int_equal(mr_create(w->pd, w->memory, BYTES, va(w, 0), RR | BIND, &read_only), 0);
	for (unsigned fault = 0; fault < 10; fault++) {
		struct send_wqe wqe = bind_wqe(w, mw, 0, 8, RW);

		switch (fault) {
		case 0: wqe.bind_addr = va(w, BYTES - 7); break;
		case 1: wqe.bind_mr_lkey = unbindable->key; break;
		case 2: wqe.bind_mr_lkey = read_only->key; break;
		case 3: wqe.bind_mr_lkey = 0; break;
		case 4: wqe.bind_mr_lkey = foreign_mw->key; break;
		case 5: wqe.bind_mw_rkey = foreign_mw->key; break;
		case 6: wqe.bind_new_rkey += 0x100; break;
		case 7: wqe.bind_access = BIND; break;
		case 8: wqe.bind_length = 0; break;
		case 9: wqe.bind_mw_rkey = w->mr->key; break;
		}
		assert_int_equal(mw_bind(w->qp, &wqe), IBV_WC_MW_BIND_ERR);
		assert_null(mw->bound_to);
	}
	struct send_wqe good = bind_wqe(w, mw, 0, 8, RW);

	assert_int_equal(mw_bind(w->other_qp, &good), IBV_WC_MW_BIND_ERR);
	assert_int_equal(mw_bind(w->qp, &good), IBV_WC_SUCCESS);
}

/* ibv_mw.rkey is the consumer's to keep up to date, and not every one does. */
static void binding_again_needs_no_current_variant(void **state)
{
	struct world *w = *state;
	struct mr *mw;

	assert_int_equal(mw_create(w->pd, IBV_MW_TYPE_1, &mw), 0);
	struct send_wqe wqe = bind_wqe(w, mw, 0, 8, RW);

	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(mw_bind(w->qp, &wqe), IBV_WC_SUCCESS);
		assert_int_equal(mw->key, wqe.bind_new_rkey);
		assert_ptr_equal(mr_find(&w->a->ca, mw->key), mw);
		wqe.bind_new_rkey = ibv_inc_rkey(wqe.bind_new_rkey);
	}
	assert_int_equal(w->mr->windows, 1);
}

/* The domain is the same: only the QP differs. */
static void only_its_queue_pair_invalidates_a_window(void **state)
{
	struct world *w = *state;
	struct pd *other_pd = w->other_qp->pd;
	struct mr *mw;

	assert_int_equal(mw_create(w->pd, IBV_MW_TYPE_2, &mw), 0);
	struct send_wqe wqe = bind_wqe(w, mw, 0, 8, RW);

	assert_int_equal(mw_bind(w->qp, &wqe), IBV_WC_SUCCESS);
	w->other_qp->pd = w->pd;
	assert_int_equal(mr_invalidate(w->other_qp, mw->key, false), IBV_WC_MW_BIND_ERR);
	assert_int_equal(mr_invalidate(w->other_qp, mw->key, true), IBV_WC_REM_ACCESS_ERR);
	w->other_qp->pd = other_pd;
	assert_ptr_equal(mw->bound_to, w->mr);
	assert_int_equal(mr_invalidate(w->qp, mw->key, false), IBV_WC_SUCCESS);
}

static void windows_go_with_their_queue_pair(void **state)
{
	struct world *w = *state;
	struct mr *mw;

	assert_int_equal(mw_create(w->pd, IBV_MW_TYPE_2, &mw), 0);
	struct send_wqe wqe = bind_wqe(w, mw, 0, 8, RW);

	assert_int_equal(mw_bind(w->qp, &wqe), IBV_WC_SUCCESS);
	assert_int_equal(qp_destroy(w->qp), 0);
	assert_null(mw->bound_to);
	assert_int_equal(mr_destroy(w->mr), 0);
}

static void domains_outlive_their_children(void **state)
{
	struct adapter *a = ((struct world *)*state)->a;
	struct pd *pd;
	struct mr *mr, *mw;

	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(mr_create(pd, pd, 8, 0, 0, &mr), 0);
	assert_int_equal(mw_create(pd, IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(mw_create(pd, (enum ibv_mw_type)3, &mw), -EINVAL);
	assert_int_equal(pd_destroy(pd), -EBUSY);
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(pd_destroy(pd), -EBUSY);
	assert_int_equal(mw_destroy(mw), 0);
	assert_int_equal(pd_destroy(pd), 0);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD(registration_checks_its_arguments),
		WORLD(stale_and_foreign_keys_miss),
		WORLD(remote_access_is_checked),
		WORLD(kinds_move_bytes),
		WORLD(memory_may_go_while_the_engine_runs_apart),
		WORLD(zero_based_regions_count_from_zero),
		WORLD(reregistration_changes_what_it_names),
		WORLD(scatter_and_gather_walk_the_list),
		WORLD(gathering_copies_what_cannot_be_borrowed),
		WORLD(bad_segments_are_refused_and_nothing_written),
		WORLD(a_receive_may_be_longer_than_its_region),
		WORLD(windows_narrow_a_region),
		WORLD(binds_that_grant_too_much_fail),
		WORLD(binding_again_needs_no_current_variant),
		WORLD(only_its_queue_pair_invalidates_a_window),
		WORLD(windows_go_with_their_queue_pair),
		WORLD(domains_outlive_their_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
