/* Both ends of a transaction of the seed's subnet administration, over a path that the input commands: deliver, lose, repeat,
 * change, let time pass. Without a changed packet what an end has whole is what was sent; with one, both stay within
 * their bounds. */
#include "fuzz.h"

#include "mgmt/transaction.h"

#include <stdbool.h>
#include <string.h>

enum { BYTES_MOST = 20000, MOST = 16384, HELD = 16, STEPS = 3000 };

struct world {
	struct input in;
	struct transaction end[2];
	struct series_config config;
	uint8_t data[BYTES_MOST];
	uint32_t bytes;
	uint8_t way[2][HELD][MAD_BYTES];	/* to the requester; to the SA */
	unsigned held[2];
	bool serves, is_changed;
	wtime now;
};

static void put(struct world *w, int to, const uint8_t mad[MAD_BYTES])
{
	if (w->held[to] < HELD)
		memcpy(w->way[to][w->held[to]++], mad, MAD_BYTES);
}

static void check(const struct world *w)
{
	for (int i = 0; i < 1 + w->serves; i++) {
		const struct transaction *t = &w->end[i];

		REQUIRE(t->in.bytes <= MOST && t->in.room <= 2 * MOST && t->out.acked <= t->out.sent);
		REQUIRE(t->phase <= TXN_FAILED && t->in.asks <= SERIES_TRIES + 1);
		REQUIRE(t->phase >= TXN_DONE || transaction_deadline(t) != WTIME_NEVER);
	}
	if (!w->is_changed && w->end[0].phase == TXN_DONE && !w->end[0].status)
		REQUIRE(w->end[0].in.bytes == w->bytes && !memcmp(w->end[0].in.data, w->data, w->bytes));
	if (!w->is_changed && w->serves && w->end[1].method == TXN_CONFIG && w->end[1].phase == TXN_DONE)
		REQUIRE(w->end[1].in.bytes == w->bytes && !memcmp(w->end[1].in.data, w->data, w->bytes));
}

static void deliver(struct world *w, int to, const uint8_t mad[MAD_BYTES])
{
	if (to && !w->serves)
		w->serves = transaction_serve(&w->end[1], &w->config, w->now, mad);
	if (!to || w->serves)
		transaction_input(&w->end[to], w->now, mad);
}

static void send_some(struct world *w)
{
	uint8_t mad[MAD_BYTES];

	if (w->serves && w->end[1].phase == TXN_PREPARING)
		transaction_answer(&w->end[1], w->now, 0, w->data, w->bytes, true);
	for (int i = 0; i < 1 + w->serves; i++)
		while (w->held[!i] < HELD && transaction_output(&w->end[i], w->now, mad))
			put(w, !i, mad);
}

static void step(struct world *w)
{
	uint8_t what = take_byte(&w->in), mad[MAD_BYTES];
	int to = what >> 3 & 1;
	unsigned i = w->held[to] ? (what >> 4) % w->held[to] : 0;

	switch (what % 8) {
	case 0:
		w->now += take_byte(&w->in) * WTIME_MS / 4;
		for (int k = 0; k < 1 + w->serves; k++)
			transaction_expire(&w->end[k], w->now);
		break;
	case 1:
		if (w->held[to]) {
			w->way[to][i][take_byte(&w->in) % 68] ^= take_byte(&w->in);
			w->is_changed = true;
		}
		break;
	case 2:		/* it is also repeated */
		if (w->held[to])
			put(w, to, w->way[to][i]);
		break;
	case 3:
	case 4:
		send_some(w);
		break;
	default:
		if (!w->held[to])
			break;
		memcpy(mad, w->way[to][i], MAD_BYTES);
		memcpy(w->way[to][i], w->way[to][--w->held[to]], MAD_BYTES);
		if (what % 8 != 7 || what < 128)
			deliver(w, to, mad);
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
	w->in = (struct input){ data, data + size };
	what = take_byte(&w->in);
	w->config = (struct series_config){ .subnet_timeout = 10, .response_time = 8, .retries = what >> 2, .most = MOST,
					    .is_lsb_first = what >> 6 & 1, .heeds_window = what >> 7 };
	head[3] = methods[what & 3];
	for (size_t i = 0; i < BYTES_MOST; i++)
		w->data[i] = (uint8_t)(i * 7 + i / 251);
	w->bytes = 1 + (uint32_t)take(&w->in, 2) % (BYTES_MOST - 1);
	if (head[3] == TXN_CONFIG)
		transaction_configure(&w->end[0], &w->config, 0, head, w->data, w->bytes);
	else
		transaction_ask(&w->end[0], &w->config, 0, head, take_byte(&w->in));
	for (int i = 0; i < STEPS && w->in.at < w->in.end; i++) {
		step(w);
		check(w);
	}
	transaction_fini(&w->end[0]);
	if (w->serves)
		transaction_fini(&w->end[1]);
	free(w);
	return 0;
}
