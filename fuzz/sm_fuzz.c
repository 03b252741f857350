/* A subnet manager that hears anything: datagrams of anybody by each of its agents, and answers of agents that lie. Whatever they
 * are, it neither falls nor sends without end, and when all tell the truth again and are asked, its subnet comes up: all ports
 * are active, and reach each other. Its administration is asked by letters of one MAD, less, or several, and answers that pause
 * are taken by pieces while all of this goes on. */
#include "sound_fabric.h"

#include "agents/agents.h"
#include "mgmt/mad_source.h"
#include "sm/sm.h"
#include "wire/field.h"
#include "wire/sa_records.h"

#include <string.h>

enum {
	SENDS_MOST = 20000, ANSWERS_KEPT = 4, EVENTS_MOST = 10000, GIVES_MOST = 10000, LONG_MOST = 8,
	PIECE = 3 * 200,		/* bytes of some segments */
	/* The input's first byte: all is up, agents tell the truth, nobody reads an answer to its end, and bytes of records with
	 * which a table pauses. */
	LMC = 3, IS_UP = 1 << 2, IS_HONEST = 1 << 3, LEAVES = 1 << 4, AT_ONCE = 7 << 5, AT_ONCE_UNIT = 80,
};

/* An answer that is made while it is taken. */
struct answer {
	struct mad_source *source;	/* NULL: there is none */
	uint32_t bytes, each;		/* of its records, so far, and of each */
};

struct world {
	struct fabric f;
	struct agents a;
	struct sm sm;
	uint32_t port;
	wtime now;
	struct input *lies;		/* NULL: agents tell the truth */
	struct answer answer[ANSWERS_KEPT];
};

/* What is behind its end is not there: who reads it falls. */
static void hear(struct world *w, unsigned agent, const struct mad_remote *from, const uint8_t *mad, uint32_t bytes)
{
	uint8_t *data = malloc(bytes ? bytes : 1);

	REQUIRE(data);
	memcpy(data, mad, bytes);
	sm_input(&w->sm, w->now, &(struct mad_letter){ .agent = agent, .remote = *from, .data = data, .bytes = bytes });
	free(data);
}

/* ---- answers that pause ---- */

static void keep(struct world *w, const struct mad_letter *l)
{
	for (unsigned i = 0; l->source && i < ANSWERS_KEPT; i++) {
		struct answer *a = &w->answer[i];

		if (a->source)
			continue;
		REQUIRE(*l->source && l->bytes >= SA_HEAD);
		*a = (struct answer){ .source = *l->source, .bytes = l->bytes - SA_HEAD,
				      .each = 8 * (uint32_t)wire_get(l->data, SA_ATTRIBUTE_OFFSET) };
		*l->source = NULL;
		REQUIRE(a->each);
		return;
	}
}

static void end_answer(struct answer *a)
{
	a->source->end(a->source);
	a->source = NULL;
}

/* All records are whole. */
static enum mad_given take_piece(struct answer *a, uint32_t room)
{
	uint8_t *to = malloc(room ? room : 1);
	uint32_t bytes = 0;
	enum mad_given given;

	REQUIRE(to);
	given = a->source->give(a->source, to, room, &bytes);
	REQUIRE(bytes <= room);
	a->bytes += bytes;
	REQUIRE(given != MAD_GAVE_ALL || a->bytes % a->each == 0);
	if (given != MAD_GIVES_MORE)
		end_answer(a);
	free(to);
	return given;
}

/* Whoever reads them takes as much as the input says, or goes away. */
static void take_some(struct world *w, struct input *in)
{
	for (unsigned i = 0; i < ANSWERS_KEPT; i++) {
		unsigned much = w->answer[i].source ? take_byte(in) : 0;

		if (much == UINT8_MAX)
			end_answer(&w->answer[i]);
		else if (much)
			take_piece(&w->answer[i], much * 16);
	}
}

/* What is left, until it ends. */
static void take_all(struct world *w)
{
	for (unsigned i = 0; i < ANSWERS_KEPT; i++) {
		unsigned gives = 0;

		while (w->answer[i].source && take_piece(&w->answer[i], PIECE) == MAD_GIVES_MORE)
			REQUIRE(++gives < GIVES_MOST);
	}
}

/* Its administration is gone. */
static void take_of_nobody(struct world *w)
{
	for (unsigned i = 0; i < ANSWERS_KEPT; i++) {
		if (w->answer[i].source)
			REQUIRE(take_piece(&w->answer[i], PIECE) == MAD_GIVES_UP);
	}
}

/* ---- datagrams ---- */

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

	for (unsigned sent = 0; sm_output(&w->sm, w->now, &l); sent++) {
		struct mad_address to = { .path = { .slid = LID_PERMISSIVE, .dlid = l.remote.lid } };
		uint8_t mad[MAD_BYTES];
		struct mad_arrival at;

		REQUIRE(sent < SENDS_MOST && l.bytes && l.data && l.agent < SM_AGENTS && !l.status);
		if (l.agent == SM_AGENT_SA) {
			keep(w, &l);
			continue;
		}
		REQUIRE(l.bytes == MAD_BYTES);
		memcpy(mad, l.data, MAD_BYTES);
		if (agents_mad(&w->a, w->now, w->port, &to, mad, &at) != MAD_ANSWERED)
			continue;
		lie(w, mad);
		hear(w, l.agent, &(struct mad_remote){ .lid = LID_PERMISSIVE }, mad, MAD_BYTES);
	}
}

/* Bytes of a letter: most have one MAD. Those of several segments have whatever follows in the input. */
static uint32_t length_of(unsigned agent, struct input *in, uint8_t mad[LONG_MOST * MAD_BYTES])
{
	unsigned kind = take_byte(in) & 15;
	uint32_t bytes;

	if (!kind)
		return take_byte(in);
	if (kind != 1 || agent != SM_AGENT_SA)
		return MAD_BYTES;
	bytes = MAD_BYTES + (1 + take_byte(in) % (LONG_MOST - 1)) * (MAD_BYTES - SA_HEAD);
	for (uint32_t at = MAD_BYTES, run = take_byte(in); at < bytes && run; at++, run--)
		mad[at] = take_byte(in);
	return bytes;
}

static void say(struct world *w, struct input *in)
{
	static const uint8_t classes[SM_AGENTS] = { MAD_CLASS_SUBN_DIRECTED, MAD_CLASS_SUBN_LID, MAD_CLASS_SA };
	unsigned agent = take_byte(in) % SM_AGENTS, from = agent == SM_AGENT_SA ? 24 : SMP_DATA, length = take_byte(in) % 120;
	struct mad_remote remote = { .lid = (uint16_t)(take_byte(in) % 40 << w->sm.config.lmc), .qpn = agent == SM_AGENT_SA };
	uint8_t mad[LONG_MOST * MAD_BYTES] = { 1, classes[agent], agent == SM_AGENT_SA ? 2 : 1 };

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
	hear(w, agent, &remote, mad, length_of(agent, in, mad));
}

/* ---- its life ---- */

static void begin(struct world *w, uint8_t *mapping, size_t bytes, unsigned how)
{
	char why[256];

	*w = (struct world){ .now = 1 };
	REQUIRE(!fabric_open(&w->f, mapping, bytes, why, sizeof(why)) && !agents_init(&w->a, &w->f));
	for (uint32_t port = 0; port < w->f.ports; port++)
		w->f.port[port].lid = 0;
	while (!fabric_is_switch(&w->f, w->f.owner[w->port]))
		w->port++;
	REQUIRE(!sm_init(&w->sm, &(struct sm_config){ .lmc = how & LMC, .at_once = (how & AT_ONCE) / 32 * AT_ONCE_UNIT }));
	sm_start(&w->sm, w->now);
}

/* Each event at its time, for as long. */
static void go_on(struct world *w, wtime ns)
{
	wtime until = w->now + ns;
	unsigned events = 0;

	for (wtime due = w->now; due <= until; due = sm_deadline(&w->sm)) {
		REQUIRE(events++ < EVENTS_MOST);
		w->now = due > w->now ? due : w->now;
		pump(w);
	}
	w->now = until;
}

/* A master wakes it, if one has disabled it: it stands by, and finds that no master is there. */
static void wake(struct world *w)
{
	enum { STANDBY = 4 };
	const struct mad_header h = { .base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_SUBN_LID,
				      .class_version = SMP_CLASS_VERSION, .method = MAD_SET, .attr_id = SMP_SM_INFO,
				      .attr_modifier = STANDBY };
	uint8_t mad[MAD_BYTES] = { 0 };

	if (w->sm.state != SM_NOT_ACTIVE)
		return;
	mad_header_build(&h, mad);
	wire_put(mad + SMP_DATA, w->sm.config.key, 8, 0, 64);
	wire_put(mad + SMP_DATA, SM_MASTER, 20, 4, 4);
	hear(w, SM_AGENT_LID, &(struct mad_remote){ .lid = 1 }, mad, MAD_BYTES);
}

/* The tables lead from this switch to the port. */
static bool leads(const struct fabric *f, uint32_t node, uint32_t lid, uint32_t to)
{
	for (uint32_t passed = 0; passed < f->nodes; passed++) {
		unsigned out = fabric_lft(f, node)[lid];
		uint32_t port = out > f->place[node].ports ? PORT_NONE : fabric_port_index(f, node, out), peer;

		if (port == PORT_NONE || !out)
			return port == to;
		peer = fabric_peer(f, port);
		if (peer == PORT_NONE || !fabric_is_switch(f, f->owner[peer]))
			return peer == to;
		node = f->owner[peer];
	}
	return false;
}

/* A switch itself, or the port of a host: it has LIDs of its own, and every switch leads to each of them. */
static void check_port(const struct world *w, uint32_t port)
{
	const struct fabric *f = &w->f;
	const struct fabric_port *p = &f->port[port];
	unsigned lmc = fabric_is_switch(f, f->owner[port]) ? 0 : w->sm.config.lmc;

	REQUIRE(p->lid && p->lmc == lmc && p->lid + (1u << lmc) <= f->lids);
	for (uint32_t node = 0; node < f->nodes; node++) {
		for (uint32_t lid = p->lid; fabric_is_switch(f, node) && lid < p->lid + (1u << lmc); lid++)
			REQUIRE(leads(f, node, lid, port));
	}
}

static void check(const struct world *w)
{
	const struct fabric *f = &w->f;
	char why[256];

	REQUIRE(w->sm.state == SM_MASTER && w->sm.is_up && !fabric_check_lids(f, why, sizeof(why)));
	for (uint32_t port = 0; port < f->ports; port++) {
		bool has_link = fabric_peer(f, port) != PORT_NONE;

		if (fabric_is_switch(f, f->owner[port]) ? !fabric_port_number(f, port) : has_link)
			check_port(w, port);
		REQUIRE(!has_link || f->port[port].state == PORT_ACTIVE);
	}
}

/* All tell the truth for as long as a sweep may wait. */
static void come_up(struct world *w)
{
	w->lies = NULL;
	wake(w);
	go_on(w, 60 * WTIME_S);
	sm_sweep(&w->sm, w->now, true);
	go_on(w, 60 * WTIME_S);
	check(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned how = take_byte(&in);
	struct fabric f;
	struct world w;
	size_t bytes;
	uint8_t *mapping = torus_make_lids((char[]){ "size=2" }, (char[]){ "hosts=1" }, 4 << (how & LMC), &f, &bytes);

	fabric_close(&f);
	begin(&w, mapping, bytes, how);
	if (how & IS_UP)
		come_up(&w);
	w.lies = how & IS_HONEST ? NULL : &in;
	while (in.at < in.end) {
		unsigned what = take_byte(&in);

		if (what & 1)
			say(&w, &in);
		w.now += (what >> 1) * WTIME_S / 16;
		pump(&w);
		take_some(&w, &in);
	}
	if (!(how & LEAVES))
		take_all(&w);
	come_up(&w);
	sm_fini(&w.sm);
	take_of_nobody(&w);
	agents_fini(&w.a);
	fabric_close(&w.f);
	free(mapping);
	return 0;
}
