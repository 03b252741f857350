/* The text form of a profile. */
#include "ib/ib.h"
#include "multipath/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void good(const char *text, enum ib_profile profile, enum ib_ack_mode ack, uint16_t window, uint16_t every, bool last,
		 uint32_t start)
{
	struct ib_options o;

	print_message("%s\n", text);
	assert_int_equal(ib_options_parse(text, &o), 0);
	assert_int_equal(o.profile, profile);
	assert_int_equal(o.ack_mode, ack);
	assert_int_equal(o.window_pkts, window);
	assert_int_equal(o.ack_every, every);
	assert_int_equal(o.report_last_only, last);
	assert_int_equal(o.start_msn, start);
}

static void profiles_are_read(void **state)
{
	(void)state;
	good("standard", IB_STANDARD, IB_ACK_ON_REQUEST, IB_WINDOW, 1, false, 0);
	good("seed", IB_SEED, IB_ACK_ON_REQUEST, IB_WINDOW, 1, false, 0);
	good("seed,start-msn=0xfffffe", IB_SEED, IB_ACK_ON_REQUEST, IB_WINDOW, 1, false, 0xfffffe);
	good("seed,ack=packet,report=last", IB_SEED, IB_ACK_PER_PACKET, IB_WINDOW, 1, true, 0);
	good("standard,ack=message,window=1", IB_STANDARD, IB_ACK_MESSAGE_END, 1, 1, false, 0);
	good("standard,ack=8,window=4096", IB_STANDARD, IB_ACK_COALESCED, 4096, 8, false, 0);
}

static void completion_and_levels_are_read(void **state)
{
	struct ib_options o;

	(void)state;
	assert_int_equal(ib_options_parse("printed", &o), 0);
	assert_int_equal(o.profile, IB_SEED);
	assert_int_equal(o.completion, IB_COMPLETE_BY_PSN);
	assert_int_equal(ib_options_parse("seed,complete=wqe,ack-level=process,start-msn=exchange,timeout=standard", &o), 0);
	assert_int_equal(o.completion, IB_COMPLETE_BY_WQE);
	assert_true(o.ack_when_consumed);
	assert_true(o.timeout_as_standard);
	assert_true(o.exchange_start);
	assert_int_equal(ib_options_parse("standard,complete=msn,ack-level=endpoint", &o), 0);
	assert_int_equal(o.completion, IB_COMPLETE_BY_MSN);
	assert_false(o.ack_when_consumed);
	assert_false(o.timeout_as_standard);
	assert_false(o.exchange_start);
	assert_true(o.selective_repeat);
	assert_int_equal(ib_options_parse("standard,repeat=all", &o), 0);
	assert_false(o.selective_repeat);
	assert_true(o.congestion_control);
	assert_int_equal(ib_options_parse("standard,congestion=off", &o), 0);
	assert_false(o.congestion_control);
	assert_int_equal(ib_options_parse("standard,congestion=on", &o), 0);
	assert_true(o.congestion_control);
	assert_int_equal(o.paths, 1);
	assert_int_equal(ib_options_parse("standard,paths=8", &o), 0);
	assert_int_equal(o.paths, 8);
	assert_int_equal(ib_options_parse("standard", &o), 0);
	assert_int_equal(ib_options_parse("standard,repeat=selective", &o), 0);
	assert_true(o.selective_repeat);
}

static void several_paths_are_read(void **state)
{
	struct ib_options o;

	(void)state;
	assert_int_equal(ib_options_parse("multipath", &o), 0);
	assert_int_equal(o.profile, IB_MULTIPATH);
	assert_int_equal(o.paths, 4);
	assert_int_equal(o.window_pkts, IB_WINDOW);
	assert_false(o.refuses_silently);
	assert_false(o.renumbers);
	assert_int_equal(o.spread_by, MP_ROUND_ROBIN);
	assert_int_equal(ib_options_parse("multipath,paths=8,window=16,refuse=silent,after-failure=renumber,spread=least", &o),
			 0);
	assert_int_equal(o.paths, 8);
	assert_int_equal(o.window_pkts, 16);
	assert_true(o.refuses_silently);
	assert_true(o.renumbers);
	assert_int_equal(o.spread_by, MP_LEAST_LOADED);
	assert_int_equal(ib_options_parse("multipath,refuse=told,after-failure=filter,spread=random", &o), 0);
	assert_int_equal(o.spread_by, MP_RANDOM);
}

static void nonsense_changes_nothing(void **state)
{
	static const char *const bad[] = {
		"", "sead", "seed,", "window=4", "print", "seed;ack=packet",
		"seed,window", "seed,window=", "seed,window=0", "seed,window=3", "seed,window=8192", "seed,window=1x",
		"seed,window=-1", "standard,timeout=1", "standard,repeat=never", "standard,congestion=maybe",
		"standard,paths=0", "standard,paths=9", "standard,paths=",
		"seed,ack=0", "seed,ack=never", "seed,report=", "seed,complete=", "seed,ack-level=2",
		"seed,start-msn=0x1000000", "seed,start-msn=exchanged",
		"multipath,ack=packet", "multipath,repeat=all", "multipath,refuse=", "multipath,after-failure=both",
		"multipath,spread=3", "multipath,paths=9", "standard,refuse=silent", "seed,spread=turn",
		"seed,window=1,window=1,window=1,window=1,window=1,window=1,window=1,window=1,window=1,window=1,window=1,"
		"window=1,window=1,window=1",
	};
	struct ib_options o = { .start_msn = 7, .window_pkts = 2 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		print_message("%s\n", bad[i]);
		assert_true(ib_options_parse(bad[i], &o) < 0);
		assert_int_equal(o.start_msn, 7);
		assert_int_equal(o.window_pkts, 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profiles_are_read),
		cmocka_unit_test(completion_and_levels_are_read),
		cmocka_unit_test(several_paths_are_read),
		cmocka_unit_test(nonsense_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
