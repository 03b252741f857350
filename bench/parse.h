/* The figures in what measuring programs print. Each returns false, and leaves *value alone, when the output does not have a
 * positive one where it belongs. */
#ifndef WEFT_BENCH_PARSE_H
#define WEFT_BENCH_PARSE_H

#include <stdbool.h>

bool parse_result(const char *output, double *value);			/* our own programs: as printed */
bool parse_perftest_latency(const char *output, double *value);		/* us, median */
bool parse_perftest_bandwidth(const char *output, double *value);	/* GB/s, average */
bool parse_perftest_rate(const char *output, double *value);		/* M/s, average */
bool parse_ucx_latency(const char *output, double *value);		/* us, median */
bool parse_ucx_bandwidth(const char *output, double *value);		/* GB/s, average */
bool parse_ucx_rate(const char *output, double *value);			/* M/s, average */
bool parse_fi_pingpong(const char *output, double *value);		/* us, average: it has no median */
bool parse_iperf(const char *output, double *value);			/* GB/s, what the receiver had */
bool parse_sockperf_latency(const char *output, double *value);		/* us, median */
bool parse_sockperf_rate(const char *output, double *value);		/* M/s, sent */
bool parse_cmtime(const char *output, double *value);			/* connections a second, all steps together */

#endif
