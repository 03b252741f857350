/* Both ends of a transaction of the seed's subnet administration, over a path that the input commands: deliver, lose, repeat,
 * change, let time pass. Without a changed packet what an end has whole is what was sent; with one, both stay within
 * their bounds. */
#include "mad_way.h"

#include "mgmt/transaction.h"


enum { BYTES_MOST = 20000, MOST = 16384, STEPS = 3000 };

struct world {
	struct transaction end[2];
	struct series_config config;
	uint8_t data[BYTES_MOST];
	uint32_t bytes;
	bool serves;
	struct mad_way way;	/* 0: to the requester, 1: to the SA */
};

static void check(const struct world *w)
{
	for (int i = 0; i < 1 + w->serves; i++) {
		const struct transaction *t = &w->end[i];

		REQUIRE(t->in.bytes <= MOST && t->in.room <= 2 * MOST && t->out.acked <= t->out.sent);
		REQUIRE(t->phase <= TXN_FAILED && t->in.asks <= SERIES_TRIES + 1);
		REQUIRE(t->phase >= TXN_DONE || transaction_deadline(t) != WTIME_NEVER);
	}
	if (!w->way.is_changed && w->end[0].phase == TXN_DONE && !w->end[0].status)
		REQUIRE(w->end[0].in.bytes == w->bytes && !memcmp(w->end[0].in.data, w->data, w->bytes));
	if (!w->way.is_changed && w->serves && w->end[1].method == TXN_CONFIG && w->end[1].phase == TXN_DONE)
		REQUIRE(w->end[1].in.bytes == w->bytes && !memcmp(w->end[1].in.data, w->data, w->bytes));
}

static void deliver(struct world *w, int to, const uint8_t mad[MAD_BYTES])
{
	if (to && !w->serves)
		w->serves = transaction_serve(&w->end[1], &w->config, w->way.now, mad);
	if (!to || w->serves)
		transaction_input(&w->end[to], w->way.now, mad);
}

static void send_some(struct world *w)
{
	uint8_t mad[MAD_BYTES];

	if (w->serves && w->end[1].phase == TXN_PREPARING)
		transaction_answer(&w->end[1], w->way.now, 0, w->data, w->bytes, true);
	for (int i = 0; i < 1 + w->serves; i++)
		while (w->way.held[!i] < MAD_WAY_HELD && transaction_output(&w->end[i], w->way.now, mad))
			mad_way_put(&w->way, !i, mad);
}

static void step(struct world *w)
{
	uint8_t mad[MAD_BYTES];
	int to;

	switch (mad_way_step(&w->way, WTIME_MS / 4, 68, &to, mad)) {
	case MAD_WAY_NOTHING:
		break;
	case MAD_WAY_TIME:
		for (int i = 0; i < 1 + w->serves; i++)
			transaction_expire(&w->end[i], w->way.now);
		break;
	case MAD_WAY_SEND:
		send_some(w);
		break;
	case MAD_WAY_ARRIVED:
		deliver(w, to, mad);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t methods[] = { TXN_GET_TABLE, TXN_GET_BULK, TXN_CONFIG, TXN_CONFIG };
	uint8_t head[SERIES_HEAD] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION };
	struct world *w = calloc(1, sizeof(*w));
	uint8_t what;

	if (!w)
		return 0;
	w->way.in = (struct input){ data, data + size };
	what = take_byte(&w->way.in);
	w->config = (struct series_config){ .subnet_timeout = 10, .response_time = 8, .retries = what >> 2, .most = MOST,
					    .is_lsb_first = what >> 6 & 1, .heeds_window = what >> 7 };
	head[3] = methods[what & 3];
	for (size_t i = 0; i < BYTES_MOST; i++)
		w->data[i] = (uint8_t)(i * 7 + i / 251);
	w->bytes = 1 + (uint32_t)take(&w->way.in, 2) % (BYTES_MOST - 1);
	if (head[3] == TXN_CONFIG)
		transaction_configure(&w->end[0], &w->config, 0, head, w->data, w->bytes);
	else
		transaction_ask(&w->end[0], &w->config, 0, head, take_byte(&w->way.in));
	for (int i = 0; i < STEPS && w->way.in.at < w->way.in.end; i++) {
		step(w);
		check(w);
	}
	transaction_fini(&w->end[0]);
	if (w->serves)
		transaction_fini(&w->end[1]);
	free(w);
	return 0;
}
