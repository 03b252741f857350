/* Faults of devices on demand: what their text means, which calls fail, when events are due. */
#include "impair/impair.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct device_faults faults;

static void begin(const char *text, wtime now)
{
	struct impair_spec spec;
	char why[256] = "";

	if (impair_parse(text, &spec, why, sizeof(why)))
		fail_msg("%s: %s", text, why);
	device_faults_init(&faults, spec.fault, spec.faults, spec.seed, now);
}

static int call(unsigned device, enum fault_verb verb)
{
	unsigned events;

	return device_faults_concern(&faults, device, verb) ? device_faults_call(&faults, device, verb, &events) : 0;
}

/* The calls of the first `most` that fail, as bits. */
static uint64_t failing(const char *text, unsigned most)
{
	uint64_t bits = 0;

	begin(text, 0);
	for (unsigned i = 0; i < most; i++)
		bits |= (uint64_t)(call(0, FAULT_reg_mr) == ENOMEM) << i;
	return bits;
}

static void calls_are_counted(void **state)
{
	assert_int_equal(failing("fail=reg_mr:ENOMEM", 4), 0xf);
	assert_int_equal(failing("fail=reg_mr:ENOMEM:1", 8), 0x1);
	assert_int_equal(failing("fail=reg_mr:ENOMEM:3", 8), 0x4);
	assert_int_equal(failing("fail=reg_mr:ENOMEM:2..5", 8), 0x1e);
	assert_int_equal(failing("fail=reg_mr:ENOMEM:6..", 8), 0xe0);
	assert_int_equal(failing("fail=reg_mr:ENOMEM:1,fail=reg_mr:ENOMEM:8", 8), 0x81);
	assert_int_equal(failing("fail=alloc_pd:ENOMEM", 8), 0);
	assert_int_equal(failing("fail=reg_mr:EINVAL:2,fail=reg_mr:ENOMEM:1..2", 8), 0x1);
	assert_int_equal(failing("fail=reg_mr:ENOMEM:0%", 8), 0);
}

static void shares_follow_the_seed(void **state)
{
	uint64_t first = failing("fail=reg_mr:ENOMEM:30%,seed=1", 64);

	assert_int_equal(failing("fail=reg_mr:ENOMEM:30%,seed=1", 64), first);
	assert_int_not_equal(failing("fail=reg_mr:ENOMEM:30%,seed=2", 64), first);
	assert_in_range(__builtin_popcountll(first), 6, 34);
	/* another fault shifts none of its choices */
	assert_int_equal(failing("fail=reg_mr:ENOMEM:30%,fail=reg_mr:EIO:0%,seed=1", 64), first);
}

static void devices_have_counts_of_their_own(void **state)
{
	begin("fail=create_qp:EBUSY:2,weft1.fail=create_cq:EIO", 0);
	assert_int_equal(call(0, FAULT_create_qp), 0);
	assert_int_equal(call(1, FAULT_create_qp), 0);
	assert_int_equal(call(0, FAULT_create_qp), EBUSY);
	assert_int_equal(call(1, FAULT_create_qp), EBUSY);
	assert_int_equal(call(0, FAULT_create_cq), 0);
	assert_int_equal(call(1, FAULT_create_cq), EIO);
}

static void events_come_with_calls(void **state)
{
	unsigned events;

	begin("event=cq_err:create_qp:2,fail=create_qp:EIO:2", 0);
	assert_int_equal(device_faults_call(&faults, 0, FAULT_create_qp, &events), 0);
	assert_int_equal(events, 0);
	assert_int_equal(device_faults_call(&faults, 0, FAULT_create_qp, &events), EIO);
	assert_int_equal(events, 1);
	assert_int_equal(faults.fault[0].event->type, IBV_EVENT_CQ_ERR);
	assert_int_equal(device_faults_due(&faults, 1000 * WTIME_S), 0);
}

static void events_come_at_their_time(void **state)
{
	begin("event=qp_fatal:3s,event=sm_change,event=port_err:1s", 5 * WTIME_S);
	assert_int_equal(device_faults_due(&faults, 5 * WTIME_S), 1 << 1);
	assert_true(device_faults_deadline(&faults, 5 * WTIME_S) == 6 * WTIME_S);
	device_faults_happen(&faults, 1, 0);
	assert_int_equal(device_faults_due(&faults, 5 * WTIME_S), 0);
	assert_int_equal(device_faults_due(&faults, 6 * WTIME_S - 1), 0);
	assert_int_equal(device_faults_due(&faults, 6 * WTIME_S), 1 << 2);
	assert_true(device_faults_deadline(&faults, 6 * WTIME_S) == 8 * WTIME_S);
	assert_int_equal(device_faults_due(&faults, 8 * WTIME_S), 1 << 2 | 1 << 0);
	device_faults_happen(&faults, 0, 0);
	device_faults_happen(&faults, 2, 0);
	assert_int_equal(device_faults_due(&faults, 9 * WTIME_S), 0);
	assert_true(device_faults_deadline(&faults, 9 * WTIME_S) == WTIME_NEVER);
}

static void a_fatal_error_ends_the_device(void **state)
{
	begin("event=device_fatal", 0);
	assert_int_equal(call(0, FAULT_alloc_pd), 0);
	device_faults_happen(&faults, 0, 0);
	assert_int_equal(call(0, FAULT_alloc_pd), EIO);
	assert_int_equal(call(1, FAULT_alloc_pd), 0);
}

static void refusals(void **state)
{
	static const char *const rows[] = {
		"fail=", "fail=reg_mr", "fail=reg_mr:", "fail=reg_mr:ENOMEN", "fail=regmr:ENOMEM", "fail=reg_mr:ENOMEM:",
		"fail=reg_mr:ENOMEM:0", "fail=reg_mr:ENOMEM:3..2", "fail=reg_mr:ENOMEM:3.5", "fail=reg_mr:ENOMEM:3..x",
		"fail=reg_mr:ENOMEM:101%", "fail=reg_mr:ENOMEM:3:4", "fail=reg_mr:ENOMEM:99999999999", "in.fail=reg_mr:EIO",
		"fail=reg_mr:reg_mr_whose_name_is_longer_than_any_that_there_can_be:3", "out.event=sm_change",
		"event=", "event=sm", "event=sm_change:", "event=sm_change:3", "event=sm_change:post_send:0",
		"event=sm_change:post:3", "event=sm_change:86401s",
	};
	struct impair_spec spec = { .seed = 77 };
	char text[1024] = "seed=1", why[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (impair_parse(rows[i], &spec, why, sizeof(why)) != -EINVAL || strncmp(why, strchr(rows[i], '.') &&
		    strchr(rows[i], '.') < strchr(rows[i], '=') ? strchr(rows[i], '.') + 1 : rows[i], 5) != 0)
			fail_msg("'%s' gives: %s", rows[i], why);
	for (unsigned i = 0; i < DEVICE_FAULTS; i++)
		strcat(text, ",event=sm_change");
	assert_int_equal(impair_parse(text, &spec, why, sizeof(why)), 0);
	assert_int_equal(spec.faults, DEVICE_FAULTS);
	strcat(text, ",fail=reg_mr:EIO");
	assert_int_equal(impair_parse(text, &spec, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "more than 16"));
}

static void names(void **state)
{
	assert_string_equal(fault_verb_name(FAULT_post_srq_recv), "post_srq_recv");
	assert_string_equal(fault_error_name(ENOMEM), "ENOMEM");
	assert_null(fault_error_name(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_counted),
		cmocka_unit_test(shares_follow_the_seed),
		cmocka_unit_test(devices_have_counts_of_their_own),
		cmocka_unit_test(events_come_with_calls),
		cmocka_unit_test(events_come_at_their_time),
		cmocka_unit_test(a_fatal_error_ends_the_device),
		cmocka_unit_test(refusals),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
