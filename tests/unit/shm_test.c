/* The channel between two processes, here both ends in one: frames cross unchanged, sleepers are woken exactly when they
 * sleep, a full channel tells the sender when there is room, and foreign descriptors are refused. */
#include "link/shm.h"

#include "base/rand.h"
#include "wire/opcode.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
	struct link *a, *b;
	int wake_a, wake_b;	/* borrowed from the links */
};

static void pair_open(struct pair *p)
{
	int memory = shm_memory_create();

	assert_true(memory >= 0);
	p->wake_a = eventfd(0, EFD_NONBLOCK);
	p->wake_b = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(shm_open_channel(memory, p->wake_b, 0, &p->a), 0);
	assert_int_equal(shm_open_channel(memory, p->wake_a, 1, &p->b), 0);
	close(memory);
}

static void pair_close(struct pair *p)
{
	p->a->ops->close(p->a);
	p->b->ops->close(p->b);
}

static bool was_woken(int fd)
{
	uint64_t count;

	return eventfd_read(fd, &count) == 0;
}

static bool send(struct link *l, uint32_t psn, const void *payload, uint32_t bytes)
{
	struct iovec iov = { (void *)(uintptr_t)payload, bytes };
	struct packet p = { .form = PACKET_IB, .path = { .slid = 1, .dlid = 2 }, .pkey = 0xffff, .dest_qpn = 0x123456, .psn = psn,
			    .payload = &iov, .payload_iovs = 1, .payload_bytes = bytes };

	p.opcode = (uint8_t)opcode_find(SERVICE_RC, OP_SEND, POS_ONLY, 0);
	return l->ops->send(l, &p);
}

/* Takes one frame, checks it and returns its PSN; -1: none. */
static int64_t take(struct link *l, const void *payload, uint32_t bytes)
{
	unsigned kind;
	struct packet p;
	size_t length;
	const void *frame = l->ops->receive(l, &kind, &length);

	if (!frame)
		return -1;
	assert_int_equal(packet_parse(&p, (enum packet_form)kind, frame, length, true), PACKET_OK);
	assert_int_equal(p.payload_bytes, bytes);
	assert_memory_equal(p.payload->iov_base, payload, bytes);
	l->ops->release(l);
	return p.psn;
}

static void frames_cross(void **state)
{
	static uint8_t payload[4096];
	struct pair p;

	(void)state;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7);
	pair_open(&p);
	for (uint32_t psn = 0; psn < 3000; psn++) {
		assert_true(send(p.a, psn, payload, psn % 4097));
		assert_true(send(p.b, psn, payload, 8));
		p.a->ops->flush(p.a);
		assert_true(link_pending(p.b));
		assert_int_equal(take(p.b, payload, psn % 4097), psn);
		assert_int_equal(take(p.a, payload, 8), psn);
		assert_int_equal(take(p.b, payload, 0), -1);
		assert_int_equal(take(p.a, payload, 0), -1);
	}
	assert_false(was_woken(p.wake_a) || was_woken(p.wake_b));
	pair_close(&p);
}

/* Where it says that a short message goes, that is where any way says so. */
static void the_line_is_what_is_reserved(void **state)
{
	unsigned lines = 0, kind;
	struct rand r;
	struct pair p;
	size_t bytes;

	(void)state;
	rand_seed(&r, 3);
	pair_open(&p);
	for (unsigned i = 0; i < 300000; i++) {
		void *line = p.a->line, *record;

		bytes = 1 + rand_below(&r, rand_below(&r, 16) ? LINK_SHORT_BYTES : 3000);
		record = p.a->ops->reserve(p.a, bytes);
		if (line && bytes <= LINK_SHORT_BYTES)
			assert_ptr_equal(record, line);
		assert_ptr_equal(record, link_reserve(p.a, bytes));
		lines += line != NULL;
		if (record) {
			memset(record, (int)i, bytes);
			p.a->ops->commit(p.a, bytes);
		}
		while (rand_below(&r, i / 50000 + 1) == 0 && p.b->ops->receive(p.b, &kind, &bytes))
			p.b->ops->release(p.b);
	}
	assert_true(lines > 1000);
	pair_close(&p);
}

static void only_sleepers_are_woken(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p);
	assert_true(p.b->ops->may_sleep(p.b, NEWS_WAKE_FD));
	assert_true(send(p.a, 1, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	/* once is enough */
	assert_true(send(p.a, 2, "", 0));
	p.a->ops->flush(p.a);
	assert_false(was_woken(p.wake_b));
	/* it may not sleep on top of frames */
	assert_false(p.b->ops->may_sleep(p.b, NEWS_WAKE_FD));
	p.b->ops->awake(p.b);
	assert_true(send(p.a, 3, "", 0));
	p.a->ops->flush(p.a);
	assert_false(was_woken(p.wake_b));
	pair_close(&p);
}

static void sleeping_sender_hears_of_room(void **state)
{
	static uint8_t payload[4096];
	uint32_t psn = 0, got = 0;
	struct pair p;

	(void)state;
	pair_open(&p);
	while (p.a->ops->room(p.a))
		assert_true(send(p.a, psn++, payload, sizeof(payload)));
	assert_true(p.a->ops->may_sleep(p.a, NEWS_WAKE_FD));
	while (take(p.b, payload, sizeof(payload)) >= 0)
		got++;
	assert_int_equal(got, psn);
	assert_true(was_woken(p.wake_a));
	assert_true(p.a->ops->room(p.a));
	/* and one that was not told yet finds out before it sleeps */
	while (p.a->ops->room(p.a))
		assert_true(send(p.a, psn++, payload, sizeof(payload)));
	while (take(p.b, payload, sizeof(payload)) >= 0)
		;
	assert_false(p.a->ops->may_sleep(p.a, NEWS_WAKE_FD));
	assert_false(p.a->broken || p.b->broken);
	pair_close(&p);
}

static void *await_wakes(void *news)
{
	_Atomic uint32_t *wakes = &((struct news *)news)->wakes;

	while (atomic_load(wakes) == 0)
		syscall(SYS_futex, wakes, FUTEX_WAIT, 0, NULL, NULL, 0);
	return NULL;
}

static void watcher_is_woken_by_its_futex(void **state)
{
	static struct news news;
	pthread_t thread;
	struct pair p;

	(void)state;
	pair_open(&p);
	/* who cannot reach the futex wakes by the eventfd */
	assert_true(p.b->ops->may_sleep(p.b, NEWS_WAKE_FUTEX));
	assert_true(send(p.a, 1, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	assert_int_equal(take(p.b, "", 0), 1);
	shm_ring_at(p.a, &news);
	assert_int_equal(pthread_create(&thread, NULL, await_wakes, &news), 0);
	assert_true(p.b->ops->may_sleep(p.b, NEWS_WAKE_FUTEX));
	assert_true(send(p.a, 2, "", 0));
	p.a->ops->flush(p.a);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&news.wakes), 1);
	assert_int_equal(take(p.b, "", 0), 2);
	was_woken(p.wake_b);	/* if the thread was late */
	/* nobody there: whoever listens at the eventfd is woken */
	assert_true(p.b->ops->may_sleep(p.b, NEWS_WAKE_FUTEX));
	assert_true(send(p.a, 3, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	assert_int_equal(atomic_load(&news.wakes), 2);
	pair_close(&p);
}

static void resting_owner_is_rung(void **state)
{
	static struct news news;
	static uint8_t payload[4096];
	uint32_t psn = 0;
	struct pair p;

	(void)state;
	pair_open(&p);
	/* the peer must know the bells */
	assert_false(p.b->ops->may_rest(p.b, 3));
	shm_ring_at(p.a, &news);
	assert_false(p.b->ops->may_rest(p.b, NEWS_BELLS));
	assert_true(p.b->ops->may_rest(p.b, 3));
	assert_true(send(p.a, 1, "", 0));
	p.a->ops->flush(p.a);
	assert_int_equal(news_take(&news), 3);
	/* once is enough, and frames let nobody rest */
	assert_true(send(p.a, 2, "", 0));
	p.a->ops->flush(p.a);
	assert_int_equal(news_take(&news), -1);
	assert_false(p.b->ops->may_rest(p.b, 3));
	assert_int_equal(take(p.b, "", 0), 1);
	assert_int_equal(take(p.b, "", 0), 2);
	/* who sleeps as a whole is woken, too */
	assert_true(p.b->ops->may_rest(p.b, 4));
	assert_true(news_may_sleep(&news, NEWS_WAKE_FD));
	assert_true(send(p.a, 3, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	assert_int_equal(news_take(&news), 4);
	assert_int_equal(take(p.b, "", 0), 3);
	/* room is news */
	while (p.b->ops->room(p.b))
		assert_true(send(p.b, psn++, payload, sizeof(payload)));
	assert_true(p.b->ops->may_rest(p.b, 5));
	while (take(p.a, payload, sizeof(payload)) >= 0)
		;
	assert_int_equal(news_take(&news), 5);
	pair_close(&p);
}

static void foreign_kind_breaks(void **state)
{
	int memory = shm_memory_create();
	uint32_t word = 0x80000000u | 5u << 24 | 32;
	unsigned kind;
	struct link *b;
	size_t bytes;
	uint8_t *raw = mmap(NULL, 4096 + (2 << 20), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

	(void)state;
	assert_int_equal(shm_open_channel(memory, -1, 1, &b), 0);
	memcpy(raw + 4096, &word, sizeof(word));
	assert_null(b->ops->receive(b, &kind, &bytes));
	assert_true(b->broken);
	b->ops->close(b);
	munmap(raw, 4096 + (2 << 20));
	close(memory);
}

static void foreign_descriptors_are_refused(void **state)
{
	int unsealed = memfd_create("x", MFD_ALLOW_SEALING), small = memfd_create("y", MFD_ALLOW_SEALING);
	struct link *l;

	(void)state;
	assert_int_equal(ftruncate(unsealed, 4 << 20), 0);
	assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(shm_open_channel(unsealed, -1, 0, &l), -EPROTO);
	assert_int_equal(shm_open_channel(small, -1, 0, &l), -EPROTO);
	assert_int_equal(shm_open_channel(-1, -1, 0, &l), -EPROTO);
	close(unsealed);
	unsealed = shm_memory_create();
	assert_int_equal(shm_open_channel(unsealed, -1, 2, &l), -EPROTO);
	close(unsealed);
	close(small);
}

static void loop_returns_frames(void **state)
{
	struct link *l;

	(void)state;
	assert_int_equal(shm_open_loop(&l), 0);
	for (uint32_t psn = 0; psn < 100000; psn++) {
		assert_true(send(l, psn, "payload", 7));
		l->ops->flush(l);
		assert_int_equal(take(l, "payload", 7), psn);
	}
	assert_true(l->ops->may_sleep(l, NEWS_WAKE_FD));
	l->ops->close(l);
}

enum { PINGS = 20000 };

/* Answers every frame; sleeps whenever nothing is there. */
static void *answer(void *arg)
{
	struct pair *p = arg;

	for (int done = 0; done < PINGS;) {
		int64_t psn = take(p->b, "ping", 4);

		if (psn >= 0) {
			while (!send(p->b, (uint32_t)psn, "ping", 4))
				;
			p->b->ops->flush(p->b);
			done++;
		} else if (p->b->ops->may_sleep(p->b, NEWS_WAKE_FD)) {
			fd_set set;

			FD_ZERO(&set);
			FD_SET(p->wake_b, &set);
			select(p->wake_b + 1, &set, NULL, NULL, NULL);
			was_woken(p->wake_b);
		}
	}
	return NULL;
}

/* No wake is lost: this ends. */
static void sleepy_ping_pong(void **state)
{
	pthread_t thread;
	struct pair p;

	(void)state;
	pair_open(&p);
	pthread_create(&thread, NULL, answer, &p);
	for (uint32_t psn = 0; psn < PINGS; psn++) {
		assert_true(send(p.a, psn, "ping", 4));
		p.a->ops->flush(p.a);
		while (take(p.a, "ping", 4) < 0)
			sched_yield();
	}
	pthread_join(thread, NULL);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_cross),
		cmocka_unit_test(the_line_is_what_is_reserved),
		cmocka_unit_test(only_sleepers_are_woken),
		cmocka_unit_test(sleeping_sender_hears_of_room),
		cmocka_unit_test(watcher_is_woken_by_its_futex),
		cmocka_unit_test(resting_owner_is_rung),
		cmocka_unit_test(foreign_kind_breaks),
		cmocka_unit_test(foreign_descriptors_are_refused),
		cmocka_unit_test(loop_returns_frames),
		cmocka_unit_test(sleepy_ping_pong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
