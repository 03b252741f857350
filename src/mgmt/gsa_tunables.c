#include "mgmt/gsa_tunables.h"

#include <errno.h>
#include <string.h>

static const struct tunable {
	const char *name;
	size_t at;			/* of a number of 32 bits; of the period: of one of 64 bits */
} tunables[GSA_TUNABLES] = {
#define TUNABLE(member, name) { name, offsetof(struct gsa_tunables, member) },
#include "mgmt/gsa_tunable.def"
#undef TUNABLE
	[GSA_TUNABLE_PERIOD] = { "period-ms", offsetof(struct gsa_tunables, period_ns) },
};

const char *gsa_tunable_name(unsigned i)
{
	return tunables[i].name;
}

uint64_t gsa_tunable_get(const struct gsa_tunables *t, unsigned i)
{
	const char *at = (const char *)t + tunables[i].at;
	uint32_t number;

	if (i == GSA_TUNABLE_PERIOD)
		return t->period_ns / WTIME_MS;
	memcpy(&number, at, sizeof(number));
	return number;
}

static void set(struct gsa_tunables *t, unsigned i, uint32_t value)
{
	if (i == GSA_TUNABLE_PERIOD)
		t->period_ns = value * WTIME_MS;
	else
		memcpy((char *)t + tunables[i].at, &value, sizeof(value));
}

int gsa_tunables_number(const char *text, size_t bytes, uint64_t most, uint64_t *number)
{
	uint64_t n = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9' || n > most / 10)
			return -EINVAL;
		n = n * 10 + (uint64_t)(text[i] - '0');
	}
	if (!bytes || n > most)
		return -EINVAL;
	*number = n;
	return 0;
}

static int parse_one(struct gsa_tunables *t, const char *text, size_t bytes)
{
	const char *equals = memchr(text, '=', bytes);
	size_t name = equals ? (size_t)(equals - text) : bytes;
	uint64_t value;

	for (unsigned i = 0; i < GSA_TUNABLES; i++) {
		if (strlen(tunables[i].name) != name || memcmp(tunables[i].name, text, name))
			continue;
		if (!equals || gsa_tunables_number(equals + 1, bytes - name - 1, UINT32_MAX, &value))
			return -EINVAL;
		set(t, i, (uint32_t)value);
		return 0;
	}
	return equals ? -ENOENT : -EINVAL;
}

int gsa_tunables_parse(struct gsa_tunables *t, const char *text, size_t bytes)
{
	struct gsa_tunables changed = *t;

	if (!bytes)
		return -EINVAL;
	for (size_t at = 0; at <= bytes;) {
		const char *comma = memchr(text + at, ',', bytes - at);
		size_t length = comma ? (size_t)(comma - text) - at : bytes - at;
		int err = parse_one(&changed, text + at, length);

		if (err)
			return err;
		at += length + 1;
	}
	*t = changed;
	return 0;
}
