/* Any text as a specification, then any frames and steps of time through its lane: nothing is lost without a mark, and
 * nothing comes out twice without one. Text and steps are divided by the first NUL. */
#include "fuzz.h"

#include "impair/impair.h"

#include <string.h>

static struct impair_lane lane;

static unsigned drain(wtime now)
{
	unsigned n = 0;

	while (impair_pop(&lane, now))
		n++;
	REQUIRE(impair_deadline(&lane) > now);
	return n;
}

/* How many copies wait because of one frame, which its marks must explain. */
static unsigned push(wtime now, const uint8_t *frame, size_t bytes)
{
	uint32_t before = lane.waiting;
	unsigned marks = impair_push(&lane, now, PACKET_IB, frame, bytes, 0);
	unsigned admitted = lane.waiting - before;

	if (marks & (IMPAIR_LOST | IMPAIR_SCHEDULED))
		REQUIRE(admitted == 0);
	else if (marks & IMPAIR_OVERRUN)
		REQUIRE(admitted <= 1);
	else
		REQUIRE(admitted == (marks & IMPAIR_DUPLICATED ? 2 : 1));
	return admitted;
}

static void drive(const uint8_t *data, size_t size)
{
	unsigned in = 0, out = 0;
	wtime now = 0;

	for (; size >= 2; data += 2, size -= 2) {
		in += push(now, data, data[0] < size ? data[0] : size);
		now += (wtime)data[1] * data[1] * WTIME_US;
		if (data[1] & 1)
			out += drain(now);
	}
	while (impair_deadline(&lane) != WTIME_NEVER)
		out += drain(impair_deadline(&lane));
	REQUIRE(out == in && lane.waiting == 0 && lane.held == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\0', size);
	struct impair_spec spec;
	char why[64] = "";

	if (!end)
		return 0;
	if (impair_parse((const char *)data, &spec, why, sizeof(why))) {
		REQUIRE(*why);
		return 0;
	}
	spec.rules[0][IMPAIR_OUT].queue_frames %= 64;
	spec.rules[0][IMPAIR_OUT].queue_frames++;
	REQUIRE(impair_init(&lane, &spec, 0, IMPAIR_OUT) == 0);
	drive(end + 1, size - (size_t)(end + 1 - data));
	impair_fini(&lane);
	return 0;
}
