/* Names and values of counters.def by position. */
#include "base/counters.h"

#include <string.h>

static const struct {
	const char *name, *text;
} row[COUNTERS] = {
#define COUNTER(name, text) { #name, text },
#include "base/counters.def"
#undef COUNTER
};

const char *counters_name(unsigned i)
{
	return row[i].name;
}

const char *counters_text(unsigned i)
{
	return row[i].text;
}

uint64_t counters_value(const struct counters *c, unsigned i)
{
	uint64_t value;

	memcpy(&value, (const char *)c + i * sizeof(value), sizeof(value));
	return value;
}
