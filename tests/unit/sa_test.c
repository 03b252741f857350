/* MCMemberRecord: where OpenSM and its tools have the fields (IBA 15.2.5.17). */
#include "wire/sa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void a_record_is_where_the_table_says(void **state)
{
	const struct sa_mcmember m = {
		.mgid = { 0xff, 0x12, [15] = 1 }, .port_gid = { 0xfe, 0x80, [15] = 2 }, .mask = SA_MC_MGID | SA_MC_JOIN_STATE,
		.qkey = 0x01234567, .mlid = 0xc001, .mtu = 4, .tclass = 9, .pkey = 0xffff, .sl = 3, .flow_label = 0xabcde,
		.hop_limit = 7, .join_state = SA_FULL_MEMBER,
	};
	uint8_t mad[MAD_BYTES], expected[MAD_BYTES] = {
		[53] = 1, [55] = 1, [56] = 0xff, 0x12, [71] = 1, [72] = 0xfe, 0x80, [87] = 2, [88] = 1, 0x23, 0x45, 0x67,
		0xc0, 0x01, 4, 9, 0xff, 0xff, [100] = 0x3a, 0xbc, 0xde, 7, 1,
	};
	struct sa_mcmember back = { 0 };

	(void)state;
	memset(mad, 0xee, sizeof(mad));
	memset(expected, 0xee, MAD_HEADER_BYTES);
	sa_mcmember_put(&m, mad);
	assert_memory_equal(mad, expected, sizeof(mad));
	sa_mcmember_get(&back, mad);
	memset(mad, 0xee, sizeof(mad));
	sa_mcmember_put(&back, mad);
	assert_memory_equal(mad, expected, sizeof(mad));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_record_is_where_the_table_says) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
