/* counters.def makes the struct and the names: they cannot differ, and the public names are there. */
#include "base/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int find(const char *name)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		if (!strcmp(counters_name(i), name))
			return (int)i;
	return -1;
}

static void names_follow_the_struct(void **state)
{
	struct counters c = { .sent_pkts = 1, .rdma_recvs = 2, .tx_bytes = 3 };

	assert_int_equal(counters_value(&c, (unsigned)find("sent_pkts")), 1);
	assert_int_equal(counters_value(&c, (unsigned)find("rdma_recvs")), 2);
	assert_int_equal(counters_value(&c, (unsigned)find("tx_bytes")), 3);
	assert_int_equal(find("tx_bytes"), COUNTERS - 1);
	for (unsigned i = 0; i < COUNTERS; i++)
		assert_true(strlen(counters_text(i)) > 0);
}

/* What `rdma statistic` shows for rdma_rxe. */
static void has_the_public_names(void **state)
{
	static const char *const names[] = {
		"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err",
		"rcvd_seq_err", "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err", "send_err",
		"link_downed", "rdma_sends", "rdma_recvs",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_int_not_equal(find(names[i]), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_follow_the_struct),
		cmocka_unit_test(has_the_public_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
