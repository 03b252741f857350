/* A sender and a receiver of segments, over a path that the input commands: deliver, lose, repeat, change, let time pass. Without
 * a changed datagram what the receiver has whole is what was sent; with one, both stay within their bounds. */
#include "fuzz.h"

#include "mgmt/rmpp.h"

#include <stdbool.h>
#include <string.h>

enum { BYTES_MOST = 20000, MOST = 16384, HELD = 16, STEPS = 3000 };

struct world {
	struct input in;
	struct rmpp_send send;
	struct rmpp_recv recv;
	enum rmpp_verdict out, is_in;
	uint8_t data[BYTES_MOST];
	uint8_t way[2][HELD][MAD_BYTES];	/* to the sender; to the receiver */
	unsigned held[2];
	bool is_changed;
	wtime now;
};

static void put(struct world *w, int to, const uint8_t mad[MAD_BYTES])
{
	if (w->held[to] < HELD)
		memcpy(w->way[to][w->held[to]++], mad, MAD_BYTES);
}

static void check(const struct world *w)
{
	REQUIRE(w->send.acked <= w->send.sent && w->send.sent <= w->send.segments);
	REQUIRE(w->recv.room <= 2 * MOST && w->recv.kept <= w->recv.config.window && w->recv.last <= w->recv.window_last);
	REQUIRE(w->out != RMPP_FAILED || w->send.status);
	REQUIRE(w->is_in != RMPP_FAILED || w->recv.status);
	if (w->is_in != RMPP_DONE)
		return;
	REQUIRE(w->recv.bytes <= MOST && w->recv.bytes <= w->recv.room);
	if (!w->is_changed)
		REQUIRE(w->recv.bytes == w->send.bytes && !memcmp(w->recv.data + 56, w->data + 56, w->recv.bytes - 56));
}

static void deliver(struct world *w, int to, uint8_t mad[MAD_BYTES])
{
	uint8_t reply[MAD_BYTES];
	bool answers = false;

	if (!to && w->out == RMPP_GOES_ON)
		w->out = rmpp_send_input(&w->send, w->now, mad, &answers, reply);
	else if (to && w->is_in == RMPP_GOES_ON)
		w->is_in = rmpp_recv_input(&w->recv, w->now, mad, &answers, reply);
	if (answers)
		put(w, !to, reply);
}

static void step(struct world *w)
{
	uint8_t what = take_byte(&w->in), mad[MAD_BYTES];
	int to = what >> 3 & 1;
	unsigned i = w->held[to] ? (what >> 4) % w->held[to] : 0;

	switch (what % 8) {
	case 0:
		w->now += take_byte(&w->in) * 10 * WTIME_MS;
		if (w->out == RMPP_GOES_ON)
			w->out = rmpp_send_expire(&w->send, w->now, mad);
		if (w->is_in == RMPP_GOES_ON)
			w->is_in = rmpp_recv_expire(&w->recv, w->now, mad);
		break;
	case 1:
		if (w->held[to]) {
			w->way[to][i][take_byte(&w->in) % 64] ^= take_byte(&w->in);
			w->is_changed = true;
		}
		break;
	case 2:		/* it is also repeated */
		if (w->held[to])
			put(w, to, w->way[to][i]);
		break;
	case 3:
	case 4:
		while (w->out == RMPP_GOES_ON && w->held[1] < HELD && rmpp_send_output(&w->send, w->now, mad))
			put(w, 1, mad);
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
	struct world *w = calloc(1, sizeof(*w));
	struct rmpp_config config = { .most = MOST };

	if (!w)
		return 0;
	w->in = (struct input){ data, data + size };
	config.window = take_byte(&w->in) % 32;
	for (size_t i = 0; i < BYTES_MOST; i++)
		w->data[i] = (uint8_t)(i * 7 + i / 251);
	w->data[1] = MAD_CLASS_SA;
	w->data[3] = 0x92;
	rmpp_send_init(&w->send, &config, w->data, 56 + (uint32_t)take(&w->in, 2) % (BYTES_MOST - 56));
	w->send.is_two_sided = config.window & 1;
	rmpp_recv_init(&w->recv, &config);
	for (int i = 0; i < STEPS && w->in.at < w->in.end; i++) {
		step(w);
		check(w);
	}
	rmpp_recv_fini(&w->recv);
	free(w);
	return 0;
}
