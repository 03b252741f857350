/* The direct path's pure part: the export tables, accesses under way against an owner that hides, the atomics' lock, and
 * the checks of a request against another adapter whose memory a mover reaches. */
#include "adapter.h"

#include "direct/access.h"
#include "direct/direct.h"
#include "direct/mapped.h"

#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 20000, ATOMIC_ROUNDS = 20000 };

static struct export_memory *make_memory(void)
{
	struct export_memory *m = aligned_alloc(EXPORT_LINE, sizeof(*m));

	assert_non_null(m);
	memset(m, 0, sizeof(*m));
	return m;
}

static void shown_is_found(void **state)
{
	struct export_memory *m = make_memory();
	struct export e;
	struct export_region r = { .key = 0x12345678, .pd = 3, .iova = 0x1000, .length = 64, .address = 0x7000 }, got;
	uint32_t handle;

	assert_int_equal(export_init(&e, m), 0);
	assert_false(export_find_region(m, 0, &got));
	assert_false(export_find_region(m, r.key, &got));
	handle = export_show_region(&e, &r);
	assert_int_not_equal(handle, 0);
	assert_true(export_find_region(m, r.key, &got));
	assert_memory_equal(&got, &r, sizeof(r));
	assert_false(export_find_region(m, r.key ^ 1, &got));
	export_hide_region(&e, handle);
	assert_false(export_find_region(m, r.key, &got));
	r.key ^= 0xff;
	assert_int_not_equal(export_show_region(&e, &r), 0);
	assert_true(export_find_region(m, r.key, &got));
	export_fini(&e);
	free(m);
}

/* What does not fit is not shown, and everything shown is found; then all of it goes again. */
static void tables_fill_and_empty(void **state)
{
	struct export_memory *m = make_memory();
	uint32_t *handle = calloc(2 * EXPORT_ENTRIES, sizeof(*handle)), shown = 0;
	struct export e;
	struct export_qp got;

	assert_int_equal(export_init(&e, m), 0);
	for (uint32_t i = 0; i < 2 * EXPORT_ENTRIES; i++) {
		handle[i] = export_show_qp(&e, &(struct export_qp){ .qpn = i + 1, .peer_qpn = ~i });
		shown += handle[i] != 0;
		assert_int_equal(export_find_qp(m, i + 1, &got), handle[i] != 0);
		if (handle[i])
			assert_int_equal(got.peer_qpn, ~i);
	}
	assert_true(shown > EXPORT_ENTRIES / 2 && shown <= EXPORT_ENTRIES);
	for (uint32_t i = 0; i < 2 * EXPORT_ENTRIES; i++) {
		if (handle[i])
			export_hide_qp(&e, handle[i]);
		assert_false(export_find_qp(m, i + 1, &got));
	}
	assert_int_not_equal(export_show_qp(&e, &(struct export_qp){ .qpn = 7 }), 0);
	export_fini(&e);
	free(handle);
	free(m);
}

/* Whatever a peer writes into an export, finding ends, and finds no entry outside the table. */
static void spoilt_tables_are_survived(void **state)
{
	struct export_memory *m = make_memory();
	struct export_region got;
	struct rand rand;

	rand_seed(&rand, 42);
	for (uint32_t key = 1; key < 2000; key++) {
		for (uint32_t b = 0; b < EXPORT_BUCKETS; b += 7)
			m->regions.way[b][key % EXPORT_WAYS] = (uint64_t)key << 32 | (rand_u64(&rand) & 0x1ffff);
		for (int i = 0; i < 16; i++)
			m->regions.entry[rand_u64(&rand) % EXPORT_ENTRIES].word[0] = key;
		if (export_find_region(m, key, &got))
			assert_int_equal(got.key, key);
	}
	free(m);
}

/* ---- an owner that hides against a user ---- */

struct duel {
	struct export_memory *memory;
	struct export export;
	_Atomic uint64_t access;
	_Atomic uint32_t valid;		/* the region's memory "exists" */
	_Atomic bool stop;
	unsigned used;
};

static void *use(void *arg)
{
	struct duel *d = arg;
	struct export_region got;

	while (!atomic_load(&d->stop)) {
		access_begin(&d->access, 1, 99);
		if (export_find_region(d->memory, 99, &got)) {
			assert_int_equal(atomic_load(&d->valid), 1);
			assert_int_equal(got.address, got.iova);
			d->used++;
			assert_int_equal(atomic_load(&d->valid), 1);
		}
		access_end(&d->access);
	}
	return NULL;
}

static void hidden_is_not_used(void **state)
{
	struct duel *d = calloc(1, sizeof(*d));
	pthread_t user;

	d->memory = make_memory();
	assert_int_equal(export_init(&d->export, d->memory), 0);
	assert_int_equal(pthread_create(&user, NULL, use, d), 0);
	for (unsigned i = 0; i < ROUNDS || (d->used == 0 && i < 100 * ROUNDS); i++) {
		struct export_region r = { .key = 99, .address = i, .iova = i };
		uint32_t handle;

		atomic_store(&d->valid, 1);
		handle = export_show_region(&d->export, &r);
		if (i % 64 == 0)
			sched_yield();
		export_hide_region(&d->export, handle);
		while (access_names_key(&d->access, 99))
			;
		atomic_store(&d->valid, 0);
	}
	atomic_store(&d->stop, true);
	pthread_join(user, NULL);
	export_fini(&d->export);
	free(d->memory);
	free(d);
}

static void access_names_what_is_used(void **state)
{
	_Atomic uint64_t word = 0;

	assert_false(access_names_key(&word, 0));
	access_begin(&word, 0x123456, 0xfedcba98);
	assert_true(access_names_key(&word, 0xfedcba98));
	assert_false(access_names_key(&word, 0xfedcba99));
	assert_true(access_names_qp(&word, 0x123456));
	assert_false(access_names_qp(&word, 0x123457));
	access_end(&word);
	assert_false(access_names_key(&word, 0xfedcba98));
	assert_false(access_names_qp(&word, 0x123456));
}

/* ---- the lock ---- */

static bool is_alive(void *host, uint32_t holder)
{
	return holder != *(const uint32_t *)host;
}

static void relax(void *host)
{
	sched_yield();
}

static const struct atomic_lock_ops lock_ops = { is_alive, relax };

struct adder {
	struct atomic_lock *lock;
	uint64_t *sum;
	uint32_t self, dead;
};

static void *add(void *arg)
{
	struct adder *a = arg;

	for (unsigned i = 0; i < ATOMIC_ROUNDS; i++) {
		while (!atomic_lock_take(a->lock, a->self, &lock_ops, &a->dead))
			;
		++*a->sum;
		atomic_lock_give(a->lock, a->self);
	}
	return NULL;
}

static void lock_excludes(void **state)
{
	struct atomic_lock lock = { 0 };
	uint64_t sum = 0;
	struct adder a[2] = { { &lock, &sum, 1, 9 }, { &lock, &sum, 2, 9 } };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, add, &a[1]), 0);
	add(&a[0]);
	pthread_join(thread, NULL);
	assert_int_equal(sum, 2 * ATOMIC_ROUNDS);
}

static void lock_of_the_dead_is_taken(void **state)
{
	struct atomic_lock lock = { 0 };
	uint32_t dead = 5;

	assert_true(atomic_lock_take(&lock, 5, &lock_ops, &dead));
	assert_true(atomic_lock_take(&lock, 6, &lock_ops, &dead));
	atomic_lock_give(&lock, 5);	/* not any more */
	dead = 0;
	assert_false(atomic_lock_take(&lock, 7, &lock_ops, &dead));	/* 6 lives and keeps it */
	atomic_lock_give(&lock, 6);
	assert_true(atomic_lock_take(&lock, 7, &lock_ops, &dead));
}

/* ---- requests ---- */

static bool mover_fails;

static bool move_write(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	uint8_t *to = (uint8_t *)(uintptr_t)address;

	for (unsigned i = 0; i < iovs; to += iov[i++].iov_len)
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
	return !mover_fails;
}

static bool move_read(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)address;

	for (unsigned i = 0; i < iovs; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	return !mover_fails;
}

/* File 1 of the peer is its target, and mapped; others are not. */
static uint8_t *mapped_target;

static void *move_map(void *peer, uint32_t file, uint64_t offset, uint64_t bytes)
{
	return file == 1 && offset <= 256 && bytes <= 256 - offset ? mapped_target + offset : NULL;
}

static const struct direct_mover mover = { move_write, move_read, move_map };

/* What one end sees of the other, changed one field at a time. */
struct stage {
	struct export_memory *memory;
	struct export export;
	struct ca ca;
	struct qp qp;
	struct export_qp remote;
	struct export_region region;
	uint8_t target[256], source[256];
	_Atomic uint64_t access;
	uint32_t dead;
	struct direct_hit hits[DIRECT_HITS];
	uint32_t era;
	struct direct_peer peer;
};

static struct stage *stage_make(void)
{
	struct stage *s = calloc(1, sizeof(*s));

	s->memory = make_memory();
	assert_int_equal(export_init(&s->export, s->memory), 0);
	s->ca.dev[0].form = PACKET_IB;
	s->qp = (struct qp){ .ca = &s->ca, .dev = &s->ca.dev[0], .type = IBV_QPT_RC, .qpn = 0x1001,
			     .attr.dest_qp_num = 0x2002, .path = { .slid = 5, .dlid = 6 } };
	s->remote = (struct export_qp){ .qpn = 0x2002, .peer_qpn = 0x1001, .pd = 4, .type = IBV_QPT_RC, .depth = 1, .dlid = 5,
					.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	s->region = (struct export_region){ .key = 77, .pd = 4, .iova = 0x10000, .length = sizeof(s->target),
					    .address = (uintptr_t)s->target, .access = s->remote.access };
	s->peer = (struct direct_peer){ .export = s->memory, .access = &s->access, .mover = &mover, .self = 3,
					.lock_ops = &lock_ops, .host = &s->dead, .hits = s->hits, .era = &s->era };
	s->era = 1;
	for (unsigned i = 0; i < sizeof(s->source); i++)
		s->source[i] = (uint8_t)(i + 1);
	return s;
}

static void stage_free(struct stage *s)
{
	export_fini(&s->export);
	free(s->memory);
	free(s);
}

/* Shows both entries as they are, executes, hides them. */
static bool run(struct stage *s, struct direct_request *r)
{
	uint32_t qp = export_show_qp(&s->export, &s->remote), region = export_show_region(&s->export, &s->region);
	bool done = direct_execute(&s->qp, &s->peer, r);

	assert_int_equal(atomic_load(&s->access), 0);
	assert_int_equal(atomic_load(&s->memory->atomics.holder), 0);
	export_hide_qp(&s->export, qp);
	export_hide_region(&s->export, region);
	return done;
}

static bool write_at(struct stage *s, uint64_t va, uint32_t bytes)
{
	struct iovec iov = { s->source, bytes };

	return run(s, &(struct direct_request){
		.kind = DIRECT_WRITE, .rkey = 77, .va = va, .bytes = bytes, .iov = &iov, .iovs = bytes > 0 });
}

static void data_arrives(void **state)
{
	struct stage *s = stage_make();
	uint8_t got[256] = { 0 };
	struct iovec two[2] = { { got, 100 }, { got + 100, 156 } };
	struct direct_request read = { .kind = DIRECT_READ, .rkey = 77, .va = 0x10000, .bytes = 256, .iov = two, .iovs = 2 };

	assert_true(write_at(s, 0x10000, 256));
	assert_memory_equal(s->target, s->source, 256);
	assert_true(run(s, &read));
	assert_memory_equal(got, s->source, 256);
	assert_true(write_at(s, 0x10000 + 256, 0));
	assert_true(write_at(s, 0xdead, 0));	/* no bytes, no key check */
	stage_free(s);
}

static void atomics_change_the_word(void **state)
{
	struct stage *s = stage_make();
	uint64_t word = 40;
	struct direct_request r = { .kind = DIRECT_FETCH_ADD, .rkey = 77, .va = 0x10008, .bytes = 8, .operand = 2 };

	memcpy(s->target + 8, &word, 8);
	assert_true(run(s, &r));
	assert_int_equal(r.original, 40);
	r = (struct direct_request){
		.kind = DIRECT_CMP_SWAP, .rkey = 77, .va = 0x10008, .bytes = 8, .compare = 41, .operand = 7,
	};
	assert_true(run(s, &r));
	assert_int_equal(r.original, 42);
	memcpy(&word, s->target + 8, 8);
	assert_int_equal(word, 42);
	r.compare = 42;
	assert_true(run(s, &r));
	memcpy(&word, s->target + 8, 8);
	assert_int_equal(word, 7);
	r = (struct direct_request){ .kind = DIRECT_ATOMIC_WRITE, .rkey = 77, .va = 0x10008, .bytes = 8, .operand = 11 };
	s->region.access = IBV_ACCESS_REMOTE_WRITE;
	assert_true(run(s, &r));
	memcpy(&word, s->target + 8, 8);
	assert_int_equal(word, 11);
	s->remote.depth = 0;
	assert_false(run(s, &r));
	s->remote.depth = 1;
	s->region.access = IBV_ACCESS_REMOTE_ATOMIC;
	assert_false(run(s, &r));
	r.va++;
	assert_false(run(s, &r));	/* misaligned */
	stage_free(s);
}

static void bounds_are_checked(void **state)
{
	struct stage *s = stage_make();

	assert_true(write_at(s, 0x10000 + 255, 1));
	assert_false(write_at(s, 0x10000 + 255, 2));
	assert_false(write_at(s, 0x10000 - 1, 1));
	assert_false(write_at(s, 0x10000 + 257, 1));
	assert_false(write_at(s, UINT64_MAX, 2));
	s->region.iova = UINT64_MAX - 255;
	assert_true(write_at(s, UINT64_MAX, 1));
	assert_false(write_at(s, UINT64_MAX, 2));
	stage_free(s);
}

/* Each fault alone sends the request to the packets. */
static void faults_are_left_to_packets(void **state)
{
	static const struct {
		const char *what;
		size_t offset;
		uint32_t bad;
	} fault[] = {
#define FAULT(member, bad) { #member, offsetof(struct stage, member), bad }
		FAULT(remote.qpn, 0x2003), FAULT(remote.peer_qpn, 0x1002), FAULT(remote.pd, 5), FAULT(remote.access, 0),
		FAULT(remote.type, IBV_QPT_UC), FAULT(remote.device, 1), FAULT(remote.dlid, 9),
		FAULT(region.key, 78), FAULT(region.pd, 9), FAULT(region.access, IBV_ACCESS_REMOTE_READ), FAULT(region.device, 1),
		FAULT(region.qpn, 0x2004),
#undef FAULT
	};
	struct stage *s = stage_make();
	struct direct_request read = { .kind = DIRECT_READ, .rkey = 77, .va = 0x10000 };

	for (unsigned i = 0; i < sizeof(fault) / sizeof(fault[0]); i++) {
		uint32_t *word = (uint32_t *)(void *)((uint8_t *)s + fault[i].offset), good = *word;

		*word = fault[i].bad;
		if (write_at(s, 0x10000, 16))
			fail_msg("a fault in %s was not seen", fault[i].what);
		*word = good;
		assert_true(write_at(s, 0x10000, 16));
	}
	s->remote.gids = 12345;		/* it expects a GRH, we have none */
	assert_false(write_at(s, 0x10000, 16));
	s->remote.gids = 0;
	s->remote.depth = 0;
	assert_false(run(s, &read));
	assert_true(write_at(s, 0x10000, 16));
	s->region.qpn = s->remote.qpn;	/* a window of just this QP */
	assert_true(write_at(s, 0x10000, 16));
	mover_fails = true;
	assert_false(write_at(s, 0x10000, 16));
	mover_fails = false;
	stage_free(s);
}

/* What was found is used again, until either entry or our own QPs change. */
static void found_entries_are_remembered(void **state)
{
	struct stage *s = stage_make();
	uint32_t qp = export_show_qp(&s->export, &s->remote), region = export_show_region(&s->export, &s->region);
	struct iovec iov = { s->source, 16 };
	struct direct_request r = { .kind = DIRECT_WRITE, .rkey = 77, .va = 0x10000, .bytes = 16, .iov = &iov, .iovs = 1 };

	assert_true(direct_execute(&s->qp, &s->peer, &r));
	memset(s->memory->regions.way, 0, sizeof(s->memory->regions.way));	/* it would not be found once more */
	assert_true(direct_execute(&s->qp, &s->peer, &r));
	r.va = 0x10000 + sizeof(s->target) - 15;
	assert_false(direct_execute(&s->qp, &s->peer, &r));
	r.va = 0x10000;
	s->qp.qpn++;
	assert_false(direct_execute(&s->qp, &s->peer, &r));
	s->qp.qpn--;
	assert_true(direct_execute(&s->qp, &s->peer, &r));
	export_hide_region(&s->export, region);
	assert_false(direct_execute(&s->qp, &s->peer, &r));
	region = export_show_region(&s->export, &s->region);
	assert_true(direct_execute(&s->qp, &s->peer, &r));
	export_hide_qp(&s->export, qp);
	assert_false(direct_execute(&s->qp, &s->peer, &r));
	qp = export_show_qp(&s->export, &s->remote);
	assert_true(direct_execute(&s->qp, &s->peer, &r));
	memset(s->memory->regions.way, 0, sizeof(s->memory->regions.way));
	s->era++;
	assert_false(direct_execute(&s->qp, &s->peer, &r));
	stage_free(s);
}

/* ---- memory that is mapped ---- */

/* Every size at every alignment, in one piece and in two; nothing around it changes. */
static void mapped_writes_are_whole(void **state)
{
	uint8_t from[96], to[128] __attribute__((aligned(8)));

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i + 1);
	for (unsigned at = 8; at < 24; at++) {
		for (unsigned bytes = 1; bytes <= sizeof(from); bytes++) {
			unsigned first = bytes / 3;
			struct iovec two[2] = { { from, first }, { from + first, bytes - first } };
			struct direct_request r = {
				.kind = DIRECT_WRITE, .bytes = bytes, .iov = two + !first, .iovs = 1 + (first > 0),
			};

			memset(to, 0xee, sizeof(to));
			assert_true(mapped_execute(to + at, &r));
			assert_memory_equal(to + at, from, bytes);
			assert_int_equal(to[at - 1], 0xee);
			assert_int_equal(to[at + bytes], 0xee);
		}
	}
}

static void overlapping_writes_move(void **state)
{
	uint8_t memory[64] __attribute__((aligned(8))), expected[64];

	for (unsigned shift = 1; shift < 20; shift++) {
		struct iovec iov = { memory, 40 };
		struct direct_request r = { .kind = DIRECT_WRITE, .bytes = 40, .iov = &iov, .iovs = 1 };

		for (unsigned i = 0; i < sizeof(memory); i++)
			memory[i] = expected[i] = (uint8_t)i;
		memmove(expected + shift, expected, 40);
		assert_true(mapped_execute(memory + shift, &r));
		assert_memory_equal(memory, expected, sizeof(memory));
	}
}

/* Another thread that sees the last byte sees all. */
struct tail_watch {
	uint8_t memory[256] __attribute__((aligned(64)));
	_Atomic unsigned seen;
	_Atomic bool torn;
};

enum { TAIL_ROUNDS = 20000, TAIL_BYTES = 200 };

static void *watch_tail(void *arg)
{
	struct tail_watch *w = arg;

	for (unsigned round = 1; round <= TAIL_ROUNDS; round++) {
		while (__atomic_load_n(&w->memory[TAIL_BYTES - 1], __ATOMIC_ACQUIRE) != (uint8_t)round)
			sched_yield();
		for (unsigned i = 0; i < TAIL_BYTES; i++)
			if (__atomic_load_n(&w->memory[i], __ATOMIC_RELAXED) != (uint8_t)round)
				atomic_store(&w->torn, true);
		atomic_store(&w->seen, round);
	}
	return NULL;
}

static void tail_is_written_last(void **state)
{
	struct tail_watch *w = aligned_alloc(64, sizeof(*w));
	uint8_t from[TAIL_BYTES];
	struct iovec iov = { from, sizeof(from) };
	struct direct_request r = { .kind = DIRECT_WRITE, .bytes = sizeof(from), .iov = &iov, .iovs = 1 };
	pthread_t watcher;

	memset(w, 0, sizeof(*w));
	assert_int_equal(pthread_create(&watcher, NULL, watch_tail, w), 0);
	for (unsigned round = 1; round <= TAIL_ROUNDS; round++) {
		memset(from, (int)round, sizeof(from));
		assert_true(mapped_execute(w->memory, &r));
		while (atomic_load(&w->seen) != round)
			sched_yield();
	}
	pthread_join(watcher, NULL);
	assert_false(atomic_load(&w->torn));
	free(w);
}

/* The region says where; the mover says whether. What it does not map goes by the address. */
static void mapped_regions_are_used(void **state)
{
	struct stage *s = stage_make();
	uint8_t file[256] = { 0 }, zero[256] = { 0 };
	uint64_t word = 5;
	struct direct_request add = { .kind = DIRECT_FETCH_ADD, .rkey = 77, .va = 0x10000, .bytes = 8, .operand = 3 };

	mapped_target = file;
	s->region.file = 1;
	assert_true(write_at(s, 0x10000, 256));
	assert_memory_equal(file, s->source, 256);
	assert_memory_equal(s->target, zero, 256);
	memcpy(file, &word, 8);
	assert_true(run(s, &add));
	assert_int_equal(add.original, 5);
	memcpy(&word, file, 8);
	assert_int_equal(word, 8);
	add = (struct direct_request){ .kind = DIRECT_ATOMIC_WRITE, .rkey = 77, .va = 0x10000, .bytes = 8, .operand = 12 };
	assert_true(run(s, &add));
	memcpy(&word, file, 8);
	assert_int_equal(word, 12);
	s->region.file_offset = 16;
	assert_true(write_at(s, 0x10000 + 8, 8));
	assert_memory_equal(file + 24, s->source, 8);
	s->region.file_offset = 1;	/* more than the file has */
	memset(file, 0, sizeof(file));
	assert_true(write_at(s, 0x10000, 256));
	assert_memory_equal(s->target, s->source, 256);
	assert_memory_equal(file, zero, 256);
	assert_false(write_at(s, 0x10000 + 1, 256));
	s->region.file = 2;
	assert_true(write_at(s, 0x10000, 100));
	assert_memory_equal(file, zero, 256);
	stage_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shown_is_found), cmocka_unit_test(tables_fill_and_empty),
		cmocka_unit_test(spoilt_tables_are_survived), cmocka_unit_test(access_names_what_is_used),
		cmocka_unit_test(hidden_is_not_used), cmocka_unit_test(lock_excludes),
		cmocka_unit_test(lock_of_the_dead_is_taken), cmocka_unit_test(data_arrives),
		cmocka_unit_test(atomics_change_the_word), cmocka_unit_test(bounds_are_checked),
		cmocka_unit_test(faults_are_left_to_packets), cmocka_unit_test(found_entries_are_remembered),
		cmocka_unit_test(mapped_writes_are_whole), cmocka_unit_test(overlapping_writes_move),
		cmocka_unit_test(tail_is_written_last), cmocka_unit_test(mapped_regions_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
