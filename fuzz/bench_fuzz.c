/* Any output to the parsers of weft bench: a positive figure, or none and the variable as it was. */
#include "fuzz.h"

#include "bench/parse.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool (*const parsers[])(const char *output, double *value) = {
		parse_result, parse_perftest_latency, parse_perftest_bandwidth, parse_perftest_rate, parse_ucx_latency,
		parse_ucx_bandwidth, parse_ucx_rate, parse_fi_pingpong, parse_cmtime,
		parse_iperf, parse_sockperf_latency, parse_sockperf_rate,
	};
	char *output = malloc(size + 1);

	if (!output)
		return 0;
	memcpy(output, data, size);
	output[size] = '\0';
	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++) {
		double value = -1;
		bool is_found = parsers[i](output, &value);

		if (is_found ? !isfinite(value) || value <= 0 : value != -1)
			abort();
	}
	free(output);
	return 0;
}
