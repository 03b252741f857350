/* What ports have counted, kept in a file from one weftd to the next. */
#include "fabric.h"

#include "weftd/kept_counts.h"

#include <fcntl.h>
#include <unistd.h>

enum { WORDS = 1234 };

struct world {
	struct test_fabric t;
	struct rundir dir;
	struct traffic_block *traffic;
	char path[40];
	uint32_t port;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	strcpy(w->path, "/tmp/weft-counts-XXXXXX");
	assert_non_null(mkdtemp(w->path));
	w->dir.own = open(w->path, O_RDONLY | O_DIRECTORY);
	MAKE(&w->t, "star", "hosts=3");
	w->port = port_named(&w->t.f, "h2", 1);
	w->traffic = calloc(1, traffic_bytes(&w->t.f));
	assert_true(w->dir.own >= 0 && w->traffic);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	unlinkat(w->dir.own, "counts", 0);
	close(w->dir.own);
	rmdir(w->path);
	end_fabric(&w->t);
	free(w->traffic);
	free(w);
	return 0;
}

static struct kept_counts keep(const struct world *w, uint32_t ports, bool is_new)
{
	struct kept_counts k;

	assert_int_equal(kept_counts_open(&k, &w->dir, "counts", ports, is_new), 0);
	return k;
}

/* As the next weftd sees it, which has a new memory for data. */
static uint64_t read_next(struct world *w, enum port_count c, bool is_new)
{
	struct kept_counts k = keep(w, w->t.f.ports, is_new);
	struct port_view v = { &w->t.f, w->traffic, &k.counters[w->port], w->port };
	uint64_t value;

	memset(w->traffic, 0, traffic_bytes(&w->t.f));
	kept_counts_restore(&k, &w->t.f, w->traffic);
	value = port_counters_total(&v, c) - v.counters->from[c];
	kept_counts_close(&k);
	return value;
}

static void the_next_goes_on(void **state)
{
	struct world *w = *state;
	struct kept_counts k = keep(w, w->t.f.ports, true);

	k.counters[w->port].total[COUNT_XMIT_DATA] = 1;
	traffic_add(&w->traffic[w->port], TRAFFIC_WORDS, WORDS);
	kept_counts_save(&k, w->traffic);
	k.counters[w->port].total[COUNT_XMIT_DATA] = 5;
	kept_counts_close(&k);
	assert_int_equal(read_next(w, COUNT_XMIT_DATA, false), WORDS + 5);
	/* a counter that was set to less and one that was set to more */
	k = keep(w, w->t.f.ports, false);
	k.counters[w->port].from[COUNT_XMIT_DATA] = WORDS;
	k.counters[w->port].from[COUNT_XMIT_WAIT] = (uint64_t)-7;
	kept_counts_close(&k);
	assert_int_equal(read_next(w, COUNT_XMIT_DATA, false), 5);
	assert_int_equal(read_next(w, COUNT_XMIT_WAIT, false), 7);
}

static void what_was_set_after_it_was_saved_is_not_below_zero(void **state)
{
	struct world *w = *state;
	struct kept_counts k = keep(w, w->t.f.ports, true);

	k.counters[w->port].from[COUNT_XMIT_DATA] = k.counters[w->port].ext_from[0] = WORDS;
	k.counters[w->port].detail_from[DETAIL_INACTIVE] = WORDS;
	kept_counts_close(&k);
	assert_int_equal(read_next(w, COUNT_XMIT_DATA, false), 0);
	k = keep(w, w->t.f.ports, false);
	assert_int_equal(k.counters[w->port].detail_from[DETAIL_INACTIVE], 0);
	kept_counts_close(&k);
}

static void another_fabric_begins_at_zero(void **state)
{
	struct world *w = *state;
	struct kept_counts k = keep(w, w->t.f.ports, true);

	traffic_add(&w->traffic[w->port], TRAFFIC_WORDS, WORDS);
	kept_counts_save(&k, w->traffic);
	kept_counts_close(&k);
	assert_int_equal(read_next(w, COUNT_XMIT_DATA, true), 0);
	k = keep(w, w->t.f.ports, false);
	k.counters[w->port].total[COUNT_XMIT_DATA] = 9;
	kept_counts_close(&k);
	k = keep(w, w->t.f.ports + 1, false);
	assert_int_equal(k.counters[w->port].total[COUNT_XMIT_DATA], 0);
	kept_counts_close(&k);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD(the_next_goes_on),
		WORLD(what_was_set_after_it_was_saved_is_not_below_zero),
		WORLD(another_fabric_begins_at_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
