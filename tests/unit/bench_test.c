/* weft bench: figures found in recorded output, in no shortened output by mistake; the tables fit together; medians. */
#include "bench/contest.h"
#include "bench/parse.h"
#include "bench/report.h"
#include "bench/results.h"
#include "bench/series.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *file;
	bool (*parse)(const char *output, double *value);
	double figure;
} samples[] = {
	{ "perftest_latency", parse_perftest_latency, 1.68 },
	{ "perftest_bandwidth", parse_perftest_bandwidth, 12163.61 * 1.048576e-3 },
	{ "perftest_bandwidth", parse_perftest_rate, 0.194618 },
	{ "perftest_rate", parse_perftest_rate, 0.438561 },
	{ "ucx_latency", parse_ucx_latency, 0.421 },
	{ "ucx_latency", parse_ucx_rate, 0.446051 },
	{ "ucx_bandwidth", parse_ucx_bandwidth, 5153.11 * 1.048576e-3 },
	{ "fi_pingpong", parse_fi_pingpong, 738.21 },
	{ "iperf3", parse_iperf, 4858e6 / 8 / 1e9 },
	{ "sockperf_latency", parse_sockperf_latency, 4.862 },
	{ "sockperf_rate", parse_sockperf_rate, 0.109804 },
	{ "cmtime", parse_cmtime, 1e6 / 359.26 },
	{ "result", parse_result, 0.133125 },
};
#define SAMPLES (sizeof(samples) / sizeof(samples[0]))

/* The recorded output, the caller's. */
static char *load(const char *name)
{
	char path[512], *text = calloc(1, 65536);
	FILE *file;

	snprintf(path, sizeof(path), "%s/unit/bench/%s.txt", TESTS_DIR, name);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, 65535, file) > 0);
	fclose(file);
	return text;
}

static void finds_the_figure(void **state)
{
	for (size_t i = 0; i < SAMPLES; i++) {
		char *text = load(samples[i].file);
		double value = 0;

		assert_true(samples[i].parse(text, &value));
		assert_float_equal(value, samples[i].figure, samples[i].figure * 1e-6);
		free(text);
	}
}

/* Output of any program to any parser, cut off anywhere: a figure or none, and nothing read outside of it. */
static void bears_any_output(void **state)
{
	for (size_t i = 0; i < SAMPLES; i++) {
		char *text = load(samples[i].file);

		for (size_t length = strlen(text) + 1; length-- > 0;) {
			char *cut = malloc(length + 1);

			memcpy(cut, text, length);
			cut[length] = '\0';
			for (size_t k = 0; k < SAMPLES; k++) {
				double value = -1;

				if (samples[k].parse(cut, &value))
					assert_true(isfinite(value) && value > 0);
				else
					assert_float_equal(value, -1, 0);
			}
			free(cut);
		}
		free(text);
	}
}

static void refuses_what_is_no_figure(void **state)
{
	static const struct { bool (*parse)(const char *output, double *value); const char *text; } rows[] = {
		{ parse_result, "" }, { parse_result, "result\n" }, { parse_result, "result nan\n" },
		{ parse_result, "result -1\n" }, { parse_result, "result 0\n" }, { parse_result, "result 1x\n" },
		{ parse_result, "a result 1\n" },
		{ parse_perftest_latency, " #bytes #iterations t_typical[usec]\n" },
		{ parse_perftest_latency, " #bytes #iterations t_typical[usec]\n 8 1000\n" },
		{ parse_perftest_latency, " #bytes #iterations t_typical[usec]\n 8 1000 inf\n" },
		{ parse_ucx_latency, "50.0_percentile_lat\n" }, { parse_ucx_rate, "iterations,overall_mr\n1000,\n" },
		{ parse_iperf, "[  5]   0.00-1.00   sec  1.01 GBytes  4890 Mbits/sec   17             sender\n" },
		{ parse_iperf, "[  5]   0.00-1.00   sec  1.01 GBytes  4.89 Gbits/sec                  receiver\n" },
		{ parse_iperf, "receiver sec Mbits/sec\n" }, { parse_iperf, "[  5] sec  Mbits/sec  receiver\n 1 1 1 1 1\n" },
		{ parse_sockperf_latency, "sockperf: ---> percentile 50.000 =\n 1\n" },
		{ parse_sockperf_rate, "sockperf: Summary: Message Rate is \n 1 [msg/sec]\n" },
		{ parse_cmtime, "connect : 1 1 1\n" }, { parse_cmtime, "connect : 1 1 1 5\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double value = -1;

		assert_false(rows[i].parse(rows[i].text, &value));
		assert_float_equal(value, -1, 0);
	}
}

static void tables_fit_together(void **state)
{
	for (size_t i = 0; i < contestant_count; i++) {
		const struct contestant *c = &contestants[i];

		assert_non_null(contest_find(c->contest));
		assert_non_null(c->parse);
		assert_non_null(c->package);
		assert_true((c->client != NULL) == (c->ready != READY_NONE));
		assert_true(c->client || !contest_find(c->contest)->is_wire);	/* of two hosts each has a command line */
		for (size_t k = 0; k < i; k++) {
			const struct contestant *other = &contestants[k];

			assert_false(strcmp(other->contest, c->contest) == 0 && strcmp(other->name, c->name) == 0);
		}
	}
	for (size_t i = 0; i < goal_count; i++) {
		size_t ours = 0, others = 0;

		for (size_t k = 0; k < contestant_count; k++) {
			if (strcmp(contestants[k].contest, goals[i].contest))
				continue;
			ours += contestants[k].side == SIDE_WEFT && contestants[k].is_mapped == goals[i].is_mapped;
			others += goals[i].against && strcmp(contestants[k].name, goals[i].against) == 0;
		}
		assert_in_range(ours, 1, 2);
		assert_int_equal(others, goals[i].against ? 1 : 0);
	}
}

static void rounds_follow_time(void **state)
{
	const struct contest *latency = contest_find("send-latency");

	assert_int_equal(contest_rounds(latency, 8, 0.2), 99933);
	assert_int_equal(contest_rounds(latency, 1 << 20, 1e-9), 40);
	assert_int_equal(contest_rounds(latency, 8, 1e9), 10000000);
}

static void spreads_are_quartiles(void **state)
{
	struct series s = { { 5, NAN, 1, 3, 2, 4 }, 6 }, half = { { 10, 1, 4, 3, NAN, 8 }, 6 };
	struct series one = { { 7 }, 1 }, none = { { NAN }, 1 };
	struct spread of_s = series_spread(&s), of_one = series_spread(&one), ratio = series_ratio(&s, &half);

	assert_int_equal(of_s.count, 5);
	assert_float_equal(of_s.low, 2, 0);
	assert_float_equal(of_s.median, 3, 0);
	assert_float_equal(of_s.high, 4, 0);
	assert_float_equal(of_one.median, 7, 0);
	assert_float_equal(of_one.high, 7, 0);
	assert_int_equal(series_spread(&none).count, 0);
	assert_int_equal(ratio.count, 4);	/* rounds that both have: 0.5, 0.25, 1, 0.5 */
	assert_float_equal(ratio.median, 0.5, 1e-12);
}

static void judges_in_the_figures_sense(void **state)
{
	struct entry entries[4] = { 0 };
	struct results r = { .entries = entries, .rounds = 1 };
	struct judgement j;

	for (size_t i = 0; i < contestant_count && r.count < 4; i++) {
		bool is_wanted = strcmp(contestants[i].contest, "send-rate") == 0 &&
				 (strcmp(contestants[i].name, "weft-loop") == 0 || strcmp(contestants[i].name, "ring") == 0 ||
				  strcmp(contestants[i].name, "libfabric") == 0);

		if (is_wanted)
			entries[r.count++] = (struct entry){ .contest = contest_find("send-rate"), .who = &contestants[i],
				.size = 8, .series = { { contestants[i].side == SIDE_LIMIT ? 100 : 12 }, 1 } };
	}
	assert_int_equal(r.count, 3);
	assert_true(results_judge(&r, 0, &j));	/* against UCX, which was not measured */
	assert_int_equal(j.ratio.count, 0);
	assert_true(results_judge(&r, 1, &j));
	assert_string_equal(j.goal->against, "libfabric");
	assert_false(j.is_met);
	assert_true(results_judge(&r, 2, &j));
	assert_float_equal(j.ratio.median, 0.12, 1e-12);
	assert_true(j.is_met);
	assert_false(results_judge(&r, 3, &j));
}

/* The report of one contestant, in columns; the caller's. */
static char *print_table(struct series series, bool with_goals)
{
	struct entry entry = { .contest = contest_find("send-rate"), .size = 8, .series = series };
	struct results r = { .entries = &entry, .count = 1, .rounds = series.rounds };
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	for (size_t i = 0; i < contestant_count && !entry.who; i++)
		if (contestants[i].side == SIDE_LIMIT && strcmp(contestants[i].contest, "send-rate") == 0)
			entry.who = &contestants[i];
	assert_int_equal(report_text(&r, with_goals, to), 0);
	fclose(to);
	return text;
}

static void tables_are_for_people(void **state)
{
	const struct series steady = { { 100, 101, 102 }, 3 }, noisy = { { 100, 150, 200 }, 3 };
	char *text = print_table(steady, false);

	assert_non_null(strstr(text, "quiet and steady"));
	assert_non_null(strstr(text, " 101 "));
	assert_null(strstr(text, "Goals"));
	assert_null(strchr(text, '|'));
	free(text);
	text = print_table(noisy, false);
	assert_non_null(strstr(text, "not steady: 1 of 1"));
	assert_non_null(strstr(text, " 150~"));
	free(text);
	text = print_table(steady, true);
	assert_null(strstr(text, "Goals"));	/* none can be judged: weft was not measured */
	free(text);
}

/* weft beside a limit, with goals or without. */
static void goals_are_told_when_asked_for(void **state)
{
	struct entry entries[2] = { 0 };
	struct results r = { .entries = entries, .rounds = 1 };

	for (size_t i = 0; i < contestant_count; i++)
		if (strcmp(contestants[i].contest, "send-rate") == 0 &&
		    (strcmp(contestants[i].name, "weft-loop") == 0 || strcmp(contestants[i].name, "ring") == 0))
			entries[r.count++] = (struct entry){ .contest = contest_find("send-rate"), .who = &contestants[i],
				.size = 8, .series = { { 12 }, 1 } };
	assert_int_equal(r.count, 2);
	for (int with_goals = 0; with_goals < 2; with_goals++) {
		char *text = NULL;
		size_t bytes;
		FILE *to = open_memstream(&text, &bytes);

		assert_int_equal(report_text(&r, with_goals, to), 0);
		fclose(to);
		assert_int_equal(strstr(text, "\nGoals: ") != NULL, with_goals);
		free(text);
	}
}

static void a_contest_is_steady_when_all_figures_are(void **state)
{
	const struct contest *rate = contest_find("send-rate");
	struct entry entries[] = {
		{ .contest = rate, .series = { { 100, 101, 102 }, 3 } },
		{ .contest = rate, .series = { { NAN, NAN, NAN }, 3 } },
		{ .contest = contest_find("send-latency"), .series = { { 1, 2, 3 }, 3 } },
	};
	struct results r = { .entries = entries, .count = 3, .rounds = 3 };

	assert_true(results_are_steady(&r, rate));
	assert_false(results_are_steady(&r, contest_find("send-latency")));
	entries[1].series = (struct series){ { 100, 110, 120, NAN }, 4 };
	assert_false(results_are_steady(&r, rate));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_figure),
		cmocka_unit_test(bears_any_output),
		cmocka_unit_test(refuses_what_is_no_figure),
		cmocka_unit_test(tables_fit_together),
		cmocka_unit_test(rounds_follow_time),
		cmocka_unit_test(spreads_are_quartiles),
		cmocka_unit_test(judges_in_the_figures_sense),
		cmocka_unit_test(tables_are_for_people),
		cmocka_unit_test(goals_are_told_when_asked_for),
		cmocka_unit_test(a_contest_is_steady_when_all_figures_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
