/* A trace's records: what is put comes back, what is cut or foreign is refused. */
#include "impair/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void records_come_back(void **state)
{
	static const uint8_t data[] = "a frame";
	const struct trace_record put = { TRACE_OFFERED, 3, PACKET_ROCE, IMPAIR_IN, IMPAIR_LOST | IMPAIR_DELAYED, 4711, 99,
					  0x1122334455667788, data, sizeof(data) };
	uint8_t bytes[TRACE_RECORD_MOST];
	struct trace_record got;
	size_t length = trace_put(&put, bytes);

	assert_int_equal(length, TRACE_HEAD + sizeof(data));
	assert_int_equal(trace_get(&got, bytes, sizeof(bytes)), length);
	assert_int_equal(got.kind, TRACE_OFFERED);
	assert_int_equal(got.device, 3);
	assert_int_equal(got.form, PACKET_ROCE);
	assert_int_equal(got.direction, IMPAIR_IN);
	assert_int_equal(got.marks, IMPAIR_LOST | IMPAIR_DELAYED);
	assert_int_equal(got.pid, 4711);
	assert_int_equal(got.to, 99);
	assert_true(got.time == 0x1122334455667788);
	assert_int_equal(got.bytes, sizeof(data));
	assert_memory_equal(got.data, data, sizeof(data));
	for (size_t cut = 0; cut < length; cut++)
		assert_int_equal(trace_get(&got, bytes, cut), 0);
}

static void foreign_bytes_are_refused(void **state)
{
	static const struct { unsigned at; uint8_t value; } rows[] = {
		{ 0, 'X' }, { 1, 1 }, { 2, 0 }, { 2, TRACE_KINDS }, { 3, 6 }, { 4, 0x80 }, { 5, IMPAIR_DEVICES }, { 7, 0xff },
	};
	const struct trace_record put = { .kind = TRACE_PASSED };
	struct trace_record got;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint8_t bytes[TRACE_HEAD];

		trace_put(&put, bytes);
		bytes[rows[i].at] = rows[i].value;
		assert_int_equal(trace_get(&got, bytes, sizeof(bytes)), -1);
	}
}

static void processes_come_back(void **state)
{
	struct trace_process put = { "ib_write_bw", "loss=5%,seed=7", 3, { { "weft0", "InfiniBand" }, { "weft1", "RoCEv2" },
				     { "weft2", "RoCEv2" } } }, got;
	uint8_t text[sizeof(put)];
	struct trace_record r = { .kind = TRACE_PROCESS, .data = text };

	r.bytes = trace_put_process(&put, text);
	assert_true(trace_get_process(&got, &r));
	assert_string_equal(got.program, put.program);
	assert_string_equal(got.impair, put.impair);
	assert_int_equal(got.devices, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_string_equal(got.device[i].name, put.device[i].name);
		assert_string_equal(got.device[i].protocol, put.device[i].protocol);
	}
	/* cut between two devices it is another process's, with fewer of them */
	for (uint32_t cut = 0; cut < r.bytes; cut++) {
		struct trace_record shorter = r;

		shorter.bytes = cut;
		assert_true(!trace_get_process(&got, &shorter) || got.devices < 3);
	}
	r.kind = TRACE_PASSED;
	assert_false(trace_get_process(&got, &r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_back),
		cmocka_unit_test(foreign_bytes_are_refused),
		cmocka_unit_test(processes_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
