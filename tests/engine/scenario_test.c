/* One message, one thing going wrong, and what must come of it. Masks count the frames of a side from bit 0. Frames take
 * 1 us; the ACK timeout is 262 us (code 6), a probe comes after 200 us, and
 * 200 us after its answer what did not arrive is sent again; the RNR timer is 10 us. */
#include "traffic.h"

enum { MTU = 1024, NEVER = 8 };

struct scenario {
	const char *name;
	enum ibv_qp_type type;		/* [RC] */
	enum ibv_wr_opcode op;
	uint32_t bytes, mtu;		/* mtu [MTU] */
	uint32_t drop, duplicate, swap, corrupt;	/* the requester's frames */
	uint32_t drop_answer, duplicate_answer, swap_answer;
	unsigned late_receive_us;	/* the receive is posted only then */
	uint8_t rnr_retry, retry_cnt;	/* [7], NEVER: 0 */
	bool selective;			/* both ends repeat selectively */
	bool deaf;			/* the responder hears nothing */
	enum ibv_wc_status expect;
	unsigned resent;		/* requests beyond the first round */
	unsigned done_by_us;
};

#define SCENARIO(name_, ...) { .name = #name_, __VA_ARGS__ },
#define WRITE IBV_WR_RDMA_WRITE
#define SEND IBV_WR_SEND
#define READ IBV_WR_RDMA_READ

static const struct scenario scenarios[] = {
	SCENARIO(write_of_nothing,		.op = WRITE, .bytes = 0, .done_by_us = 3)
	SCENARIO(write_of_one_byte,		.op = WRITE, .bytes = 1, .done_by_us = 3)
	SCENARIO(write_of_an_mtu,		.op = WRITE, .bytes = 1024, .done_by_us = 3)
	SCENARIO(write_of_an_mtu_and_one,	.op = WRITE, .bytes = 1025, .done_by_us = 3)
	SCENARIO(write_of_ten_mtus,		.op = WRITE, .bytes = 10240, .done_by_us = 3)
	SCENARIO(send_of_nothing,		.op = SEND, .bytes = 0, .done_by_us = 3)
	SCENARIO(send_of_ten_mtus,		.op = SEND, .bytes = 10240, .done_by_us = 3)
	SCENARIO(read_of_nothing,		.op = READ, .bytes = 0, .done_by_us = 3)
	SCENARIO(read_of_ten_mtus,		.op = READ, .bytes = 10240, .done_by_us = 3)
	SCENARIO(write_beyond_the_window,	.op = WRITE, .bytes = 100000, .mtu = 256, .done_by_us = 20)

	SCENARIO(write_loses_first,	.op = WRITE, .bytes = 4096, .drop = 0x1, .resent = 4, .done_by_us = 6)
	SCENARIO(write_loses_middle,	.op = WRITE, .bytes = 4096, .drop = 0x2, .resent = 3, .done_by_us = 6)
	SCENARIO(write_loses_last,	.op = WRITE, .bytes = 4096, .drop = 0x8, .resent = 2, .done_by_us = 410)
	SCENARIO(write_loses_all,	.op = WRITE, .bytes = 4096, .drop = 0xf, .resent = 4, .done_by_us = 410)
	SCENARIO(write_loses_ack,	.op = WRITE, .bytes = 4096, .drop_answer = 0x1, .resent = 1, .done_by_us = 210)
	SCENARIO(write_loses_nak,	.op = WRITE, .bytes = 4096, .drop = 0x2, .drop_answer = 0x1, .resent = 4,
		 .done_by_us = 410)
	SCENARIO(write_spoiled,		.op = WRITE, .bytes = 4096, .corrupt = 0x2, .resent = 3, .done_by_us = 6)
	SCENARIO(write_doubled,		.op = WRITE, .bytes = 4096, .duplicate = 0xf, .done_by_us = 4)
	SCENARIO(write_swapped,		.op = WRITE, .bytes = 4096, .swap = 0x2, .resent = 5, .done_by_us = 6)
	SCENARIO(ack_doubled,		.op = WRITE, .bytes = 4096, .duplicate_answer = 0x1, .done_by_us = 4)
	SCENARIO(send_loses_first,	.op = SEND, .bytes = 4096, .drop = 0x1, .resent = 4, .done_by_us = 6)
	SCENARIO(send_loses_ack,	.op = SEND, .bytes = 4096, .drop_answer = 0x1, .resent = 1, .done_by_us = 210)

	SCENARIO(selective_loses_first,	.op = WRITE, .bytes = 4096, .drop = 0x1, .resent = 1, .done_by_us = 6, .selective = true)
	SCENARIO(selective_loses_middle, .op = WRITE, .bytes = 4096, .drop = 0x4, .resent = 1, .done_by_us = 6, .selective = true)
	SCENARIO(selective_loses_two,	.op = SEND, .bytes = 8192, .drop = 0x12, .resent = 2, .done_by_us = 6, .selective = true)
	SCENARIO(selective_loses_last,	.op = WRITE, .bytes = 4096, .drop = 0x8, .resent = 2, .done_by_us = 410,
		 .selective = true)
	SCENARIO(selective_loses_end,	.op = SEND, .bytes = 4096, .drop = 0xe, .resent = 4, .done_by_us = 410, .selective = true)
	SCENARIO(selective_loses_its_ack, .op = WRITE, .bytes = 4096, .drop = 0x2, .drop_answer = 0x2, .resent = 1,
		 .done_by_us = 410, .selective = true)
	SCENARIO(selective_swapped,	.op = WRITE, .bytes = 4096, .swap = 0x2, .done_by_us = 6, .selective = true)
	SCENARIO(selective_doubled,	.op = SEND, .bytes = 4096, .duplicate = 0xf, .done_by_us = 4, .selective = true)
	SCENARIO(selective_gives_up_waiting, .op = SEND, .bytes = 2000, .late_receive_us = 1000, .rnr_retry = 2, .resent = 2,
		 .expect = IBV_WC_RNR_RETRY_EXC_ERR, .done_by_us = 40, .selective = true)

	SCENARIO(read_loses_request,		.op = READ, .bytes = 4096, .drop = 0x1, .resent = 1, .done_by_us = 210)
	SCENARIO(read_loses_first_response,	.op = READ, .bytes = 4096, .drop_answer = 0x1, .resent = 1, .done_by_us = 6)
	SCENARIO(read_loses_middle_response,	.op = READ, .bytes = 4096, .drop_answer = 0x2, .resent = 1, .done_by_us = 6)
	SCENARIO(read_loses_two_responses,	.op = READ, .bytes = 4096, .drop_answer = 0x5, .resent = 1, .done_by_us = 6)
	SCENARIO(read_loses_last_response,	.op = READ, .bytes = 4096, .drop_answer = 0x8, .resent = 1, .done_by_us = 210)
	SCENARIO(read_response_swapped,		.op = READ, .bytes = 4096, .swap_answer = 0x2, .resent = 2, .done_by_us = 6)
	SCENARIO(read_doubled,			.op = READ, .bytes = 4096, .duplicate = 0x1, .done_by_us = 5)
	SCENARIO(atomic_loses_request,	.op = IBV_WR_ATOMIC_FETCH_AND_ADD, .drop = 0x1, .resent = 1, .done_by_us = 210)
	SCENARIO(atomic_loses_answer,	.op = IBV_WR_ATOMIC_FETCH_AND_ADD, .drop_answer = 0x1, .resent = 1, .done_by_us = 210)
	SCENARIO(atomic_doubled,	.op = IBV_WR_ATOMIC_CMP_AND_SWP, .duplicate = 0x1, .done_by_us = 4)
	SCENARIO(atomic_write_loses_answer, .op = IBV_WR_ATOMIC_WRITE, .drop_answer = 0x1, .resent = 1, .done_by_us = 300)

	SCENARIO(send_waits_for_a_receive,	.op = SEND, .bytes = 2000, .late_receive_us = 100, .resent = 18,
		 .done_by_us = 120)
	SCENARIO(imm_waits_for_a_receive,	.op = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 2000, .late_receive_us = 25,
		 .resent = 2, .done_by_us = 40)
	SCENARIO(send_gives_up_waiting,		.op = SEND, .bytes = 2000, .late_receive_us = 1000, .rnr_retry = 2, .resent = 4,
		 .expect = IBV_WC_RNR_RETRY_EXC_ERR, .done_by_us = 40)
	SCENARIO(send_never_waits,		.op = SEND, .bytes = 2000, .late_receive_us = 1000, .rnr_retry = NEVER,
		 .expect = IBV_WC_RNR_RETRY_EXC_ERR, .done_by_us = 4)
	SCENARIO(nobody_hears,			.op = WRITE, .bytes = 2000, .deaf = true, .retry_cnt = 3, .resent = 10,
		 .expect = IBV_WC_RETRY_EXC_ERR, .done_by_us = 1100)
	SCENARIO(nobody_hears_and_no_retry,	.op = READ, .bytes = 2000, .deaf = true, .retry_cnt = NEVER,
		 .expect = IBV_WC_RETRY_EXC_ERR, .done_by_us = 300)

	SCENARIO(xrc_write_loses_middle, .type = IBV_QPT_XRC_SEND, .op = WRITE, .bytes = 4096, .drop = 0x2, .resent = 3,
		 .done_by_us = 6)
	SCENARIO(xrc_send_loses_ack, .type = IBV_QPT_XRC_SEND, .op = SEND, .bytes = 4096, .drop_answer = 0x1, .resent = 1,
		 .done_by_us = 210)
	SCENARIO(xrc_read_loses_response, .type = IBV_QPT_XRC_SEND, .op = READ, .bytes = 4096, .drop_answer = 0x2, .resent = 1,
		 .done_by_us = 6)
	SCENARIO(xrc_send_waits, .type = IBV_QPT_XRC_SEND, .op = SEND, .bytes = 100, .late_receive_us = 25, .resent = 3,
		 .done_by_us = 40)
};

struct counts {
	unsigned frames[2];
};

static void count(void *arg, int node, const struct packet *p)
{
	((struct counts *)arg)->frames[node]++;
}

static void add_faults(struct sim *sim, enum sim_fault_kind kind, int node, uint32_t mask)
{
	for (uint32_t nth = 0; nth < 32; nth++)
		if (mask & 1u << nth)
			sim_fault_add(sim, kind, node, nth);
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	return (enum ibv_mtu)__builtin_ctz(bytes / 128);
}

static uint32_t mtu_of(const struct scenario *s)
{
	return s->mtu ? s->mtu : MTU;
}

static uint8_t limit_of(uint8_t told)
{
	return told == NEVER ? 0 : told ? told : 7;
}

static unsigned packets_of(const struct scenario *s)
{
	bool one = s->op == READ || s->op >= IBV_WR_ATOMIC_CMP_AND_SWP || s->bytes <= mtu_of(s);

	return one ? 1 : (s->bytes + mtu_of(s) - 1) / mtu_of(s);
}

static void play(const struct scenario *s)
{
	struct pair_config config = {
		.sim = { .seed = 1, .link = { .delay_ns = 1000 } }, .type = s->type, .mtu = mtu_code(mtu_of(s)),
		.memory_bytes = 256 << 10, .psn = { 0xfffffe, 0x7ffffe }, .timeout = 6, .min_rnr_timer = 1,
		.retry_cnt = limit_of(s->retry_cnt), .rnr_retry = limit_of(s->rnr_retry), .options = ib_default_options,
	};
	struct counts counts = { { 0 } };
	struct traffic t;
	wtime start;

	config.options.selective_repeat = s->selective;
	traffic_init(&t, pair_new(&config));
	add_faults(t.pair->sim, SIM_DROP, 0, s->drop);
	add_faults(t.pair->sim, SIM_DUPLICATE, 0, s->duplicate);
	add_faults(t.pair->sim, SIM_SWAP, 0, s->swap);
	add_faults(t.pair->sim, SIM_CORRUPT, 0, s->corrupt);
	add_faults(t.pair->sim, SIM_DROP, 1, s->drop_answer);
	add_faults(t.pair->sim, SIM_DUPLICATE, 1, s->duplicate_answer);
	add_faults(t.pair->sim, SIM_SWAP, 1, s->swap_answer);
	t.pair->sim->tap = count;
	t.pair->sim->tap_arg = &counts;
	t.pair->side[1].node->deaf = s->deaf;
	start = t.pair->sim->now;

	assert_true(traffic_add(&t, 0, s->op, s->bytes, IBV_SEND_SIGNALED, 5));
	if (!s->late_receive_us)
		traffic_post_receive(&t, 1);
	assert_true(traffic_post(&t, 0));
	if (s->late_receive_us) {
		sim_run(t.pair->sim, start + s->late_receive_us * WTIME_US);
		traffic_post_receive(&t, 1);
	}
	pair_run(t.pair);
	if (traffic_settle(&t) != (s->expect == IBV_WC_SUCCESS) || t.fault || (t.side[0].failed && t.side[0].status != s->expect))
		fail_msg("%s: %s, status %u", s->name, t.fault ? t.fault : "wrong end", t.side[0].status);
	if (t.pair->sim->now - start > s->done_by_us * WTIME_US && s->late_receive_us < 1000)
		fail_msg("%s: took %llu ns", s->name, (unsigned long long)(t.pair->sim->now - start));
	if (counts.frames[0] != packets_of(s) + s->resent)
		fail_msg("%s: %u packets sent again", s->name, counts.frames[0] - packets_of(s));
	pair_delete(t.pair);
}

static void scenarios_end_as_told(void **state)
{
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		play(&scenarios[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(scenarios_end_as_told) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
