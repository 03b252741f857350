/* Raw packet QPs over the packet engine: what leaves one adapter arrives at another, and at itself. */
#include "adapter.h"

#include "ib/ib.h"
#include "verbs/flow.h"

enum { MEMORY = 16384, QUEUE = 4, LONGEST = 18 + 4096 };

struct station {
	struct adapter *a;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	uint8_t memory[MEMORY];
};

static void to_rts(struct qp *qp)
{
	struct ibv_qp_attr attr = { .port_num = 1 };
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };

	for (unsigned i = 0; i < 3; i++) {
		attr.qp_state = states[i];
		assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | (i == 0 ? IBV_QP_PORT : 0)), 0);
	}
}

static struct station *station_new(void)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RAW_PACKET, .cap = { QUEUE, QUEUE, 3, 3, 64 }, .sq_sig_all = 1 };
	struct station *s = calloc(1, sizeof(*s));

	s->a = adapter_new();
	adapter_set_transports(s->a, &ib_transport);
	assert_int_equal(pd_create(&s->a->ca, s->a->roce, &s->pd), 0);
	assert_int_equal(cq_create(&s->a->ca, s->a->roce, 16, &s->cq), 0);
	assert_int_equal(mr_create(s->pd, s->memory, MEMORY, (uintptr_t)s->memory, IBV_ACCESS_LOCAL_WRITE, &s->mr), 0);
	assert_int_equal(qp_create(&s->a->ca, s->a->roce, &init, s->pd, s->cq, s->cq, NULL, NULL, &s->qp), 0);
	to_rts(s->qp);
	return s;
}

static void station_delete(struct station *s)
{
	adapter_delete(s->a);
	free(s);
}

/* Everything to one MAC address. */
static struct flow *listen_to(struct station *s, uint8_t last)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = { .num_of_specs = 1, .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth), .val = { .dst_mac = { 2, 0, 0, 0, 0, last } },
			 .mask = { .dst_mac = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } } },
	};
	struct flow *flow;

	assert_int_equal(flow_create(s->qp, &rule.attr, &flow), 0);
	return flow;
}

static void post_recv(struct station *s, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)s->memory + MEMORY / 2, bytes, s->mr->key };
	const struct ibv_recv_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(s->qp, 1, &wr, &bad), 0);
}

/* A frame of `bytes` to that address, from three pieces unless inline. */
static void post_send(struct station *s, uint8_t last, uint32_t bytes, unsigned flags)
{
	uint64_t at = (uintptr_t)s->memory;
	struct ibv_sge sge[] = { { at, 6, s->mr->key }, { at + 6, 2, s->mr->key }, { at + 8, bytes - 8, s->mr->key } };
	struct ibv_send_wr wr = { .wr_id = 9, .sg_list = sge, .num_sge = 3, .opcode = IBV_WR_SEND, .send_flags = flags }, *bad;

	for (uint32_t i = 0; i < bytes; i++)
		s->memory[i] = (uint8_t)(i * 7 + bytes);
	memcpy(s->memory, (const uint8_t[]){ 2, 0, 0, 0, 0, last }, 6);
	assert_int_equal(qp_post_send(s->qp, 1, &wr, &bad), 0);
}

static void carry_frame(const struct packet *sent, struct station *from, struct station *to)
{
	uint8_t frame[PACKET_MAX_BYTES];
	struct packet p;
	size_t bytes;

	assert_int_equal(sent->form, PACKET_ETHERNET);
	assert_memory_equal(sent->path.dgid, flow_group, 16);
	bytes = packet_build(sent, frame, sizeof(frame));
	assert_int_equal(packet_parse(&p, PACKET_ETHERNET, frame, bytes, true), PACKET_OK);
	ca_input(&from->a->ca, from->a->roce, 1, 1, &p);
	ca_input(&to->a->ca, to->a->roce, 1, 1, &p);
}

/* What `from` sends goes to both. Frames sent. */
static unsigned carry(struct station *from, struct station *to)
{
	struct burst burst;
	unsigned n = 0;

	for (; ca_output(&from->a->ca, 1, &burst); n += burst.packets)
		for (unsigned i = 0; i < burst.packets; i++)
			carry_frame(&burst.out[i].packet, from, to);
	return n;
}

static void expect(struct station *s, enum cqe_kind kind, enum ibv_wc_status status, uint32_t bytes)
{
	struct cqe cqe;

	assert_true(cq_poll(s->cq, &cqe));
	assert_int_equal(cqe.kind, kind);
	assert_int_equal(cqe.status, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(cqe.byte_len, bytes);
	assert_int_equal(cqe.wr_id, kind == CQE_RECV ? 7 : 9);
}

static void expect_nothing(struct station *s)
{
	struct cqe cqe;

	assert_false(cq_poll(s->cq, &cqe));
}

/* 9.9.3. */
static void a_receive_whose_memory_is_refused_stops_the_qp(void **state)
{
	struct station *a = station_new(), *b = station_new();

	(void)state;
	listen_to(b, 2);
	post_recv(b, 100);
	b->mr->access = 0;
	post_send(a, 2, 60, 0);
	assert_int_equal(carry(a, b), 1);
	expect(b, CQE_RECV, IBV_WC_LOC_PROT_ERR, 0);
	assert_int_equal(b->qp->state, IBV_QPS_ERR);
	station_delete(a);
	station_delete(b);
}

static void frames_arrive_whole(void **state)
{
	static const struct {
		uint32_t bytes;
		unsigned flags;
	} row[] = { { 14, 0 }, { 60, 0 }, { 64, IBV_SEND_INLINE }, { 1514, 0 }, { LONGEST, 0 } };
	struct station *a = station_new(), *b = station_new();

	listen_to(b, 1);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		post_recv(b, LONGEST);
		post_send(a, 1, row[i].bytes, row[i].flags);
		assert_int_equal(carry(a, b), 1);
		expect(a, CQE_SEND, IBV_WC_SUCCESS, row[i].bytes);
		expect(b, CQE_RECV, IBV_WC_SUCCESS, row[i].bytes);
		assert_memory_equal(b->memory + MEMORY / 2, a->memory, row[i].bytes);
	}
	expect_nothing(a);
	station_delete(a);
	station_delete(b);
}

/* No rule, no receive, too short a receive: lost, counted, and the receive stays. */
static void what_nobody_waits_for_is_lost(void **state)
{
	struct station *a = station_new(), *b = station_new();
	const uint64_t *lost = &b->a->ca.counters.dropped_frames;

	post_recv(b, 50);
	post_send(a, 1, 60, 0);
	carry(a, b);
	assert_int_equal(*lost, 1);
	listen_to(b, 1);
	post_send(a, 1, 60, 0);
	carry(a, b);
	assert_int_equal(*lost, 2);
	post_send(a, 1, 50, 0);
	carry(a, b);
	post_send(a, 1, 50, 0);
	carry(a, b);
	assert_int_equal(*lost, 3);
	expect(b, CQE_RECV, IBV_WC_SUCCESS, 50);
	expect_nothing(b);
	station_delete(a);
	station_delete(b);
}

static void own_frames_come_back_by_rule(void **state)
{
	struct station *a = station_new(), *b = station_new();
	struct flow *flow = listen_to(a, 1);

	post_recv(a, 100);
	post_send(a, 1, 60, 0);
	carry(a, b);
	expect(a, CQE_SEND, IBV_WC_SUCCESS, 60);
	expect(a, CQE_RECV, IBV_WC_SUCCESS, 60);
	flow_destroy(flow);
	post_recv(a, 100);
	post_send(a, 1, 60, 0);
	carry(a, b);
	expect(a, CQE_SEND, IBV_WC_SUCCESS, 60);
	expect_nothing(a);
	station_delete(a);
	station_delete(b);
}

/* A frame that is none stops the send queue, which may go on afterwards. */
static void wrong_lengths_stop_the_queue(void **state)
{
	static const uint32_t lengths[] = { 13, LONGEST + 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct station *a = station_new(), *b = station_new();

	listen_to(b, 1);
	for (unsigned i = 0; i < 2; i++) {
		post_send(a, 1, lengths[i], 0);
		assert_int_equal(carry(a, b), 0);
		expect(a, CQE_SEND, IBV_WC_LOC_LEN_ERR, 0);
		assert_int_equal(a->qp->state, IBV_QPS_SQE);
		assert_int_equal(qp_modify(a->qp, 1, &attr, IBV_QP_STATE), 0);
	}
	post_recv(b, 100);
	post_send(a, 1, 60, 0);
	assert_int_equal(carry(a, b), 1);
	expect(b, CQE_RECV, IBV_WC_SUCCESS, 60);
	station_delete(a);
	station_delete(b);
}

/* Transport packets do not reach a raw packet QP, whatever its number is given as. */
static void transport_packets_are_not_for_it(void **state)
{
	struct station *b = station_new();
	uint8_t data[4] = { 0 };
	struct packet p = { .form = PACKET_ROCE, .dest_qpn = b->qp->qpn, .pkey = 0xffff, .payload_bytes = sizeof(data) };
	static const uint8_t opcodes[] = { OPCODE_RC_SEND_ONLY, OPCODE_UD_SEND_ONLY, OPCODE_RC_ACKNOWLEDGE, OPCODE_UC_SEND_ONLY };

	p.payload_one = (struct iovec){ data, sizeof(data) };
	p.payload = &p.payload_one;
	post_recv(b, 100);
	for (unsigned i = 0; i < sizeof(opcodes); i++) {
		p.opcode = opcodes[i];
		ca_input(&b->a->ca, b->a->roce, 1, 1, &p);
	}
	assert_int_equal(b->a->ca.counters.dropped_no_qp, sizeof(opcodes));
	expect_nothing(b);
	station_delete(b);
}

static void refusals(void **state)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RAW_PACKET, .cap = { QUEUE, QUEUE, 1, 1, 0 } };
	struct station *s = station_new();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM }, *bad;
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;

	assert_int_equal(qp_post_send(s->qp, 1, &wr, &bad), -EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(qp_post_send(s->qp, 1, &wr, &bad), -EINVAL);
	assert_int_equal(pd_create(&s->a->ca, s->a->ib, &pd), 0);
	assert_int_equal(cq_create(&s->a->ca, s->a->ib, 8, &cq), 0);
	assert_int_equal(qp_create(&s->a->ca, s->a->ib, &init, pd, cq, cq, NULL, NULL, &qp), -EOPNOTSUPP);
	station_delete(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_receive_whose_memory_is_refused_stops_the_qp),
		cmocka_unit_test(frames_arrive_whole), cmocka_unit_test(what_nobody_waits_for_is_lost),
		cmocka_unit_test(own_frames_come_back_by_rule), cmocka_unit_test(wrong_lengths_stop_the_queue),
		cmocka_unit_test(transport_packets_are_not_for_it), cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
