/* Both ends of a connection over several paths, which the input commands: deliver, lose, change, let time pass. Without a changed
 * packet ordered requests execute once and in order. The packet parser's property: build(parse(x)) is x. */
#include "fuzz.h"

#include "base/crc.h"
#include "multipath/requester.h"
#include "multipath/responder.h"
#include "wire/field.h"

#include <stdbool.h>
#include <string.h>

enum { MTU = 16, FRAME = MP_HEADER + MTU + MP_CRC, HELD = 16, STEPS = 3000, PATHS = 3 };

struct frame {
	size_t size;
	uint8_t bytes[FRAME];
};

struct world {
	struct input in;
	struct mp_requester requester;
	struct mp_responder responder;
	struct frame way[PATHS][2][HELD];	/* to the responder; to the requester; FIFO */
	unsigned held[PATHS][2];
	uint8_t data[64];
	uint64_t posted, executed;	/* ordered requests */
	bool is_changed;
	wtime now;
};

static enum mp_status execute(void *arg, const struct mp_packet *p, uint8_t *answer)
{
	struct world *w = arg;

	REQUIRE(p->length <= MTU);
	if (p->order == MP_ORDERED && p->code != MP_NOP) {
		REQUIRE(w->is_changed || p->key == w->executed);
		w->executed += p->last;
	}
	memset(answer, 1, mp_answer_bytes(p->code, p->length));
	return w->is_changed && p->key % 16 == 15 ? (enum mp_status)(MP_NAK_ACCESS + p->key / 16 % 3) : MP_OK;
}

static void put(struct world *w, unsigned path, int to, const struct mp_packet *p)
{
	struct frame *f = &w->way[path][to][w->held[path][to]];

	if (w->held[path][to] == HELD)
		return;
	w->held[path][to]++;
	f->size = mp_packet_build(p, f->bytes);
}

static void deliver(struct world *w, unsigned path, int to)
{
	struct frame f = w->way[path][to][0];
	struct mp_packet p, reply;
	uint8_t again[FRAME];

	if (!w->held[path][to])
		return;
	memmove(w->way[path][to], w->way[path][to] + 1, --w->held[path][to] * sizeof(f));
	if (!mp_packet_parse(&p, f.bytes, f.size))
		return;
	REQUIRE(mp_packet_build(&p, again) == f.size && !memcmp(again, f.bytes, f.size));
	if (to)
		mp_requester_input(&w->requester, w->now, path, &p);
	else if (mp_responder_input(&w->responder, path, &p, &reply))
		put(w, path, 1, &reply);
}

static void post(struct world *w, uint8_t what)
{
	static const enum mp_opcode opcodes[] = {
		MP_SEND, MP_WRITE, MP_READ, MP_COMPARE_SWAP, MP_FETCH_ADD, MP_WRITE, MP_READ, MP_WRITE,
	};
	unsigned i = what % 8;
	struct mp_request q = { .opcode = opcodes[i], .is_unordered = i > 4, .key = i > 4 ? 0 : (uint32_t)w->posted,
				.bytes = i == 3 || i == 4 ? 8 : what / 8, .address = what / 16, .from = w->data,
				.into = w->data + 32 };

	if (!mp_requester_post(&w->requester, &q))
		w->posted += i <= 4;
}

static void change_one(struct world *w, unsigned path, int to)
{
	struct frame *f = &w->way[path][to][0];

	if (!w->held[path][to])
		return;
	f->bytes[take_byte(&w->in) % (f->size - MP_CRC)] ^= take_byte(&w->in);
	wire_put(f->bytes + f->size - MP_CRC, crc_ieee(0, f->bytes, f->size - MP_CRC), 0, 0, 32);
	w->is_changed = true;
}

static void step(struct world *w)
{
	uint8_t what = take_byte(&w->in);
	unsigned path = what / 16 % PATHS, on;
	int to = what >> 3 & 1;
	struct mp_completion c;
	struct mp_packet p;

	switch (what % 8) {
	case 0:
		w->now += take_byte(&w->in) * WTIME_US;
		mp_requester_expire(&w->requester, w->now);
		break;
	case 1:
		change_one(w, path, to);
		break;
	case 2:
		post(w, take_byte(&w->in));
		break;
	case 3:
		if (w->held[path][to])
			memmove(w->way[path][to], w->way[path][to] + 1, --w->held[path][to] * sizeof(struct frame));
		break;
	case 4:
		while (mp_requester_poll(&w->requester, &c))
			;
		break;
	case 5:
		if (mp_requester_output(&w->requester, w->now, &on, &p))
			put(w, on, 0, &p);
		break;
	default:
		deliver(w, path, to);
	}
}

static void check(const struct world *w)
{
	unsigned sent = 0, carried = 0, in_use = 0;

	for (unsigned i = 0; i < w->requester.config.flights; i++) {
		sent += w->requester.flight[i].phase == MP_SENT;
		in_use += w->requester.flight[i].phase != MP_FREE;
	}
	for (unsigned i = 0; i < PATHS; i++)
		carried += w->requester.path[i].flights;
	REQUIRE(sent == carried && in_use == w->requester.ordered + w->requester.unordered);
	REQUIRE(w->requester.done <= w->requester.posted && w->requester.started <= w->requester.posted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	struct mp_target target = { execute, w };
	struct mp_config c;
	uint8_t what;

	if (!w)
		return 0;
	w->in = (struct input){ data, data + size };
	what = take_byte(&w->in);
	mp_config_init(&c);
	c.width = what & 1 ? 8 : 24;
	c.is_fast = what >> 1 & 1;
	c.renumbers = what >> 2 & 1;
	c.spread = (enum mp_spread)(what >> 3 & 3) % 3;
	c.paths = PATHS;
	c.mtu_bytes = MTU;
	c.window = 4;
	c.replay = 8;
	c.flights = 8;
	c.requests = 16;
	c.timeout_ns = 50 * WTIME_US;
	REQUIRE(!mp_requester_init(&w->requester, &c) && !mp_responder_init(&w->responder, &c, &target));
	for (int i = 0; i < STEPS && w->in.at < w->in.end; i++) {
		step(w);
		check(w);
	}
	mp_requester_fini(&w->requester);
	mp_responder_fini(&w->responder);
	free(w);
	return 0;
}
