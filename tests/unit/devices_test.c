/* Three devices in one adapter, two of them with packets of one form and with one address: only their index tells them apart.
 * Frames go over a channel of shared memory, and what they name exists on each device. */
#include "adapter.h"

#include "ib/ib.h"
#include "link/shm.h"
#include "runtime/pump.h"
#include "runtime/state.h"

enum { DEVICES = 3, BYTES = 64, ALL_RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static const uint8_t group[16] = { 0xff, 0x0e, [15] = 9 };

/* What one device has: a connection of two QPs, from[0] to from[1], and a datagram QP in the group. */
struct part {
	struct ca_device *dev;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *from, *to, *ud;
	uint8_t memory[2 * BYTES];	/* the first half is written to the second */
};

struct stage {
	struct adapter *a;
	struct shm *shm;
	struct link *loop;		/* of shm */
	struct part part[DEVICES];
};

static struct qp *make_qp(struct stage *s, struct part *p, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = type, .cap = { 8, 8, 1, 1, 0 }, .sq_sig_all = 1 };
	struct qp *qp;

	assert_int_equal(qp_create(&s->a->ca, p->dev, &init, p->pd, p->cq, p->cq, NULL, NULL, &qp), 0);
	return qp;
}

static void to_rts(struct qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1, .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .qkey = 5,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = { .dlid = ADAPTER_LID, .port_num = 1, .is_global = 1 },
	};
	bool is_ud = qp->type == IBV_QPT_UD;

	memcpy(attr.ah_attr.grh.dgid.raw, qp->dev->gid[0].raw, 16);
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | (is_ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (is_ud ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)), 0);
}

static void part_init(struct stage *s, struct part *p, struct ca_device *dev)
{
	p->dev = dev;
	assert_int_equal(pd_create(&s->a->ca, dev, &p->pd), 0);
	assert_int_equal(cq_create(&s->a->ca, dev, 16, &p->cq), 0);
	assert_int_equal(mr_create(p->pd, p->memory, sizeof(p->memory), (uintptr_t)p->memory, ALL_RIGHTS, &p->mr), 0);
	p->from = make_qp(s, p, IBV_QPT_RC);
	p->to = make_qp(s, p, IBV_QPT_RC);
	p->ud = make_qp(s, p, IBV_QPT_UD);
	to_rts(p->from, p->to->qpn);
	to_rts(p->to, p->from->qpn);
	to_rts(p->ud, 0);
	assert_int_equal(mcast_attach(p->ud, group, 0xc001), 0);
	memset(p->memory, dev->index + 1, BYTES);
	memset(p->memory + BYTES, 0, BYTES);
}

static struct stage *stage_new(void)
{
	struct stage *s = calloc(1, sizeof(*s));

	s->a = adapter_new();
	adapter_set_transports(s->a, &ib_transport);
	assert_int_equal(s->a->ca.devices, DEVICES);
	assert_int_equal(shm_open_loop(&s->shm), 0);
	s->loop = &s->shm->link;
	for (int i = 0; i < DEVICES; i++)
		part_init(s, &s->part[i], &s->a->ca.dev[i]);
	return s;
}

static void stage_delete(struct stage *s)
{
	s->loop->ops->close(s->loop);
	adapter_delete(s->a);
	free(s);
}

/* What the engine sends goes over the channel and arrives; `shift` devices further on. Frames. */
static unsigned carry(struct stage *s, unsigned shift)
{
	const struct packet *sent[BURST_PACKETS];
	struct burst burst;
	const void *frame;
	unsigned kind, n = 0;
	struct packet p;
	size_t bytes;

	for (; ca_output(&s->a->ca, 1, &burst); n += burst.packets) {
		for (unsigned i = 0; i < burst.packets; i++)
			sent[i] = &burst.out[i].packet;
		assert_int_equal(s->loop->ops->send(s->loop, burst.dev->index, sent, burst.packets), burst.packets);
		while ((frame = s->loop->ops->receive(s->loop, &kind, &bytes))) {
			assert_int_equal(packet_parse(&p, link_form(kind), frame, bytes, true), PACKET_OK);
			ca_input(&s->a->ca, &s->a->ca.dev[link_device(kind) + shift], 1, 1, &p);
		}
		s->loop->ops->release(s->loop);
	}
	return n;
}

static void write_to(const struct part *p, const struct mr *mr, const uint8_t *at)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, BYTES, p->mr->key };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = (uintptr_t)at, .rkey = mr->key },
	}, *bad;

	assert_int_equal(qp_post_send(p->from, 1, &wr, &bad), 0);
}

static enum ibv_wc_status status_of(const struct part *p)
{
	struct cqe cqe;

	assert_true(cq_poll(p->cq, &cqe));
	return cqe.status;
}

static void each_device_carries_its_own(void **state)
{
	struct stage *s = stage_new();

	(void)state;
	for (unsigned i = 0; i < DEVICES; i++) {
		assert_int_equal(s->part[i].dev->index, i);
		write_to(&s->part[i], s->part[i].mr, s->part[i].memory + BYTES);
	}
	assert_int_equal(carry(s, 0), 2 * DEVICES);	/* and the ACKs */
	for (unsigned i = 0; i < DEVICES; i++) {
		assert_int_equal(status_of(&s->part[i]), IBV_WC_SUCCESS);
		assert_memory_equal(s->part[i].memory + BYTES, s->part[i].memory, BYTES);
	}
	stage_delete(s);
}

static void a_frame_of_another_device_reaches_no_qp(void **state)
{
	static const uint8_t nothing[BYTES];
	struct stage *s = stage_new();
	uint64_t dropped = s->a->ca.counters.dropped_no_qp;
	struct part *roce = &s->part[1];

	(void)state;
	write_to(roce, roce->mr, roce->memory + BYTES);
	assert_int_equal(carry(s, 1), 1);	/* of the same form and addresses, and it names the QP */
	assert_int_equal(s->a->ca.counters.dropped_no_qp, dropped + 1);
	assert_memory_equal(roce->memory + BYTES, nothing, BYTES);
	stage_delete(s);
}

static void a_region_is_of_one_device(void **state)
{
	static const uint8_t nothing[BYTES];
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 } };
	struct stage *s = stage_new();
	struct part *first = &s->part[1], *second = &s->part[2];
	struct qp *qp;

	(void)state;
	write_to(second, first->mr, first->memory + BYTES);
	carry(s, 0);
	assert_int_equal(status_of(second), IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(first->memory + BYTES, nothing, BYTES);
	assert_int_equal(qp_create(&s->a->ca, second->dev, &init, first->pd, second->cq, second->cq, NULL, NULL, &qp), -EINVAL);
	assert_int_equal(qp_create(&s->a->ca, second->dev, &init, second->pd, first->cq, second->cq, NULL, NULL, &qp), -EINVAL);
	stage_delete(s);
}

static void post_recv(const struct part *p)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, sizeof(p->memory), p->mr->key };
	const struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(p->ud, 1, &wr, &bad), 0);
}

/* Both RoCE devices have a QP in it. */
static void a_group_is_of_one_device(void **state)
{
	uint8_t data[BYTES] = { 0 };
	struct iovec iov = { data, sizeof(data) };
	struct packet p = {
		.form = PACKET_ROCE, .opcode = OPCODE_UD_SEND_ONLY, .pkey = 0xffff, .dest_qpn = PSN_MASK, .deth = { 5, 77 },
		.path = { .has_grh = true, .sgid = { 0xfe, 0x80, [15] = 3 } },
		.payload = &iov, .payload_iovs = 1, .payload_bytes = sizeof(data),
	};
	struct stage *s = stage_new();
	struct cqe cqe;

	(void)state;
	memcpy(p.path.dgid, group, sizeof(group));
	for (unsigned i = 0; i < DEVICES; i++)
		post_recv(&s->part[i]);
	ca_input(&s->a->ca, s->part[2].dev, 1, 1, &p);
	assert_false(cq_poll(s->part[0].cq, &cqe));
	assert_false(cq_poll(s->part[1].cq, &cqe));
	assert_true(cq_poll(s->part[2].cq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	stage_delete(s);
}

static void a_device_is_what_its_protocol_says(void **state)
{
	struct adapter *a = adapter_new();

	(void)state;
	assert_true(device_takes(a->ib, PACKET_IB));
	assert_false(device_takes(a->ib, PACKET_ROCE) || device_takes(a->ib, PACKET_ETHERNET));
	assert_true(device_takes(a->roce, PACKET_ROCE) && device_takes(a->roce, PACKET_ETHERNET));
	assert_false(device_takes(a->roce, PACKET_IB));
	a->roce->port_state = IBV_PORT_DOWN;
	device_set_link(a->roce);
	for (unsigned form = PACKET_IB; form <= PACKET_ETHERNET; form++)
		assert_false(device_takes(a->roce, form));
	assert_ptr_equal(device_protocol_named("RoCEv2"), &protocol_roce_v2);
	assert_ptr_equal(device_protocol_named("InfiniBand"), &protocol_ib);
	assert_null(device_protocol_named("RoCEv3"));
	adapter_delete(a);
}

/* Was it for another device than the QP's? */
static uint64_t dropped(struct runtime *rt, unsigned kind, uint32_t qpn)
{
	struct packet p = { .form = link_form(kind), .opcode = OPCODE_RC_ACKNOWLEDGE, .dest_qpn = qpn,
			    .path = { .has_grh = true, .dlid = 1 } };
	uint8_t frame[PACKET_MAX_BYTES];
	uint64_t before = rt->ca.counters.dropped_no_qp;

	pump_deliver(rt, 1, kind, frame, packet_build(&p, frame, sizeof(frame)));
	return rt->ca.counters.dropped_no_qp - before;
}

static void a_frame_goes_to_the_device_that_it_names(void **state)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 } };
	struct adapter *a = adapter_new();
	struct qp *qp;
	struct pd *pd;
	struct cq *cq;
	struct runtime *rt = aligned_alloc(_Alignof(struct runtime), sizeof(*rt));

	(void)state;
	adapter_set_transports(a, &ib_transport);
	assert_int_equal(pd_create(&a->ca, a->second_roce, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->second_roce, 8, &cq), 0);
	assert_int_equal(qp_create(&a->ca, a->second_roce, &init, pd, cq, cq, NULL, NULL, &qp), 0);
	memset(rt, 0, sizeof(*rt));
	memcpy(&rt->ca, &a->ca, sizeof(a->ca));
	assert_int_equal(dropped(rt, link_kind(2, PACKET_ROCE), qp->qpn), 0);
	assert_int_equal(dropped(rt, link_kind(1, PACKET_ROCE), qp->qpn), 1);
	assert_int_equal(dropped(rt, link_kind(0, PACKET_IB), qp->qpn), 1);
	assert_int_equal(rt->ca.counters.malformed, 0);
	assert_int_equal(dropped(rt, link_kind(0, PACKET_ROCE), qp->qpn), 0);
	assert_int_equal(dropped(rt, link_kind(2, PACKET_IB), qp->qpn), 0);
	assert_int_equal(dropped(rt, link_kind(DEVICES, PACKET_ROCE), qp->qpn), 0);
	assert_int_equal(dropped(rt, link_kind(LINK_DEVICES - 1, PACKET_IB), qp->qpn), 0);
	assert_int_equal(rt->ca.counters.malformed, 4);
	free(rt);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_device_carries_its_own),
		cmocka_unit_test(a_frame_of_another_device_reaches_no_qp),
		cmocka_unit_test(a_region_is_of_one_device),
		cmocka_unit_test(a_group_is_of_one_device),
		cmocka_unit_test(a_frame_goes_to_the_device_that_it_names),
		cmocka_unit_test(a_device_is_what_its_protocol_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
