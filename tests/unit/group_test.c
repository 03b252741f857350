/* Walking the members of a multicast group. */
#include "peers/devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void members_come_in_order(void **state)
{
	static const uint32_t slots[] = { 1, 2, 63, 64, 127, 300, PAGE_SLOTS - 1 };
	uint64_t members[PAGE_SLOTS / 64] = { 0 };
	uint32_t slot = 0;

	(void)state;
	assert_int_equal(group_next(members, 0), 0);
	for (unsigned i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		members[slots[i] / 64] |= 1ull << slots[i] % 64;
	for (unsigned i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		slot = group_next(members, slot);
		assert_int_equal(slot, slots[i]);
	}
	assert_int_equal(group_next(members, slot), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(members_come_in_order) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
