/* Packets of QP1 from one process to another over the fabric that weftd keeps. */
#include "subnet.h"

#include "mgmt/cm.h"
#include "mgmt/gmp.h"
#include "weftd/late_frames.h"
#include "weftd/qp1.h"

enum { MILLION = 1000000, TRIES = 64 };

/* From the first process, as part of a conversation. */
static void send_rtu_to(unsigned to, uint32_t seq)
{
	struct gmp gmp = { .pkey = PKEY_DEFAULT, .path = { .slid = net_lid(0), .dlid = net_lid(to) } };
	const struct cm_msg rtu = { .attribute = CM_RTU, .rtu = { .local_comm_id = net_slot(0) << CM_SLOT_SHIFT | 1,
								  .remote_comm_id = net_slot(to) << CM_SLOT_SHIFT | 1 } };
	uint8_t frame[GMP_FRAME];
	struct control_msg msg = { .type = CTL_FRAME, .seq = seq };

	cm_build(&rtu, gmp.mad);
	msg.text_bytes = (uint32_t)gmp_build(&gmp, PACKET_IB, frame);
	qp1_input(&net->hub, &net->client[0], &msg, (char *)frame);
}

static void send_rtu(uint32_t seq)
{
	send_rtu_to(1, seq);
}

static void a_link_loses_packets_of_qp1(void **state)
{
	struct port_counters *h1, *s1;
	unsigned lost = 0;

	(void)state;
	h1 = &net->subnet.agents.counters[net_port(0)];
	s1 = &net->subnet.agents.counters[fabric_peer(&net->t.f, net_port(0))];
	agents_set_fault(&net->subnet.agents, net_port(0), MILLION / 4, 0, 7);
	for (unsigned i = 1; i <= TRIES; i++) {
		unsigned before = net->messages[1];

		send_rtu(i);
		lost += net->messages[1] == before;
		/* who has sent it cannot tell */
		assert_int_equal(net->last[0].seq, i);
		assert_int_equal(net->last[0].status, 0);
	}
	assert_in_range(lost, 1, TRIES - 1);
	assert_int_equal(h1->total[COUNT_XMIT_PKTS], TRIES);
	assert_int_equal(s1->total[COUNT_RCV_PKTS], TRIES - lost);
	assert_int_equal(s1->total[COUNT_SYMBOL_ERRORS], lost);
	assert_int_equal(net->client[0].mads_sent, TRIES);
	/* the switch counts none that it does not get */
	net->t.f.port[fabric_peer(&net->t.f, net_port(0))].enforce = ENFORCE_IN;
	fabric_pkeys(&net->t.f, fabric_peer(&net->t.f, net_port(0)))[0] = 0;
	agents_set_fault(&net->subnet.agents, net_port(0), MILLION, 0, 7);
	send_rtu(99);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->t.f.port[fabric_peer(&net->t.f, net_port(0))].pkey_violations, 0);
	agents_set_fault(&net->subnet.agents, net_port(0), 0, 0, 0);
	send_rtu(100);
	assert_int_equal(net->last[0].status, EHOSTUNREACH);
	assert_int_equal(net->t.f.port[fabric_peer(&net->t.f, net_port(0))].pkey_violations, 1);
}

/* Who asks by the QP of another process would have that one's connection ended as lost (IBA 12.9.8.3.1). */
static void nobody_asks_by_the_qp_of_another(void **state)
{
	const struct { unsigned attribute; uint32_t qpn, eecn; int status; } rows[] = {
		{ CM_REQ, net_qpn(2, 5), 0, EPERM }, { CM_REQ, net_qpn(0, 5), 0, 0 }, { CM_REQ, 0, 0, 0 },
		{ CM_REQ, qpn_make(99, 5), 0, 0 },
		{ CM_REP, net_qpn(2, 5), 0, EPERM }, { CM_REP, net_qpn(0, 5), 0, 0 },
		{ CM_REP, 0, net_qpn(2, 5), EPERM }, { CM_REP, 0, net_qpn(0, 5), 0 },
		{ CM_REP, net_qpn(0, 5), net_qpn(2, 5), EPERM },
	};

	(void)state;
	for (unsigned i = 0; i < SUBNET_PROCESSES; i++)
		net->client[i].pid = (pid_t)i + 1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gmp gmp = { .pkey = PKEY_DEFAULT, .path = { .slid = net_lid(0), .dlid = net_lid(1) } };
		struct control_msg msg = { .type = CTL_FRAME, .seq = 7 };
		struct cm_msg cm = { .attribute = rows[i].attribute };
		uint8_t frame[GMP_FRAME];

		if (cm.attribute == CM_REQ)
			cm.req = (struct cm_req){ .local_comm_id = net_slot(0) << CM_SLOT_SHIFT | 1, .local_qpn = rows[i].qpn };
		else
			cm.rep = (struct cm_rep){ .local_comm_id = net_slot(0) << CM_SLOT_SHIFT | 1, .local_qpn = rows[i].qpn,
						  .local_eecn = rows[i].eecn,
						  .remote_comm_id = net_slot(1) << CM_SLOT_SHIFT | 1 };
		cm_build(&cm, gmp.mad);
		msg.text_bytes = (uint32_t)gmp_build(&gmp, PACKET_IB, frame);
		qp1_input(&net->hub, &net->client[0], &msg, (char *)frame);
		assert_int_equal(net->last[0].seq, 7);
		assert_int_equal(net->last[0].status, rows[i].status);
	}
}

/* A question to the performance agent of the second host, as from this QP; whether it was answered. */
static bool is_answered(uint32_t qpn, uint16_t slid, uint32_t qkey, int status)
{
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, MAD_CLASS_PERF, 1, MAD_GET, [17] = 1 };
	struct iovec iov = { mad, sizeof(mad) };
	const struct packet p = {
		.form = PACKET_IB, .opcode = OPCODE_UD_SEND_ONLY, .pkey = PKEY_DEFAULT, .dest_qpn = GSI_QPN,
		.deth = { qkey, qpn }, .path = { .slid = slid, .dlid = net_lid(1) },
		.payload = &iov, .payload_iovs = 1, .payload_bytes = sizeof(mad),
	};
	struct control_msg msg = { .type = CTL_FRAME, .seq = 7 };
	unsigned before = net->messages[0];
	uint8_t frame[GMP_FRAME];

	msg.text_bytes = (uint32_t)packet_build(&p, frame, sizeof(frame));
	qp1_input(&net->hub, &net->client[0], &msg, (char *)frame);
	assert_int_equal(net->last[0].status, status);
	assert_int_equal(net->messages[1] + net->messages[2], 0);
	return net->messages[0] == before + 2;
}

/* A UD QP of a process asks QP1 of a port, and has its answer; in the name of another process or port it does not. */
static void a_process_asks_qp1_by_its_own_qp(void **state)
{
	(void)state;
	assert_true(is_answered(net_qpn(0, 5), net_lid(0), GSI_QKEY, 0));
	assert_false(is_answered(net_qpn(1, 5), net_lid(0), GSI_QKEY, EPERM));
	assert_false(is_answered(qpn_make(99, 5), net_lid(0), GSI_QKEY, EPERM));
	assert_false(is_answered(net_qpn(0, 5), net_lid(2), GSI_QKEY, EPERM));
	assert_int_equal(net->t.f.port[net_port(1)].qkey_violations, 0);
	assert_false(is_answered(net_qpn(0, 5), net_lid(0), 0x11111111, 0));
	assert_int_equal(net->t.f.port[net_port(1)].qkey_violations, 1);
	atomic_store(&net->page.slot_port[net_slot(0)], 0);
	assert_false(is_answered(net_qpn(0, 5), 2, GSI_QKEY, EPERM));
}

/* A request of the first process from this LID to that one, where nobody listens. Was it answered? */
static bool is_rejected_by(uint16_t slid, uint16_t dlid)
{
	struct gmp gmp = { .pkey = PKEY_DEFAULT, .path = { .slid = slid, .dlid = dlid } };
	const struct cm_msg request = { .attribute = CM_REQ, .req = { .local_comm_id = net_slot(0) << CM_SLOT_SHIFT | 1,
								      .service_id = 77 } };
	unsigned before = net->messages[0];
	uint8_t frame[GMP_FRAME];
	struct control_msg msg = { .type = CTL_FRAME };

	cm_build(&request, gmp.mad);
	msg.text_bytes = (uint32_t)gmp_build(&gmp, PACKET_IB, frame);
	qp1_input(&net->hub, &net->client[0], &msg, (char *)frame);
	assert_true(net->messages[0] == before || net->last[0].type == CTL_FRAME);
	return net->messages[0] > before;
}

static bool is_rejected(uint16_t lid)
{
	return is_rejected_by(net_lid(0), lid);
}

/* Path bits choose one of the LIDs of a port (IBA 11.2.2.1). A process asks QP1, and connects, by each LID of its own port. */
static void a_process_speaks_by_all_lids_of_its_port(void **state)
{
	enum { LID = 8, LMC = 1 };
	struct fabric_port *h1 = &net->t.f.port[net_port(0)];

	(void)state;
	h1->lid = LID;
	h1->lmc = LMC;
	assert_int_equal(fabric_route(&net->t.f, ROUTE_MIN_HOP), 0);
	for (uint16_t lid = LID - 1; lid <= LID + 2; lid++) {
		const bool is_own = lid >= LID && lid < LID + (1 << LMC);

		assert_int_equal(is_answered(net_qpn(0, 5), lid, GSI_QKEY, is_own ? 0 : EPERM), is_own);
		assert_int_equal(is_rejected_by(lid, net_lid(1)), is_own);
	}
	/* a port without a LID has no further ones */
	h1->lid = 0;
	assert_false(is_answered(net_qpn(0, 5), 1, GSI_QKEY, EPERM));
}

/* The port at the other end answers: both ways are counted, and links lose what goes either way. */
static void what_nobody_listens_to_passes_links_and_back(void **state)
{
	const struct port_counters *h1 = &net->subnet.agents.counters[net_port(0)];
	const struct port_counters *h2 = &net->subnet.agents.counters[net_port(1)];
	unsigned rejected = 0;

	(void)state;
	assert_true(is_rejected(net_lid(1)));
	assert_int_equal(h1->total[COUNT_XMIT_PKTS], 1);
	assert_int_equal(h2->total[COUNT_RCV_PKTS], 1);
	assert_int_equal(h2->total[COUNT_XMIT_PKTS], 1);
	assert_int_equal(h1->total[COUNT_RCV_PKTS], 1);
	agents_set_fault(&net->subnet.agents, net_port(1), MILLION / 4, 0, 7);
	for (unsigned i = 0; i < TRIES; i++)
		rejected += is_rejected(net_lid(1));
	assert_in_range(rejected, TRIES / 4, TRIES - 1);
	assert_int_equal(h1->total[COUNT_RCV_PKTS], 1 + rejected);
	assert_int_equal(h2->total[COUNT_XMIT_PKTS], h2->total[COUNT_RCV_PKTS]);
	assert_true(h2->total[COUNT_SYMBOL_ERRORS] && h2->total[COUNT_XMIT_PKTS] > 1 + rejected);
	/* where no port is, nobody answers; nor where it is not let in */
	assert_false(is_rejected(0x3ffe));
	agents_set_fault(&net->subnet.agents, net_port(1), 0, 0, 0);
	fabric_pkeys(&net->t.f, net_port(1))[0] = 0;
	assert_false(is_rejected(net_lid(1)));
	assert_int_equal(net->t.f.port[net_port(1)].pkey_violations, 1);
}

/* Who sets the counters of all ports one after the other has those of all ports saved now and then, not each time. */
static void ports_that_are_set_in_a_row_are_saved_together(void **state)
{
	uint32_t ports = net->t.f.ports;
	struct traffic_block *traffic = calloc(1, traffic_bytes(&net->subnet.fabric));
	uint64_t (*saved)[TRAFFIC_COUNTS] = calloc(ports, sizeof(*saved));
	wtime due;

	(void)state;
	assert_non_null(traffic);
	assert_non_null(saved);
	net->subnet.traffic = traffic;
	net->subnet.counts = (struct kept_counts){ .at = saved, .ports = ports, .data = saved };
	net->hub.now = WTIME_S;
	assert_true(subnet_deadline(&net->hub) == WTIME_NEVER);
	for (uint32_t port = 0; port < ports; port++) {
		traffic_add(&traffic[port], TRAFFIC_PACKETS, port + 1);
		subnet_counts_read(&net->hub, true);
		umad_expire(&net->hub);
	}
	for (uint32_t port = 0; port < ports; port++)
		assert_int_equal(saved[port][TRAFFIC_PACKETS], 0);
	due = subnet_deadline(&net->hub);
	assert_true(due > net->hub.now && due <= net->hub.now + 100 * WTIME_MS);
	assert_true(umad_deadline(&net->hub) <= due);
	net->hub.now = due;
	umad_expire(&net->hub);
	for (uint32_t port = 0; port < ports; port++)
		assert_int_equal(saved[port][TRAFFIC_PACKETS], port + 1);
	assert_true(subnet_deadline(&net->hub) == WTIME_NEVER);
	net->subnet.traffic = NULL;
	net->subnet.counts = (struct kept_counts){ .at = NULL };
	free(traffic);
	free(saved);
}

/* A packet is 1 ms on the link of the first process. */
static void slow_links_hold_packets_of_qp1_up(void **state)
{
	struct traffic_block *traffic = calloc(1, traffic_bytes(&net->subnet.fabric));
	wtime first;
	unsigned before;

	(void)state;
	assert_non_null(traffic);
	net->subnet.agents.traffic = traffic;
	agents_set_fault(&net->subnet.agents, net_port(0), 0, 72 * 32, 7);
	net->hub.now = first = WTIME_S;
	send_rtu(1);
	send_rtu(2);
	before = net->messages[1];
	assert_true(late_frames_deadline(&net->hub) == first + WTIME_MS);
	net->hub.now = first + WTIME_MS - 1;
	late_frames_expire(&net->hub);
	assert_int_equal(net->messages[1], before);
	net->hub.now++;
	late_frames_expire(&net->hub);
	assert_int_equal(net->messages[1], before + 1);
	assert_true(late_frames_deadline(&net->hub) == first + 2 * WTIME_MS);
	net->hub.now = first + 2 * WTIME_MS;
	late_frames_expire(&net->hub);
	assert_int_equal(net->messages[1], before + 2);
	assert_true(late_frames_deadline(&net->hub) == WTIME_NEVER);
	/* a refusal takes both ways */
	before = net->messages[0];
	is_rejected(net_lid(1));
	assert_true(late_frames_deadline(&net->hub) == net->hub.now + 2 * WTIME_MS);
	net->hub.now += 2 * WTIME_MS;
	late_frames_expire(&net->hub);
	assert_int_equal(net->last[0].type, CTL_FRAME);
	/* what is for a process that leaves is lost, and a process that has left has sent what it sent */
	agents_set_fault(&net->subnet.agents, net_port(0), 0, 100 * 72 * 32, 7);
	for (unsigned i = 0; i < LATE_FRAMES + 10; i++)
		send_rtu(i);
	assert_int_equal(net->hub.late_frames.count, LATE_FRAMES);
	late_frames_leave(&net->hub, &net->client[0]);
	assert_int_equal(net->hub.late_frames.count, LATE_FRAMES);
	assert_int_equal(net->client[0].late_frames, LATE_FRAMES);
	late_frames_leave(&net->hub, &net->client[1]);
	assert_int_equal(net->hub.late_frames.count, 0);
	/* of two receivers, one leaves */
	net->client[0].late_frames = 0;
	for (unsigned i = 0; i < LATE_FRAMES; i++)
		send_rtu_to(1 + i % 2, i);
	assert_int_equal(net->hub.late_frames.count, LATE_FRAMES);
	before = net->messages[2];
	late_frames_leave(&net->hub, &net->client[1]);
	assert_int_equal(net->hub.late_frames.count, LATE_FRAMES / 2);
	assert_int_equal(net->client[0].late_frames, LATE_FRAMES / 2);
	for (unsigned i = 1; i <= LATE_FRAMES / 2; i++) {
		net->hub.now = late_frames_deadline(&net->hub);
		late_frames_expire(&net->hub);
		assert_int_equal(net->messages[2], before + i);
	}
	assert_true(late_frames_deadline(&net->hub) == WTIME_NEVER);
	assert_int_equal(net->client[0].late_frames, 0);
	late_frames_leave(&net->hub, &net->client[2]);
	net->subnet.agents.traffic = NULL;
	free(traffic);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_link_loses_packets_of_qp1, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(slow_links_hold_packets_of_qp1_up, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(nobody_asks_by_the_qp_of_another, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(a_process_asks_qp1_by_its_own_qp, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(a_process_speaks_by_all_lids_of_its_port, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(ports_that_are_set_in_a_row_are_saved_together, net_set_up, net_tear_down),
		cmocka_unit_test_setup_teardown(what_nobody_listens_to_passes_links_and_back, net_set_up, net_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
