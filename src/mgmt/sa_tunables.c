#include "mgmt/sa_tunables.h"

#include "mgmt/gsa_tunables.h"

#include <errno.h>
#include <string.h>

static const struct tunable {
	const char *name;
	uint64_t least, most;
} tunables[SA_TUNABLES] = {
	[SA_TUNABLE_LSB_FIRST] = { "sa-lsb-first", 0, 1 },
	[SA_TUNABLE_HEEDS_WINDOW] = { "sa-heeds-window", 0, 1 },
	[SA_TUNABLE_TRUSTED_KEY] = { "sa-trusted-key", 0, INT64_MAX },	/* as JSON tells numbers */
	[SA_TUNABLE_LONGEST_KB] = { "sa-longest-kb", 1, SA_LONGEST_KB_MOST },
};

const struct sa_tunables sa_defaults = { .value = { [SA_TUNABLE_LONGEST_KB] = SA_LONGEST_KB } };

const char *sa_tunable_name(unsigned i)
{
	return tunables[i].name;
}

int sa_tunables_parse(struct sa_tunables *t, const char *text, size_t bytes)
{
	const char *equals = memchr(text, '=', bytes);
	size_t name = equals ? (size_t)(equals - text) : bytes;
	uint64_t value;

	if (!equals)
		return -EINVAL;
	for (unsigned i = 0; i < SA_TUNABLES; i++) {
		if (strlen(tunables[i].name) != name || memcmp(tunables[i].name, text, name))
			continue;
		if (gsa_tunables_number(equals + 1, bytes - name - 1, tunables[i].most, &value) || value < tunables[i].least)
			return -EINVAL;
		t->value[i] = value;
		return 0;
	}
	return -ENOENT;
}

void sa_tunables_apply(const struct sa_tunables *t, struct sa_server *s)
{
	s->config.is_lsb_first = t->value[SA_TUNABLE_LSB_FIRST];
	s->config.heeds_window = t->value[SA_TUNABLE_HEEDS_WINDOW];
	s->longest_kb = (uint32_t)t->value[SA_TUNABLE_LONGEST_KB];
	s->store->trusted = t->value[SA_TUNABLE_TRUSTED_KEY];
	s->store->policy = s->store->trusted ? SA_KEY_IS_TRUSTED : SA_KEY_CHOOSES;
}
