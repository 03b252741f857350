/* The engine apart from who posts: it finds the doorbells that were rung, and reads them. */
#include "verbs/doorbells.h"

#include "verbs/qp.h"

#include <string.h>

int ca_open_doorbells(struct ca *ca)
{
	uint64_t offset;
	int err = arena_alloc(&ca->arena, sizeof(*ca->doorbells), &offset);

	if (err < 0)
		return err;
	ca->doorbells = (struct doorbells *)(ca->arena.base + offset);
	memset(ca->doorbells, 0, sizeof(*ca->doorbells));
	return 0;
}

/* Receives first: what is sent may come back here. */
static void read_doorbells(struct qp *qp, wtime now)
{
	struct wq_engine *sq = &qp->sq.engine, *rq = &qp->rq.engine;
	uint32_t sends = sq->announced, receives = rq->announced;

	wq_doorbell_read(rq);
	if (rq->announced != receives)
		qp_recv_announced(qp, now);
	wq_doorbell_read(sq);
	if (sq->announced != sends)
		qp_send_announced(qp, now);
}

static void read_word(struct ca *ca, wtime now, unsigned word)
{
	uint64_t bits = atomic_exchange_explicit(&ca->doorbells->word[word], 0, memory_order_acquire);

	for (; bits; bits &= bits - 1) {
		uint32_t first = word * 64 + (unsigned)__builtin_ctzll(bits);

		for (uint32_t handle = first; handle <= ca->qps.slots; handle += DOORBELL_BITS) {
			struct qp *qp = table_get(&ca->qps, handle);

			if (qp)
				read_doorbells(qp, now);
		}
	}
}

void ca_read_doorbells(struct ca *ca, wtime now)
{
	uint64_t words = atomic_exchange_explicit(&ca->doorbells->words, 0, memory_order_acquire);

	ca->now = now;
	for (; words; words &= words - 1)
		read_word(ca, now, (unsigned)__builtin_ctzll(words));
}
