/* What leaves when, and from where: posting order, fences, the initiator depth, the window, and that it does not matter how the
 * data of a packet was handed over. SAN-17, SAN-19, SAN-22, SAN-32, MSN-01, MSN-39, IPS-14, IPS-32. */
#include "engine_test.h"

#include "wire/opcode.h"
#include "wire/packet.h"

#include <errno.h>
#include <pthread.h>

enum { NOTED = 256, NOTED_BYTES = 64 << 10 };

/* The frames of node 0, and what node 1 answered, in one order. */
struct notes {
	struct { int node; enum opcode_op op; uint32_t imm; psn_t psn; } packet[NOTED];
	unsigned packets;
	uint8_t bytes[NOTED_BYTES];
	size_t used;
};

static void note(void *arg, int node, const struct packet *p)
{
	struct notes *notes = arg;
	const struct opcode_row *row = opcode_row(p->opcode);

	assert_true(notes->packets < NOTED);
	notes->packet[notes->packets].node = node;
	notes->packet[notes->packets].op = row->op;
	notes->packet[notes->packets].psn = p->psn;
	notes->packet[notes->packets++].imm = row->headers & HDR_IMM ? p->imm : 0;
	if (node == 0 && notes->used + PACKET_MAX_BYTES <= NOTED_BYTES)
		notes->used += packet_build(p, notes->bytes + notes->used, PACKET_MAX_BYTES);
}

static struct pair *start(struct notes *notes, const struct pair_config *config)
{
	struct pair *pair = pair_new(config);

	*notes = (struct notes){ 0 };
	pair->sim->tap = note;
	pair->sim->tap_arg = notes;
	return pair;
}

/* Where the first packet of that node and operation stands. */
static unsigned find(const struct notes *notes, int node, enum opcode_op op)
{
	for (unsigned i = 0; i < notes->packets; i++)
		if (notes->packet[i].node == node && notes->packet[i].op == op)
			return i;
	fail();
	return 0;
}

/* Who takes the WQEs from the queue: the thread that posts them, each as it is posted; the same, once all are there; another
 * thread, at the same time, as the host's lock lets it in. */
enum executor { EXECUTOR_POSTER, EXECUTOR_LATER, EXECUTOR_OTHER, EXECUTORS };

struct execution {
	struct pair *pair;
	pthread_mutex_t lock;
	bool all_posted;
};

static void *execute(void *arg)
{
	struct execution *e = arg;
	bool done = false;

	while (!done) {
		pthread_mutex_lock(&e->lock);
		done = !sim_step(e->pair->sim) && e->all_posted;
		pthread_mutex_unlock(&e->lock);
	}
	return NULL;
}

static void post_tagged(struct pair *pair, uint32_t i)
{
	struct ibv_send_wr *bad, wr = { .wr_id = i, .opcode = i % 3 ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM,
					.imm_data = htobe32(i), .wr.rdma = { PAIR_IOVA, pair->side[1].mr->key } };

	assert_int_equal(qp_post_send(pair->side[0].qp, pair->sim->now, &wr, &bad), 0);
}

static void requests_start_in_posting_order(void **state)
{
	for (enum executor executor = 0; executor < EXECUTORS; executor++) {
		struct pair_config config = { .sends = 128, .recvs = 128, .retry_cnt = 7 };
		struct notes notes;
		struct execution e = { .pair = start(&notes, &config), .lock = PTHREAD_MUTEX_INITIALIZER };
		pthread_t thread;
		uint32_t seen = 0;

		for (uint32_t i = 0; i < 100; i++)
			assert_int_equal(pair_recv(e.pair, 1, i, 1024, 64), 0);
		if (executor == EXECUTOR_OTHER)
			assert_int_equal(pthread_create(&thread, NULL, execute, &e), 0);
		for (uint32_t i = 0; i < 100; i++) {
			pthread_mutex_lock(&e.lock);
			post_tagged(e.pair, i);
			if (executor == EXECUTOR_POSTER)
				sim_pump(e.pair->sim);
			e.all_posted = i == 99;
			pthread_mutex_unlock(&e.lock);
		}
		if (executor == EXECUTOR_OTHER)
			pthread_join(thread, NULL);
		pair_run(e.pair);
		for (unsigned i = 0; i < notes.packets; i++)
			if (notes.packet[i].node == 0)
				assert_int_equal(notes.packet[i].imm, seen++);
		assert_int_equal(seen, 100);
		for (unsigned i = 0; i < 100; i++)
			expect_sent(e.pair, 0, i, IBV_WC_SUCCESS);
		pair_delete(e.pair);
	}
}

/* Answers wait for the consumer (SAN-31); then those to a read leave before the ACK of the send behind it, which covers them. */
static void an_ack_stays_behind_the_responses_that_it_covers(void **state)
{
	struct pair_config config = { .retry_cnt = 7, .timeout = 20, .options = ib_default_options };
	unsigned responses = 0, acks = 0;
	struct notes notes;
	struct pair *pair;

	config.options.ack_when_consumed = true;
	pair = start(&notes, &config);
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(pair_recv(pair, 1, i, 1024, 64), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 64 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .bytes = 8192 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_SEND, .bytes = 64 });
	sim_run(pair->sim, pair->sim->now + WTIME_MS);
	for (unsigned i = 0; i < notes.packets; i++)
		assert_int_equal(notes.packet[i].node, 0);
	for (uint64_t i = 0; i < 2; i++)
		expect_received(pair, 1, i, IBV_WC_SUCCESS);
	pair_run(pair);
	for (unsigned i = 0; i < notes.packets; i++) {
		responses += notes.packet[i].node == 1 && notes.packet[i].op == OP_READ_RESPONSE;
		acks += notes.packet[i].node == 1 && notes.packet[i].op == OP_ACK;
		assert_true(acks == 0 || responses == 8);
	}
	assert_int_equal(acks, 1);
	for (uint64_t i = 1; i <= 3; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* IPS-32: a send behind a read leaves at once; with the fence it waits for the answer. */
static void a_fence_waits_for_reads(void **state)
{
	for (int fenced = 0; fenced < 2; fenced++) {
		struct pair_config config = { .retry_cnt = 7 };
		struct notes notes;
		struct pair *pair = start(&notes, &config);
		struct pair_wr read = { .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 64 };
		struct pair_wr send = { .wr_id = 2, .opcode = IBV_WR_SEND, .bytes = 64, .flags = fenced ? IBV_SEND_FENCE : 0 };

		assert_int_equal(pair_recv(pair, 1, 3, 1024, 64), 0);
		post_wr(pair, 0, read);
		post_wr(pair, 0, send);
		pair_run(pair);
		assert_int_equal(find(&notes, 0, OP_SEND) > find(&notes, 1, OP_READ_RESPONSE), fenced);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
		pair_delete(pair);
	}
}

/* IPS-13, IPS-14: as many reads are outstanding as the initiator depth says, and the next is held. SAN-22: each answer goes
 * where its own request said. */
static void reads_beyond_the_depth_are_held(void **state)
{
	for (uint8_t depth = 1; depth <= 3; depth++) {
		struct pair_config config = { .retry_cnt = 7, .rd_atomic = depth };
		struct notes notes;
		struct pair *pair = start(&notes, &config);

		pattern_fill(pair->side[1].memory, 4096, 5);
		for (uint32_t i = 0; i < 4; i++) {
			struct pair_wr wr = { .wr_id = i, .opcode = IBV_WR_RDMA_READ, .local = (3 - i) * 1024, .remote = i * 1024,
					      .bytes = 1024 };

			post_wr(pair, 0, wr);
		}
		pair_run(pair);
		assert_int_equal(find(&notes, 1, OP_READ_RESPONSE), depth);
		for (uint32_t i = 0; i < 4; i++) {
			expect_sent(pair, 0, i, IBV_WC_SUCCESS);
			assert_memory_equal(pair->side[0].memory + (3 - i) * 1024, pair->side[1].memory + i * 1024, 1024);
		}
		pair_delete(pair);
	}
}

/* SAN-32: the number of packets without an acknowledgement is fixed before the connection. */
static void requests_beyond_the_window_are_held(void **state)
{
	struct pair_config config = { .retry_cnt = 7, .options = ib_default_options };
	struct notes notes;
	struct pair *pair;

	config.options.window_pkts = 4;
	pair = start(&notes, &config);
	for (uint32_t i = 0; i < 6; i++) {
		struct pair_wr wr = { .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 };

		post_wr(pair, 0, wr);
	}
	assert_int_equal(notes.packets, 4);
	assert_int_equal(ib_set_options(pair->side[0].qp, &config.options), -EINVAL);
	pair_run(pair);
	for (uint32_t i = 0; i < 6; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* MSN-01, MSN-39, SAN-19: the data handed over with the request (inline), or read from 1 to 4 pieces of registered memory,
 * makes the same frames; one piece more than the queue takes is refused. */
static void feeding_does_not_show_in_the_frames(void **state)
{
	static struct notes first, notes;

	for (uint32_t pieces = 0; pieces <= 4; pieces++) {
		struct pair_config config = { .retry_cnt = 7, .mtu = IBV_MTU_256, .sim = { .seed = 1 } };
		struct pair *pair = start(&notes, &config);
		struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 127, .remote = 2048, .pieces = pieces };
		struct pair_wr large = {
			.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1001, .remote = 4096, .pieces = pieces,
		};

		pattern_fill(pair->side[0].memory, 1001, 9);
		if (!pieces) {	/* inline data is the program's address */
			struct ibv_sge sge = { (uintptr_t)pair->side[0].memory, 127, 0 };
			struct ibv_send_wr *bad, raw = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
							 .send_flags = IBV_SEND_INLINE };

			raw.wr.rdma.remote_addr = PAIR_IOVA + 2048;
			raw.wr.rdma.rkey = pair->side[1].mr->key;
			assert_int_equal(qp_post_send(pair->side[0].qp, pair->sim->now, &raw, &bad), 0);
			sim_pump(pair->sim);
		} else {
			post_wr(pair, 0, wr);
		}
		post_wr(pair, 0, large);
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[1].memory + 2048, 127, 9));
		assert_true(pattern_holds(pair->side[1].memory + 4096, 1001, 9));
		if (!pieces)
			first = notes;
		assert_int_equal(notes.used, first.used);
		assert_memory_equal(notes.bytes, first.bytes, first.used);
		wr.pieces = 5;
		assert_int_equal(pair_send(pair, 0, &wr), -EINVAL);
		pair_delete(pair);
	}
}

/* Side 1 has taken in a send, and its program polls. */
static struct pair *start_polled(struct notes *notes)
{
	struct pair *pair = start(notes, &(struct pair_config){ .retry_cnt = 7 });

	pair->side[1].node->ca.acks.postpones = true;
	for (uint64_t i = 1; i <= 17; i++) {
		assert_int_equal(pair_recv(pair, 1, i, 1024, 64), 0);
		assert_int_equal(pair_recv(pair, 0, i, 8192, 2048), 0);
	}
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 64 });
	assert_true(sim_step(pair->sim));
	expect_received(pair, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(notes->packets, 1);
	return pair;
}

/* What the program answers is not made to wait for the ACK, which leaves behind it at once; the rest of a burst follows. */
static void a_withheld_ack_goes_behind_the_first_request(void **state)
{
	static const enum opcode_op wanted[] = { OP_SEND, OP_SEND, OP_ACK, OP_SEND };
	static struct notes notes;
	struct pair *pair = start_polled(&notes);
	struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 2048 };

	assert_int_equal(pair_send(pair, 1, &wr), 0);
	sim_pump(pair->sim);
	assert_int_equal(notes.packets, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(notes.packet[i].op, wanted[i]);
	assert_false(ca_release_acks(&pair->side[1].node->ca));
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	pair_delete(pair);
}

static void a_poll_releases_a_withheld_ack(void **state)
{
	static struct notes notes;
	struct pair *pair = start_polled(&notes);

	assert_true(ca_release_acks(&pair->side[1].node->ca));
	sim_pump(pair->sim);
	assert_int_equal(notes.packets, 2);
	assert_int_equal(notes.packet[1].op, OP_ACK);
	assert_false(ca_release_acks(&pair->side[1].node->ca));
	pair_delete(pair);
}

/* Whoever asks again did not hear it, and a burst of messages is not left without any. */
static void an_ack_is_not_withheld_for_long(void **state)
{
	static struct notes notes;
	struct pair *pair = start_polled(&notes);

	pair_run(pair);		/* the probe's duplicate is answered */
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	for (uint64_t i = 2; i <= 17; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .bytes = 64 });
	notes.packets = 0;
	for (unsigned i = 0; i < 16; i++)
		assert_true(sim_step(pair->sim));
	assert_int_equal(notes.packet[notes.packets - 1].op, OP_ACK);
	pair_delete(pair);
}

/* Nor is that of a write, to which no program answers. */
static void the_ack_of_a_write_is_not_withheld(void **state)
{
	static struct notes notes;
	struct pair *pair = start_polled(&notes);

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 });
	assert_true(sim_step(pair->sim));
	sim_pump(pair->sim);
	assert_int_equal(notes.packet[notes.packets - 1].op, OP_ACK);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_start_in_posting_order),
		cmocka_unit_test(a_fence_waits_for_reads),
		cmocka_unit_test(an_ack_stays_behind_the_responses_that_it_covers),
		cmocka_unit_test(reads_beyond_the_depth_are_held),
		cmocka_unit_test(requests_beyond_the_window_are_held),
		cmocka_unit_test(feeding_does_not_show_in_the_frames),
		cmocka_unit_test(a_withheld_ack_goes_behind_the_first_request),
		cmocka_unit_test(a_poll_releases_a_withheld_ack),
		cmocka_unit_test(an_ack_is_not_withheld_for_long),
		cmocka_unit_test(the_ack_of_a_write_is_not_withheld),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
