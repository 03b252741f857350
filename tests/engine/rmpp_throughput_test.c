/* How long an answer takes by its window and the path's loss, in virtual time.
 * usage: engine_rmpp_throughput_test [BYTES [SEED]]: prints the table of docs/management.md */
#include "rmpp_run.h"

#include <stdio.h>

/* A way of 10 us and 256 bytes at 10 Gbit/s; a sender that waits a millisecond for an ACK. */
enum { DELAY_NS = 10000, EACH_NS = 205 };

static uint32_t answer_bytes = 2 << 20;
static uint64_t first_seed = 1;

/* In thousands of bytes a second. */
static uint64_t measure(uint32_t window, uint32_t loss_ppm, struct run *r)
{
	const struct mad_path_config path = { .delay_ns = DELAY_NS, .each_ns = EACH_NS, .loss_ppm = loss_ppm,
					      .seed = first_seed };
	const struct rmpp_config config = { .window = window, .ack_ns = WTIME_MS };

	begin(r, &path, &config, answer_bytes);
	go(r);
	assert_int_equal(r->out, RMPP_DONE);
	assert_true(is_exact(r));
	return answer_bytes * 1000000ull / r->now;
}

static void windows_and_losses(void **state)
{
	static const uint32_t windows[] = { 64, 1024 }, losses[] = { 0, 10000, 100000 };
	uint64_t rate[2][3];

	(void)state;
	printf("| window | loss | MB/s | segments sent | ACKs sent |\n|---|---|---|---|---|\n");
	for (int w = 0; w < 2; w++)
		for (int l = 0; l < 3; l++) {
			struct run r;

			rate[w][l] = measure(windows[w], losses[l], &r);
			printf("| %u | %u %% | %.1f | %lu | %lu |\n", windows[w], losses[l] / 10000, (double)rate[w][l] / 1000,
			       (unsigned long)r.path.sent[0], (unsigned long)r.path.sent[1]);
			end(&r);
		}
	assert_true(rate[1][0] > 2 * rate[0][0]);
	for (int w = 0; w < 2; w++)
		assert_true(rate[w][0] > rate[w][1] && rate[w][1] > rate[w][2]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(windows_and_losses) };

	if (argc > 1)
		answer_bytes = (uint32_t)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
