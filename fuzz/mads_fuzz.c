/* Programs that send management datagrams: what they register, what they send and what arrives is the input's. What carries MADs
 * hands them to a port of the input's choice, changed as it likes. At the end nothing may be left. */
#include "fuzz.h"

#include "mgmt/mad_clients.h"
#include "mgmt/mad_source.h"
#include "mgmt/rmpp.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 4, PORTS = 2, STEPS = 200, HOPS_MOST = 4096, DATA_MOST = 2048 };

struct world {
	struct mad_clients clients;
	struct mad_file file[FILES];
	bool is_open[FILES];
	struct input in;
	unsigned hops;
	unsigned springs;	/* answers under way that are made while they are sent */
};

/* Gives as the input says. */
struct spring {
	struct mad_source source;	/* first */
	struct world *world;
};

static enum mad_given give(struct mad_source *source, uint8_t *to, uint32_t room, uint32_t *bytes)
{
	struct world *w = ((struct spring *)(void *)source)->world;
	uint8_t what = take_byte(&w->in);

	*bytes = (uint32_t)take(&w->in, 2) % (room + 1);
	memset(to, what, *bytes);
	/* where the input is at its end, it ends */
	return what > 250 ? MAD_GIVES_UP : what > 3 && w->in.at < w->in.end ? MAD_GIVES_MORE : MAD_GAVE_ALL;
}

static void end(struct mad_source *source)
{
	((struct spring *)(void *)source)->world->springs--;
	free(source);
}

static struct mad_source *make_spring(struct world *w)
{
	struct spring *s = malloc(sizeof(*s));

	REQUIRE(s);
	*s = (struct spring){ { give, end }, w };
	w->springs++;
	return &s->source;
}

static enum mad_fate choose(struct world *w, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	uint8_t what = take_byte(&w->in);

	/* two that answer each other for ever end with the input, as timeouts end them in time */
	if (w->in.at == w->in.end || ++w->hops > HOPS_MOST || what % 8 == 7)
		return MAD_WAS_LOST;
	if (what & 16)
		mad[take_byte(&w->in)] ^= take_byte(&w->in);
	*at = (struct mad_coming){ .port = what >> 5 & (PORTS - 1), .sender = { .lid = what >> 6, .qpn = 1 } };
	if (what & 8)
		at->due = now + take_byte(&w->in) * WTIME_MS;
	if (what % 8 < 5)
		return MAD_HAS_ARRIVED;
	mad[3] |= 0x80;
	return MAD_WAS_ANSWERED;
}

static enum mad_fate carry(void *arg, wtime now, uint32_t from, unsigned qpn, const struct mad_remote *to,
			   uint8_t mad[MAD_BYTES], struct mad_coming *at)
{
	(void)to;
	REQUIRE(from < PORTS && qpn <= 1);
	return choose(arg, now, at, mad);
}

static enum mad_fate refuse(void *arg, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	REQUIRE(at->port < PORTS && at->due <= now);
	return choose(arg, now, at, mad);
}

static bool deliver(void *arg, struct mad_file *f, const struct mad_letter *l)
{
	static volatile uint8_t sink;
	struct world *w = arg;

	REQUIRE(f >= w->file && f < w->file + FILES && w->is_open[f - w->file]);
	REQUIRE(l->agent < MAD_AGENTS && f->agent[l->agent].is_used);
	REQUIRE(l->bytes && l->bytes <= (uint32_t)GSA_LONGEST_KB << 10);
	for (uint32_t i = 0; i < l->bytes; i++)
		sink ^= l->data[i];
	return take_byte(&w->in) & 1;
}

static bool has_lid(void *arg, uint32_t port, uint16_t lid)
{
	(void)arg;
	REQUIRE(port < PORTS);
	return lid & 1;
}

static bool may_hold(void *arg, const struct mad_file *f, size_t more)
{
	struct world *w = arg;

	return f->bytes + f->bytes_in + more < (size_t)take_byte(&w->in) << 9;
}

static const struct mad_ops ops = { carry, refuse, deliver, has_lid, may_hold };

static void add(struct world *w, struct mad_file *f)
{
	struct mad_registration what = { 0 };
	uint32_t agent;

	what.mgmt_class = take_byte(&w->in) & 0x83;
	what.class_version = take_byte(&w->in) & 1;
	what.rmpp_version = take_byte(&w->in) & 1;
	what.is_user_rmpp = !(take_byte(&w->in) & 7);
	what.methods[0] = take(&w->in, 3);
	if (mad_register(&w->clients, f, &what, &agent) == 0)
		REQUIRE(agent < MAD_AGENTS && f->agent[agent].is_used);
}

/* An agent goes, or gives datagrams back, or has another number of buffers. */
static void leave(struct world *w, struct mad_file *f, uint8_t what)
{
	if (what < 64)
		mad_unregister(&w->clients, f, what);
	else if (what < 128)
		mad_gave_back(f, what % 4, what);
	else
		mad_change_buffers(f, what % 4, what - 192);
}

static void say(struct world *w, wtime now, struct mad_file *f, bool is_made)
{
	static uint8_t data[DATA_MOST];
	struct mad_source *source = is_made ? make_spring(w) : NULL;
	struct mad_letter l = { .agent = take_byte(&w->in) % 4, .timeout_ms = take_byte(&w->in), .retries = take_byte(&w->in) % 3,
				.data = data, .bytes = (uint32_t)take(&w->in, 2) % DATA_MOST };

	memset(data, 0, sizeof(data));
	for (size_t i = 0; i < 40; i++)
		data[i] = take_byte(&w->in);
	if (source)
		l.source = &source;
	mad_send(&w->clients, now, f, &l);
	if (source)
		source->end(source);
}

static void step(struct world *w, wtime *now)
{
	uint8_t what = take_byte(&w->in), i = what >> 4 & (FILES - 1);
	uint8_t mad[MAD_BYTES] = { 0 };

	switch (what % 8) {
	case 0:
		if (w->is_open[i])
			mad_file_close(&w->clients, &w->file[i]);
		else
			mad_file_open(&w->clients, &w->file[i], i % PORTS);
		w->is_open[i] = !w->is_open[i];
		break;
	case 1:
		if (w->is_open[i])
			add(w, &w->file[i]);
		break;
	case 2:
		if (w->is_open[i])
			leave(w, &w->file[i], take_byte(&w->in));
		break;
	case 3:
		*now += take_byte(&w->in) * 10 * WTIME_MS;
		mad_clients_expire(&w->clients, *now);
		break;
	case 4:
		for (size_t k = 0; k < 40; k++)
			mad[k] = take_byte(&w->in);
		mad_comes(&w->clients, *now, &(struct mad_coming){ .port = i % PORTS, .sender = { .lid = i } }, mad);
		break;
	default:
		if (w->is_open[i])
			say(w, *now, &w->file[i], what & 8);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct siphash_key key = { 1, 2 };
	struct world *w = calloc(1, sizeof(*w));
	wtime now = 0;

	if (!w)
		return 0;
	w->in = (struct input){ data, data + size };
	mad_clients_init(&w->clients, &ops, w, &key);
	for (int i = 0; i < STEPS && w->in.at < w->in.end; i++) {
		w->hops = 0;
		step(w, &now);
		REQUIRE(list_empty(&w->clients.hops));
	}
	mad_clients_fini(&w->clients);
	REQUIRE(!w->clients.late.count);
	for (int i = 0; i < MAD_LATE_PLACES; i++)
		REQUIRE(!w->clients.late_from[i]);
	for (int i = 0; i < FILES; i++)
		REQUIRE(!w->file[i].requests && !w->file[i].transfers && !w->file[i].bytes && !w->file[i].bytes_in);
	REQUIRE(!w->clients.requests.count && !w->clients.transfers.count && !w->springs);
	free(w);
	return 0;
}
