/* MADs as frames of QP1, and back: mgmt/gmp.h, and what a process takes of them. */
#include "mgmt/gmp.h"

#include "runtime/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const enum packet_form forms[] = { PACKET_IB, PACKET_ROCE };
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

static const uint8_t gid_a[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 };
static const uint8_t gid_b[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2 };

static struct gmp some_gmp(unsigned char tag)
{
	struct gmp gmp = { .pkey = 0xffff, .path = { .slid = 1, .dlid = 2, .has_grh = true, .hop_limit = 64 } };

	memset(gmp.mad, tag, sizeof(gmp.mad));
	memcpy(gmp.path.sgid, gid_b, 16);
	memcpy(gmp.path.dgid, gid_a, 16);
	return gmp;
}

static void a_mad_comes_back_from_its_frame(void **state)
{
	for (unsigned i = 0; i < FORMS; i++) {
		struct gmp gmp = some_gmp(5), found;
		uint8_t frame[GMP_FRAME];
		size_t bytes = gmp_build(&gmp, forms[i], frame);
		struct packet p;

		assert_int_equal(packet_parse(&p, forms[i], frame, bytes, true), PACKET_OK);
		assert_int_equal(p.dest_qpn, 1);
		assert_int_equal(p.deth.src_qpn, 1);
		assert_int_equal(p.deth.qkey, 0x80010000);
		assert_int_equal(gmp_parse(&found, forms[i], frame, bytes), GMP_OK);
		assert_memory_equal(found.mad, gmp.mad, MAD_BYTES);
		assert_memory_equal(found.path.sgid, gid_b, 16);
		assert_int_equal(found.pkey, 0xffff);
		frame[bytes - 20] ^= 1;
		assert_int_equal(gmp_parse(&found, forms[i], frame, bytes), GMP_SPOILT);
		assert_int_equal(gmp_parse(&found, forms[i], frame, bytes - 4), GMP_MALFORMED);
	}
}

static enum gmp_verdict verdict(const struct packet *p)
{
	uint8_t frame[PACKET_MAX_BYTES];
	struct gmp gmp;

	return gmp_parse(&gmp, p->form, frame, packet_build(p, frame, sizeof(frame)));
}

static void only_qp1_speaks_with_qp1(void **state)
{
	static const uint8_t mad[MAD_BYTES + 4];

	for (unsigned i = 0; i < FORMS; i++) {
		struct iovec iov = { (void *)(uintptr_t)mad, MAD_BYTES };
		struct packet p = { .form = forms[i], .opcode = OPCODE_UD_SEND_ONLY, .pkey = 0xffff, .dest_qpn = 1,
				    .deth = { 0x80010000, 1 }, .path = some_gmp(0).path, .payload = &iov, .payload_iovs = 1,
				    .payload_bytes = MAD_BYTES };

		p.path.is_ipv4 = forms[i] == PACKET_ROCE;
		assert_int_equal(verdict(&p), GMP_OK);
		p.dest_qpn = 0;
		assert_int_equal(verdict(&p), GMP_NOT_QP1);
		p.dest_qpn = 1;
		p.deth.src_qpn = 0x5001;
		assert_int_equal(verdict(&p), GMP_NOT_QP1);
		p.deth.src_qpn = 1;
		p.deth.qkey = 0x11111111;
		assert_int_equal(verdict(&p), GMP_NOT_QP1);
		p.deth.qkey = 0x80010000;
		iov.iov_len = p.payload_bytes = MAD_BYTES + 4;
		assert_int_equal(verdict(&p), GMP_MALFORMED);
		iov.iov_len = p.payload_bytes = MAD_BYTES;
		p.opcode = OPCODE_UC_SEND_ONLY;
		assert_int_equal(verdict(&p), GMP_NOT_QP1);
	}
	assert_int_equal(gmp_parse(&(struct gmp){ 0 }, PACKET_ETHERNET, mad, sizeof(mad)), GMP_MALFORMED);
}

/* A program's UD QP asks QP1, with whatever Q_Key it sends, and QP1 answers it by the Q_Key that it was told. */
static void another_queue_pair_speaks_with_qp1(void **state)
{
	struct gmp gmp = some_gmp(5), found;
	struct iovec iov = { gmp.mad, MAD_BYTES };
	struct packet p = { .form = PACKET_IB, .opcode = OPCODE_UD_SEND_ONLY, .pkey = 0xffff, .dest_qpn = 1,
			    .deth = { 0x11111111, 0x5001 }, .path = gmp.path, .payload = &iov, .payload_iovs = 1,
			    .payload_bytes = MAD_BYTES };
	uint8_t frame[PACKET_MAX_BYTES];

	assert_int_equal(gmp_parse_from_qp(&found, PACKET_IB, frame, packet_build(&p, frame, sizeof(frame))), GMP_OK);
	assert_int_equal(found.qpn, 0x5001);
	assert_int_equal(found.qkey, 0x11111111);
	assert_memory_equal(found.mad, gmp.mad, MAD_BYTES);
	for (unsigned i = 0; i < 3; i++) {
		size_t bytes;

		p.deth.src_qpn = i < 2 ? i : 0x5001;
		p.dest_qpn = i < 2 ? 1 : 0x5002;
		bytes = packet_build(&p, frame, sizeof(frame));
		assert_int_equal(gmp_parse_from_qp(&found, PACKET_IB, frame, bytes), GMP_NOT_QP1);
	}
	gmp.qpn = 0x5001;
	gmp.qkey = 7;
	assert_int_equal(packet_parse(&p, PACKET_IB, frame, gmp_build(&gmp, PACKET_IB, frame), true), PACKET_OK);
	assert_int_equal(p.dest_qpn, 0x5001);
	assert_int_equal(p.deth.src_qpn, 1);
	assert_int_equal(p.deth.qkey, 7);
}

static void the_way_back_leads_to_the_sender(void **state)
{
	struct packet_path came = some_gmp(0).path, back = gmp_path_back(&came), other;

	assert_int_equal(back.dlid, 1);
	assert_memory_equal(back.dgid, gid_b, 16);
	assert_true(gmp_path_is_from(&came, &back));
	other = came;
	other.sgid[3] ^= 1;
	assert_false(gmp_path_is_from(&other, &back));
	other = came;
	other.has_grh = false;
	assert_false(gmp_path_is_from(&other, &back));
}

/* ---- QP1 of a process ---- */

static struct runtime host;

static int set_up(void **state)
{
	static struct ca_device devices[2];

	host.ca.devices = 2;
	host.ca.dev = devices;
	host.ca.dev[0] = (struct ca_device){ .protocol = &protocol_ib, .lid = 2, .pkeys = 1, .pkey = { 0xffff } };
	host.ca.dev[1] = (struct ca_device){ .protocol = &protocol_roce_v2, .pkeys = 1, .pkey = { 0x0007 } };
	for (int i = 0; i < 2; i++) {
		host.ca.dev[i].gid[0].valid = host.ca.dev[i].gid[3].valid = true;
		memcpy(host.ca.dev[i].gid[0].raw, gid_a, 16);
		memcpy(host.ca.dev[i].gid[3].raw, gid_b, 16);
	}
	memset(&host.gsi, 0, sizeof(host.gsi));
	return 0;
}

static uint32_t come(const struct gmp *gmp, enum packet_form form)
{
	uint8_t frame[GMP_FRAME];
	uint32_t before = host.gsi.count;

	gsi_deliver(&host, link_kind(form == PACKET_ROCE, form), frame, gmp_build(gmp, form, frame));
	return host.gsi.count - before;
}

static void arrivals_keep_their_order_and_their_bound(void **state)
{
	for (unsigned i = 0; i < GSI_ARRIVED + 3; i++) {
		struct gmp gmp = some_gmp((unsigned char)i);

		assert_int_equal(come(&gmp, PACKET_IB), i < GSI_ARRIVED);
	}
	for (unsigned i = 0; i < GSI_ARRIVED; i++)
		assert_int_equal(host.gsi.arrived[i].mad[0], i);
}

/* IBA 10.9.3: in one partition, and one of the two a full member of it. */
static void another_partition_is_not_heard(void **state)
{
	static const struct { uint16_t ours, pkey; bool is_heard; } rows[] = {
		{ 0x0007, 0x8007, true }, { 0x0007, 0x0007, false }, { 0x0007, 0x8008, false }, { 0x8009, 0x0009, true },
		{ 0x8009, 0x8009, true }, { 0x8009, 0xffff, false }, { 0x0000, 0x8000, false },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gmp gmp = some_gmp(1);

		gmp.pkey = rows[i].pkey;
		host.ca.dev[1].pkey[0] = rows[i].ours;
		assert_int_equal(come(&gmp, PACKET_ROCE), rows[i].is_heard);
	}
}

/* What has LIDs is within this host, be it a fabric. */
static void a_port_of_this_host_is_known_as_such(void **state)
{
	struct gmp gmp = some_gmp(1);

	gmp.pkey = 0x8007;
	memcpy(gmp.path.sgid, gid_b, 16);
	assert_int_equal(come(&gmp, PACKET_ROCE), 1);
	gmp.path.sgid[15] ^= 99;
	assert_int_equal(come(&gmp, PACKET_ROCE), 1);
	gmp.pkey = 0xffff;
	assert_int_equal(come(&gmp, PACKET_IB), 1);
	assert_true(host.gsi.arrived[0].is_from_here);
	assert_false(host.gsi.arrived[1].is_from_here);
	assert_true(host.gsi.arrived[2].is_from_here);
}

static void what_is_spoilt_is_counted(void **state)
{
	struct gmp gmp = some_gmp(1);
	uint8_t frame[GMP_FRAME];
	size_t bytes = gmp_build(&gmp, PACKET_IB, frame);
	uint64_t spoilt = host.ca.counters.icrc_errors, malformed = host.ca.counters.malformed;

	frame[bytes - 30] ^= 4;
	gsi_deliver(&host, link_kind(0, PACKET_IB), frame, bytes);
	gsi_deliver(&host, link_kind(0, PACKET_IB), frame, 10);
	assert_int_equal(host.gsi.count, 0);
	assert_int_equal(host.ca.counters.icrc_errors, spoilt + 1);
	assert_int_equal(host.ca.counters.malformed, malformed + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mad_comes_back_from_its_frame),
		cmocka_unit_test(only_qp1_speaks_with_qp1),
		cmocka_unit_test(another_queue_pair_speaks_with_qp1),
		cmocka_unit_test(the_way_back_leads_to_the_sender),
		cmocka_unit_test_setup(arrivals_keep_their_order_and_their_bound, set_up),
		cmocka_unit_test_setup(another_partition_is_not_heard, set_up),
		cmocka_unit_test_setup(a_port_of_this_host_is_known_as_such, set_up),
		cmocka_unit_test_setup(what_is_spoilt_is_counted, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
