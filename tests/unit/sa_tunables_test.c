/* What an administrator may choose of the seed's subnet administration. */
#include "mgmt/sa_tunables.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int parse(struct sa_tunables *t, const char *text)
{
	return sa_tunables_parse(t, text, strlen(text));
}

/* RMP-12, 31, 61 */
static void tunables_are_text(void **state)
{
	static const struct { const char *text; int err; } bad[] = {
		{ "", -EINVAL }, { "sa-lsb-first", -EINVAL }, { "sa-lsb-first=", -EINVAL }, { "sa-lsb-first=2", -EINVAL },
		{ "sa-lsb-first=11", -EINVAL }, { "sa-heeds-window=-1", -EINVAL }, { "sa-heeds-window=x", -EINVAL },
		{ "sa-trusted-key=9223372036854775808", -EINVAL }, { "sa-trusted-key=18446744073709551617", -EINVAL },
		{ "sa-trusted-key=1 ", -EINVAL }, { "sa-lsb=1", -ENOENT }, { "=1", -ENOENT }, { "sa-lsb-first ", -EINVAL },
		{ "sa-longest-kb=0", -EINVAL }, { "sa-longest-kb=131073", -EINVAL },
	};
	struct sa_tunables t = { { 1, 0, 5, 8192 } };
	const struct sa_tunables as_it_was = t;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse(&t, bad[i].text), bad[i].err);
		assert_memory_equal(&t, &as_it_was, sizeof(t));
	}
	assert_int_equal(parse(&t, "sa-trusted-key=9223372036854775807"), 0);
	assert_int_equal(parse(&t, "sa-lsb-first=0"), 0);
	assert_int_equal(parse(&t, "sa-heeds-window=1"), 0);
	assert_true(t.value[SA_TUNABLE_TRUSTED_KEY] == INT64_MAX && !t.value[SA_TUNABLE_LSB_FIRST]);
	assert_true(t.value[SA_TUNABLE_HEEDS_WINDOW] == 1);
	assert_int_equal(parse(&t, "sa-longest-kb=1"), 0);
	assert_int_equal(parse(&t, "sa-longest-kb=131072"), 0);
	assert_int_equal(t.value[SA_TUNABLE_LONGEST_KB], 131072);
}

static void tunables_are_heeded(void **state)
{
	struct sa_tunables t = sa_defaults;
	struct sa_store store = { .policy = SA_KEY_CHOOSES };
	struct sa_server s;

	(void)state;
	sa_server_init(&s, &sa_live_config);
	s.store = &store;
	sa_tunables_apply(&t, &s);
	assert_true(!s.config.is_lsb_first && !s.config.heeds_window && store.policy == SA_KEY_CHOOSES);
	assert_int_equal(s.config.retries, sa_live_config.retries);
	assert_int_equal(s.longest_kb, SA_LONGEST_KB);
	assert_int_equal(parse(&t, "sa-lsb-first=1"), 0);
	sa_tunables_apply(&t, &s);
	assert_true(s.config.is_lsb_first && !s.config.heeds_window && store.policy == SA_KEY_CHOOSES);
	assert_int_equal(parse(&t, "sa-heeds-window=1"), 0);
	sa_tunables_apply(&t, &s);
	assert_true(s.config.heeds_window && store.policy == SA_KEY_CHOOSES);
	assert_int_equal(parse(&t, "sa-trusted-key=99"), 0);
	sa_tunables_apply(&t, &s);
	assert_true(store.policy == SA_KEY_IS_TRUSTED && store.trusted == 99);
	assert_int_equal(parse(&t, "sa-trusted-key=0"), 0);
	sa_tunables_apply(&t, &s);
	assert_int_equal(store.policy, SA_KEY_CHOOSES);
	assert_int_equal(parse(&t, "sa-longest-kb=65536"), 0);
	sa_tunables_apply(&t, &s);
	assert_int_equal(s.longest_kb, 65536);
	sa_server_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tunables_are_text),
		cmocka_unit_test(tunables_are_heeded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
