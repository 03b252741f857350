/* Any bytes as a trace: records stay inside, and what is read is written to the same bytes. */
#include "fuzz.h"

#include "impair/trace.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[TRACE_RECORD_MOST];
	struct trace_process process;
	struct trace_record r;
	int length;

	for (; (length = trace_get(&r, data, size)) > 0; data += length, size -= (size_t)length) {
		REQUIRE((size_t)length <= size && length == TRACE_HEAD + (int)r.bytes && r.bytes <= PACKET_MAX_BYTES);
		REQUIRE(trace_put(&r, again) == (size_t)length && !memcmp(again, data, (size_t)length));
		if (trace_get_process(&process, &r)) {
			REQUIRE(trace_put_process(&process, again) == r.bytes && !memcmp(again, r.data, r.bytes));
		}
	}
	return 0;
}
