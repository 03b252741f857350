/* Spreading of frames over receive work queues: Microsoft's vectors for the Toeplitz hash, and what holds what. */
#include "adapter.h"

#include "verbs/rss.h"

enum { LOG_SIZE = 4, SIZE = 1 << LOG_SIZE };

static uint8_t key[RSS_KEY_BYTES] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

/* RSS verification suite, Windows driver documentation: hash of the addresses, and of addresses and TCP ports. */
static const struct vector {
	uint8_t src[4], dst[4];
	uint16_t sport, dport;
	uint32_t addresses, tcp;
} vectors[] = {
	{ { 66, 9, 149, 187 }, { 161, 142, 100, 80 }, 2794, 1766, 0x323e8fc2, 0x51ccc178 },
	{ { 199, 92, 111, 2 }, { 65, 69, 140, 83 }, 14230, 4739, 0xd718262a, 0xc626b0ea },
	{ { 24, 19, 198, 95 }, { 12, 22, 207, 184 }, 12898, 38024, 0xd2d0a5de, 0x5c2b394a },
	{ { 38, 27, 205, 30 }, { 209, 142, 163, 6 }, 48228, 2217, 0x82989176, 0xafc7327f },
	{ { 153, 39, 163, 191 }, { 202, 188, 127, 2 }, 44251, 1303, 0x5d1809c5, 0x10e828a2 },
};

struct spread {
	struct adapter *a;
	struct pd *pd;
	struct cq *cq;
	struct qp *wq[SIZE];
	struct rss_table *table;
};

static struct qp *raw_qp(struct spread *s, uint32_t mask)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET, .cap = { .max_recv_wr = 1, .max_recv_sge = 1 }, .comp_mask = mask,
	};
	struct cq *cq = mask ? NULL : s->cq;
	struct qp *qp;

	assert_int_equal(qp_create(&s->a->ca, s->a->roce, &init, s->pd, cq, cq, NULL, NULL, &qp), 0);
	return qp;
}

static struct spread spread_new(void)
{
	struct spread s = { .a = adapter_new() };

	assert_int_equal(pd_create(&s.a->ca, s.a->roce, &s.pd), 0);
	assert_int_equal(cq_create(&s.a->ca, s.a->roce, SIZE, &s.cq), 0);
	for (unsigned i = 0; i < SIZE; i++)
		s.wq[i] = raw_qp(&s, 0);
	assert_int_equal(rss_table_create(LOG_SIZE, s.wq, &s.table), 0);
	return s;
}

static struct qp *spreader(struct spread *s, uint64_t fields)
{
	struct ibv_rx_hash_conf conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, fields };
	struct qp *qp = raw_qp(s, IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH);

	assert_int_equal(rss_attach(qp, s->table, &conf), 0);
	return qp;
}

static void put_frame(uint8_t frame[64], const struct vector *v)
{
	memset(frame, 0, 64);
	frame[12] = 0x08;
	frame[14] = 0x45;
	frame[23] = 6;
	memcpy(frame + 26, v->src, 4);
	memcpy(frame + 30, v->dst, 4);
	frame[34] = (uint8_t)(v->sport >> 8);
	frame[35] = (uint8_t)v->sport;
	frame[36] = (uint8_t)(v->dport >> 8);
	frame[37] = (uint8_t)v->dport;
}

static void hashes(void **state)
{
	struct spread s = spread_new();
	uint64_t addresses = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
	struct qp *by_address = spreader(&s, addresses);
	struct qp *by_port = spreader(&s, addresses | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP);
	uint8_t frame[64];

	for (unsigned i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		put_frame(frame, &vectors[i]);
		assert_ptr_equal(rss_pick(by_address, frame, sizeof(frame)), s.wq[vectors[i].addresses % SIZE]);
		assert_ptr_equal(rss_pick(by_port, frame, sizeof(frame)), s.wq[vectors[i].tcp % SIZE]);
	}
	assert_ptr_equal(rss_pick(by_port, frame, 3), s.wq[0]);
	qp_destroy(by_address);
	qp_destroy(by_port);
	assert_int_equal(rss_table_destroy(s.table), 0);
	adapter_delete(s.a);
}

static void holds(void **state)
{
	struct spread s = spread_new();
	struct qp *qp = spreader(&s, 0);

	assert_int_equal(rss_table_destroy(s.table), -EBUSY);
	assert_int_equal(qp_destroy(s.wq[0]), -EBUSY);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(rss_table_destroy(s.table), 0);
	assert_int_equal(qp_destroy(s.wq[0]), 0);
	adapter_delete(s.a);
}

static void refusals(void **state)
{
	struct spread s = spread_new();
	struct qp *qp = raw_qp(&s, IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH);
	struct ibv_rx_hash_conf good = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, 0 }, bad = good;

	bad.rx_hash_key_len = 8;
	assert_int_equal(rss_attach(qp, s.table, &bad), -EINVAL);
	bad = good;
	bad.rx_hash_function = 0;
	assert_int_equal(rss_attach(qp, s.table, &bad), -EOPNOTSUPP);
	bad = good;
	bad.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6;
	assert_int_equal(rss_attach(qp, s.table, &bad), -EINVAL);
	bad.rx_hash_fields_mask = IBV_RX_HASH_IPSEC_SPI;
	assert_int_equal(rss_attach(qp, s.table, &bad), -EOPNOTSUPP);
	qp_destroy(qp);
	assert_int_equal(rss_table_destroy(s.table), 0);
	adapter_delete(s.a);
}

static void wq_states(void **state)
{
	struct spread s = spread_new();
	struct qp *wq = s.wq[1];

	assert_int_equal(rss_wq_modify(wq, 0, IBV_WQS_RDY), 0);
	assert_int_equal(rss_wq_modify(wq, 0, IBV_WQS_RDY), 0);
	assert_int_equal(wq->state, IBV_QPS_RTR);
	assert_int_equal(rss_wq_modify(wq, 0, IBV_WQS_ERR), 0);
	assert_int_equal(rss_wq_modify(wq, 0, IBV_WQS_RDY), -EINVAL);
	assert_int_equal(rss_wq_modify(wq, 0, IBV_WQS_RESET), 0);
	assert_int_equal(rss_wq_modify(wq, 0, IBV_WQS_UNKNOWN), -EINVAL);
	assert_int_equal(rss_table_destroy(s.table), 0);
	adapter_delete(s.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes), cmocka_unit_test(holds), cmocka_unit_test(refusals), cmocka_unit_test(wq_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
