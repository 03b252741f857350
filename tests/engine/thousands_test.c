/* Ten thousand nodes with a QP each: random pairs exchange messages over links that lose frames. Arguments: nodes, seed. */
#include "crowd.h"
#include "engine_test.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum {
	ROUNDS = 5, MESSAGE = 3000, MEMORY = 2 * MESSAGE,
#ifdef __SANITIZE_ADDRESS__
	NODE_MOST = 80 << 10,		/* with what the sanitizer puts around each allocation */
#else
	NODE_MOST = 64 << 10,		/* bytes of a node, with what is on its links: 640 MB for ten thousand */
#endif
	FEW = 1000,			/* nodes that lose nothing perhaps */
};

static int nodes = 10000;
static uint64_t first_seed = 1;

struct run {
	struct crowd *crowd;
	struct rand rand;
	int *peer;			/* owned: of each node */
	uint64_t hash;			/* of all that was sent, by whom and when */
};

static void mix(struct run *r, uint64_t value)
{
	r->hash = (r->hash ^ value) * 1099511628211ull;
	r->hash ^= r->hash >> 29;
}

static void note(void *arg, int node, const struct packet *p)
{
	struct run *r = arg;

	mix(r, r->crowd->sim->now);
	mix(r, (uint64_t)node << 32 | p->dest_qpn);
	mix(r, (uint64_t)p->psn << 32 | (uint64_t)p->opcode << 16 | p->payload_bytes);
}

/* Neighbours in a random order of all. */
static void pair_up(struct run *r)
{
	int *order = calloc((size_t)nodes, sizeof(*order));

	r->peer = calloc((size_t)nodes, sizeof(*r->peer));
	assert_non_null(order);
	assert_non_null(r->peer);
	for (int i = 0; i < nodes; i++) {
		int other = (int)rand_below(&r->rand, (uint64_t)i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (int i = 0; i < nodes; i += 2) {
		r->peer[order[i]] = order[i + 1];
		r->peer[order[i + 1]] = order[i];
		crowd_connect(r->crowd, order[i], order[i + 1]);
	}
	free(order);
}

static struct run *start(uint64_t seed)
{
	struct run *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	rand_seed(&r->rand, seed);
	r->crowd = crowd_new(&(struct crowd_config){
		.sim = { .seed = seed, .form = PACKET_ROCE, .nodes = nodes,
			 .link = { .delay_ns = 2 * WTIME_US, .byte_ns = 1, .loss = 10000, .reorder = 2000,
				   .reorder_ns = 10 * WTIME_US } },
		.type = IBV_QPT_RC, .memory_bytes = MEMORY,
	});
	r->crowd->sim->tap = note;
	r->crowd->sim->tap_arg = r;
	pair_up(r);
	return r;
}

static void end(struct run *r)
{
	crowd_delete(r->crowd);
	free(r->peer);
	free(r);
}

static void expect_exchanged(struct run *r, int node, uint32_t bytes)
{
	struct crowd_member *m = &r->crowd->member[node];
	struct cqe cqe[2];

	for (int i = 0; i < 2; i++)
		if (!cq_poll(m->cq, &cqe[i]) || cqe[i].status != IBV_WC_SUCCESS)
			fail_msg("node %d has a completion too few, or one of an error", node);
	assert_int_equal(cqe[0].kind + cqe[1].kind, CQE_SEND + CQE_RECV);
	assert_int_equal(cqe[cqe[1].kind == CQE_RECV].byte_len, bytes);
	assert_true(pattern_holds(m->memory + MESSAGE, bytes, (uint32_t)r->peer[node]));
	assert_false(cq_poll(m->cq, &cqe[0]));
}

/* Both of each pair send at once. */
static void exchange(struct run *r)
{
	struct crowd *crowd = r->crowd;
	uint32_t bytes = 1 + (uint32_t)rand_below(&r->rand, MESSAGE);

	for (int i = 0; i < nodes; i++) {
		pattern_fill(crowd->member[i].memory, bytes, (uint32_t)i);
		assert_int_equal(crowd_recv(crowd, i, MESSAGE, MESSAGE), 0);
		assert_int_equal(crowd_send(crowd, i, r->peer[i], 0, bytes), 0);
	}
	sim_run(crowd->sim, crowd->sim->now + 10 * WTIME_S);
	for (int i = 0; i < nodes; i++)
		expect_exchanged(r, i, bytes);
}

/* The hash, and what the process had taken before the end. */
static uint64_t exchange_all(uint64_t seed, struct rusage *usage)
{
	struct run *r = start(seed);
	const struct sim *sim = r->crowd->sim;
	clock_t began = clock();
	double seconds;
	uint64_t hash;

	for (int round = 0; round < ROUNDS; round++)
		exchange(r);
	seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
	getrusage(RUSAGE_SELF, usage);
	print_message("seed %llu: %d nodes, %llu steps in %.2f s, %.0f ns and %.2f nodes looked at for each; %u lost\n",
		      (unsigned long long)seed, nodes, (unsigned long long)sim->steps, seconds,
		      seconds / (double)sim->steps * 1e9, (double)sim->turns / (double)sim->steps, sim->dropped);
	/* each time sim_run begins it looks at all of them once */
	assert_true(sim->turns <= 3 * sim->steps + (uint64_t)ROUNDS * (uint64_t)nodes);
	assert_true(sim->dropped > 0 || nodes < FEW);
	hash = r->hash;
	end(r);
	return hash;
}

static void thousands_exchange_messages(void **state)
{
	struct rusage before, after;
	uint64_t hash;
	long bytes;

	getrusage(RUSAGE_SELF, &before);
	hash = exchange_all(first_seed, &after);
	bytes = (after.ru_maxrss - before.ru_maxrss) * 1024 / nodes;
	print_message("%ld bytes a node, of which struct sim_node %zu, memory to exchange %d; trace %016llx\n", bytes,
		      sizeof(struct sim_node), MEMORY, (unsigned long long)hash);
	assert_true(bytes < NODE_MOST || nodes < FEW);
}

static void the_same_seed_gives_the_same_trace(void **state)
{
	struct rusage usage;
	int all = nodes;

	nodes = nodes < FEW ? nodes : FEW;
	assert_true(exchange_all(first_seed, &usage) == exchange_all(first_seed, &usage));
	assert_true(exchange_all(first_seed, &usage) != exchange_all(first_seed + 1, &usage));
	nodes = all;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thousands_exchange_messages),
		cmocka_unit_test(the_same_seed_gives_the_same_trace),
	};

	if (argc > 1)
		nodes = (int)strtoul(argv[1], NULL, 0) & ~1;
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
