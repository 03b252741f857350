/* Arrays that grow: what was in them stays, what is new is zero, and what cannot be had changes nothing. */
#include "base/array.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void elements_stay_and_new_ones_are_zero(void **state)
{
	uint64_t *array = NULL;
	uint32_t room = 0, filled = 0;

	for (uint32_t elements = 1; elements < 5000; elements += 1 + elements / 3) {
		assert_int_equal(array_reserve(&array, &room, elements, sizeof(*array)), 0);
		assert_true(room >= elements);
		for (uint32_t i = 0; i < room; i++)
			assert_int_equal(array[i], i < filled ? ~(uint64_t)i : 0);
		for (; filled < room; filled++)
			array[filled] = ~(uint64_t)filled;
	}
	free(array);
}

static void what_there_is_room_for_is_not_moved(void **state)
{
	uint8_t *array = NULL, *before;
	uint32_t room = 0, had;

	assert_int_equal(array_reserve(&array, &room, 10, 1), 0);
	before = array;
	had = room;
	assert_int_equal(array_reserve(&array, &room, had, 1), 0);
	assert_int_equal(array_reserve(&array, &room, 0, 1), 0);
	assert_ptr_equal(array, before);
	assert_int_equal(room, had);
	free(array);
}

static void too_much_is_refused_and_changes_nothing(void **state)
{
	uint8_t *array = NULL, *before;
	uint32_t room = 0, had;

	assert_int_equal(array_reserve(&array, &room, 1, 8), 0);
	before = array;
	had = room;
	assert_int_equal(array_reserve(&array, &room, UINT32_MAX, 8), -ENOMEM);
	assert_int_equal(array_reserve(&array, &room, had + 1, SIZE_MAX / 4), -ENOMEM);
	assert_ptr_equal(array, before);
	assert_int_equal(room, had);
	free(array);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_stay_and_new_ones_are_zero),
		cmocka_unit_test(what_there_is_room_for_is_not_moved),
		cmocka_unit_test(too_much_is_refused_and_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
