/* Peers that are cut off: what their text means, and whose frames are lost. */
#include "impair/impair.h"
#include "wire/addr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct partition parsed(const char *text)
{
	struct partition p;

	if (!partition_parse(text, &p))
		fail_msg("%s is refused", text);
	return p;
}

static void texts(void **state)
{
	static const char *const refused[] = {
		"", "slot:", "slot:0", "slot:4096", "slot:1+", "+slot:1", "slot:1x", "lid:0", "lid:49152", "pid:1", "lid", "gid:",
		"gid:1.2.3", "gid:1.2.3.256", "gid:1.2.3.4.5", "gid:1:2:3:4:5:6:7", "gid:1:2:3:4:5:6:7:8:9", "gid:1::2::3",
		"gid:1:",
		"gid::1", "gid:12345::", "gid:1:2:3:4:5:6:7:8::", "gid:g::", "process:4294967296",
		"slot:1+slot:2+slot:3+slot:4+slot:5+slot:6+slot:7+slot:8+slot:9+slot:10+slot:11+slot:12+slot:13+slot:14+slot:15+"
		"slot:16+slot:17",
	};
	struct partition p = parsed("slot:291+process:4+lid:7");

	assert_int_equal(p.peers, 3);
	assert_int_equal(p.peer[0].number, 291);
	assert_int_equal(p.peer[1].kind, PARTITION_PROCESS);
	assert_int_equal(p.peer[2].number, 7);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (partition_parse(refused[i], &p))
			fail_msg("'%s' is accepted", refused[i]);
}

static void addresses(void **state)
{
	static const struct { const char *text; uint8_t gid[16]; } rows[] = {
		{ "gid:::", { 0 } }, { "gid:::1", { [15] = 1 } }, { "gid:fe80::", { 0xfe, 0x80 } },
		{ "gid:FE80::1:203", { 0xfe, 0x80, [13] = 1, [14] = 2, [15] = 3 } },
		{ "gid:1:2:3:4:5:6:7:8", { 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8 } },
		{ "gid:10.0.2.255", { [10] = 0xff, [11] = 0xff, [12] = 10, [14] = 2, [15] = 255 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct partition p = parsed(rows[i].text);

		assert_memory_equal(p.peer[0].gid, rows[i].gid, 16);
	}
}

/* A frame from LID 3 and GID ::3 to LID 4 and GID ::4. */
static bool cuts(const char *text, bool is_out, uint32_t other)
{
	struct partition p = parsed(text);
	struct packet packet = { .form = PACKET_IB, .path = { .slid = 3, .dlid = 4, .has_grh = true, .hop_limit = 1 },
				 .opcode = 0x04, .pkey = 0xffff, .dest_qpn = 77 };
	uint8_t frame[PACKET_MAX_BYTES];
	size_t bytes;

	packet.path.sgid[15] = 3;
	packet.path.dgid[15] = 4;
	bytes = packet_build(&packet, frame, sizeof(frame));
	assert_true(bytes > 0);
	return partition_cuts(&p, is_out, PACKET_IB, frame, bytes, other);
}

static void peers_are_told_apart(void **state)
{
	assert_true(cuts("slot:5", true, 5));
	assert_false(cuts("slot:5", true, 6));
	assert_false(cuts("slot:5", false, 5));
	assert_true(cuts("slot:1+process:5", false, 5));
	assert_false(cuts("process:5", true, 5));
	assert_true(cuts("lid:4", true, 0));
	assert_false(cuts("lid:3", true, 0));
	assert_true(cuts("lid:3", false, 0));
	assert_false(cuts("lid:4", false, 0));
	assert_true(cuts("gid:::4", true, 0));
	assert_false(cuts("gid:::3", true, 0));
	assert_true(cuts("gid:::3", false, 0));
	assert_false(cuts("gid:::4", false, 0));
}

static void it_is_of_both_directions(void **state)
{
	struct impair_spec spec;
	char why[256];

	assert_int_equal(impair_parse("partition=lid:4,weft1.in.partition=lid:5", &spec, why, sizeof(why)), 0);
	assert_int_equal(spec.rules[0][IMPAIR_OUT].partition.peer[0].number, 4);
	assert_int_equal(spec.rules[0][IMPAIR_IN].partition.peer[0].number, 4);
	assert_int_equal(spec.rules[1][IMPAIR_OUT].partition.peer[0].number, 4);
	assert_int_equal(spec.rules[1][IMPAIR_IN].partition.peer[0].number, 5);
	assert_true(impair_rules_act(&spec.rules[0][IMPAIR_IN]));
}

static void a_lane_loses_their_frames(void **state)
{
	static struct impair_lane lane;
	struct impair_spec spec;
	uint8_t frame[64] = { 0 };
	char why[256];

	assert_int_equal(impair_parse("partition=slot:9+process:8", &spec, why, sizeof(why)), 0);
	assert_int_equal(impair_init(&lane, &spec, 0, IMPAIR_IN), 0);
	assert_int_equal(impair_push(&lane, 0, PACKET_IB, frame, sizeof(frame), 8), IMPAIR_LOST);
	assert_int_equal(impair_push(&lane, 0, PACKET_IB, frame, sizeof(frame), 9), 0);
	impair_fini(&lane);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts), cmocka_unit_test(addresses), cmocka_unit_test(peers_are_told_apart),
		cmocka_unit_test(it_is_of_both_directions), cmocka_unit_test(a_lane_loses_their_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
