/* How long an answer takes by its window and the path's loss, in virtual time: the tables of docs/management.md. */
#ifndef WEFT_TESTS_THROUGHPUT_H
#define WEFT_TESTS_THROUGHPUT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A way of 10 us and 256 bytes at 10 Gbit/s. */
enum { DELAY_NS = 10000, EACH_NS = 205 };

static uint32_t answer_bytes;
static uint64_t first_seed = 1;

struct throughput {
	uint64_t kb_s;			/* thousands of bytes a second */
	uint64_t segments, words;	/* packets sent by who answers and by who asked */
};

/* Runs one answer of answer_bytes; fails the test when it is not exact. */
static void measure(uint32_t window, uint32_t loss_ppm, struct throughput *t);

static void windows_and_losses(void **state)
{
	static const uint32_t windows[] = { 64, 1024 }, losses[] = { 0, 10000, 100000 };
	struct throughput t[2][3];

	(void)state;
	printf("| window | loss | MB/s | packets of the answer | packets back |\n|---|---|---|---|---|\n");
	for (int w = 0; w < 2; w++)
		for (int l = 0; l < 3; l++) {
			struct throughput *now = &t[w][l];

			measure(windows[w], losses[l], now);
			printf("| %u | %u %% | %.1f | %lu | %lu |\n", windows[w], losses[l] / 10000, (double)now->kb_s / 1000,
			       (unsigned long)now->segments, (unsigned long)now->words);
			fflush(stdout);
		}
	assert_true(t[1][0].kb_s > 2 * t[0][0].kb_s);
	for (int w = 0; w < 2; w++)
		assert_true(t[w][0].kb_s > t[w][1].kb_s && t[w][1].kb_s > t[w][2].kb_s);
}

/* Of a program that is given [BYTES [SEED]]. */
static int throughput_main(int argc, char **argv, uint32_t usual_bytes)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(windows_and_losses) };

	answer_bytes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : usual_bytes;
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
