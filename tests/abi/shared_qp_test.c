/* A program's own UD QP whose receive buffers several clients share (weft/weft.h): numbers, additions, quotas, tenants that
 * flood, the fixed depth of old. Over weft0, from a QP of the same program. */
#include "rc.h"
#include "weft/weft.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { QKEY = 0x11111111, DEPTH = 256, BYTES = 64, BYTES_MOST = 512 };

static struct world {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *sent, *received;
	struct ibv_qp *from, *shared_qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah, *ah_with_grh;
	uint8_t out[BYTES_MOST];
	struct weft_shared *shared;
	unsigned told;
} w;

static void initialise(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
}

static struct ibv_qp *make_qp(struct ibv_cq *received)
{
	struct ibv_qp_init_attr init = { .send_cq = w.sent, .recv_cq = received, .cap = { 16, DEPTH, 1, 1, 0 },
					 .qp_type = IBV_QPT_UD, .sq_sig_all = 1 };
	struct ibv_qp *qp = ibv_create_qp(w.pd, &init);

	assert_non_null(qp);
	initialise(qp);
	return qp;
}

static void start(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static int begin(void **state)
{
	struct ibv_port_attr port;
	struct ibv_ah_attr ah = { .port_num = 1 };

	(void)state;
	memset(&w, 0, sizeof(w));
	w.ctx = device_open(0);
	assert_non_null(w.ctx);
	w.pd = ibv_alloc_pd(w.ctx);
	w.sent = ibv_create_cq(w.ctx, DEPTH, NULL, NULL, 0);
	w.received = ibv_create_cq(w.ctx, DEPTH, NULL, NULL, 0);
	w.mr = ibv_reg_mr(w.pd, w.out, sizeof(w.out), 0);
	assert_true(w.pd && w.sent && w.received && w.mr);
	w.from = make_qp(w.sent);
	w.shared_qp = make_qp(w.received);
	start(w.from);
	assert_int_equal(ibv_query_port(w.ctx, 1, &port), 0);
	ah.dlid = port.lid;
	w.ah = ibv_create_ah(w.pd, &ah);
	assert_non_null(w.ah);
	ah.is_global = 1;
	assert_int_equal(ibv_query_gid(w.ctx, 1, 0, &ah.grh.dgid), 0);
	w.ah_with_grh = ibv_create_ah(w.pd, &ah);
	assert_non_null(w.ah_with_grh);
	return 0;
}

static void share(const struct weft_shared_options *options)
{
	w.shared = weft_shared_create(w.shared_qp, options);
	assert_non_null(w.shared);
	start(w.shared_qp);
}

static int end(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	(void)state;
	if (w.shared) {
		assert_int_equal(ibv_modify_qp(w.shared_qp, &attr, IBV_QP_STATE), 0);
		assert_int_equal(weft_shared_destroy(w.shared), 0);
	}
	assert_int_equal(ibv_destroy_ah(w.ah_with_grh), 0);
	assert_int_equal(ibv_destroy_ah(w.ah), 0);
	assert_int_equal(ibv_destroy_qp(w.from), 0);
	assert_int_equal(ibv_destroy_qp(w.shared_qp), 0);
	assert_int_equal(ibv_dereg_mr(w.mr), 0);
	assert_int_equal(ibv_destroy_cq(w.sent), 0);
	assert_int_equal(ibv_destroy_cq(w.received), 0);
	assert_int_equal(ibv_dealloc_pd(w.pd), 0);
	assert_int_equal(ibv_close_device(w.ctx), 0);
	return 0;
}

static void send_bytes(struct ibv_ah *ah, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)w.out, bytes, w.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .wr.ud = { ah, w.shared_qp->qp_num, QKEY } };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	assert_int_equal(ibv_post_send(w.from, &wr, &bad), 0);
	while (!(n = ibv_poll_cq(w.sent, 1, &wc)))
		;
	assert_true(n == 1 && wc.status == IBV_WC_SUCCESS);
}

/* A message of a class, with a number that its client knows it by. */
static void send(uint8_t mgmt_class, uint8_t number)
{
	w.out[1] = mgmt_class;
	w.out[2] = number;
	send_bytes(w.ah, BYTES);
}

static void send_with_grh(uint8_t mgmt_class, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		w.out[i] = (uint8_t)(i * 7);
	w.out[1] = mgmt_class;
	send_bytes(w.ah_with_grh, bytes);
}

static struct weft_shared_counts counts(int client)
{
	struct weft_shared_counts c;

	assert_int_equal(weft_shared_counts(w.shared, client, &c), 0);
	return c;
}

/* Takes in all that has come; how many were this client's, which holds them, the last one in *m. */
static unsigned take_all(int client, struct weft_shared_message *m)
{
	struct weft_shared_message one;
	unsigned n = 0;
	int got;

	while ((got = weft_shared_poll(w.shared, &one)) > 0) {
		n += one.client == client;
		if (one.client == client)
			*m = one;
	}
	assert_int_equal(got, 0);
	return n;
}

static void clients_have_their_messages(void **state)
{
	struct weft_shared_message m;
	int a, b;

	(void)state;
	share(NULL);
	a = weft_shared_register(w.shared, 3, -1);
	b = weft_shared_register(w.shared, 4, 100);
	assert_true(a >= 0 && b >= 0);
	assert_int_equal(weft_shared_register(w.shared, 4, 1), -EBUSY);
	assert_int_equal(weft_shared_register(w.shared, 5, DEPTH), -ENOSPC);
	assert_int_equal(weft_shared_register(w.shared, 5, -2), -EINVAL);
	assert_int_equal(counts(-1).posted, 116);
	send(4, 77);
	send(9, 1);
	send(3, 78);
	assert_int_equal(weft_shared_poll(w.shared, &m), 1);
	assert_true(m.client == b && m.bytes == BYTES && ((const uint8_t *)m.data)[2] == 77 && !m.grh);
	assert_int_equal(m.src_qp, w.from->qp_num);
	assert_int_equal(counts(b).held, 1);
	assert_int_equal(weft_shared_release(w.shared, &m), 0);
	assert_int_equal(weft_shared_release(w.shared, &m), -EINVAL);
	assert_int_equal(weft_shared_poll(w.shared, &m), 1);
	assert_true(m.client == a && ((const uint8_t *)m.data)[2] == 78);
	assert_int_equal(weft_shared_poll(w.shared, &m), 0);
	assert_int_equal(counts(-1).unknown, 1);
	assert_int_equal(weft_shared_change(w.shared, b, -90), 0);
	assert_int_equal(weft_shared_change(w.shared, b, -11), -EINVAL);
	assert_int_equal(counts(b).target, 10);
	assert_int_equal(weft_shared_unregister(w.shared, a), 0);
	assert_int_equal(weft_shared_unregister(w.shared, a), -ENOENT);
	assert_int_equal(weft_shared_counts(w.shared, a, &(struct weft_shared_counts){ 0 }), -ENOENT);
	assert_int_equal(counts(-1).held, 0);
	assert_int_equal(weft_shared_destroy(w.shared), -EBUSY);
}

/* GSA-14, 18: a burst beyond what is posted is met by additions, which go again. */
static void a_burst_is_met_by_additions(void **state)
{
	struct weft_shared_message m[100];
	int client;

	(void)state;
	share(NULL);
	client = weft_shared_register(w.shared, 3, -1);
	for (unsigned i = 0; i < 100; i++) {
		send(3, (uint8_t)i);
		assert_int_equal(weft_shared_poll(w.shared, &m[i]), 1);
	}
	assert_true(counts(-1).top_ups > 0 && counts(-1).posted > 0);
	assert_int_equal(counts(client).held, 100);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(((const uint8_t *)m[i].data)[2], i);
		assert_int_equal(weft_shared_release(w.shared, &m[i]), 0);
	}
	for (unsigned i = 0; i < 200; i++) {
		send(3, 0);
		assert_int_equal(weft_shared_poll(w.shared, &m[0]), 1);
		assert_int_equal(weft_shared_release(w.shared, &m[0]), 0);
	}
	assert_int_equal(counts(-1).automatic, 0);
	assert_int_equal(counts(-1).posted, 16);
	assert_true(counts(-1).trims > 0);
}

/* GSA-36: of clients that go with what they hold, each buffer is there for the next. */
static void clients_that_go_leave_their_buffers(void **state)
{
	struct weft_shared_message first, m;

	(void)state;
	share(NULL);
	for (unsigned round = 0; round < 5; round++) {
		int client = weft_shared_register(w.shared, 3, -1);

		for (unsigned i = 0; i < 100; i++) {
			send(3, 0);
			assert_int_equal(weft_shared_poll(w.shared, i ? &m : &first), 1);
		}
		assert_int_equal(weft_shared_release(w.shared, &first), 0);
		assert_int_equal(weft_shared_release(w.shared, &first), -EINVAL);
		assert_int_equal(counts(client).held, 99);
		assert_int_equal(weft_shared_unregister(w.shared, client), 0);
		assert_int_equal(weft_shared_release(w.shared, &m), -EINVAL);
	}
}

/* Which tenant a message is for, whatever its class. */
static uint32_t tenant(void *arg, const void *message, size_t bytes)
{
	assert_ptr_equal(arg, &w);
	return bytes > 1 ? ((const uint8_t *)message)[1] & 0xf0u : 0;
}

static void hear(void *arg, int client, int asked, uint32_t arrived, uint32_t should)
{
	assert_ptr_equal(arg, &w);
	assert_true(client >= 0 && asked == -1 && arrived >= should);
	w.told++;
}

/* X-05, GSA-25..27: two of three tenants flood and give nothing back; each has its own and what is left, the third loses none. */
static void two_tenants_flood(void **state)
{
	const struct weft_shared_options options = { .message_bytes = BYTES, .each = 16, .most = 64, .key = tenant,
						     .told = hear, .arg = &w };
	struct weft_shared_message m;
	int a, b, quiet;

	(void)state;
	share(&options);
	a = weft_shared_register(w.shared, 0x10, -1);
	b = weft_shared_register(w.shared, 0x20, -1);
	quiet = weft_shared_register(w.shared, 0x30, -1);
	for (unsigned i = 0; i < 400; i++) {
		send(i % 2 ? 0x11 : 0x22, 0);
		assert_int_equal(take_all(quiet, &m), 0);
		if (i % 4)
			continue;
		send(0x33, (uint8_t)i);
		assert_int_equal(take_all(quiet, &m), 1);
		assert_int_equal(((const uint8_t *)m.data)[2], (uint8_t)i);
		assert_int_equal(weft_shared_release(w.shared, &m), 0);
	}
	assert_int_equal(counts(a).held + counts(b).held, 64 - 16);
	assert_true(counts(a).held >= 16 && counts(b).held >= 16);
	assert_int_equal(counts(a).discards + counts(b).discards, 400 - 48);
	assert_int_equal(counts(quiet).discards, 0);
}

/* GSA-22: a client with much more than its number is told once. */
static void who_gets_more_than_it_asked_for_is_told(void **state)
{
	const struct weft_shared_options options = { .each = 1, .told = hear, .arg = &w };
	struct weft_shared_message m;

	(void)state;
	share(&options);
	assert_true(weft_shared_register(w.shared, 3, -1) >= 0);
	/* periods of a second end when the next message comes: as many as that takes */
	while (!w.told) {
		send(3, 0);
		assert_int_equal(weft_shared_poll(w.shared, &m), 1);
		assert_int_equal(weft_shared_release(w.shared, &m), 0);
	}
	assert_int_equal(w.told, 1);
}

/* GSA-02: by a fixed depth a client that gives nothing back leaves nothing for others. */
static void by_a_fixed_depth_a_flood_costs_all(void **state)
{
	const struct weft_shared_options options = { .fixed = 16 };
	struct weft_shared_message m;
	int flooder, other;

	(void)state;
	share(&options);
	flooder = weft_shared_register(w.shared, 3, -1);
	other = weft_shared_register(w.shared, 4, -1);
	assert_int_equal(counts(-1).posted, 16);
	for (unsigned i = 0; i < 40; i++)
		send(3, 0);
	assert_int_equal(take_all(flooder, &m), 16);
	send(4, 0);
	assert_int_equal(take_all(other, &m), 0);
	assert_int_equal(weft_shared_release(w.shared, &m), 0);
	send(4, 0);
	assert_int_equal(take_all(other, &m), 1);
}

/* Whoever is registered: what comes for nobody is nobody's, and not dropped. */
static void a_fixed_depth_is_there_before_clients(void **state)
{
	const struct weft_shared_options options = { .fixed = 16 };
	struct weft_shared_message m;

	(void)state;
	share(&options);
	send(3, 0);
	assert_int_equal(take_all(0, &m), 0);
	assert_int_equal(counts(-1).unknown, 1);
	assert_true(weft_shared_drops(w.shared) == 0);
}

/* In the reset state; what was called for is done, and receives are there when they can be. */
static void receives_that_are_refused_come_later(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct weft_shared_message m, more;
	int client;

	(void)state;
	w.shared = weft_shared_create(w.shared_qp, NULL);
	assert_non_null(w.shared);
	assert_int_equal(ibv_modify_qp(w.shared_qp, &attr, IBV_QP_STATE), 0);
	client = weft_shared_register(w.shared, 3, -1);
	assert_true(client >= 0);
	assert_int_equal(weft_shared_poll(w.shared, &m), -EINVAL);
	initialise(w.shared_qp);
	start(w.shared_qp);
	assert_int_equal(weft_shared_poll(w.shared, &m), 0);
	for (unsigned i = 0; i < 16; i++)
		send(3, 0);
	assert_int_equal(take_all(client, &m), 16);
	assert_true(weft_shared_drops(w.shared) == 0);
	assert_int_equal(ibv_modify_qp(w.shared_qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(weft_shared_change(w.shared, client, 20), 0);
	assert_int_equal(weft_shared_release(w.shared, &m), 0);
	assert_int_equal(weft_shared_release(w.shared, &m), -EINVAL);
	assert_int_equal(weft_shared_register(w.shared, 4, -1), client + 1);
	assert_int_equal(weft_shared_unregister(w.shared, client), 0);
	assert_int_equal(weft_shared_poll(w.shared, &more), -EINVAL);
}

static void expect_tunables(const char *wanted)
{
	char text[256];

	assert_int_equal(weft_shared_get(w.shared, text, sizeof(text)), strlen(wanted));
	assert_string_equal(text, wanted);
}

/* GSA-07, 15, 18, 28, 39: what an administrator may set holds at once, for clients that are there too. */
static void tunables_change_while_messages_come(void **state)
{
	const struct weft_shared_options options = { .most = 256 };
	struct weft_shared_message m;
	char some[12];
	int client;

	(void)state;
	share(&options);
	client = weft_shared_register(w.shared, 3, -1);
	expect_tunables("each=16 floor=1 low-percent=25 low=0 high=0 growth=2 most=256 watch=8 fixed=0 period-ms=1000");
	assert_int_equal(weft_shared_get(w.shared, some, sizeof(some)), 92);
	assert_string_equal(some, "each=16 flo");
	assert_int_equal(weft_shared_get(w.shared, NULL, 0), 92);

	assert_int_equal(weft_shared_set(w.shared, "each=40 growth=1,period-ms=250"), 0);
	expect_tunables("each=40 floor=1 low-percent=25 low=0 high=0 growth=1 most=256 watch=8 fixed=0 period-ms=250");
	assert_int_equal(counts(client).target, 40);
	assert_int_equal(counts(-1).posted, 40);
	/* the QP has as many receives, before anybody polls */
	for (unsigned i = 0; i < 40; i++)
		send(3, (uint8_t)i);
	assert_int_equal(take_all(client, &m), 40);
	assert_true(weft_shared_drops(w.shared) == 0);
}

/* GSA-12, 13, 18: what is beyond the number is not posted again; by the threshold `high` additions go, by `low` they come. */
static void thresholds_change_while_messages_come(void **state)
{
	struct weft_shared_message m[8];
	int client;

	(void)state;
	share(NULL);
	client = weft_shared_register(w.shared, 3, -1);
	assert_int_equal(weft_shared_set(w.shared, "  low=12 high=20 watch=0 "), 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(counts(-1).top_ups, 0);
		send(3, 0);
		assert_int_equal(weft_shared_poll(w.shared, &m[i]), 1);
	}
	assert_int_equal(counts(-1).top_ups, 1);
	assert_int_equal(counts(-1).posted, 16);
	assert_int_equal(counts(client).automatic, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(weft_shared_release(w.shared, &m[i]), 0);
	assert_int_equal(counts(-1).posted, 21);
	for (unsigned i = 0; i < 5; i++) {
		send(3, 0);
		assert_int_equal(weft_shared_poll(w.shared, &m[0]), 1);
		assert_int_equal(weft_shared_release(w.shared, &m[0]), 0);
	}
	assert_int_equal(counts(-1).posted, 16);
	assert_int_equal(counts(-1).trims, 5);

	/* fewer: the target falls at once, and what is posted as messages come */
	assert_int_equal(weft_shared_set(w.shared, "low=0,high=0,each=10"), 0);
	assert_int_equal(counts(-1).target, 10);
	assert_int_equal(counts(-1).posted, 16);
	for (unsigned i = 0; i < 6; i++) {
		send(3, 0);
		assert_int_equal(weft_shared_poll(w.shared, &m[0]), 1);
		assert_int_equal(weft_shared_release(w.shared, &m[0]), 0);
	}
	assert_int_equal(counts(-1).posted, 10);

	assert_int_equal(weft_shared_set(w.shared, "fixed=5"), 0);
	for (unsigned i = 0; i < 5; i++) {
		send(3, 0);
		assert_int_equal(weft_shared_poll(w.shared, &m[0]), 1);
		assert_int_equal(weft_shared_release(w.shared, &m[0]), 0);
	}
	assert_int_equal(counts(-1).posted, 5);
	assert_int_equal(weft_shared_set(w.shared, "fixed=0"), 0);
	assert_int_equal(counts(-1).posted, 10);
}

/* GSA-39: what makes no sense is refused as a whole. */
static void tunables_that_are_refused_change_nothing(void **state)
{
	static const struct { const char *text; int err; } bad[] = {
		{ "", -EINVAL }, { " ", -EINVAL }, { "each", -EINVAL }, { "each=", -EINVAL }, { "each=x", -EINVAL },
		{ "each=0", -EINVAL }, { "each=40 growth=0", -EINVAL }, { "each=40,growth", -EINVAL }, { "each=40,", -EINVAL },
		{ "growth=1 nothing=2", -ENOENT }, { "each=40 low=20 high=20", -EINVAL }, { "low-percent=100", -EINVAL },
		{ "each=57", -EINVAL }, { "high=57", -EINVAL }, { "fixed=57", -EINVAL }, { "period-ms=0", -EINVAL },
		{ "floor=17", -EINVAL }, { "each=40 most=57", -ENOSPC }, { "window=65", -EINVAL }, { "longest-kb=1", -EINVAL },
		{ "program-kb=1", -EINVAL },
	};
	const struct weft_shared_options options = { .most = 56 };

	(void)state;
	share(&options);
	assert_true(weft_shared_register(w.shared, 3, -1) >= 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weft_shared_set(w.shared, bad[i].text), bad[i].err);
		expect_tunables("each=16 floor=1 low-percent=25 low=0 high=0 growth=2 most=56 watch=8 fixed=0 period-ms=1000");
		assert_int_equal(counts(-1).posted, 16);
	}
	/* back to the memory that there is */
	assert_int_equal(weft_shared_set(w.shared, "most=20"), 0);
	assert_int_equal(weft_shared_register(w.shared, 4, 5), -ENOSPC);
	assert_int_equal(weft_shared_set(w.shared, "most=56 each=40 window=64"), 0);
	assert_int_equal(counts(-1).posted, 40);
}

/* GSA-37: what finds no receive is counted. */
static void what_finds_no_receive_is_counted(void **state)
{
	const struct weft_shared_options options = { .fixed = 16 };
	struct weft_shared_message m;
	int client;

	(void)state;
	start(w.shared_qp);
	send(3, 0);	/* before the QP is shared */
	w.shared = weft_shared_create(w.shared_qp, &options);
	assert_non_null(w.shared);
	client = weft_shared_register(w.shared, 3, -1);
	assert_true(weft_shared_drops(w.shared) == 0);
	for (unsigned i = 0; i < 40; i++)
		send(3, 0);
	assert_int_equal(take_all(client, &m), 16);
	assert_int_equal(weft_shared_drops(w.shared), 24);
	assert_int_equal(counts(-1).arrivals, 16);
	assert_int_equal(counts(client).discards, 0);
}

/* GSA-31: a buffer has 40 bytes for the GRH and 256 for the MAD. */
static void a_buffer_is_of_a_grh_and_a_mad(void **state)
{
	struct weft_shared_message m[2];
	const uint8_t *at[2];
	ptrdiff_t apart;

	(void)state;
	share(NULL);
	assert_true(weft_shared_register(w.shared, 3, -1) >= 0);
	send_with_grh(3, 256);
	send_with_grh(3, 256);
	send_with_grh(3, 257);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(weft_shared_poll(w.shared, &m[i]), 1);
		at[i] = m[i].data;
		assert_int_equal(m[i].bytes, 256);
		assert_ptr_equal(m[i].grh, at[i] - 40);
		assert_memory_equal(at[i], w.out, 256);
	}
	apart = at[1] < at[0] ? at[0] - at[1] : at[1] - at[0];
	assert_int_equal(apart, 40 + 256);
	assert_int_equal(weft_shared_poll(w.shared, &m[0]), 0);
	assert_int_equal(weft_shared_drops(w.shared), 1);
}

static void options_and_queue_pairs_that_cannot_be(void **state)
{
	struct ibv_qp_init_attr init = { .send_cq = w.sent, .recv_cq = w.received, .cap = { 1, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_UD };
	struct ibv_qp *raw = ibv_create_qp(w.pd, &init);
	struct weft_shared_options options = { .message_bytes = 4097 };

	(void)state;
	assert_null(weft_shared_create(raw, NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_qp(raw), 0);
	assert_null(weft_shared_create(w.shared_qp, &options));
	assert_int_equal(errno, EINVAL);
	options = (struct weft_shared_options){ .each = 2, .most = 1 };
	assert_null(weft_shared_create(w.shared_qp, &options));
	assert_int_equal(errno, EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(clients_have_their_messages),
		TEST(a_burst_is_met_by_additions),
		TEST(clients_that_go_leave_their_buffers),
		TEST(two_tenants_flood),
		TEST(who_gets_more_than_it_asked_for_is_told),
		TEST(by_a_fixed_depth_a_flood_costs_all),
		TEST(a_fixed_depth_is_there_before_clients),
		TEST(receives_that_are_refused_come_later),
		TEST(tunables_change_while_messages_come),
		TEST(thresholds_change_while_messages_come),
		TEST(tunables_that_are_refused_change_nothing),
		TEST(what_finds_no_receive_is_counted),
		TEST(a_buffer_is_of_a_grh_and_a_mad),
		TEST(options_and_queue_pairs_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
