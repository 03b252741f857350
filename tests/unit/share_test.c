/* The export tables, the hazard word, and the atomics' lock: in one thread. In several: duel_test.c. */
#include "adapter.h"

#include "direct/hazard.h"
#include "direct/share.h"

static struct share_memory *make_memory(void)
{
	struct share_memory *m = aligned_alloc(SHARE_LINE, sizeof(*m));

	assert_non_null(m);
	memset(m, 0, sizeof(*m));
	return m;
}

static void shown_is_found(void **state)
{
	struct share_memory *m = make_memory();
	struct share e;
	struct share_region r = { .key = 0x12345678, .pd = 3, .iova = 0x1000, .length = 64, .address = 0x7000 }, got;
	uint32_t handle;

	assert_int_equal(share_init(&e, m), 0);
	assert_false(share_find_region(m, 0, &got));
	assert_false(share_find_region(m, r.key, &got));
	handle = share_show_region(&e, &r);
	assert_int_not_equal(handle, 0);
	assert_true(share_find_region(m, r.key, &got));
	assert_memory_equal(&got, &r, sizeof(r));
	assert_false(share_find_region(m, r.key ^ 1, &got));
	share_hide_region(&e, handle);
	assert_false(share_find_region(m, r.key, &got));
	r.key ^= 0xff;
	assert_int_not_equal(share_show_region(&e, &r), 0);
	assert_true(share_find_region(m, r.key, &got));
	share_fini(&e);
	free(m);
}

/* What does not fit is not shown, and everything shown is found; then all of it goes again. */
static void tables_fill_and_empty(void **state)
{
	struct share_memory *m = make_memory();
	uint32_t *handle = calloc(2 * SHARE_ENTRIES, sizeof(*handle)), shown = 0;
	struct share e;
	struct share_qp got;

	assert_int_equal(share_init(&e, m), 0);
	for (uint32_t i = 0; i < 2 * SHARE_ENTRIES; i++) {
		handle[i] = share_show_qp(&e, &(struct share_qp){ .qpn = i + 1, .peer_qpn = ~i });
		shown += handle[i] != 0;
		assert_int_equal(share_find_qp(m, i + 1, &got), handle[i] != 0);
		if (handle[i])
			assert_int_equal(got.peer_qpn, ~i);
	}
	assert_true(shown > SHARE_ENTRIES / 2 && shown <= SHARE_ENTRIES);
	for (uint32_t i = 0; i < 2 * SHARE_ENTRIES; i++) {
		if (handle[i])
			share_hide_qp(&e, handle[i]);
		assert_false(share_find_qp(m, i + 1, &got));
	}
	assert_int_not_equal(share_show_qp(&e, &(struct share_qp){ .qpn = 7 }), 0);
	share_fini(&e);
	free(handle);
	free(m);
}

/* Whatever a peer writes into an export, finding ends, and finds no entry outside the table. */
static void spoilt_tables_are_survived(void **state)
{
	struct share_memory *m = make_memory();
	struct share_region got;
	struct rand rand;

	rand_seed(&rand, 42);
	for (uint32_t key = 1; key < 2000; key++) {
		for (uint32_t b = 0; b < SHARE_BUCKETS; b += 7)
			m->regions.way[b][key % SHARE_WAYS] = (uint64_t)key << 32 | (rand_u64(&rand) & 0x1ffff);
		for (int i = 0; i < 16; i++)
			m->regions.entry[rand_u64(&rand) % SHARE_ENTRIES].word[0] = key;
		if (share_find_region(m, key, &got))
			assert_int_equal(got.key, key);
	}
	free(m);
}

/* A peer's numbers: a key whose way names an entry behind the table, where the peer has written that key as well. */
static void entries_behind_the_table_are_not_followed(void **state)
{
	enum { KEY = 5 };
	struct share_memory *m = make_memory();
	struct share_region got;

	for (uint32_t b = 0; b < SHARE_BUCKETS; b++)
		m->regions.way[b][0] = (uint64_t)KEY << 32 | (SHARE_ENTRIES + 1);
	m->qps.way[0][1] = KEY;		/* behind a sequence of 0 */
	assert_false(share_find_region(m, KEY, &got));
	for (uint32_t b = 0; b < SHARE_BUCKETS; b++)
		m->regions.way[b][0] = (uint64_t)KEY << 32 | SHARE_ENTRIES;
	m->regions.entry[SHARE_ENTRIES - 1].word[0] = KEY;
	assert_true(share_find_region(m, KEY, &got));
	free(m);
}

static void an_entry_that_changes_is_not_found(void **state)
{
	struct share_memory *m = make_memory();
	struct share_region r = { .key = 7, .length = 64 }, got;
	struct share e;
	uint32_t handle;

	assert_int_equal(share_init(&e, m), 0);
	handle = share_show_region(&e, &r);
	m->regions.entry[handle - 1].sequence++;
	assert_false(share_find_region(m, r.key, &got));
	m->regions.entry[handle - 1].sequence++;
	assert_true(share_find_region(m, r.key, &got));
	share_fini(&e);
	free(m);
}

/* What a reader does after it looked at the sequence, with the owner's steps before and between. */
static void an_entry_that_changed_after_it_was_found_is_not_believed(void **state)
{
	struct share_memory *m = make_memory();
	struct share_region first = { .key = 7, .length = 64, .address = 0x1000 }, second = first, got;
	uint64_t word[SHARE_WORDS];
	struct share_watch watch;
	struct share e;
	uint32_t handle;

	second.address = 0x2000;
	assert_int_equal(share_init(&e, m), 0);
	handle = share_show_region(&e, &first);
	assert_true(share_watch_region(m, 7, &got, &watch));
	assert_true(share_read_entry(&watch, word));
	assert_memory_equal(word, &first, sizeof(word));
	share_hide_region(&e, handle);
	assert_false(share_read_entry(&watch, word));
	/* the words are the next owner's: the same place, the same key */
	for (uint32_t n = 0, next = 0; next != handle; n++) {
		assert_true(n <= SHARE_REST);
		if (next)
			share_hide_region(&e, next);
		next = share_show_region(&e, &second);
	}
	assert_false(share_read_entry(&watch, word));
	assert_true(share_watch_region(m, 7, &got, &watch));
	assert_memory_equal(&got, &second, sizeof(got));
	share_fini(&e);
	free(m);
}

/* Who has found a QP reads what it received last as long as nobody else has its place, which rests first. */
static void a_place_rests_before_its_next_owner(void **state)
{
	struct share_memory *m = make_memory();
	struct share_qp qp = { .qpn = 7, .received = 41 }, got;
	struct share_watch watch;
	struct share e;
	uint32_t handle, psn, hidden = 0;

	assert_int_equal(share_init(&e, m), 0);
	handle = share_show_qp(&e, &qp);
	assert_true(share_watch_qp(m, 7, &got, &watch));
	assert_true(share_read_received(m, &watch, &psn));
	assert_int_equal(psn, 41);
	share_set_received(&e, handle, 42);
	for (uint32_t next = handle; hidden == 0 || next != handle; next = share_show_qp(&e, &qp)) {
		assert_true(share_read_received(m, &watch, &psn));
		assert_int_equal(psn, 42);
		share_hide_qp(&e, next);
		assert_true(++hidden <= SHARE_REST);
	}
	assert_int_equal(hidden, SHARE_REST);
	assert_false(share_read_received(m, &watch, &psn));
	share_fini(&e);
	free(m);
}

static void access_names_what_is_used(void **state)
{
	_Atomic uint64_t word = 0;

	assert_false(hazard_names_key(&word, 0));
	hazard_begin(&word, 0x123456, 0xfedcba98);
	assert_true(hazard_names_key(&word, 0xfedcba98));
	assert_false(hazard_names_key(&word, 0xfedcba99));
	assert_true(hazard_names_qp(&word, 0x123456));
	assert_false(hazard_names_qp(&word, 0x123457));
	hazard_end(&word);
	assert_false(hazard_names_key(&word, 0xfedcba98));
	assert_false(hazard_names_qp(&word, 0x123456));
}

/* ---- the lock ---- */

static bool is_alive(void *owner, uint32_t holder)
{
	return holder != *(const uint32_t *)owner;
}

static void go_on(void *owner)
{
	(void)owner;
}

/* One thread, which nobody else has to be let in for: that it gives up is a matter of tries, not of the machine's load. */
static void lock_of_the_dead_is_taken(void **state)
{
	const struct atomic_lock_ops ops = { is_alive, go_on };
	struct atomic_lock lock = { 0 };
	uint32_t dead = 5;

	assert_true(atomic_lock_take(&lock, 5, &ops, &dead));
	assert_true(atomic_lock_take(&lock, 6, &ops, &dead));
	atomic_lock_give(&lock, 5);	/* not any more */
	dead = 0;
	assert_false(atomic_lock_take(&lock, 7, &ops, &dead));	/* 6 lives and keeps it */
	atomic_lock_give(&lock, 6);
	assert_true(atomic_lock_take(&lock, 7, &ops, &dead));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shown_is_found),
		cmocka_unit_test(tables_fill_and_empty),
		cmocka_unit_test(spoilt_tables_are_survived),
		cmocka_unit_test(entries_behind_the_table_are_not_followed),
		cmocka_unit_test(an_entry_that_changes_is_not_found),
		cmocka_unit_test(an_entry_that_changed_after_it_was_found_is_not_believed),
		cmocka_unit_test(a_place_rests_before_its_next_owner),
		cmocka_unit_test(access_names_what_is_used),
		cmocka_unit_test(lock_of_the_dead_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
