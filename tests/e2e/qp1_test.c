/* weftd as the owner of QP1: to whom a MAD goes, who may send it, and what is answered where no process is. */
#include "control_client.h"

#include <errno.h>
#include <string.h>

static const uint64_t service = 0x0106000000004711;

static uint32_t id_of(const struct peer *p)
{
	return p->slot << 20 | 1;
}

static void listen_for(struct peer *p, uint8_t address)
{
	assert_int_equal(listen_at(p, service, 0, address), 0);
}

static void a_request_reaches_who_listens_at_its_address(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS), *c = join(CONTROL_PROCESS);
	struct cm_msg msg, got;
	struct control_msg head;

	listen_for(b, 2);
	assert_int_equal(listen_at(c, service, 0, 2), EADDRINUSE);
	listen_for(c, 1);
	for (int sidr = 0; sidr < 2; sidr++) {
		for (uint8_t address = 1; address <= 2; address++) {
			msg = req_of(a, service, address);
			if (sidr) {
				struct cma_header header = { .ip_version = 4, .destination = { [15] = address } };

				msg = (struct cm_msg){ .attribute = CM_SIDR_REQ,
						       .sidr_req = { .request_id = id_of(a), .service_id = service } };
				cma_build(&header, msg.sidr_req.private_data);
			}
			assert_int_equal(send_mad(a, &msg), 0);
			next_mad(address == 2 ? b : c, &got);
			assert_int_equal(got.attribute, msg.attribute);
			assert_int_equal(cm_ids_of(&got).sender, id_of(a));
		}
	}
	head = (struct control_msg){ .type = CTL_UNLISTEN, .service = service, .gid = { [10] = 0xff, 0xff, [15] = 2 } };
	assert_int_equal(call(c, &head), ENOENT);
	assert_int_equal(call(b, &head), 0);

	/* they exchanged MADs, so the end of one is the others' business */
	leave(b);
	assert_int_equal(next(a, &head), 0);
	assert_int_equal(head.type, CTL_PEER_GONE);
	leave(a);
	assert_int_equal(next(c, &head), 0);
	assert_int_equal(head.type, CTL_PEER_GONE);
	leave(c);
}

/* Without rdma_cm's header the address is the packet's; and what only looks like a header is no address. */
static void a_request_without_a_header_goes_by_its_gid(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg listens = { .type = CTL_LISTEN, .service = 99 };
	struct cm_msg msg, got;

	memcpy(listens.gid, a->page->device[0].gid[0].raw, 16);
	assert_int_equal(call(b, &listens), 0);
	for (int fill = 0; fill < 2; fill++) {
		msg = req_of(a, 99, 200);
		if (!fill)
			memset(msg.req.private_data, 0xee, sizeof(msg.req.private_data));
		assert_int_equal(send_mad(a, &msg), 0);
		next_mad(b, &got);
	}
	leave(a);
	leave(b);
}

static void other_messages_go_by_their_receivers_id(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct cm_msg msg = { .attribute = CM_REP, .rep = { .local_comm_id = id_of(b), .remote_comm_id = id_of(a) } }, got;
	struct gmp gmp = gmp_of(b, &msg);
	uint8_t frame[GMP_FRAME];
	size_t bytes = gmp_build(&gmp, PACKET_IB, frame);
	struct control_msg head;

	/* they have not met: there is nothing to answer */
	assert_int_equal(send_mad(a, &(struct cm_msg){ .attribute = CM_SIDR_REP, .sidr_rep.request_id = id_of(b) }), EPERM);
	assert_int_equal(send_mad(a, &(struct cm_msg){ .attribute = CM_REJ, .rej.remote_comm_id = id_of(b) }), EPERM);
	/* as it is, to the last bit */
	assert_int_equal(send_frame(b, frame, bytes), 0);
	assert_int_equal(next(a, &head), 0);
	assert_int_equal(head.text_bytes, bytes);
	assert_memory_equal(a->text, frame, bytes);
	msg = (struct cm_msg){ .attribute = CM_SIDR_REP, .sidr_rep.request_id = id_of(b) };
	assert_int_equal(send_mad(a, &msg), 0);
	next_mad(b, &got);
	msg = (struct cm_msg){ .attribute = CM_REJ, .rej.remote_comm_id = id_of(b) };
	assert_int_equal(send_mad(a, &msg), 0);
	next_mad(b, &got);
	leave(a);
	leave(b);
}

/* IBA 12.6.7: a request is taken back by who does not know yet who got it. */
static void a_request_is_taken_back_from_who_got_it(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct cm_msg msg = { .attribute = CM_REJ, .rej = { .local_comm_id = id_of(a), .reason = CM_REJ_TIMEOUT } }, got;
	struct cm_msg req = req_of(a, service, 0);

	assert_int_equal(send_mad(a, &msg), ENOENT);
	listen_for(b, 0);
	assert_int_equal(send_mad(a, &req), 0);
	next_mad(b, &got);
	assert_int_equal(send_mad(a, &msg), 0);
	next_mad(b, &got);
	assert_int_equal(got.attribute, CM_REJ);
	msg.rej.local_comm_id += 256;
	assert_int_equal(send_mad(a, &msg), ENOENT);
	leave(a);
	leave(b);
}

static void where_no_process_is_the_port_answers(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *gone = join(CONTROL_PROCESS);
	uint32_t nobody = id_of(gone);
	struct cm_msg rows[] = {
		req_of(a, 0x4712, 0),
		{ .attribute = CM_SIDR_REQ, .sidr_req = { .request_id = id_of(a), .service_id = 0x4712 } },
		{ .attribute = CM_REP, .rep = { .local_comm_id = id_of(a), .remote_comm_id = nobody } },
		{ .attribute = CM_DREQ, .dreq = { .local_comm_id = id_of(a), .remote_comm_id = nobody } },
	};
	static const enum cm_attribute answers[] = { CM_REJ, CM_SIDR_REP, CM_REJ, CM_DREP };

	leave(gone);
	wait_for("attached", 1);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gmp gmp;
		struct control_msg msg = { .type = CTL_FRAME };
		uint8_t frame[GMP_FRAME];
		struct cm_msg got;

		rows[i].tid = 0x1234567800000000 + i;
		gmp = gmp_of(a, &rows[i]);
		msg.text_bytes = (uint32_t)gmp_build(&gmp, PACKET_IB, frame);
		assert_int_equal(message_send(a->socket, &msg, (const char *)frame, NULL, 0, 0), 0);
		next_mad(a, &got);
		assert_int_equal(got.attribute, answers[i]);
		assert_true(got.tid == rows[i].tid);
		assert_int_equal(cm_ids_of(&got).receiver, id_of(a));
		if (got.attribute == CM_REJ)
			assert_int_equal(got.rej.reason, i ? CM_REJ_INVALID_COMM_ID : CM_REJ_INVALID_SERVICE_ID);
		if (got.attribute == CM_SIDR_REP)
			assert_int_equal(got.sidr_rep.status, CM_SIDR_UNSUPPORTED);
	}
	assert_int_equal(send_mad(a, &(struct cm_msg){ .attribute = CM_RTU, .rtu = { id_of(a), nobody } }), ENOENT);
	assert_int_equal(send_mad(a, &(struct cm_msg){ .attribute = CM_RTU, .rtu = { id_of(a), 0 } }), ENOENT);
	leave(a);
}

/* Nobody speaks in the name of another's communication ids, nor of a slot of his own that is not his first. */
static void a_process_speaks_with_its_own_ids_only(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg slot = { .type = CTL_SLOT };
	uint32_t senders[3] = { id_of(b), 0 };

	assert_int_equal(call(a, &slot), 0);
	senders[2] = slot.slot << 20 | 1;
	listen_for(b, 0);
	for (int i = 0; i < 3; i++) {
		struct cm_msg rows[] = {
			req_of(a, service, 0),
			{ .attribute = CM_SIDR_REQ, .sidr_req = { .request_id = senders[i], .service_id = service } },
			{ .attribute = CM_MRA, .mra = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
			{ .attribute = CM_REP, .rep = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
			{ .attribute = CM_RTU, .rtu = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
			{ .attribute = CM_DREQ, .dreq = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
			{ .attribute = CM_DREP, .drep = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
			{ .attribute = CM_LAP, .lap = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
			{ .attribute = CM_APR, .apr = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
			{ .attribute = CM_REJ, .rej = { .local_comm_id = senders[i], .remote_comm_id = id_of(b) } },
		};
		unsigned count = sizeof(rows) / sizeof(rows[0]) - !senders[i];

		rows[0].req.local_comm_id = senders[i];
		for (unsigned k = 0; k < count; k++)
			assert_int_equal(send_mad(a, &rows[k]), EPERM);
	}
	still_well(b);
	leave(a);
	leave(b);
}

static int send_changed(struct peer *p, void (*change)(struct packet *packet, struct iovec *mad))
{
	struct cm_msg msg = req_of(p, service, 0);
	struct gmp gmp = gmp_of(p, &msg);
	struct iovec mad = { gmp.mad, sizeof(gmp.mad) };
	struct packet packet = { .form = PACKET_IB, .opcode = OPCODE_UD_SEND_ONLY, .pkey = 0xffff, .dest_qpn = GSI_QPN,
				 .deth = { GSI_QKEY, GSI_QPN }, .path = gmp.path, .payload = &mad, .payload_iovs = 1 };
	uint8_t frame[GMP_FRAME];

	change(&packet, &mad);
	packet.payload_bytes = (uint32_t)mad.iov_len;
	return send_frame(p, frame, packet_build(&packet, frame, sizeof(frame)));
}

static void nothing(struct packet *p, struct iovec *mad) { }
static void other_class(struct packet *p, struct iovec *mad) { ((uint8_t *)mad->iov_base)[1] = MAD_CLASS_PERF; }
static void short_mad(struct packet *p, struct iovec *mad) { mad->iov_len -= 4; }
static void qp0(struct packet *p, struct iovec *mad) { p->dest_qpn = 0; }
static void own_qp(struct packet *p, struct iovec *mad) { p->deth.src_qpn = 0x5001; }
static void own_key(struct packet *p, struct iovec *mad) { p->deth.qkey = 0x11111111; }
static void other_sender(struct packet *p, struct iovec *mad) { p->path.sgid[15] ^= 0xff; }
static void other_sender_lid(struct packet *p, struct iovec *mad) { p->path.slid ^= 0xff; }
static void elsewhere(struct packet *p, struct iovec *mad) { p->path.dgid[15] ^= 0xff; }
static void elsewhere_by_lid(struct packet *p, struct iovec *mad) { p->path.dlid ^= 0xff; }

static void what_is_no_mad_of_this_port_goes_nowhere(void **state)
{
	static const struct { void (*change)(struct packet *, struct iovec *); int status; } rows[] = {
		{ nothing, 0 }, { other_class, EINVAL }, { short_mad, EINVAL }, { qp0, EPERM }, { own_qp, EPERM },
		{ own_key, EPERM }, { other_sender, EPERM }, { other_sender_lid, EPERM }, { elsewhere, EHOSTUNREACH },
		{ elsewhere_by_lid, EHOSTUNREACH },
	};
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct cm_msg req = req_of(a, service, 0), got;
	struct gmp gmp = gmp_of(a, &req);
	uint8_t frame[GMP_FRAME];
	size_t bytes = gmp_build(&gmp, PACKET_IB, frame);
	struct control_msg msg = { .type = CTL_FRAME, .device = 7 };

	listen_for(b, 0);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(send_changed(a, rows[i].change), rows[i].status);
	next_mad(b, &got);
	still_well(b);
	frame[bytes - 9] ^= 1;
	assert_int_equal(send_frame(a, frame, bytes), EINVAL);
	assert_int_equal(send_frame(a, frame, 20), EINVAL);
	assert_int_equal(send_frame(a, frame, 0), EINVAL);
	assert_int_equal(call(a, &msg), EINVAL);
	/* the form is the device's */
	msg = (struct control_msg){ .type = CTL_FRAME, .device = 1, .seq = 3, .text_bytes = (uint32_t)bytes };
	frame[bytes - 9] ^= 1;
	assert_int_equal(message_send(a->socket, &msg, (const char *)frame, NULL, 0, 0), 0);
	assert_int_equal(next(a, &msg), EINVAL);
	leave(a);
	leave(b);
}

#define TEST(f) cmocka_unit_test_teardown(f, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_reaches_who_listens_at_its_address),
		TEST(a_request_without_a_header_goes_by_its_gid),
		TEST(other_messages_go_by_their_receivers_id),
		TEST(a_request_is_taken_back_from_who_got_it),
		TEST(where_no_process_is_the_port_answers),
		TEST(a_process_speaks_with_its_own_ids_only),
		TEST(what_is_no_mad_of_this_port_goes_nowhere),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
