#include "mgmt/gsa.h"

#include <errno.h>
#include <stdlib.h>

const struct gsa_tunables gsa_defaults = {
	.each = GSA_DEFAULT, .floor = 1, .low_percent = 25, .growth = 2, .most = 65536, .period_ns = WTIME_S, .watch_factor = 8,
	.window = GSA_WINDOW, .longest_kb = GSA_LONGEST_KB, .program_kb = GSA_PROGRAM_KB,
};

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t largest(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* GSA-16, GSA-20: it grows with clients, and is below what they have. */
uint32_t gsa_low(const struct gsa *g)
{
	uint32_t low = g->tunables.low;

	if (!low) {
		low = (uint32_t)(((uint64_t)g->target * g->tunables.low_percent + 99) / 100);
		low = largest(low, g->clients);
	}
	return g->target ? least(low, g->target - 1) : 0;
}

uint32_t gsa_high(const struct gsa *g)
{
	return g->tunables.high ? largest(g->tunables.high, g->target) : least(g->target, UINT32_MAX / 2) * 2;
}

/* All that there are: posted ones, and those that clients hold. */
static uint32_t owned(const struct gsa *g)
{
	return g->posted + g->held;
}

uint64_t gsa_bytes(const struct gsa *g)
{
	return (uint64_t)owned(g) * GSA_BUFFER_BYTES;
}

static uint32_t wanted(const struct gsa *g)
{
	return g->tunables.fixed ? g->tunables.fixed : g->target + g->automatic;
}

/* Posts what is missing, as far as there is memory. */
static void post_missing(struct gsa *g)
{
	uint32_t most = least(wanted(g), g->tunables.most);

	if (owned(g) < most)
		g->posted += most - owned(g);
}

/* One of the automatic ones is none any more. */
static void forget_automatic(struct gsa *g)
{
	g->automatic--;
	for (uint32_t i = 0; i < g->places; i++) {
		if (g->client[i].is_used && g->client[i].raised) {
			g->client[i].raised--;
			return;
		}
	}
}

static uint32_t room(const struct gsa *g)
{
	return g->tunables.most > owned(g) ? g->tunables.most - owned(g) : 0;
}

/* Buffers for a client beside its own; those that there is memory for. */
static uint32_t raise_client(struct gsa *g, uint32_t client, uint32_t by)
{
	by = least(by, room(g));
	g->automatic += by;
	g->posted += by;
	if (client != GSA_NONE)
		g->client[client].raised += by;
	return by;
}

/* Whoever holds the most beyond its number is who needs them (GSA-24). */
static uint32_t busiest(const struct gsa *g)
{
	int64_t beyond, most = INT64_MIN;
	uint32_t client = GSA_NONE;

	for (uint32_t i = 0; i < g->places; i++) {
		const struct gsa_client *c = &g->client[i];

		beyond = (int64_t)c->held - c->target - c->raised;
		if (!c->is_used || beyond <= most)
			continue;
		most = beyond;
		client = i;
	}
	return client;
}

/* A client's own number; its part of the memory when there is too little for the numbers of all: one at least, and of the others
 * as many as its number has of all numbers. If even that is too much, what its number has of all. */
static uint32_t share(const struct gsa *g, const struct gsa_client *c)
{
	uint32_t own = c->target - c->boost, most = g->tunables.most;

	if (!own || g->own <= most)
		return own;
	if (most < g->sharers)
		return (uint32_t)((uint64_t)own * most / g->own);
	return 1 + (uint32_t)((uint64_t)(own - 1) * (most - g->sharers) / (g->own - g->sharers));
}

/* GSA-25..27: beyond its own number a client has what no other client may still need for its own. */
static bool is_over_quota(const struct gsa *g, const struct gsa_client *c)
{
	uint64_t reserved = 0;

	if (g->tunables.fixed || c->held < share(g, c))
		return false;
	for (uint32_t i = 0; i < g->places; i++) {
		const struct gsa_client *other = &g->client[i];

		if (other->is_used && other->held < share(g, other))
			reserved += share(g, other) - other->held;
	}
	return (uint64_t)g->posted + room(g) <= reserved;
}

/* GSA-14: with none posted the next message is lost, so that is too few whatever the threshold. */
static bool is_low(const struct gsa *g)
{
	return !g->tunables.fixed && g->target && (g->posted < gsa_low(g) || !g->posted);
}

static void add(struct gsa *g, uint32_t by)
{
	uint32_t got = raise_client(g, busiest(g), by);

	g->is_trimming = false;
	if (!got)
		return;
	g->additions++;
	g->added = got;
}

/* A number has changed, and so has what is too few. */
static void top_up(struct gsa *g)
{
	post_missing(g);
	if (is_low(g))
		add(g, g->target - g->posted);
}

/* GSA-14, GSA-17: back to what clients have; more, if that was so a short time ago. */
static void add_if_low(struct gsa *g, wtime now)
{
	uint64_t additions = g->additions;
	uint32_t by;

	if (!is_low(g))
		return;
	by = g->target - g->posted;
	if (g->added && g->tunables.growth > 1 && now - g->added_at < g->tunables.period_ns)
		by = largest(by, g->added > UINT32_MAX / g->tunables.growth ? UINT32_MAX : g->added * g->tunables.growth);
	add(g, by);
	if (g->additions != additions)
		g->added_at = now;
}

/* ---- clients ---- */

static bool makes_sense(const struct gsa_tunables *t)
{
	return t->each && t->each <= t->most && t->floor <= t->each && t->low_percent && t->low_percent < 100 && t->growth &&
	       t->most <= GSA_MOST && t->low < t->most && t->high <= t->most && (!t->low || !t->high || t->low < t->high) &&
	       t->period_ns >= GSA_PERIOD_LEAST && t->period_ns <= GSA_PERIOD_MOST && t->fixed <= t->most &&
	       t->window && t->window <= GSA_WINDOW_MOST;
}

static uint32_t target_of(const struct gsa *g, const struct gsa_client *c)
{
	return largest(c->asked == GSA_NONE ? g->tunables.each : c->asked, g->tunables.floor) + c->lent;
}

static void set_target(struct gsa *g, struct gsa_client *c, uint32_t own, uint32_t boost)
{
	uint32_t was = c->target - c->boost;

	g->sharers += (own != 0) - (was != 0);
	g->own = g->own - was + own;
	g->target = g->target - c->target + own + boost;
	c->target = own + boost;
	c->boost = boost;
}

static void set_boost(struct gsa *g, struct gsa_client *c, uint32_t boost)
{
	set_target(g, c, target_of(g, c), boost);
	top_up(g);
}

/* Is there memory for the numbers of all, with so many more? */
static bool has_memory(const struct gsa *g, uint32_t more)
{
	return (uint64_t)g->own + more <= g->tunables.most;
}

int gsa_set(struct gsa *g, const struct gsa_tunables *t)
{
	if (!makes_sense(t))
		return -EINVAL;
	g->tunables = *t;
	for (uint32_t i = 0; i < g->places; i++)
		if (g->client[i].is_used)
			set_target(g, &g->client[i], target_of(g, &g->client[i]), 0);
	top_up(g);
	return 0;
}

int gsa_init(struct gsa *g, wtime now, const struct gsa_tunables *t, gsa_feedback *feedback, void *arg)
{
	*g = (struct gsa){ .tunables = gsa_defaults, .feedback = feedback, .arg = arg, .watched_at = now };
	return t ? gsa_set(g, t) : 0;
}

void gsa_fini(struct gsa *g)
{
	free(g->client);
	*g = (struct gsa){ .client = NULL };
}

static int make_place(struct gsa *g)
{
	uint32_t places = g->places ? 2 * g->places : 16;
	struct gsa_client *more = realloc(g->client, places * sizeof(*more));

	if (!more)
		return -ENOMEM;
	for (uint32_t i = g->places; i < places; i++)
		more[i].is_used = false;
	g->client = more;
	g->places = places;
	return 0;
}

uint32_t gsa_find(const struct gsa *g, uint32_t mgmt_class)
{
	for (uint32_t i = 0; i < g->places; i++)
		if (g->client[i].is_used && g->client[i].mgmt_class == mgmt_class)
			return i;
	return GSA_NONE;
}

int gsa_register(struct gsa *g, uint32_t mgmt_class, uint32_t count, uint32_t *client)
{
	uint32_t i = 0;

	if (mgmt_class != GSA_ANY_CLASS && gsa_find(g, mgmt_class) != GSA_NONE)
		return -EBUSY;
	while (i < g->places && g->client[i].is_used)
		i++;
	if (i == GSA_CLIENTS || (count != GSA_NONE && !has_memory(g, count)))
		return -ENOSPC;
	if (i == g->places && make_place(g))
		return -ENOMEM;
	g->client[i] = (struct gsa_client){ .is_used = true, .mgmt_class = mgmt_class, .asked = count };
	g->clients++;
	set_target(g, &g->client[i], target_of(g, &g->client[i]), 0);
	top_up(g);
	*client = i;
	return 0;
}

static struct gsa_client *find(struct gsa *g, uint32_t client)
{
	return client < g->places && g->client[client].is_used ? &g->client[client] : NULL;
}

int gsa_unregister(struct gsa *g, uint32_t client)
{
	struct gsa_client *c = find(g, client);

	if (!c)
		return -ENOENT;
	set_target(g, c, 0, 0);
	g->clients--;
	g->automatic -= c->raised;
	c->raised = 0;
	while (c->held)
		gsa_release(g, client);
	c->is_used = false;
	return 0;
}

int gsa_change(struct gsa *g, uint32_t client, int32_t by)
{
	struct gsa_client *c = find(g, client);
	int64_t count;

	if (!c)
		return -ENOENT;
	count = (int64_t)c->target - c->boost - c->lent + by;
	if (count < 0)
		return -EINVAL;
	if (by > 0 && !has_memory(g, (uint32_t)by))
		return -ENOSPC;
	c->asked = (uint32_t)count;
	c->is_told = false;
	c->should = 0;
	set_boost(g, c, c->boost);
	return 0;
}

int gsa_lend(struct gsa *g, uint32_t client, int32_t by)
{
	struct gsa_client *c = find(g, client);

	if (!c)
		return -ENOENT;
	if ((int64_t)c->lent + by < 0)
		return -EINVAL;
	if (by > 0 && !has_memory(g, (uint32_t)by))
		return -ENOSPC;
	c->lent += (uint32_t)by;
	set_boost(g, c, c->boost);
	return 0;
}

/* ---- messages ---- */

/* Periods without a message are left out, so that a QP that rests has no timer. */
static void begin_watch(struct gsa *g, wtime now)
{
	if (g->is_watched)
		return;
	g->is_watched = true;
	g->watched_at += (now - g->watched_at) / g->tunables.period_ns * g->tunables.period_ns;
}

/* It has come into a posted buffer, and is this client's, or NULL. */
static struct gsa_client *come(struct gsa *g, wtime now, uint32_t client)
{
	struct gsa_client *c = find(g, client);

	g->arrivals++;
	if (!g->posted) {
		g->drops++;
		if (c)
			c->drops++;
		return NULL;
	}
	if (!c) {
		g->unknown++;
		return NULL;
	}
	begin_watch(g, now);
	c->arrivals++;
	c->lately++;
	return c;
}

static void discard(struct gsa *g, struct gsa_client *c)
{
	c->discards++;
	g->discards++;
}

void gsa_discard(struct gsa *g, wtime now, uint32_t client)
{
	struct gsa_client *c = come(g, now, client);

	if (c)
		discard(g, c);
}

bool gsa_arrive_at(struct gsa *g, wtime now, uint32_t client)
{
	struct gsa_client *c = come(g, now, client);

	if (!c)
		return false;
	if (is_over_quota(g, c)) {
		discard(g, c);
		return false;
	}
	g->posted--;
	g->held++;
	c->held++;
	add_if_low(g, now);
	return true;
}

uint32_t gsa_arrive(struct gsa *g, wtime now, uint32_t mgmt_class)
{
	uint32_t client = gsa_find(g, mgmt_class);

	return gsa_arrive_at(g, now, client) ? client : GSA_NONE;
}

/* GSA-13, GSA-18: one that is too many is not posted again. Trimming goes on till no automatic ones are left (GSA-20). Automatic
 * ones that there was no memory for give theirs to what clients have asked for (GSA-19). */
int gsa_release(struct gsa *g, uint32_t client)
{
	struct gsa_client *c = find(g, client);

	if (!c || !c->held)
		return -EINVAL;
	c->held--;
	g->held--;
	if (!g->tunables.fixed && g->is_trimming && g->automatic) {
		forget_automatic(g);
		g->trims++;
		g->is_trimming = g->automatic != 0;
	}
	post_missing(g);
	if (!g->tunables.fixed && g->posted > gsa_high(g) && g->automatic)
		g->is_trimming = true;
	return 0;
}

/* ---- time ---- */

wtime gsa_deadline(const struct gsa *g)
{
	return g->tunables.fixed || !g->tunables.watch_factor || !g->is_watched ? WTIME_NEVER :
										 g->watched_at + g->tunables.period_ns;
}

/* GSA-21, GSA-22: its number is doubled while it has too many messages for it, and falls when it has few; it is told once what it
 * should ask for. */
static void watch(struct gsa *g, uint32_t client)
{
	struct gsa_client *c = &g->client[client];
	uint32_t number = largest(c->target, 1), lately = c->lately, due = lately / g->tunables.watch_factor;

	c->lately = 0;
	if (due < number / 4 + (number % 4 != 0))
		set_boost(g, c, c->boost / 2);
	if (due < number)
		return;
	set_boost(g, c, c->boost + least(number, g->tunables.most - least(g->target, g->tunables.most)));
	c->should = largest(c->should, due + 1);
	if (c->is_told || !g->feedback)
		return;
	c->is_told = true;
	g->feedback(g->arg, client, c->asked, lately, due + 1);
}

void gsa_expire(struct gsa *g, wtime now)
{
	if (gsa_deadline(g) > now)
		return;
	g->watched_at = now;
	g->is_watched = false;
	for (uint32_t i = 0; i < g->places; i++) {
		if (!g->client[i].is_used)
			continue;
		g->is_watched |= g->client[i].lately != 0;
		watch(g, i);
		g->is_watched |= g->client[i].boost != 0;
	}
}
