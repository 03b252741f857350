/* weftd asks a subnet administration for paths, and to have ports join groups and leave them; the administration answers what
 * the input says, as often and as late as it says, or not at all. Each process is answered once for each question. A path that it
 * is given makes sense, and a table of them has as many as were asked for at most. In the end, with an administration that is
 * silent, nothing is left under way. */
#include "sound_fabric.h"

#include "fabric/host.h"
#include "mgmt/gmp.h"
#include "weftd/hub.h"
#include "weftd/joins.h"
#include "weftd/mcast.h"
#include "weftd/page.h"
#include "weftd/paths.h"
#include "weftd/seed_sa.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"
#include "wire/field.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

enum {
	PROCESSES = 2,			/* at h1 and h3; the administration is at h2 */
	REQUESTS = 8,			/* of the administration, the last ones */
	STEPS = 200, QUESTIONS = 256,
	SEGMENTS = 3,			/* of an answer, at most */
	SILENT_S = 60,			/* after which all have given up */
	UID = 1000,
};

static struct {
	struct hub hub;
	struct fabric_page page;
	struct claims claims;
	struct subnet subnet;
	struct client client[PROCESSES];
	struct control_msg question[QUESTIONS];	/* by its number */
	uint8_t owner[QUESTIONS];
	bool is_open[QUESTIONS];
	unsigned questions;
	struct mad_port *administration;
	uint32_t administration_port;
	struct mad_remote from[REQUESTS];
	uint8_t mad[REQUESTS][MAD_BYTES];
	unsigned requests;
} w;

/* ---- what processes are told ---- */

static void check_path(const struct control_msg *m)
{
	unsigned mtu = m->b >> ROUTE_MTU & 0xff;

	REQUIRE((m->a >> ROUTE_DLID & 0xffff) && (m->a >> ROUTE_SLID & 0xffff));
	REQUIRE(mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096);
	REQUIRE((m->service >> ROUTE_LIFE & 0xff) < 32);
}

static void check_table(const struct control_msg *asked, const struct control_msg *m, const char *text)
{
	struct control_lids pair;

	REQUIRE(m->text_bytes && m->text_bytes % sizeof(pair) == 0 && m->text_bytes / sizeof(pair) <= asked->b);
	for (uint32_t at = 0; at < m->text_bytes; at += sizeof(pair)) {
		memcpy(&pair, text + at, sizeof(pair));
		REQUIRE(pair.slid && pair.dlid);
	}
}

static bool take_message(struct hub *h, struct client *c, const struct control_msg *m, const char *text, const int *fds, int nfds)
{
	unsigned i = (unsigned)(c - w.client);

	(void)h;
	(void)fds;
	(void)nfds;
	REQUIRE(i < PROCESSES);
	if (!m->seq)
		return true;		/* what all are told */
	REQUIRE(m->seq <= w.questions && w.is_open[m->seq - 1] && w.owner[m->seq - 1] == i);
	w.is_open[m->seq - 1] = false;
	if (!m->status && m->type == CTL_PATH)
		check_path(m);
	if (!m->status && m->type == CTL_PATHS)
		check_table(&w.question[m->seq - 1], m, text);
	return true;
}

static bool has_room(struct hub *h, const struct client *c)
{
	(void)h;
	(void)c;
	return true;
}

static const struct hub_ops ops = { .send = take_message, .has_room = has_room };

/* ---- the administration ---- */

static void note_request(void *arg, const struct mad_letter *l)
{
	unsigned i = w.requests++ % REQUESTS;

	(void)arg;
	if (l->status || l->bytes != MAD_BYTES)
		return;
	w.from[i] = l->remote;
	memcpy(w.mad[i], l->data, MAD_BYTES);
}

static void pass(wtime by)
{
	w.hub.now += by;
	umad_expire(&w.hub);
}

/* A request's head, as it is or changed, and a record of the input's. */
static void answer(struct input *in)
{
	unsigned what = take_byte(in), i = take_byte(in) % REQUESTS;
	uint8_t data[SA_HEAD + SEGMENTS * 200], asked;
	uint32_t bytes = what & 1 && take_byte(in) & 1 ? MAD_BYTES + take_byte(in) % 200 * 2u : MAD_BYTES;
	struct mad_letter l = { .remote = w.from[i], .data = data, .bytes = bytes };

	if (!w.requests || (w.requests < REQUESTS && i >= w.requests))
		return;
	memset(data, 0, sizeof(data));
	memcpy(data, w.mad[i], MAD_BYTES);
	asked = data[3];
	data[3] = asked == MAD_GET || asked == MAD_SET ? MAD_GET_RESP : asked == SA_DELETE ? SA_DELETE_RESP : SA_GET_TABLE_RESP;
	if (what & 2)
		wire_put(data, take(in, 2), 4, 0, 16);
	if (what & 4)
		wire_put(data, what & 8 ? take(in, 2) : 64 / 8, SA_ATTRIBUTE_OFFSET);
	if (what & 16)
		wire_put(data, 0xc000 + take_byte(in) % 4, SA_HEAD + 36, 0, 16);
	for (uint32_t at = SA_HEAD; what & 32 && at < bytes; at++)
		data[at] = take_byte(in);
	/* what is sound, with some bytes that are not */
	for (unsigned k = take_byte(in) % 8; what & 64 && k; k--)
		data[SA_HEAD + take(in, 2) % (bytes - SA_HEAD)] ^= take_byte(in);
	for (unsigned k = take_byte(in) % 4; what & 128 && k; k--)
		data[take_byte(in) % SA_HEAD] ^= take_byte(in);
	umad_ask(&w.hub, w.administration, &l);
	pass(0);
}

/* ---- the processes ---- */

static struct control_msg *question(unsigned i, uint32_t type)
{
	struct control_msg *m = &w.question[w.questions];

	*m = (struct control_msg){ .type = type, .seq = w.questions + 1 };
	w.owner[w.questions] = (uint8_t)i;
	w.is_open[w.questions++] = true;
	return m;
}

static void ask_path(struct input *in, unsigned i, bool table)
{
	struct control_msg *m = question(i, table ? CTL_PATHS : CTL_PATH);

	m->a = take_byte(in) & 1 ? 0xffff : 0x8001;
	m->b = table ? take_byte(in) % (CONTROL_PATHS + 2) : 0;
	m->c = take_byte(in) * 50;
	host_write_gid(&w.subnet.fabric, subnet_port(&w.hub, &w.client[i], 0), 0, m->gid);
	host_write_gid(&w.subnet.fabric, subnet_port(&w.hub, &w.client[!i], 0), 0, m->dgid);
	m->dgid[15] ^= take_byte(in) % 4;
	paths_input(&w.hub, &w.client[i], m);
}

static void ask_group(struct input *in, unsigned i, bool joins)
{
	static const uint32_t as[] = { MCAST_OF_PORT, MCAST_SENDS, 0 };
	struct control_msg *m = question(i, CTL_MCAST);
	unsigned what = take_byte(in);

	m->a = joins;
	m->service = as[what % 3];
	m->c = 0x1234;
	memcpy(m->gid, (uint8_t[2]){ 0xff, 0x12 }, 2);
	m->gid[15] = what >> 7;
	mcast_input(&w.hub, &w.client[i], m);
}

static void set_manager(uint16_t lid)
{
	for (uint32_t port = 0; port < w.subnet.fabric.ports; port++)
		w.subnet.fabric.port[port].sm_lid = lid;
}

static void step(struct input *in)
{
	unsigned op = take_byte(in), i = op >> 4 & 1;
	struct fabric_port *port = &w.subnet.fabric.port[subnet_port(&w.hub, &w.client[i], 0)];

	switch (op % 8) {
	case 0:
	case 1:
		ask_path(in, i, op & 1);
		break;
	case 2:
	case 3:
		ask_group(in, i, op & 1);
		break;
	case 4:
		pass(take_byte(in) * 50ull * WTIME_MS);
		break;
	case 5:
		if (op & 32)
			port->reregistered++;
		else if (op & 64)
			set_manager(op & 128 ? w.subnet.fabric.port[w.administration_port].lid : 0);
		pass(0);
		break;
	default:
		answer(in);
	}
}

/* ---- the world ---- */

static void attach(unsigned i, uint32_t port)
{
	struct client *c = &w.client[i];
	enum control_limit limit;

	c->uid = UID;
	REQUIRE(!hub_join(&w.hub, c, &limit));
	c->kind = CLIENT_PROCESS;
	c->slot = i + 1;
	w.hub.slot_owner[c->slot] = c;
	atomic_store(&w.page.slot_port[c->slot], port + 1);
}

static uint32_t port_of(const char *host)
{
	const struct fabric *f = &w.subnet.fabric;

	for (uint32_t n = 0; n < f->nodes; n++) {
		if (!strcmp(f->node[n].description, host))
			return fabric_port_index(f, n, 1);
	}
	abort();
}

/* A star whose switch knows the ways; the caller frees its mapping. */
static uint8_t *make_star(struct fabric *f)
{
	size_t bytes;
	uint8_t *mapping = sound_fabric("star", 1, (char *[]){ (char[]){ "hosts=3" } }, 0, f, &bytes);

	REQUIRE(!fabric_route(f, ROUTE_MIN_HOP));
	fabric_activate(f);
	return mapping;
}

static uint8_t *begin(void)
{
	const struct mad_registration what = {
		.mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .rmpp_version = 1,
		.methods = { 1ull << MAD_GET | 1ull << MAD_SET | 1ull << SA_GET_TABLE | 1ull << SA_DELETE },
	};
	struct state s = { .page = &w.page, .claims = &w.claims, .page_fd = -1 };
	uint8_t *mapping;

	memset(&w, 0, sizeof(w));
	page_set_devices(&w.page, &control_default, 0x0200000000000100);
	hub_init(&w.hub, &ops, &s, 1);
	w.hub.uid = UID;
	mapping = make_star(&w.subnet.fabric);
	REQUIRE(!agents_init(&w.subnet.agents, &w.subnet.fabric));
	w.hub.subnet = &w.subnet;
	attach(0, port_of("h1"));
	attach(1, port_of("h3"));
	w.administration_port = port_of("h2");
	w.administration = umad_open(&w.hub, w.administration_port, &what, note_request, NULL);
	REQUIRE(w.administration);
	set_manager(w.subnet.fabric.port[w.administration_port].lid);
	return mapping;
}

static void be_silent(void)
{
	for (int s = 0; s < SILENT_S; s++)
		pass(WTIME_S);
}

static void end(uint8_t *mapping)
{
	be_silent();
	for (unsigned i = 0; i < w.questions; i++)
		REQUIRE(!w.is_open[i]);
	for (unsigned i = 0; i < PROCESSES; i++) {
		mcast_leave(&w.hub, &w.client[i]);
		paths_forget(&w.hub, &w.client[i]);
	}
	be_silent();
	REQUIRE(list_empty(&w.hub.joins) && list_empty(&w.hub.paths));
	for (int i = 0; i < PAGE_GROUPS; i++)
		REQUIRE(!w.page.group[i].used);
	umad_close(&w.hub, w.administration);
	for (unsigned i = 0; i < PROCESSES; i++) {
		umad_leave(&w.hub, &w.client[i]);
		list_remove(&w.client[i].node);
		account_put(w.client[i].account);
	}
	seed_sa_end(&w.hub);
	mad_clients_fini(&w.hub.mads);
	agents_fini(&w.subnet.agents);
	fabric_close(&w.subnet.fabric);
	free(mapping);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t *mapping = begin();

	for (int i = 0; i < STEPS && in.at < in.end && w.questions < QUESTIONS; i++)
		step(&in);
	end(mapping);
	return 0;
}
