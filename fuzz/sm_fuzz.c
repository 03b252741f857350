/* A subnet manager that hears anything: datagrams of anybody by each of its agents, and answers of agents that lie. Whatever they
 * are, it neither falls nor sends without end, and once all tell the truth again its subnet comes up. */
#include "torus.h"

#include "agents/agents.h"
#include "sm/sm.h"

#include <string.h>

enum { SENDS_MOST = 20000 };

struct world {
	struct fabric f;
	struct agents a;
	struct sm sm;
	uint32_t port;
	wtime now;
	struct input *lies;		/* NULL: agents tell the truth */
	unsigned sent;
};

static void hear(struct world *w, unsigned agent, const struct mad_remote *from, uint8_t *mad, uint32_t bytes)
{
	sm_input(&w->sm, w->now, &(struct mad_letter){ .agent = agent, .remote = *from, .data = mad, .bytes = bytes });
}

/* Some bytes of an answer's attribute are others. */
static void lie(struct world *w, uint8_t mad[MAD_BYTES])
{
	unsigned bytes = w->lies && w->lies->at < w->lies->end ? take_byte(w->lies) : 0;

	if (bytes < 200)
		return;
	for (unsigned i = 200; i < bytes; i += 8)
		mad[SMP_DATA + take_byte(w->lies) % SMP_DATA_BYTES] = take_byte(w->lies);
}

static void pump(struct world *w)
{
	struct mad_letter l;

	while (w->sent++ < SENDS_MOST && sm_output(&w->sm, w->now, &l)) {
		struct mad_address to = { .path = { .slid = LID_PERMISSIVE, .dlid = l.remote.lid } };
		uint8_t mad[MAD_BYTES];
		struct mad_arrival at;

		REQUIRE(l.bytes && l.data && l.agent < SM_AGENTS && !l.status);
		if (l.agent == SM_AGENT_SA)
			continue;
		REQUIRE(l.bytes == MAD_BYTES);
		memcpy(mad, l.data, MAD_BYTES);
		if (agents_mad(&w->a, w->now, w->port, &to, mad, &at) != MAD_ANSWERED)
			continue;
		lie(w, mad);
		hear(w, l.agent, &(struct mad_remote){ .lid = LID_PERMISSIVE }, mad, MAD_BYTES);
	}
}

static void say(struct world *w, struct input *in)
{
	static const uint8_t classes[SM_AGENTS] = { MAD_CLASS_SUBN_DIRECTED, MAD_CLASS_SUBN_LID, MAD_CLASS_SA };
	unsigned agent = take_byte(in) % SM_AGENTS, from = agent == SM_AGENT_SA ? 24 : SMP_DATA, length = take_byte(in) % 120;
	struct mad_remote remote = { .lid = (uint16_t)(take_byte(in) % 40), .qpn = agent == SM_AGENT_SA };
	uint8_t mad[MAD_BYTES] = { 1, classes[agent], agent == SM_AGENT_SA ? 2 : 1 };

	mad[3] = take_byte(in);
	mad[17] = take_byte(in);
	mad[12] = take_byte(in);
	mad[15] = take_byte(in);
	mad[20] = take_byte(in) & 0x80;
	for (unsigned i = 0; i < length && from + i < MAD_BYTES; i++)
		mad[from + i] = take_byte(in);
	/* without a key it is heard */
	if (agent == SM_AGENT_SA && take_byte(in) & 1)
		memset(mad + 36, 0, 8);
	hear(w, agent, &remote, mad, take_byte(in) & 15 ? MAD_BYTES : take_byte(in));
}

static void begin(struct world *w, uint8_t *mapping, size_t bytes)
{
	char why[256];

	*w = (struct world){ .now = 1 };
	REQUIRE(!fabric_open(&w->f, mapping, bytes, why, sizeof(why)) && !agents_init(&w->a, &w->f));
	for (uint32_t port = 0; port < w->f.ports; port++)
		w->f.port[port].lid = 0;
	while (!fabric_is_switch(&w->f, w->f.owner[w->port]))
		w->port++;
	REQUIRE(!sm_init(&w->sm, &(struct sm_config){ 0 }));
	sm_start(&w->sm, w->now);
}

/* All tell the truth for as long as a sweep may wait. */
static void come_up(struct world *w)
{
	w->lies = NULL;
	for (int i = 0; i < 40; i++) {
		w->sent = 0;
		w->now += WTIME_S;
		pump(w);
		REQUIRE(w->sent < SENDS_MOST);
	}
	sm_sweep(&w->sm, w->now, true);
	w->sent = 0;
	pump(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct fabric f;
	struct world w;
	size_t bytes;
	uint8_t *mapping = torus_make((char[]){ "size=2" }, (char[]){ "hosts=1" }, &f, &bytes);

	fabric_close(&f);
	begin(&w, mapping, bytes);
	w.lies = &in;
	while (in.at < in.end) {
		unsigned what = take_byte(&in);

		if (what & 1)
			say(&w, &in);
		w.now += (what >> 1) * WTIME_S / 16;
		w.sent = 0;
		pump(&w);
	}
	come_up(&w);
	sm_fini(&w.sm);
	agents_fini(&w.a);
	fabric_close(&w.f);
	free(mapping);
	return 0;
}
