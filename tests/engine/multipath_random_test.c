/* Seeded random runs of the seed's protocol for several paths (REQUIREMENTS 5.4): 1 to 4 paths, loss up to 20 %, cuts, stalls,
 * numbers of 8 and of 24 bits. Each ends with all done, in order, once, with the right memory at each ordered packet and in the
 * end, or with "no path left" and a prefix of that. Arguments: runs, first seed. */
#include "multipath_run.h"

static unsigned runs = 4000;
static uint64_t first_seed = 1;

static void draw_windows(struct world *w, struct window *v, unsigned chance, wtime longest)
{
	for (int i = 0; i < WINDOWS; i++) {
		if (rand_below(&w->rand, chance))
			continue;
		v[i].from = rand_below(&w->rand, 10 * WTIME_MS);
		v[i].to = v[i].from + rand_below(&w->rand, longest);
		if (rand_below(&w->rand, 20) == 0)
			v[i].to = 10 * WTIME_S;
	}
}

static void draw_paths(struct world *w, unsigned paths)
{
	static const uint32_t loss[] = { 0, 0, 10000, 50000, 200000 };
	unsigned trouble = 2 + (unsigned)rand_below(&w->rand, 20);

	w->loss_ppm = loss[rand_below(&w->rand, 5)];
	w->refusal_ppm = rand_below(&w->rand, 3) ? 0 : 50000;
	for (unsigned i = 0; i < paths; i++) {
		w->delay_ns[i] = 1000 + rand_below(&w->rand, 50000);
		for (int to = 0; to < 2; to++) {
			draw_windows(w, w->way[i][to].cut, trouble, 3 * WTIME_MS);
			draw_windows(w, w->way[i][to].stall, trouble, 4 * WTIME_MS);
		}
		if (rand_below(&w->rand, 2)) {
			memcpy(w->way[i][1].cut, w->way[i][0].cut, sizeof(w->way[i][0].cut));
			memcpy(w->way[i][1].stall, w->way[i][0].stall, sizeof(w->way[i][0].stall));
		}
	}
}

static void draw_config(struct world *w, struct mp_config *c)
{
	mp_config_init(c);
	c->connection = (uint32_t)rand_u64(&w->rand);
	c->width = rand_below(&w->rand, 2) ? 8 : 24;
	c->start = (uint32_t)rand_below(&w->rand, 1ull << c->width);
	c->paths = 1 + (uint8_t)rand_below(&w->rand, 4);
	c->mtu_bytes = 8 + (uint16_t)rand_below(&w->rand, MTU_MOST - 7);
	c->window = 1 + (uint16_t)rand_below(&w->rand, 16);
	c->replay = c->window + (uint16_t)rand_below(&w->rand, 16);
	c->is_fast = rand_below(&w->rand, 2);
	c->flights = 2 + (uint16_t)rand_below(&w->rand, 20);
	c->requests = 1 + (uint16_t)rand_below(&w->rand, 30);
	c->spread = (enum mp_spread)rand_below(&w->rand, 3);
	c->renumbers = rand_below(&w->rand, 4) == 0;
	c->follows_ordered = rand_below(&w->rand, 2);
	c->barrier_tries = 1 + (uint8_t)rand_below(&w->rand, 6);
	c->last_tries = c->barrier_tries + (rand_below(&w->rand, 2) ? 0 : (uint32_t)rand_below(&w->rand, 20));
	c->retries = c->refusals = 200;
	c->timeout_ns = 120 * WTIME_US + rand_below(&w->rand, 200 * WTIME_US);
	c->least_ns = rand_below(&w->rand, 2) ? 20 * WTIME_US : 0;
	c->refusal_ns = 20 * WTIME_US;
	c->probe_ns = 100 * WTIME_US + rand_below(&w->rand, WTIME_MS);
	c->seed = rand_u64(&w->rand);
}

static void draw_ops(struct world *w, const struct mp_config *c)
{
	unsigned ops = 1 + (unsigned)rand_below(&w->rand, rand_below(&w->rand, 4) ? 60 : OPS);
	unsigned bulk = (unsigned)rand_below(&w->rand, 10), cells = 1 + (unsigned)rand_below(&w->rand, MEMORY / 8 - 1);

	while (w->ops < ops) {
		uint32_t bytes = (uint32_t)rand_below(&w->rand, 3u * c->mtu_bytes);
		uint64_t address = 8 * rand_below(&w->rand, cells);
		bool is_unordered = rand_below(&w->rand, 10) < bulk;

		if (address + bytes > MEMORY)
			bytes = (uint32_t)(MEMORY - address);
		switch (rand_below(&w->rand, is_unordered ? 5 : 9)) {
		case 0:
			world_add(w, MP_READ, is_unordered, address, bytes);
			break;
		case 5:
			world_add(w, MP_FETCH_ADD, false, address, 8);
			break;
		case 6:
		case 7:
			world_add(w, MP_SEND, false, 0, bytes);
			break;
		case 8:
			world_add(w, MP_WRITE, false, address, bytes);
			w->op[w->ops - 1].request.ends_ordered = true;
			break;
		default:
			world_add(w, MP_WRITE, is_unordered, address, bytes);
		}
	}
}

static enum mp_status run(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	uint8_t memory[MEMORY];
	struct mp_config c;
	enum mp_status error;

	assert_non_null(w);
	rand_seed(&w->rand, seed);
	draw_config(w, &c);
	draw_paths(w, c.paths);
	draw_ops(w, &c);
	world_expect(w, memory);
	world_begin(w, &c);
	go(w);
	if (!w->violation && w->error && w->error != MP_NO_PATH)
		violate(w, "an error other than that no path is left");
	if (!w->violation && !w->error && memcmp(memory, w->memory, MEMORY))
		violate(w, "final memory");
	if (!w->violation && !w->error && w->next_ordered != w->ops)
		violate(w, "an ordered request that was not executed");
	if (!w->violation && !w->requester.error && w->requester.rqn != w->responder.rsn)	/* MPT-11 */
		violate(w, "numbers that differ in the end");
	if (w->violation)
		fail_msg("seed %llu: %s; %u of %u done at %llu us, status %d", (unsigned long long)seed, w->violation,
			 w->done, w->ops, (unsigned long long)(w->now / WTIME_US), w->error);
	error = w->error;
	world_end(w);
	return error;
}

static void every_run_ends_well(void **state)
{
	unsigned without_path = 0;

	for (unsigned i = 0; i < runs; i++)
		without_path += run(first_seed + i) == MP_NO_PATH;
	printf("%u runs, %u of them ended without a path\n", runs, without_path);
	assert_true(without_path < runs / 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_run_ends_well) };

	if (argc > 1)
		runs = (unsigned)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
