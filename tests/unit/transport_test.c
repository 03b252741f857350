/* A device whose transport has no packets, beside two of the packet engine in one adapter: all of verbs works over it, and what
 * is only of packets and of direct messages does not meet it. */
#include "adapter.h"
#include "loop.h"

#include "ib/ib.h"
#include "runtime/pump.h"
#include "runtime/state.h"

enum { BYTES = 64, RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* Two QPs of one device that are joined. */
struct pair {
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp[2];
	uint8_t memory[2 * BYTES];	/* the first half is sent */
};

struct stage {
	struct adapter *a;
	struct pair packets, loop;	/* of weft0, of weft2 */
};

static struct qp *make_qp(struct stage *s, const struct pair *p)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 2, 2, 0 }, .sq_sig_all = 1 };
	struct qp *qp;

	assert_int_equal(qp_create(&s->a->ca, p->pd->dev, &init, p->pd, p->cq, p->cq, NULL, NULL, &qp), 0);
	return qp;
}

static void pair_init(struct stage *s, struct pair *p, struct ca_device *dev, uint8_t first)
{
	assert_int_equal(pd_create(&s->a->ca, dev, &p->pd), 0);
	assert_int_equal(cq_create(&s->a->ca, dev, 16, &p->cq), 0);
	assert_int_equal(mr_create(p->pd, p->memory, sizeof(p->memory), (uintptr_t)p->memory, RIGHTS, &p->mr), 0);
	for (unsigned i = 0; i < BYTES; i++)
		p->memory[i] = (uint8_t)(first + i);
	for (unsigned i = 0; i < 2; i++)
		p->qp[i] = make_qp(s, p);
}

enum {
	INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	      IBV_QP_MIN_RNR_TIMER,
	RTS = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	LOOP_INIT = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	LOOP_RTS = IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC,
};

static int move(struct qp *qp, enum ibv_qp_state state, int mask, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.ah_attr = { .dlid = ADAPTER_LID, .port_num = 1 },
	};

	return qp_modify(qp, 1, &attr, mask);
}

static void connect(struct pair *p)
{
	bool is_loop = p->pd->dev->transport == &loop_transport;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(move(p->qp[i], IBV_QPS_INIT, is_loop ? LOOP_INIT : INIT, 0), 0);
		if (!is_loop)
			assert_int_equal(move(p->qp[i], IBV_QPS_RTR, RTR, p->qp[!i]->qpn), 0);
		assert_int_equal(move(p->qp[i], IBV_QPS_RTS, is_loop ? LOOP_RTS : RTS, 0), 0);
	}
}

static struct stage *stage_new(void)
{
	struct stage *s = calloc(1, sizeof(*s));

	s->a = adapter_new_with(4 << 20, &loop_device);
	s->a->ib->transport = s->a->roce->transport = &ib_transport;
	pair_init(s, &s->packets, s->a->ib, 1);
	pair_init(s, &s->loop, &s->a->ca.dev[2], 101);
	connect(&s->packets);
	connect(&s->loop);
	loop_join(s->loop.qp[0], s->loop.qp[1]);
	return s;
}

static void stage_delete(struct stage *s)
{
	adapter_delete(s->a);
	free(s);
}

static int post(const struct pair *p, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	/* in two pieces, so that one has an offset */
	uint64_t at = (uintptr_t)p->memory;
	struct ibv_sge sge[] = { { at, 10, p->mr->key }, { at + 10, BYTES - 10, p->mr->key } };
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 2, .opcode = opcode,
		.wr.rdma = { .remote_addr = at + BYTES, .rkey = rkey },
	}, *bad;

	return qp_post_send(p->qp[0], 1, &wr, &bad);
}

static void post_recv(const struct pair *p)
{
	struct ibv_sge sge = { (uintptr_t)p->memory + BYTES, BYTES, p->mr->key };
	const struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(p->qp[1], 1, &wr, &bad), 0);
}

/* Packets that leave arrive. How many. */
static unsigned carry(struct stage *s)
{
	uint8_t frame[PACKET_MAX_BYTES];
	struct burst burst;
	struct packet p;
	unsigned n = 0;
	size_t bytes;

	for (; ca_output(&s->a->ca, 1, &burst); n += burst.packets) {
		for (unsigned i = 0; i < burst.packets; i++) {
			bytes = packet_build(&burst.out[i].packet, frame, sizeof(frame));
			assert_int_equal(packet_parse(&p, burst.out[i].packet.form, frame, bytes, true), PACKET_OK);
			ca_input(&s->a->ca, burst.dev, 1, 1, &p);
		}
	}
	return n;
}

static void expect(const struct pair *p, enum cqe_kind kind, enum ibv_wc_status status)
{
	struct cqe cqe;

	assert_true(cq_poll(p->cq, &cqe));
	assert_int_equal(cqe.kind, kind);
	assert_int_equal(cqe.status, status);
}

static void expect_moved(struct pair *p)
{
	assert_memory_equal(p->memory + BYTES, p->memory, BYTES);
	memset(p->memory + BYTES, 0, BYTES);
}

static void both_transports_work_in_one_adapter(void **state)
{
	struct stage *s = stage_new();
	struct pair *pairs[] = { &s->packets, &s->loop };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		post_recv(pairs[i]);
		assert_int_equal(post(pairs[i], IBV_WR_SEND, 0), 0);
		assert_int_equal(post(pairs[i], IBV_WR_RDMA_WRITE, pairs[i]->mr->key), 0);
		assert_int_equal(carry(s), i == 0 ? 3 : 0);	/* two in a burst, and their ACK */
		expect(pairs[i], CQE_RECV, IBV_WC_SUCCESS);
		expect(pairs[i], CQE_SEND, IBV_WC_SUCCESS);
		expect(pairs[i], CQE_SEND, IBV_WC_SUCCESS);
		expect_moved(pairs[i]);
	}
	s->loop.memory[BYTES] = 77;
	assert_int_equal(post(&s->loop, IBV_WR_RDMA_READ, s->loop.mr->key), 0);
	expect(&s->loop, CQE_SEND, IBV_WC_SUCCESS);
	assert_int_equal(s->loop.memory[0], 77);
	assert_int_equal(loop_of(s->loop.qp[0])->executed, 3);
	stage_delete(s);
}

/* A QP that is ready goes on by itself where it has no packet to be pulled. */
static void a_ready_queue_pair_without_packets_goes_on(void **state)
{
	struct stage *s = stage_new();
	struct cqe cqe;

	(void)state;
	assert_int_equal(post(&s->loop, IBV_WR_SEND, 0), 0);
	assert_int_equal(post(&s->packets, IBV_WR_RDMA_WRITE, s->packets.mr->key), 0);
	assert_false(cq_poll(s->loop.cq, &cqe));	/* there is no receive yet */
	post_recv(&s->loop);
	assert_int_equal(carry(s), 2);
	expect(&s->loop, CQE_RECV, IBV_WC_SUCCESS);
	expect(&s->loop, CQE_SEND, IBV_WC_SUCCESS);
	expect_moved(&s->loop);
	expect(&s->packets, CQE_SEND, IBV_WC_SUCCESS);
	stage_delete(s);
}

static void a_refusal_stops_the_queue_pair(void **state)
{
	struct stage *s = stage_new();

	(void)state;
	assert_int_equal(post(&s->loop, IBV_WR_RDMA_WRITE, s->packets.mr->key), 0);	/* of another device */
	expect(&s->loop, CQE_SEND, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(s->loop.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(post(&s->loop, IBV_WR_RDMA_WRITE, s->loop.mr->key), 0);
	expect(&s->loop, CQE_SEND, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(s->packets.qp[0]->state, IBV_QPS_RTS);
	stage_delete(s);
}

static void each_device_asks_its_own_transport(void **state)
{
	struct stage *s = stage_new();
	struct qp_context context;

	(void)state;
	qp_context_get(s->loop.qp[0], &context);
	assert_int_equal(context.ulp.window_out_bytes, LOOP_WINDOW);
	qp_context_get(s->packets.qp[0], &context);
	assert_int_equal(context.ulp.window_out_bytes, IB_WINDOW * 1024);
	stage_delete(s);
}

static void note_shown(void *arg, struct qp *qp)
{
	qp->published = 1;
	++*(unsigned *)arg;
}

static void note_hidden(void *arg, struct qp *qp)
{
	(void)arg;
	qp->published = 0;
}

/* A QP that takes no direct messages, or sends packets alone, is not shown to other processes; what comes anyhow is dropped. */
static void direct_messages_pass_it_by(void **state)
{
	static const struct direct_ops direct = { .publish_qp = note_shown, .unpublish_qp = note_hidden };
	struct stage *s = stage_new();
	struct pair pairs[3] = { 0 };
	unsigned shown = 0;

	(void)state;
	pair_init(s, &pairs[0], s->a->ib, 1);
	pair_init(s, &pairs[1], &s->a->ca.dev[2], 1);
	pair_init(s, &pairs[2], s->a->ib, 1);
	s->a->ca.direct_arg = &shown;
	s->a->ca.direct = &direct;
	connect(&pairs[0]);
	assert_int_equal(shown, 2);
	connect(&pairs[1]);
	assert_int_equal(shown, 2);
	pairs[2].qp[0]->sends_packets = true;
	connect(&pairs[2]);
	assert_int_equal(shown, 3);
	ca_message(&s->a->ca, 1, NULL, &(struct direct_message){ .dest_qpn = s->loop.qp[0]->qpn });
	assert_int_equal(s->a->ca.counters.dropped_no_qp, 1);
	s->a->ca.direct = NULL;
	stage_delete(s);
}

static void a_frame_for_it_is_malformed(void **state)
{
	struct packet p = { .form = PACKET_IB, .opcode = OPCODE_RC_ACKNOWLEDGE, .path.dlid = 1 };
	struct runtime *rt = aligned_alloc(_Alignof(struct runtime), sizeof(*rt));
	struct stage *s = stage_new();
	uint8_t frame[PACKET_MAX_BYTES];

	(void)state;
	memset(rt, 0, sizeof(*rt));
	memcpy(&rt->ca, &s->a->ca, sizeof(rt->ca));
	pump_deliver(rt, 1, link_kind(2, PACKET_IB), frame, packet_build(&p, frame, sizeof(frame)));
	assert_int_equal(rt->ca.counters.malformed, 1);
	free(rt);
	stage_delete(s);
}

/* Each transport has its own table of states. */
static void states_follow_the_transport(void **state)
{
	struct stage *s = stage_new();
	struct pair pairs[2] = { 0 };
	struct qp *qp;

	(void)state;
	pair_init(s, &pairs[0], s->a->ib, 1);
	pair_init(s, &pairs[1], &s->a->ca.dev[2], 1);
	qp = pairs[0].qp[0];
	assert_int_equal(move(qp, IBV_QPS_INIT, LOOP_INIT, 0), -EINVAL);
	assert_int_equal(move(qp, IBV_QPS_INIT, INIT, 0), 0);
	assert_int_equal(move(qp, IBV_QPS_RTS, LOOP_RTS, 0), -EINVAL);
	qp = pairs[1].qp[0];
	assert_int_equal(move(qp, IBV_QPS_INIT, INIT, 0), -EINVAL);
	assert_int_equal(move(qp, IBV_QPS_INIT, LOOP_INIT, 0), 0);
	assert_int_equal(move(qp, IBV_QPS_RTR, RTR, pairs[1].qp[1]->qpn), -EINVAL);
	assert_int_equal(move(qp, IBV_QPS_RTS, LOOP_RTS | IBV_QP_AV, 0), -EINVAL);
	assert_int_equal(move(qp, IBV_QPS_RTS, LOOP_RTS, 0), 0);
	assert_int_equal(move(qp, IBV_QPS_ERR, IBV_QP_STATE, 0), 0);
	assert_int_equal(move(qp, IBV_QPS_RESET, IBV_QP_STATE, 0), 0);
	stage_delete(s);
}

/* An operation is refused where the transport has it not, though the type has, by both ways of posting. */
static void operations_follow_the_transport(void **state)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .cap = { 8, 8, 2, 2, 0 }, .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct stage *s = stage_new();
	struct pair *p = &s->loop;
	struct send_wqe *wqe;
	struct qp *qp;

	(void)state;
	post_recv(&s->packets);
	assert_int_equal(post(&s->packets, IBV_WR_RDMA_WRITE_WITH_IMM, s->packets.mr->key), 0);
	assert_int_equal(post(p, IBV_WR_RDMA_WRITE_WITH_IMM, p->mr->key), -EINVAL);
	assert_int_equal(post(p, IBV_WR_SEND_WITH_IMM, 0), -EINVAL);
	wqe = qp_send_slot(p->qp[0]);
	wqe->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(qp_send_written(p->qp[0], wqe), -EINVAL);
	assert_int_equal(qp_create(&s->a->ca, p->pd->dev, &init, p->pd, p->cq, p->cq, NULL, NULL, &qp), 0);
	init.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_IMM;
	assert_int_equal(qp_create(&s->a->ca, p->pd->dev, &init, p->pd, p->cq, p->cq, NULL, NULL, &qp), -EOPNOTSUPP);
	stage_delete(s);
}

static void types_and_limits_follow_the_transport(void **state)
{
	static const enum ibv_qp_type others[] = { IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_RAW_PACKET };
	const struct ibv_ah_attr address = { .dlid = 5, .port_num = 1 };
	struct stage *s = stage_new();
	const struct ibv_device_attr *ib = &s->a->ib->attr.orig_attr, *loop = &s->a->ca.dev[2].attr.orig_attr;
	struct qp *qp;
	struct av av;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_qp_init_attr_ex init = { .qp_type = others[i], .cap = { 8, 8, 2, 2, 0 } };

		assert_int_equal(qp_create(&s->a->ca, s->loop.pd->dev, &init, s->loop.pd, s->loop.cq, s->loop.cq, NULL, NULL,
					   &qp), -EOPNOTSUPP);
	}
	assert_int_equal(loop->atomic_cap, IBV_ATOMIC_NONE);
	assert_int_equal(loop->max_ah + loop->max_mcast_grp + loop->max_raw_ethy_qp, 0);
	assert_false(loop->device_cap_flags & IBV_DEVICE_XRC);
	assert_int_equal(ib->atomic_cap, IBV_ATOMIC_HCA);
	assert_true(ib->max_ah && ib->max_mcast_grp && ib->device_cap_flags & IBV_DEVICE_XRC);
	assert_int_equal(av_from_attr(s->a->ib, &address, &av), 0);
	assert_int_equal(av_from_attr(s->loop.pd->dev, &address, &av), -EINVAL);
	stage_delete(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_transports_work_in_one_adapter),
		cmocka_unit_test(a_ready_queue_pair_without_packets_goes_on),
		cmocka_unit_test(a_refusal_stops_the_queue_pair),
		cmocka_unit_test(each_device_asks_its_own_transport),
		cmocka_unit_test(direct_messages_pass_it_by),
		cmocka_unit_test(a_frame_for_it_is_malformed),
		cmocka_unit_test(states_follow_the_transport),
		cmocka_unit_test(operations_follow_the_transport),
		cmocka_unit_test(types_and_limits_follow_the_transport),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
