/* A program of the seed profile meets a completion queue that is too small, and `weft qp` and `weft cq` show its contexts and
 * credits meanwhile: S-21, S-23 to S-25. seed_test WEFT, where WEFT is the weft command; runs under weft run --profile seed. */
#include "rc.h"

#include <jansson.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEPTH = 256, MESSAGES = 200, BYTES = 8, SMALL = 4, PATIENCE_MS = 20000 };

static const char *weft;

struct world {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *sent, *received;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	uint64_t memory[DEPTH];
	unsigned events;
};

static struct ibv_qp *make_qp(struct world *w, struct ibv_cq *sent, struct ibv_cq *received)
{
	struct ibv_qp_init_attr init = {
		.send_cq = sent, .recv_cq = received, .cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(w->pd, &init);

	assert_non_null(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.dest_qp_num = peer->qp_num, .timeout = 16, .retry_cnt = 5, .rnr_retry = 7, .min_rnr_timer = 1,
		.max_rd_atomic = 3, .max_dest_rd_atomic = 3,
	};

	assert_int_equal(rc_connect(qp, attr), 0);
}

static void open_world(struct world *w)
{
	w->ctx = device_open(0);
	assert_non_null(w->ctx);
	w->pd = ibv_alloc_pd(w->ctx);
	w->sent = ibv_create_cq(w->ctx, DEPTH, NULL, NULL, 0);
	w->received = ibv_create_cq(w->ctx, SMALL, NULL, NULL, 0);
	assert_true(w->pd && w->sent && w->received);
	w->mr = ibv_reg_mr(w->pd, w->memory, sizeof(w->memory), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(w->mr);
	w->qp[0] = make_qp(w, w->sent, w->sent);
	w->qp[1] = make_qp(w, w->sent, w->received);
	connect_to(w->qp[0], w->qp[1]);
	connect_to(w->qp[1], w->qp[0]);
}

static void close_world(struct world *w)
{
	assert_int_equal(ibv_destroy_qp(w->qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(w->qp[1]), 0);
	assert_int_equal(ibv_dereg_mr(w->mr), 0);
	assert_int_equal(ibv_destroy_cq(w->sent), 0);
	assert_int_equal(ibv_destroy_cq(w->received), 0);
	assert_int_equal(ibv_dealloc_pd(w->pd), 0);
	assert_int_equal(ibv_close_device(w->ctx), 0);
}

/* What `weft WHAT --json` shows of the row of this process in which `member` is `value`. Freed by the caller. */
static json_t *shown(const char *what, const char *member, json_int_t value)
{
	char command[4200];
	json_t *answer, *row, *found = NULL;
	FILE *out;
	size_t i;

	snprintf(command, sizeof(command), "env -u LD_PRELOAD '%s' %s --json %d", weft, what, (int)getpid());
	out = popen(command, "r");
	assert_non_null(out);
	answer = json_loadf(out, 0, NULL);
	assert_int_equal(pclose(out), 0);
	assert_non_null(answer);
	snprintf(command, sizeof(command), "%ss", what);
	json_array_foreach(json_object_get(json_array_get(json_object_get(answer, "processes"), 0), command), i, row) {
		if (json_integer_value(json_object_get(row, member)) == value)
			found = json_incref(row);
	}
	json_decref(answer);
	assert_non_null(found);
	return found;
}

static json_int_t number(const json_t *row, const char *member)
{
	assert_true(json_is_integer(json_object_get(row, member)));
	return json_integer_value(json_object_get(row, member));
}

static void expect_state(const char *state, json_int_t entries, json_int_t waiting, json_int_t kept)
{
	json_t *row = shown("cq", "entries", entries);

	assert_string_equal(json_string_value(json_object_get(row, "state")), state);
	assert_int_equal(number(row, "waiting"), waiting);
	assert_int_equal(number(row, "free_space"), entries - waiting);
	assert_int_equal(number(row, "kept"), kept);
	assert_int_equal(number(row, "users"), 1);
	json_decref(row);
}

static void post_receives(struct world *w, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++) {
		struct ibv_sge sge = { (uintptr_t)&w->memory[i], BYTES, w->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

		assert_int_equal(ibv_post_recv(w->qp[1], &wr, &bad), 0);
	}
}

static void post_sends(struct world *w)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)&w->memory[MESSAGES], BYTES, w->mr->lkey };
		struct ibv_send_wr *bad, wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = i,
		};

		assert_int_equal(ibv_post_send(w->qp[0], &wr, &bad), 0);
	}
}

/* Until the next CQ_ERR of the small queue came, and nothing else. */
static void await_event(struct world *w)
{
	struct pollfd fd = { .fd = w->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_int_equal(ibv_get_async_event(w->ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, w->received);
	ibv_ack_async_event(&event);
	w->events++;
}

static void expect_received(struct world *w, unsigned i)
{
	time_t end = time(NULL) + PATIENCE_MS / 1000;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(w->received, 1, &wc)) == 0)
		assert_true(time(NULL) <= end);
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, i);
	assert_int_equal(wc.imm_data, i);
}

/* IPS-13, IPS-16, IPS-23 to IPS-27: of 256 receives or more, five announced; then the rest. */
static void credits_are_shown(struct world *w)
{
	json_t *row;
	json_int_t capacity;

	post_receives(w, 0, 5);
	row = shown("qp", "qpn", w->qp[1]->qp_num);
	capacity = number(row, "recv_capacity");
	assert_true(capacity >= DEPTH);
	assert_int_equal(number(row, "recv_credits"), capacity - 5);
	assert_int_equal(number(row, "recv_doorbell"), 5);
	assert_int_equal(number(row, "recv_pending"), 5);
	assert_int_equal(number(row, "recv_transfers"), 0);
	assert_int_equal(number(row, "send_credits"), number(row, "send_capacity"));
	assert_int_equal(number(row, "pmtu_bytes"), 1024);
	assert_int_equal(number(row, "retry_limit"), 5);
	assert_int_equal(number(row, "retries"), 0);
	assert_int_equal(number(row, "max_reads"), 3);
	assert_int_equal(number(row, "ack_wait_ns"), 4096LL << 16);
	assert_int_equal(number(row, "window_in_bytes"), 5 * BYTES);
	assert_true(number(row, "window_out_bytes") >= 1024);
	json_decref(row);
	post_receives(w, 5, MESSAGES - 5);
}

static void two_hundred_messages_pass_through_four_entries(void **state)
{
	struct world w = { 0 };
	json_t *row;

	(void)state;
	open_world(&w);
	credits_are_shown(&w);
	expect_state("ok", SMALL, 0, 0);
	post_sends(&w);
	await_event(&w);
	expect_state("full", SMALL, SMALL, 1);
	row = shown("qp", "qpn", w.qp[1]->qp_num);
	assert_int_equal(number(row, "recv_pending"), MESSAGES - 5);
	assert_int_equal(number(row, "messages_received"), 5);
	json_decref(row);
	assert_int_equal(ibv_resize_cq(w.received, 2 * SMALL), 0);
	await_event(&w);
	expect_state("full", 2 * SMALL, 2 * SMALL, 1);
	for (unsigned i = 0; i < MESSAGES; i++)
		expect_received(&w, i);
	expect_state("ok", 2 * SMALL, 0, 0);
	row = shown("qp", "qpn", w.qp[1]->qp_num);
	assert_int_equal(number(row, "recv_credits"), number(row, "recv_capacity"));
	assert_int_equal(number(row, "recv_pending"), 0);
	assert_int_equal(number(row, "recv_doorbell"), MESSAGES);
	assert_int_equal(number(row, "messages_received"), MESSAGES);
	json_decref(row);
	close_world(&w);
}

/* More queue pairs than fit one message of the control protocol. */
static void many_queue_pairs_are_shown(void **state)
{
	enum { MANY = 400 };
	static struct ibv_qp *qp[MANY];
	struct world w = { 0 };

	(void)state;
	open_world(&w);
	for (unsigned i = 0; i < MANY; i++)
		qp[i] = make_qp(&w, w.sent, w.sent);
	json_decref(shown("qp", "qpn", qp[0]->qp_num));
	json_decref(shown("qp", "qpn", qp[MANY / 2]->qp_num));
	json_decref(shown("qp", "qpn", qp[MANY - 1]->qp_num));
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	close_world(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_hundred_messages_pass_through_four_entries), cmocka_unit_test(many_queue_pairs_are_shown),
	};

	if (argc != 2)
		return 2;
	weft = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
