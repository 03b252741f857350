/* Programs print tables: the column is found by the word in its title, not by its place, and the row is the one below the
 * titles. Titles of perftest consist of several words of which one has a '#' or a '[', those of UCX's CSV are between commas. */
#include "bench/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0	/* what perftest and UCX call a megabyte */

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

/* The next word of the line, or NULL. */
static const char *next_word(const char **at, const char *end, const char *separators, size_t *length)
{
	const char *word;

	*at += strspn(*at, separators);
	if (*at >= end)
		return NULL;
	word = *at;
	*length = strcspn(word, separators);
	*length = *length < (size_t)(end - word) ? *length : (size_t)(end - word);
	*at = word + *length;
	return word;
}

static bool has(const char *word, size_t length, const char *part)
{
	return memmem(word, length, part, strlen(part));
}

/* Which column's title has this text; words without any of the marks do not begin a column. -1: none. */
static int find_column(const char *line, const char *title, const char *separators, const char *marks)
{
	const char *end = next_line(line), *word;
	size_t length;
	int column = 0;

	while ((word = next_word(&line, end, separators, &length))) {
		if (has(word, length, title))
			return column;
		column += !marks || strcspn(word, marks) < length;
	}
	return -1;
}

static bool read_column(const char *line, int column, const char *separators, double *value)
{
	const char *end = next_line(line), *word = NULL;
	double number;
	size_t length = 0;
	char *stop;

	for (int i = 0; i <= column; i++) {
		word = next_word(&line, end, separators, &length);
		if (!word)
			return false;
	}
	number = strtod(word, &stop);
	if (stop != word + length || !isfinite(number) || number <= 0)
		return false;
	*value = number;
	return true;
}

static bool read_table(const char *output, const char *title, const char *separators, const char *marks, double *value)
{
	for (const char *line = output; *line; line = next_line(line)) {
		int column = find_column(line, title, separators, marks);

		if (column >= 0 && read_column(next_line(line), column, separators, value))
			return true;
	}
	return false;
}

static bool scale(bool is_read, double factor, double *value)
{
	if (is_read)
		*value *= factor;
	return is_read;
}

bool parse_result(const char *output, double *value)
{
	for (const char *line = output; *line; line = next_line(line))
		if (strncmp(line, "result ", 7) == 0)
			return read_column(line, 1, " \n", value);
	return false;
}

#define PERFTEST " \t\n", "#["

bool parse_perftest_latency(const char *output, double *value)
{
	return read_table(output, "t_typical[", PERFTEST, value);
}

bool parse_perftest_bandwidth(const char *output, double *value)
{
	return scale(read_table(output, "average[MB/sec]", PERFTEST, value), MIB / 1e9, value);
}

bool parse_perftest_rate(const char *output, double *value)
{
	return read_table(output, "MsgRate[Mpps]", PERFTEST, value);
}

#define UCX ",\n", NULL

bool parse_ucx_latency(const char *output, double *value)
{
	return read_table(output, "percentile_lat", UCX, value);
}

bool parse_ucx_bandwidth(const char *output, double *value)
{
	return scale(read_table(output, "overall_bw", UCX, value), MIB / 1e9, value);
}

bool parse_ucx_rate(const char *output, double *value)
{
	return scale(read_table(output, "overall_mr", UCX, value), 1e-6, value);
}

bool parse_fi_pingpong(const char *output, double *value)
{
	return read_table(output, "usec/xfer", " \t\n", NULL, value);
}

/* The number between two texts of one line, of which the last may be NULL. */
static bool read_between(const char *output, const char *before, const char *after, double *value)
{
	for (const char *line = output; *line; line = next_line(line)) {
		size_t length = (size_t)(next_line(line) - line);
		const char *at = memmem(line, length, before, strlen(before));

		if (at && (!after || has(line, length, after)))
			return read_column(at + strlen(before), 0, " \t\n", value);
	}
	return false;
}

/* "[  5]   0.00-1.00   sec  2.10 GBytes  18000 Mbits/sec                  receiver" */
bool parse_iperf(const char *output, double *value)
{
	for (const char *line = output; *line; line = next_line(line)) {
		const char *sec = memmem(line, (size_t)(next_line(line) - line), " sec ", 5);

		if (sec && has(sec, (size_t)(next_line(line) - sec), " Mbits/sec") &&
		    has(sec, (size_t)(next_line(line) - sec), "receiver"))
			return scale(read_column(sec + 5, 2, " \t\n", value), 1e6 / 8 / 1e9, value);
	}
	return false;
}

bool parse_sockperf_latency(const char *output, double *value)
{
	return read_between(output, "---> percentile 50.000 =", NULL, value);
}

bool parse_sockperf_rate(const char *output, double *value)
{
	return scale(read_between(output, "Message Rate is ", "[msg/sec]", value), 1e-6, value);
}

/* "step total ms max ms min us us / conn", then a line for each step, whose name may have a space and ends with a colon. */
bool parse_cmtime(const char *output, double *value)
{
	double us = 0, step;
	int steps = 0;

	for (const char *line = output; *line; line = next_line(line)) {
		const char *colon = memchr(line, ':', (size_t)(next_line(line) - line));

		if (colon && read_column(colon + 1, 3, " \t\n", &step)) {
			us += step;
			steps++;
		}
	}
	if (steps < 2 || us < 1e-3 || us > 1e12)
		return false;
	*value = 1e6 / us;
	return true;
}
