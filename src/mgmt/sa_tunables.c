#include "mgmt/sa_tunables.h"

#include "mgmt/gsa_tunables.h"

#include <errno.h>
#include <string.h>

static const struct tunable {
	const char *name;
	uint64_t most;
} tunables[SA_TUNABLES] = {
	[SA_TUNABLE_LSB_FIRST] = { "sa-lsb-first", 1 },
	[SA_TUNABLE_HEEDS_WINDOW] = { "sa-heeds-window", 1 },
	[SA_TUNABLE_TRUSTED_KEY] = { "sa-trusted-key", INT64_MAX },	/* as JSON tells numbers */
};

const char *sa_tunable_name(unsigned i)
{
	return tunables[i].name;
}

int sa_tunables_parse(struct sa_tunables *t, const char *text, size_t bytes)
{
	const char *equals = memchr(text, '=', bytes);
	size_t name = equals ? (size_t)(equals - text) : bytes;

	if (!equals)
		return -EINVAL;
	for (unsigned i = 0; i < SA_TUNABLES; i++) {
		if (strlen(tunables[i].name) == name && !memcmp(tunables[i].name, text, name))
			return gsa_tunables_number(equals + 1, bytes - name - 1, tunables[i].most,
						   &t->value[i]);
	}
	return -ENOENT;
}

void sa_tunables_apply(const struct sa_tunables *t, struct sa_server *s)
{
	s->config.is_lsb_first = t->value[SA_TUNABLE_LSB_FIRST];
	s->config.heeds_window = t->value[SA_TUNABLE_HEEDS_WINDOW];
	s->store->trusted = t->value[SA_TUNABLE_TRUSTED_KEY];
	s->store->policy = s->store->trusted ? SA_KEY_IS_TRUSTED : SA_KEY_CHOOSES;
}
