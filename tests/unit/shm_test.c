/* The channel between two processes, here both ends in one: frames cross unchanged, sleepers are woken exactly when they
 * sleep, a full channel tells the sender when there is room, and foreign descriptors are refused. */
#include "link/shm.h"

#include "base/rand.h"
#include "link/wake.h"
#include "wire/opcode.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

enum { DEVICE = 3 };	/* of its frames */

struct pair {
	struct link *a, *b;	/* of the channel's two ends: */
	struct shm *end_a, *end_b;
	int wake_a, wake_b;	/* borrowed from the ends */
};

static void pair_open(struct pair *p)
{
	int memory = shm_memory_create();

	assert_true(memory >= 0);
	p->wake_a = eventfd(0, EFD_NONBLOCK);
	p->wake_b = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(shm_open_channel(memory, p->wake_b, 0, &p->end_a), 0);
	assert_int_equal(shm_open_channel(memory, p->wake_a, 1, &p->end_b), 0);
	p->a = &p->end_a->link;
	p->b = &p->end_b->link;
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
	return l->ops->send(l, DEVICE, (const struct packet *const[]){ &p }, 1) == 1;
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
	assert_int_equal(link_device(kind), DEVICE);
	assert_int_equal(packet_parse(&p, link_form(kind), frame, length, true), PACKET_OK);
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

/* What there was said to be room for goes, of any length; of more, what there is room for. */
static void a_batch_goes_as_far_as_there_is_room(void **state)
{
	static uint8_t payload[PACKET_MAX_PAYLOAD];
	struct iovec iov = { payload, sizeof(payload) };
	const struct packet *batch[64];
	struct packet p[64];
	unsigned room, sent, total = 0, kind;
	struct pair pair;
	size_t bytes;

	(void)state;
	pair_open(&pair);
	for (unsigned i = 0; i < 64; i++) {
		p[i] = (struct packet){ .form = PACKET_IB, .opcode = OPCODE_RC_SEND_ONLY, .psn = i, .payload = &iov,
					.payload_iovs = 1, .payload_bytes = sizeof(payload) };
		batch[i] = &p[i];
	}
	while ((room = pair.a->ops->room(pair.a))) {
		room = room < 7 ? room : 7;
		assert_int_equal(pair.a->ops->send(pair.a, DEVICE, batch, room), room);
		total += room;
	}
	sent = pair.a->ops->send(pair.a, DEVICE, batch, 64);
	assert_true(sent < 64);
	for (total += sent; pair.b->ops->receive(pair.b, &kind, &bytes); total--)
		;
	assert_int_equal(total, 0);
	pair_close(&pair);
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
		void *line = p.end_a->line, *record;

		bytes = 1 + rand_below(&r, rand_below(&r, 16) ? SHM_SHORT_BYTES : 3000);
		record = shm_reserve_any(p.end_a, bytes);
		if (line && bytes <= SHM_SHORT_BYTES)
			assert_ptr_equal(record, line);
		assert_ptr_equal(record, shm_reserve(p.end_a, bytes));
		lines += line != NULL;
		if (record) {
			memset(record, (int)i, bytes);
			shm_commit(p.end_a, bytes);
		}
		while (rand_below(&r, i / 50000 + 1) == 0 && p.b->ops->receive(p.b, &kind, &bytes))
			p.b->ops->release(p.b);
	}
	assert_true(lines > 1000);
	pair_close(&p);
}

/* The next message, in one of both ways; 0: none is there. */
static size_t take_message(struct pair *p, bool where_it_lies, uint8_t copy[SHM_MESSAGE_BYTES])
{
	unsigned kind;
	size_t bytes;
	const void *at = where_it_lies ? shm_peek(p->end_b, &bytes) : p->b->ops->receive(p->b, &kind, &bytes);

	if (!at)
		return 0;
	memcpy(copy, at, bytes);
	if (where_it_lies)
		shm_took(p->end_b, bytes);
	else
		assert_int_equal(kind, SHM_MESSAGE);
	p->b->ops->release(p->b);
	return bytes;
}

/* Messages of any length lie where they were written; one behind the end of the ring's lap is received. */
static void messages_are_taken_where_they_lie(void **state)
{
	static uint8_t copy[SHM_MESSAGE_BYTES];
	size_t lengths[64], bytes;
	unsigned sent = 0, taken = 0, lying = 0;
	struct rand r;
	struct pair p;

	(void)state;
	rand_seed(&r, 4);
	pair_open(&p);
	while (taken < 100000) {
		bytes = 1 + rand_below(&r, rand_below(&r, 3) ? 100 : SHM_MESSAGE_BYTES);
		if (sent - taken < 64 && rand_below(&r, 2)) {
			memset(shm_reserve(p.end_a, bytes), (int)sent, bytes);
			shm_commit(p.end_a, bytes);
			lengths[sent++ % 64] = bytes;
			continue;
		}
		bytes = take_message(&p, true, copy);
		lying += bytes != 0;
		if (!bytes)
			bytes = take_message(&p, false, copy);
		assert_int_equal(bytes != 0, sent != taken);
		if (!bytes)
			continue;
		assert_int_equal(bytes, lengths[taken % 64]);
		assert_int_equal(copy[0], (uint8_t)taken);
		assert_memory_equal(copy, copy + 1, bytes - 1);
		taken++;
	}
	assert_true(lying < taken && lying > taken / 100 * 95);
	pair_close(&p);
}

static void frames_do_not_lie_there(void **state)
{
	uint8_t payload[200] = { 0 };
	struct pair p;
	size_t bytes;

	(void)state;
	pair_open(&p);
	assert_null(shm_peek(p.end_b, &bytes));
	assert_true(send(p.a, 1, payload, 8) && send(p.a, 2, payload, sizeof(payload)));
	assert_null(shm_peek(p.end_b, &bytes));
	assert_int_equal(take(p.b, payload, 8), 1);
	assert_null(shm_peek(p.end_b, &bytes));
	assert_int_equal(take(p.b, payload, sizeof(payload)), 2);
	pair_close(&p);
}

static void only_sleepers_are_woken(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p);
	assert_true(p.b->ops->may_sleep(p.b, false));
	assert_true(send(p.a, 1, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	/* once is enough */
	assert_true(send(p.a, 2, "", 0));
	p.a->ops->flush(p.a);
	assert_false(was_woken(p.wake_b));
	/* it may not sleep on top of frames */
	assert_false(p.b->ops->may_sleep(p.b, false));
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
	assert_true(p.a->ops->may_sleep(p.a, false));
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
	assert_false(p.a->ops->may_sleep(p.a, false));
	assert_false(p.a->broken || p.b->broken);
	pair_close(&p);
}

/* What the peer has not taken is known: up to a mark, whatever is sent behind it; past the ring's end too. */
static void sender_knows_what_was_not_taken(void **state)
{
	static const uint8_t payload[4096];
	uint64_t mark = 0, later = 0;
	struct pair p;
	unsigned kind;
	size_t bytes;

	(void)state;
	pair_open(&p);
	assert_false(shm_undelivered(p.end_a, &mark));	/* nothing was sent */
	for (unsigned round = 0; round < 1000; round++) {
		mark = later = 0;
		assert_true(send(p.a, round, payload, sizeof(payload)));
		assert_true(shm_undelivered(p.end_a, &mark));
		assert_true(send(p.a, round, payload, 64));
		assert_true(shm_undelivered(p.end_a, &later));
		assert_true(later != mark);
		assert_non_null(p.b->ops->receive(p.b, &kind, &bytes));
		assert_true(shm_undelivered(p.end_a, &mark));	/* it has not told of it */
		assert_non_null(p.b->ops->receive(p.b, &kind, &bytes));
		p.b->ops->release(p.b);
		assert_true(send(p.a, round, payload, 64));
		assert_false(shm_undelivered(p.end_a, &mark));
		assert_false(shm_undelivered(p.end_a, &later));
		assert_non_null(p.b->ops->receive(p.b, &kind, &bytes));
		p.b->ops->release(p.b);
		assert_false(shm_undelivered(p.end_a, &mark));
	}
	pair_close(&p);
}

static void *await_wakes(void *bells)
{
	_Atomic uint32_t *wakes = &((struct channel_bells *)bells)->wakes;

	while (atomic_load(wakes) == 0)
		syscall(SYS_futex, wakes, FUTEX_WAIT, 0, NULL, NULL, 0);
	return NULL;
}

static void watcher_is_woken_by_its_futex(void **state)
{
	static struct channel_bells bells;
	pthread_t thread;
	struct pair p;

	(void)state;
	pair_open(&p);
	/* who cannot reach the futex wakes by the eventfd */
	assert_true(p.b->ops->may_sleep(p.b, true));
	assert_true(send(p.a, 1, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	assert_int_equal(take(p.b, "", 0), 1);
	shm_ring_at(p.end_a, &bells);
	assert_int_equal(pthread_create(&thread, NULL, await_wakes, &bells), 0);
	assert_true(p.b->ops->may_sleep(p.b, true));
	assert_true(send(p.a, 2, "", 0));
	p.a->ops->flush(p.a);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&bells.wakes), 1);
	assert_int_equal(take(p.b, "", 0), 2);
	was_woken(p.wake_b);	/* if the thread was late */
	/* nobody there: whoever listens at the eventfd is woken */
	assert_true(p.b->ops->may_sleep(p.b, true));
	assert_true(send(p.a, 3, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	assert_int_equal(atomic_load(&bells.wakes), 2);
	assert_int_equal(take(p.b, "", 0), 3);
	/* who listens there from the start is not looked for at the futex */
	assert_true(p.b->ops->may_sleep(p.b, false));
	assert_true(send(p.a, 4, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	assert_int_equal(atomic_load(&bells.wakes), 2);
	pair_close(&p);
}

static void resting_owner_is_rung(void **state)
{
	static struct channel_bells bells;
	static uint8_t payload[4096];
	uint32_t psn = 0;
	struct pair p;

	(void)state;
	pair_open(&p);
	/* the peer must know the bells */
	assert_false(shm_may_rest(p.end_b, 3));
	shm_ring_at(p.end_a, &bells);
	assert_false(shm_may_rest(p.end_b, CHANNEL_BELLS));
	assert_true(shm_may_rest(p.end_b, 3));
	assert_true(send(p.a, 1, "", 0));
	p.a->ops->flush(p.a);
	assert_int_equal(bells_take(&bells), 3);
	/* once is enough, and frames let nobody rest */
	assert_true(send(p.a, 2, "", 0));
	p.a->ops->flush(p.a);
	assert_int_equal(bells_take(&bells), -1);
	assert_false(shm_may_rest(p.end_b, 3));
	assert_int_equal(take(p.b, "", 0), 1);
	assert_int_equal(take(p.b, "", 0), 2);
	/* who sleeps as a whole is woken, too */
	assert_true(shm_may_rest(p.end_b, 4));
	assert_true(bells_may_sleep(&bells, BELL_WAKE_FD));
	assert_true(send(p.a, 3, "", 0));
	p.a->ops->flush(p.a);
	assert_true(was_woken(p.wake_b));
	assert_int_equal(bells_take(&bells), 4);
	assert_int_equal(take(p.b, "", 0), 3);
	/* room is bells */
	while (p.b->ops->room(p.b))
		assert_true(send(p.b, psn++, payload, sizeof(payload)));
	assert_true(shm_may_rest(p.end_b, 5));
	while (take(p.a, payload, sizeof(payload)) >= 0)
		;
	assert_int_equal(bells_take(&bells), 5);
	pair_close(&p);
}

static bool is_set(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Who does not look at the other's accesses, not yet or no more, is not written to directly. */
static void a_side_heeds_from_when_it_says_so_until_it_closes(void **state)
{
	int memory = shm_memory_create();
	struct shm *a, *b;

	(void)state;
	assert_int_equal(shm_open_channel(memory, -1, 0, &a), 0);
	assert_int_equal(shm_open_channel(memory, -1, 1, &b), 0);
	assert_false(shm_peer_heeds(a));
	shm_set_heeds(b);
	assert_true(shm_peer_heeds(a));
	assert_false(shm_peer_heeds(b));
	b->link.ops->close(&b->link);
	assert_false(shm_peer_heeds(a));
	a->link.ops->close(&a->link);
	close(memory);
}

/* However its owner left the descriptor. */
static void foreign_owner_is_woken_by_its_timer(void **state)
{
	int memory = shm_memory_create(), timer = wake_timer_create(), theirs = wake_timer_create(), own;
	struct shm *a, *b;

	(void)state;
	assert_true(timer >= 0);
	own = fcntl(timer, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(fcntl(timer, F_SETFL, 0), 0);
	assert_int_equal(shm_open_foreign(memory, timer, theirs, 0, &a), 0);
	wake_timer_set(theirs);
	assert_true(is_set(a->link.event_fd));
	a->link.ops->take_event(&a->link);
	assert_false(is_set(a->link.event_fd));
	assert_int_equal(shm_open_channel(memory, -1, 1, &b), 0);
	assert_true(send(&a->link, 1, "", 0));
	a->link.ops->flush(&a->link);
	assert_false(is_set(own));
	assert_int_equal(take(&b->link, "", 0), 1);
	assert_true(b->link.ops->may_sleep(&b->link, true));
	for (uint32_t psn = 2; psn < 4; psn++) {
		assert_true(send(&a->link, psn, "", 0));
		a->link.ops->flush(&a->link);
		assert_int_equal(is_set(own), psn == 2);
		wake_timer_clear(own);
		assert_false(is_set(own));
	}
	/* it can rest, without a bell, as long as nothing came */
	assert_true(shm_may_rest(a, CHANNEL_BELLS));
	assert_true(send(&b->link, 1, "", 0));
	assert_false(shm_may_rest(a, 0));
	assert_int_equal(take(&a->link, "", 0), 1);
	assert_true(shm_may_rest(a, 0));
	a->link.ops->close(&a->link);
	b->link.ops->close(&b->link);
	close(own);
	close(memory);
}

static void check_foreign_kind(unsigned foreign)
{
	int memory = shm_memory_create();
	uint32_t word = 0x80000000u | foreign << 20 | 32;
	unsigned kind;
	struct shm *b;
	size_t bytes;
	uint8_t *raw = mmap(NULL, 4096 + (2 << 20), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

	assert_int_equal(shm_open_channel(memory, -1, 1, &b), 0);
	memcpy(raw + 4096, &word, sizeof(word));
	assert_null(b->link.ops->receive(&b->link, &kind, &bytes));
	assert_true(b->link.broken);
	b->link.ops->close(&b->link);
	munmap(raw, 4096 + (2 << 20));
	close(memory);
}

/* A form that there is not, and a message of a device: messages have none. */
static void foreign_kind_breaks(void **state)
{
	(void)state;
	check_foreign_kind(5);
	check_foreign_kind(2 << 4 | 5);
	check_foreign_kind(1 << 4 | SHM_MESSAGE);
}

static void foreign_descriptors_are_refused(void **state)
{
	int unsealed = memfd_create("x", MFD_ALLOW_SEALING), small = memfd_create("y", MFD_ALLOW_SEALING);
	struct shm *l;

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
	struct shm *loop;
	struct link *l;

	(void)state;
	assert_int_equal(shm_open_loop(&loop), 0);
	l = &loop->link;
	for (uint32_t psn = 0; psn < 100000; psn++) {
		assert_true(send(l, psn, "payload", 7));
		l->ops->flush(l);
		assert_int_equal(take(l, "payload", 7), psn);
	}
	assert_true(l->ops->may_sleep(l, false));
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
		} else if (p->b->ops->may_sleep(p->b, false)) {
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

/* Who sends datagrams to a QP that has no receive sleeps until that has some; nothing else is held. */
static void who_is_held_is_woken(void **state)
{
	struct pair p;

	pair_open(&p);
	assert_false(shm_is_held(p.end_a, 7) || shm_is_held(p.end_a, 0));
	shm_hold(p.end_b, 7);
	assert_true(shm_is_held(p.end_a, 7) && shm_is_held(p.end_a, 0));
	assert_false(shm_is_held(p.end_a, 8) || shm_is_held(p.end_b, 7));
	assert_true(p.a->ops->may_sleep(p.a, false));
	shm_let_go(p.end_b, 8);
	assert_false(was_woken(p.wake_a));
	shm_let_go(p.end_b, 7);
	assert_true(was_woken(p.wake_a));
	assert_false(shm_is_held(p.end_a, 7));
	shm_hold(p.end_b, 7);
	assert_true(shm_is_held(p.end_a, 7));
	shm_let_go(p.end_b, 7);		/* before the sender sleeps: it looks once more */
	assert_false(p.a->ops->may_sleep(p.a, false));
	p.a->ops->awake(p.a);
	assert_false(was_woken(p.wake_a));
	assert_true(p.a->ops->may_sleep(p.a, false));
	shm_hold(p.end_b, 7);
	shm_hold(p.end_b, 7);
	assert_false(shm_is_held(p.end_a, 8));
	shm_hold(p.end_b, 8);
	assert_true(shm_is_held(p.end_a, 7) && shm_is_held(p.end_a, 8) && shm_is_held(p.end_a, 9));
	shm_let_go(p.end_b, 8);
	assert_false(shm_is_held(p.end_a, 7) || shm_is_held(p.end_a, 8));
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_cross),
		cmocka_unit_test(a_batch_goes_as_far_as_there_is_room),
		cmocka_unit_test(the_line_is_what_is_reserved),
		cmocka_unit_test(messages_are_taken_where_they_lie),
		cmocka_unit_test(frames_do_not_lie_there),
		cmocka_unit_test(only_sleepers_are_woken),
		cmocka_unit_test(sleeping_sender_hears_of_room),
		cmocka_unit_test(sender_knows_what_was_not_taken),
		cmocka_unit_test(who_is_held_is_woken),
		cmocka_unit_test(watcher_is_woken_by_its_futex),
		cmocka_unit_test(resting_owner_is_rung),
		cmocka_unit_test(a_side_heeds_from_when_it_says_so_until_it_closes),
		cmocka_unit_test(foreign_owner_is_woken_by_its_timer),
		cmocka_unit_test(foreign_kind_breaks),
		cmocka_unit_test(foreign_descriptors_are_refused),
		cmocka_unit_test(loop_returns_frames),
		cmocka_unit_test(sleepy_ping_pong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
