/* The send queue of one of two connected QPs, whose ring the input writes: WQEs byte by byte, before they are announced and while
 * they are under way. The engine's own checks and the sanitizers say what is wrong. */
#include "fuzz.h"
#include "pair.h"

#include "base/log.h"
#include "ib/engine.h"

#include <stddef.h>
#include <string.h>

enum { MEMORY = 16 << 10, MAX_FRAMES = 500, ANNOUNCE = 0, OVERWRITE, RECEIVE, DELIVER, PASS_TIME, DROP, COMMANDS };

static void log_bug_line(void *arg, enum log_level level, const char *line)
{
	abort();
}

static void take_bytes(struct input *in, void *to, size_t bytes)
{
	uint8_t *at = to;

	while (bytes--)
		*at++ = take_byte(in);
}

/* Opcode, counts and keys near those that mean something, the rest as it comes. */
static void write_wqe(struct pair *pair, struct input *in, struct send_wqe *wqe)
{
	uint8_t how = take_byte(in);
	uint32_t segs = how % (pair->config.sges + 1);

	take_bytes(in, wqe, sizeof(*wqe));
	if (how & 0x10)
		wqe->opcode %= SEND_OPS;
	if (how & 0x20)
		wqe->rkey = pair->side[1].mr->key;
	if (how & 0x40)
		wqe->remote_addr = PAIR_IOVA + wqe->remote_addr % MEMORY;
	if (how & 0x80)
		wqe->num_sge = (uint8_t)segs;
	for (uint32_t i = 0; i < segs; i++)
		wqe->seg[i] = (struct wqe_seg){ PAIR_IOVA + take(in, 2) % MEMORY, (uint32_t)take(in, 2), pair->side[0].mr->key };
	if (how & 0x08)
		wqe->length = segs ? wqe->seg[0].length : 0;
}

static void announce(struct pair *pair, struct input *in)
{
	struct qp *qp = pair->side[0].qp;
	struct send_wqe *wqe = qp_send_slot(qp);

	if (!wqe)
		return;
	write_wqe(pair, in, wqe);
	wq_written(&qp->sq.ulp);
	qp_send_ring(qp, pair->sim->now);
}

static void overwrite(struct pair *pair, struct input *in)
{
	struct wq *sq = &pair->side[0].qp->sq;

	write_wqe(pair, in, queue_ring_at(&sq->ulp.ring, take_byte(in) % sq->ulp.ring.capacity));
}

static void obey(struct pair *pair, struct input *in)
{
	switch (take_byte(in) % COMMANDS) {
	case ANNOUNCE:
		announce(pair, in);
		break;
	case OVERWRITE:
		overwrite(pair, in);
		break;
	case RECEIVE:
		(void)pair_recv(pair, 1, 1, (uint32_t)take(in, 2) % MEMORY, (uint32_t)take(in, 2) % MEMORY);
		break;
	case DELIVER:
		for (unsigned n = take_byte(in) % 16; n; n--)
			sim_step(pair->sim);
		break;
	case PASS_TIME:
		sim_advance(pair->sim, (wtime)take(in, 3));
		sim_step(pair->sim);
		break;
	case DROP:
		sim_lose_next(pair->sim);
		break;
	}
}

static void check(struct pair *pair)
{
	struct cqe cqe;

	for (int i = 0; i < 2; i++) {
		while (pair_poll_send(pair, i, &cqe) || pair_poll_recv(pair, i, &cqe))
			;
		wq_check(&pair->side[i].qp->sq);
		wq_check(&pair->side[i].qp->rq);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND, IBV_QPT_UD };
	struct input in = { data, data + bytes };
	uint8_t how = take_byte(&in);
	struct pair_config config = {
		.sim = { .seed = 1, .form = how & 1 ? PACKET_ROCE : PACKET_IB, .arena_bytes = 1 << 20 },
		.type = types[how >> 1 & 3], .mtu = IBV_MTU_256, .memory_bytes = MEMORY, .timeout = 6, .retry_cnt = 2,
		.rnr_retry = 1, .min_rnr_timer = 1, .sends = 4, .unsignaled = how & 8,
	};
	struct pair *pair;

	log_set_sink(log_bug_line, NULL, LOG_ERROR);
	pair = pair_new(&config);
	while (in.at < in.end) {
		obey(pair, &in);
		check(pair);
	}
	for (unsigned n = 0; n < MAX_FRAMES && sim_step(pair->sim); n++)
		;
	check(pair);
	pair_delete(pair);
	return 0;
}
