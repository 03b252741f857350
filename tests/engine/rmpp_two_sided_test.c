/* A request of several segments whose answer has several too, over a bad path in virtual time: two programs at both ends, and
 * what carries their datagrams (mad_clients.h). Whatever is lost, repeated, swapped or late, who asks has the answer whole
 * and exact, once, or hears that there is none. */
#include "fault_sweep.h"
#include "mad_path.h"
#include "mgmt/mad_clients.h"
#include "mgmt/rmpp.h"
#include "wire/field.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OFFSET = 56, ROOM = 200, GET_MULTI = 0x14, STEPS_MOST = 4000000 };

/* End 0 asks, end 1 answers; the LID of an end is its number and 1. */
struct end {
	struct run *run;
	struct mad_clients clients;
	struct mad_file file;
	uint32_t agent;
};

struct run {
	struct end end[2];
	struct mad_path path;
	uint8_t *data[2];	/* the request, the answer */
	uint32_t bytes[2];
	unsigned came, answers, failures;	/* requests at the server; what who asks has */
	unsigned refusals;	/* STOPs and ABORTs */
	bool is_due;		/* the server is to answer */
	uint8_t head[MAD_HEADER_BYTES];		/* of the request, as it came */
	wtime now;
};

static enum mad_fate carry(void *arg, wtime now, uint32_t from, unsigned qpn, const struct mad_remote *to,
			   uint8_t mad[MAD_BYTES], struct mad_coming *at)
{
	struct end *e = arg;
	int here = e != e->run->end;
	struct rmpp_header h;

	(void)from;
	(void)at;
	assert_int_equal(qpn, 1);
	assert_int_equal(to->lid, 1 + !here);
	rmpp_parse(&h, mad);
	e->run->refusals += h.type > RMPP_ACK;
	mad_path_send(&e->run->path, now, here, mad);
	return MAD_WAS_LOST;
}

static enum mad_fate refuse(void *arg, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	(void)arg;
	(void)now;
	(void)at;
	(void)mad;
	return MAD_WAS_LOST;
}

static bool deliver(void *arg, struct mad_file *f, const struct mad_letter *l)
{
	struct end *e = arg;
	struct run *r = e->run;
	int other = e == r->end;

	assert_ptr_equal(f, &e->file);
	if (l->status) {
		assert_int_equal(l->status, ETIMEDOUT);
		assert_ptr_equal(e, r->end);
		r->failures++;
		return false;
	}
	assert_int_equal(l->bytes, r->bytes[other]);
	assert_true(!memcmp(l->data + OFFSET, r->data[other] + OFFSET, l->bytes - OFFSET));
	if (other) {
		r->answers++;
	} else {
		memcpy(r->head, l->data, sizeof(r->head));
		r->is_due = true;
		r->came++;
	}
	return false;
}

static bool has_lid(void *arg, uint32_t port, uint16_t lid)
{
	(void)arg;
	(void)port;
	(void)lid;
	return false;
}

static bool may_hold(void *arg, const struct mad_file *f, size_t more)
{
	(void)arg;
	(void)f;
	(void)more;
	return true;
}

static uint8_t *make(uint32_t bytes, unsigned salt)
{
	uint8_t *data = malloc(bytes);

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(i * 7 + i / 251 + salt);
	memset(data, 0, OFFSET);
	data[0] = 1;
	data[1] = MAD_CLASS_SA;
	data[2] = 2;
	data[3] = GET_MULTI;
	wire_put(data, 1, 26, 7, 1);
	return data;
}

static void send(struct run *r, int from, uint32_t timeout_ms, uint32_t retries)
{
	struct end *e = &r->end[from];
	const struct mad_letter l = { .agent = e->agent, .timeout_ms = timeout_ms, .retries = retries,
				      .remote = { .lid = (uint16_t)(2 - from), .qpn = 1 }, .data = r->data[from],
				      .bytes = r->bytes[from] };

	assert_int_equal(mad_send(&e->clients, r->now, &e->file, &l), 0);
}

static void begin(struct run *r, const struct mad_path_config *path, uint32_t window, uint32_t request, uint32_t answer)
{
	static const struct mad_ops ops = { carry, refuse, deliver, has_lid, may_hold };
	struct gsa_tunables t = gsa_defaults;

	*r = (struct run){ .data = { make(request, 1), make(answer, 2) }, .bytes = { request, answer } };
	mad_path_init(&r->path, path);
	t.window = window;
	for (int i = 0; i < 2; i++) {
		const struct mad_registration what = { .mgmt_class = MAD_CLASS_SA, .class_version = 2, .rmpp_version = 1,
						       .methods = { i ? 1 << GET_MULTI : 0 } };
		const struct siphash_key key = { 1, (uint64_t)i };
		struct end *e = &r->end[i];

		e->run = r;
		mad_clients_init(&e->clients, &ops, e, &key);
		assert_int_equal(mad_buffers_set(&e->clients.buffers, &t), 0);
		mad_file_open(&e->clients, &e->file, 0);
		assert_int_equal(mad_register(&e->clients, &e->file, &what, &e->agent), 0);
	}
}

static void end(struct run *r)
{
	for (int i = 0; i < 2; i++) {
		/* all is over, and nothing is left of it */
		assert_int_equal(r->end[i].file.requests + r->end[i].file.transfers, 0);
		assert_true(!r->end[i].file.bytes && !r->end[i].file.bytes_in);
		mad_clients_fini(&r->end[i].clients);
		free(r->data[i]);
	}
	mad_path_fini(&r->path);
}

static void answer(struct run *r)
{
	memcpy(r->data[1], r->head, sizeof(r->head));
	r->data[1][3] |= 0x80;
	r->is_due = false;
	send(r, 1, 0, 0);
}

/* Until nothing is awaited any more, by either. */
static void go(struct run *r, uint32_t timeout_ms, uint32_t retries)
{
	uint8_t mad[MAD_BYTES];

	send(r, 0, timeout_ms, retries);
	for (long steps = 0; steps < STEPS_MOST; steps++) {
		wtime next = mad_path_next(&r->path);

		for (int i = 0; i < 2; i++)
			next = wtime_min(next, mad_clients_deadline(&r->end[i].clients));
		if (next == WTIME_NEVER)
			return;
		r->now = next > r->now ? next : r->now;
		if (mad_path_next(&r->path) <= r->now) {
			int to = mad_path_take(&r->path, mad);
			const struct mad_coming at = { .sender = { .lid = (uint16_t)(2 - to), .qpn = 1 } };

			mad_comes(&r->end[to].clients, r->now, &at, mad);
		}
		for (int i = 0; i < 2; i++)
			mad_clients_expire(&r->end[i].clients, r->now);
		if (r->is_due)
			answer(r);
	}
	fail_msg("an exchange without end");
}

static void run_faults(const struct mad_path_config *path, int kind)
{
	struct run r;

	(void)kind;
	begin(&r, path, 4, OFFSET + ROOM * 9 + 77, OFFSET + ROOM * 9 + 1);
	go(&r, 5000, 2);
	/* two faults are few: both have all of it, once, and nothing that comes late is refused */
	if (r.came != 1 || r.answers != 1 || r.failures || r.refusals)
		fail_msg("faults %d at %d and %d at %d: %u requests, %u answers, %u failures, %u refusals", path->fault[0],
			 path->fault_at[0], path->fault[1], path->fault_at[1], r.came, r.answers, r.failures, r.refusals);
	sweep_check(&r.path);
	end(&r);
}

static void every_single_and_double_fault(void **state)
{
	const struct fault_sweep sweep = { .kinds = 1, .datagrams = 36, .hold_ns = 2 * RMPP_ACK_NS,
					   .late_ns = { 3 * WTIME_MS, 2 * RMPP_ACK_NS }, .run = run_faults };

	(void)state;
	sweep_faults(&sweep);
}

/* Of one segment or many, each way. */
static void seeded(uint64_t seed, struct run *r)
{
	struct mad_path_config path = { .seed = seed, .each_ns = 1000, .fault_at = { -1, -1 } };
	struct rand rand;

	rand_seed(&rand, seed);
	path.delay_ns = 1 + rand_below(&rand, 3 * WTIME_MS);
	path.loss_ppm = (uint32_t)rand_below(&rand, 300000);
	path.repeat_ppm = (uint32_t)rand_below(&rand, 300000);
	path.swap_ppm = (uint32_t)rand_below(&rand, 300000);
	path.hold_ns = rand_below(&rand, 8 * RMPP_ACK_NS);
	path.late_ns = rand_below(&rand, 8 * RMPP_ACK_NS);
	begin(r, &path, 1 + (uint32_t)rand_below(&rand, 40), OFFSET + 1 + (uint32_t)rand_below(&rand, ROOM * 20),
	      OFFSET + 1 + (uint32_t)rand_below(&rand, ROOM * 20));
	go(r, 3000, (uint32_t)rand_below(&rand, 3));
}

static void random_runs_end_well(void **state)
{
	unsigned whole = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 100000; seed++) {
		struct run r;

		seeded(seed, &r);
		/* what it asked again may be answered again, which nobody waits for */
		if (r.answers + r.failures != 1 || (r.answers && !r.came))
			fail_msg("seed %lu: %u requests, %u answers, %u failures", (unsigned long)seed, r.came, r.answers,
				 r.failures);
		whole += r.answers;
		end(&r);
	}
	assert_true(whole > 99000);
}

static void the_same_seed_gives_the_same_trace(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct run a, b;

		seeded(seed, &a);
		seeded(seed, &b);
		assert_true(a.path.trace == b.path.trace && a.now == b.now);
		end(&a);
		end(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_single_and_double_fault),
		cmocka_unit_test(random_runs_end_well),
		cmocka_unit_test(the_same_seed_gives_the_same_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
