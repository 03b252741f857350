/* The adapter as a whole: turns, blocked links, timers, limits, and that closing destroys what is left. Address vectors
 * and multicast membership too. */
#include "adapter.h"

#include "base/qpn.h"
#include "wire/roce_udp.h"

#include <endian.h>

/* A QP that has much to send takes no more of a turn than a burst. */
static void queue_pairs_send_in_turn(void **state)
{
	struct adapter *a = adapter_new();
	struct burst *out = calloc(1, sizeof(*out));
	const struct { unsigned qp, packets; } turn[] = {
		{ 0, BURST_PACKETS }, { 1, 1 }, { 2, BURST_PACKETS }, { 0, 1 }, { 2, BURST_PACKETS }, { 2, 3 },
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		a->to_send[i] = adapter_qp(a, IBV_QPT_RC, 8, NULL);
		qp_ready(a->to_send[i]);
		qp_ready(a->to_send[i]);
	}
	a->sends[0] = BURST_PACKETS + 1;
	a->sends[1] = 1;
	a->sends[2] = 2 * BURST_PACKETS + 3;
	for (unsigned i = 0; i < sizeof(turn) / sizeof(turn[0]); i++) {
		unsigned before = a->sends[turn[i].qp];

		assert_int_equal(ca_output(&a->ca, 5, out), turn[i].packets);
		assert_ptr_equal(out->dev, a->ib);
		assert_int_equal(a->sends[turn[i].qp], before - turn[i].packets);
	}
	assert_int_equal(ca_output(&a->ca, 5, out), 0);
	assert_true(list_empty(&a->ca.ready));
	free(out);
	adapter_delete(a);
}

/* Four QPs with one, two, three and four packets for another host. What the first one's burst has: */
static unsigned first_burst(struct adapter *a, enum route_kind kind, void (*spoil)(struct qp *qp))
{
	struct burst *out = calloc(1, sizeof(*out));
	unsigned n;

	a->kind = kind;
	for (unsigned i = 0; i < 4; i++) {
		struct qp *qp = a->to_send[i] = adapter_qp(a, IBV_QPT_RC, 8, NULL);

		a->sends[i] = i + 1;
		qp->attr.dest_qp_num = 5 << QPN_INDEX_BITS | i;
		qp->path.udp_sport = 0xc000 + ROCE_UDP_FLOWS;
		if (i == 1 && spoil)
			spoil(qp);
		qp_ready(qp);
	}
	n = ca_output(&a->ca, 5, out);
	for (unsigned all = n, more; all < 10; all += more)
		assert_true((more = ca_output(&a->ca, 5, out)) > 0);
	assert_int_equal(ca_output(&a->ca, 5, out), 0);
	free(out);
	return n;
}

static void to_another_process(struct qp *qp)
{
	qp->attr.dest_qp_num ^= 1 << QPN_INDEX_BITS;
}

static void to_another_host(struct qp *qp)
{
	qp->path.dgid[15]++;
}

static void from_another_address(struct qp *qp)
{
	qp->path.sgid[15]++;
}

static void by_another_flow(struct qp *qp)
{
	qp->path.udp_sport++;
}

static void in_another_class(struct qp *qp)
{
	qp->path.tclass = 4;
}

/* A call costs as much for a burst as for a packet, so packets of several QPs to one process of another host share it. */
static void queue_pairs_to_one_place_share_a_burst(void **state)
{
	static void (*const spoil[])(struct qp *) = {
		to_another_process, to_another_host, from_another_address, by_another_flow, in_another_class,
	};
	struct adapter *a = adapter_new();

	(void)state;
	assert_int_equal(first_burst(a, ROUTE_LINK, NULL), 10);
	assert_int_equal(first_burst(a, ROUTE_CHANNEL, NULL), 1);
	for (unsigned i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++)
		assert_int_equal(first_burst(a, ROUTE_LINK, spoil[i]), 8);
	a->room = 3;
	assert_int_equal(first_burst(a, ROUTE_LINK, NULL), 3);
	adapter_delete(a);
}

/* What a link takes at once is less than a burst: the QP goes on when its turn comes again. */
static void a_burst_ends_where_the_room_does(void **state)
{
	struct adapter *a = adapter_new();
	struct burst *out = calloc(1, sizeof(*out));

	(void)state;
	a->to_send[0] = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	a->sends[0] = 8;
	a->room = 3;
	qp_ready(a->to_send[0]);
	assert_int_equal(ca_output(&a->ca, 5, out), 3);
	assert_int_equal(ca_output(&a->ca, 5, out), 3);
	assert_int_equal(ca_output(&a->ca, 5, out), 2);
	assert_int_equal(ca_output(&a->ca, 5, out), 0);
	free(out);
	adapter_delete(a);
}

static void add_packet(struct burst *b, uint32_t bytes, unsigned iovs, bool copied)
{
	struct packet_out *out;

	assert_true(burst_has_place(b));
	out = burst_place(b);
	assert_int_equal(out->follows, b->packets > 0);
	out->packet = (struct packet){ .payload = out->iov, .payload_iovs = iovs, .payload_bytes = bytes };
	for (unsigned i = 0; i < iovs; i++)
		out->iov[i] = (struct iovec){ "", 1 };
	if (copied)
		out->iov[iovs - 1].iov_base = out->bounce + PACKET_MAX_ETHERNET - 1;
	burst_add(b);
}

static void expect_places(struct burst *b, uint32_t bytes, unsigned iovs, bool copied, unsigned packets)
{
	burst_begin(b, NULL);
	for (unsigned i = 0; i < packets; i++)
		add_packet(b, bytes, iovs, copied);
	assert_false(burst_has_place(b));
	assert_true(b->bytes <= BURST_BYTES);
	for (unsigned i = 1; i < packets; i++)
		assert_true(b->out[i].packet.payload == b->out[i - 1].packet.payload + iovs);
}

/* By packets, by bytes, by elements of gather lists, by copies. */
static void a_burst_is_bounded(void **state)
{
	struct burst *b = calloc(1, sizeof(*b));

	(void)state;
	expect_places(b, 8, 1, false, BURST_PACKETS);
	expect_places(b, 4096, 1, false, 15);
	expect_places(b, 64, PACKET_OUT_IOVS, false, 2);
	expect_places(b, 64, PACKET_OUT_IOVS - 1, false, 2);
	expect_places(b, 64, 3, false, 11);
	expect_places(b, 64, 1, true, BURST_COPIES);
	expect_places(b, 64, 5, true, BURST_COPIES);
	free(b);
}

static void post_datagram(struct qp *qp, const struct av *av, uint32_t qpn)
{
	struct send_wqe *wqe = qp_send_slot(qp);

	assert_non_null(wqe);
	wqe->opcode = IBV_WR_SEND;
	wqe->remote_qpn = qpn;
	wqe->av = *av;
	assert_int_equal(qp_send_written(qp, wqe), 0);
}

/* A link, and later the network, takes a burst as one. */
static void a_burst_has_one_destination(void **state)
{
	const struct av here = { .dlid = 3, .port_num = 1 }, there = { .dlid = 4, .port_num = 1 };
	struct adapter *a = adapter_new();
	struct burst *out = calloc(1, sizeof(*out));
	struct qp *qp = adapter_qp(a, IBV_QPT_UD, 8, NULL);

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	a->to_send[0] = qp;
	a->takes_wqes = true;
	a->sends[0] = 6;
	post_datagram(qp, &here, 7);
	post_datagram(qp, &here, 7);
	post_datagram(qp, &there, 7);
	post_datagram(qp, &there, 8);
	post_datagram(qp, &there, 8);
	post_datagram(qp, &here, 7);
	qp_send_ring(qp, 5);
	qp_ready(qp);
	assert_int_equal(ca_output(&a->ca, 5, out), 2);
	assert_int_equal(ca_output(&a->ca, 5, out), 1);
	assert_int_equal(ca_output(&a->ca, 5, out), 2);
	assert_int_equal(ca_output(&a->ca, 5, out), 1);
	assert_int_equal(ca_output(&a->ca, 5, out), 0);
	free(out);
	adapter_delete(a);
}

static void a_full_link_blocks_until_it_has_room(void **state)
{
	struct adapter *a = adapter_new();
	struct burst *out = calloc(1, sizeof(*out));
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);

	(void)state;
	a->to_send[0] = qp;
	a->sends[0] = 1;
	a->no_room = true;
	qp_ready(qp);
	assert_false(ca_output(&a->ca, 5, out));
	assert_false(list_empty(&a->ca.blocked));
	qp_ready(qp);
	assert_false(ca_output(&a->ca, 5, out));
	a->no_room = false;
	ca_unblock(&a->ca);
	assert_true(ca_output(&a->ca, 5, out));
	/* one that is destroyed while it waits is in no list */
	a->no_room = true;
	qp_ready(qp);
	assert_false(ca_output(&a->ca, 5, out));
	assert_int_equal(qp_destroy(qp), 0);
	ca_unblock(&a->ca);
	assert_false(ca_output(&a->ca, 5, out));
	free(out);
	adapter_delete(a);
}

static void timers_fire_when_due(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);

	(void)state;
	assert_int_equal(ca_deadline(&a->ca), WTIME_NEVER);
	a->deadline = 100;
	qp_rearm(qp);
	assert_int_equal(ca_deadline(&a->ca), 100);
	ca_expire(&a->ca, 99);
	assert_int_equal(a->expired, 0);
	/* the deadline stays in the past: once per call, not for ever */
	ca_expire(&a->ca, 150);
	assert_int_equal(a->expired, 1);
	assert_int_equal(ca_deadline(&a->ca), 151);
	a->deadline = 0;
	ca_expire(&a->ca, 151);
	assert_int_equal(a->expired, 2);
	assert_int_equal(ca_deadline(&a->ca), WTIME_NEVER);
	/* all that are due, in one call */
	a->deadline = 200;
	qp_rearm(qp);
	qp_rearm(adapter_qp(a, IBV_QPT_RC, 8, NULL));
	a->deadline = 0;
	ca_expire(&a->ca, 200);
	assert_int_equal(a->expired, 4);
	a->deadline = 200;
	qp_rearm(qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(ca_deadline(&a->ca), WTIME_NEVER);
	adapter_delete(a);
}

static void limits_are_told(void **state)
{
	struct adapter *a = adapter_new();
	const struct ibv_device_attr *attr = &a->ib->attr.orig_attr;

	(void)state;
	assert_int_equal(attr->max_sge, 32);
	assert_int_equal(attr->phys_port_cnt, 1);
	assert_int_equal(attr->max_pkeys, 1);
	assert_int_equal(attr->atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(attr->node_guid, htobe64(0x0277660000000001));
	assert_true(a->ib->attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	assert_int_equal(a->ib->attr.raw_packet_caps, 0);
	assert_int_equal(a->ib->attr.tso_caps.max_tso, 0);
	assert_int_equal(ca_init(&(struct ca){ 0 }, &(struct ca_config){ .devices = 3 }), -EINVAL);
	assert_int_equal(ca_init(&(struct ca){ 0 }, &(struct ca_config){ .devices = 1 }), -EINVAL);
	adapter_delete(a);
}

static void closing_destroys_what_is_left(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_UD, 8, NULL), *xrc = adapter_qp(a, IBV_QPT_XRC_RECV, 0, NULL), *again;
	struct ibv_srq_init_attr_ex attr = { .attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_XRC };
	const uint8_t group[16] = { 0xff, 0x12, [15] = 1 };
	struct send_wqe bind = { 0 };
	struct mr *mr, *mw;
	struct srq *srq;

	(void)state;
	assert_int_equal(mcast_attach(qp, group, 0xc001), 0);
	assert_int_equal(qp_open(xrc->xrcd, xrc->qpn, &again), 0);
	assert_int_equal(srq_create(qp->pd, &attr, xrc->xrcd, qp->send_cq, &srq), 0);
	assert_int_equal(mr_create(qp->pd, a, 64, 0, IBV_ACCESS_MW_BIND, &mr), 0);
	assert_int_equal(mw_create(qp->pd, IBV_MW_TYPE_1, &mw), 0);
	bind.bind_mw_rkey = mw->key;
	bind.bind_new_rkey = ibv_inc_rkey(mw->key);
	bind.bind_mr_lkey = mr->key;
	bind.bind_length = 8;
	assert_int_equal(mw_bind(qp, &bind), IBV_WC_SUCCESS);
	pd_get(qp->pd);		/* an address handle that nobody destroys */
	adapter_delete(a);	/* AddressSanitizer sees what stays */
}

static void groups_are_joined_once_per_device(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *one = adapter_qp(a, IBV_QPT_UD, 8, NULL), *two = adapter_qp(a, IBV_QPT_UD, 8, NULL);
	struct qp *rc = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	const uint8_t group[16] = { 0xff, 0x12, [15] = 1 }, other[16] = { 0xff, 0x12, [15] = 2 }, unicast[16] = { 0xfe, 0x80 };
	const uint8_t v4_group[16] = { [10] = 0xff, 0xff, 239, 1, 1, 1 };

	(void)state;
	assert_int_equal(mcast_attach(rc, group, 0xc000), -EINVAL);
	assert_int_equal(mcast_attach(one, unicast, 0xc000), -EINVAL);
	assert_int_equal(mcast_attach(one, group, 0xbfff), -EINVAL);
	assert_int_equal(mcast_attach(one, group, 0xffff), -EINVAL);
	a->no_group = true;
	assert_int_equal(mcast_attach(one, group, 0xc000), -ENOMEM);
	a->no_group = false;
	assert_int_equal(mcast_attach(one, group, 0xc000), 0);
	assert_int_equal(mcast_attach(one, group, 0xc000), 0);
	assert_int_equal(one->mcasts, 1);
	assert_int_equal(mcast_attach(two, group, 0xc000), 0);
	assert_int_equal(mcast_attach(one, other, 0xc001), 0);
	assert_int_equal(mcast_attach(one, v4_group, 0xc002), 0);
	assert_int_equal(a->joins, 3);
	assert_int_equal(qp_destroy(one), -EBUSY);
	assert_int_equal(mcast_detach(one, group, 0xc001), -EINVAL);
	assert_int_equal(mcast_detach(one, group, 0xc000), 0);
	assert_int_equal(mcast_detach(one, group, 0xc000), -EINVAL);
	assert_int_equal(a->leaves, 0);
	assert_int_equal(mcast_detach(two, group, 0xc000), 0);
	assert_int_equal(a->leaves, 1);
	assert_int_equal(mcast_detach(one, other, 0xc001), 0);
	assert_int_equal(mcast_detach(one, v4_group, 0xc002), 0);
	/* the other device's members are not ours */
	assert_int_equal(mcast_attach(two, group, 0xc000), 0);
	one->dev = a->roce;
	assert_int_equal(mcast_attach(one, group, 0), 0);
	assert_int_equal(a->joins, 5);
	assert_int_equal(mcast_detach(one, group, 0), 0);
	assert_int_equal(a->leaves, 4);
	one->dev = a->ib;
	assert_int_equal(qp_destroy(one), 0);
	adapter_delete(a);
}

static void address_vectors_are_checked(void **state)
{
	struct adapter *a = adapter_new();
	static const struct { bool roce; struct ibv_ah_attr attr; int result; } row[] = {
		{ false, { .dlid = 3, .port_num = 1 }, 0 },
		{ false, { .dlid = 0, .port_num = 1 }, -EINVAL },
		{ false, { .dlid = 3, .port_num = 1, .sl = 16 }, -EINVAL },
		{ false, { .dlid = 3, .port_num = 1, .is_global = 1 }, 0 },
		{ false, { .dlid = 3, .port_num = 1, .is_global = 1, .grh.sgid_index = 1 }, -EINVAL },
		{ false, { .dlid = 3, .port_num = 1, .is_global = 1, .grh.sgid_index = 255 }, -EINVAL },
		{ false, { .dlid = 0, .port_num = 1, .is_global = 1 }, -EINVAL },
		{ true, { .dlid = 3, .port_num = 1 }, -EINVAL },
		{ true, { .port_num = 1, .is_global = 1 }, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ca_device *dev = row[i].roce ? a->roce : a->ib;
		struct av av = { .dlid = 99 };
		struct packet_path path;

		assert_int_equal(av_from_attr(dev, &row[i].attr, &av), row[i].result);
		assert_int_equal(av.dlid, row[i].result ? 99 : row[i].attr.dlid);
		if (row[i].result)
			continue;
		assert_int_equal(av_path(dev, &av, 0, &path), 0);
		assert_int_equal(path.has_grh, row[i].attr.is_global);
		/* the GID may go before the handle does */
		dev->gid[0].valid = false;
		assert_int_equal(av_path(dev, &av, 0, &path), row[i].attr.is_global ? -EINVAL : 0);
		dev->gid[0].valid = true;
	}
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_pairs_to_one_place_share_a_burst),
		cmocka_unit_test(queue_pairs_send_in_turn),
		cmocka_unit_test(a_burst_ends_where_the_room_does),
		cmocka_unit_test(a_burst_is_bounded),
		cmocka_unit_test(a_burst_has_one_destination),
		cmocka_unit_test(a_full_link_blocks_until_it_has_room),
		cmocka_unit_test(timers_fire_when_due),
		cmocka_unit_test(limits_are_told),
		cmocka_unit_test(closing_destroys_what_is_left),
		cmocka_unit_test(groups_are_joined_once_per_device),
		cmocka_unit_test(address_vectors_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
