/* A sender and a receiver of segments, over a path that the input commands: deliver, lose, repeat, change, let time pass. What
 * is sent is all there, or made meanwhile by pieces that the input chooses. Without a changed datagram what the receiver has
 * whole is what was sent; with one, both stay within their bounds. */
#include "mad_way.h"

#include "base/list.h"
#include "mgmt/mad_source.h"
#include "mgmt/rmpp.h"

enum { BYTES_MOST = 20000, MOST = 16384, STEPS = 3000 };

struct world {
	struct rmpp_send send;
	struct rmpp_recv recv;
	enum rmpp_verdict out, is_in;
	uint8_t data[BYTES_MOST];
	uint32_t bytes;
	struct mad_way way;	/* 0: to the sender, 1: to the receiver */
	struct mad_source source;
	struct mad_flow flow;
	uint8_t *at_hand;	/* NULL: data is there */
	uint32_t given;
};

static enum mad_given give(struct mad_source *s, uint8_t *to, uint32_t room, uint32_t *bytes)
{
	struct world *w = container_of(s, struct world, source);
	uint32_t piece = (uint32_t)take(&w->way.in, 2), left = w->bytes - w->given;

	if (piece == UINT16_MAX)
		return MAD_GIVES_UP;
	*bytes = room < piece ? room : piece;
	*bytes = *bytes < left ? *bytes : left;
	memcpy(to, w->data + w->given, *bytes);
	w->given += *bytes;
	return w->given < w->bytes ? MAD_GIVES_MORE : MAD_GAVE_ALL;
}

static void end_source(struct mad_source *s)
{
	container_of(s, struct world, source)->source.give = NULL;
}

static void check(const struct world *w)
{
	REQUIRE(w->send.acked <= w->send.sent && w->send.sent <= w->send.segments && w->send.gone <= w->send.acked);
	REQUIRE(!w->at_hand || w->send.bytes <= w->flow.room);
	REQUIRE(w->recv.room <= 2 * MOST && w->recv.kept <= w->recv.config.window && w->recv.last <= w->recv.window_last);
	REQUIRE(w->out != RMPP_FAILED || w->send.status);
	REQUIRE(w->is_in != RMPP_FAILED || w->recv.status);
	if (w->is_in != RMPP_DONE)
		return;
	REQUIRE(w->recv.bytes <= MOST && w->recv.bytes <= w->recv.room);
	if (!w->way.is_changed)
		REQUIRE(w->recv.bytes == w->bytes && !memcmp(w->recv.data + 56, w->data + 56, w->recv.bytes - 56));
}

static void deliver(struct world *w, int to, uint8_t mad[MAD_BYTES])
{
	uint8_t reply[MAD_BYTES];
	bool answers = false;

	if (!to && w->out == RMPP_GOES_ON)
		w->out = rmpp_send_input(&w->send, w->way.now, mad, &answers, reply);
	else if (to && w->is_in == RMPP_GOES_ON)
		w->is_in = rmpp_recv_input(&w->recv, w->way.now, mad, &answers, reply);
	if (answers)
		mad_way_put(&w->way, !to, reply);
}

static void step(struct world *w)
{
	uint8_t mad[MAD_BYTES];
	int to;

	switch (mad_way_step(&w->way, 10 * WTIME_MS, 64, &to, mad)) {
	case MAD_WAY_NOTHING:
		break;
	case MAD_WAY_TIME:
		if (w->out == RMPP_GOES_ON)
			w->out = rmpp_send_expire(&w->send, w->way.now, mad);
		if (w->is_in == RMPP_GOES_ON)
			w->is_in = rmpp_recv_expire(&w->recv, w->way.now, mad);
		break;
	case MAD_WAY_SEND:
		if (w->at_hand && w->out == RMPP_GOES_ON)
			mad_flow_fill(&w->flow, &w->send, &w->at_hand);
		while (w->out == RMPP_GOES_ON && w->way.held[1] < MAD_WAY_HELD && rmpp_send_output(&w->send, w->way.now, mad))
			mad_way_put(&w->way, 1, mad);
		break;
	case MAD_WAY_ARRIVED:
		deliver(w, to, mad);
		break;
	}
}

static void begin_source(struct world *w, const struct rmpp_config *config)
{
	w->given = 56 + (uint32_t)take(&w->way.in, 2) % (w->bytes - 55);
	w->source = (struct mad_source){ give, end_source };
	w->flow = (struct mad_flow){ .source = &w->source, .room = w->given };
	w->at_hand = malloc(w->given);
	REQUIRE(w->at_hand);
	memcpy(w->at_hand, w->data, w->given);
	rmpp_send_init(&w->send, config, w->at_hand, w->given);
	rmpp_send_more(&w->send, w->at_hand, w->given, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	struct rmpp_config config = { .most = MOST };

	if (!w)
		return 0;
	w->way.in = (struct input){ data, data + size };
	config.window = take_byte(&w->way.in) % 32;
	for (size_t i = 0; i < BYTES_MOST; i++)
		w->data[i] = (uint8_t)(i * 7 + i / 251);
	w->data[1] = MAD_CLASS_SA;
	w->data[3] = 0x92;
	w->bytes = 56 + (uint32_t)take(&w->way.in, 2) % (BYTES_MOST - 56);
	rmpp_send_init(&w->send, &config, w->data, w->bytes);
	if (take_byte(&w->way.in) & 1)
		begin_source(w, &config);
	w->send.is_two_sided = config.window & 1;
	rmpp_recv_init(&w->recv, &config);
	for (int i = 0; i < STEPS && w->way.in.at < w->way.in.end; i++) {
		step(w);
		check(w);
	}
	rmpp_recv_fini(&w->recv);
	mad_flow_end(&w->flow);
	REQUIRE(!w->at_hand || !w->source.give);
	free(w->at_hand);
	free(w);
	return 0;
}
