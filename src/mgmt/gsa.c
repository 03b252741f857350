#include "mgmt/gsa.h"

#include <errno.h>
#include <stddef.h>

const struct gsa_tunables gsa_defaults = {
	.each = GSA_DEFAULT, .low_percent = 25, .growth = 2, .most = 65536, .period_ns = WTIME_S, .watch_factor = 8,
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
	for (uint32_t i = 0; i < GSA_CLIENTS; i++) {
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

	for (uint32_t i = 0; i < GSA_CLIENTS; i++) {
		const struct gsa_client *c = &g->client[i];

		beyond = (int64_t)c->held - c->target - c->raised;
		if (!c->is_used || beyond <= most)
			continue;
		most = beyond;
		client = i;
	}
	return client;
}

/* A client's own number; its part of the memory when there is too little for the numbers of all. */
static uint32_t share(const struct gsa *g, const struct gsa_client *c)
{
	uint32_t own = c->target - c->boost;

	return g->own <= g->tunables.most ? own : (uint32_t)((uint64_t)own * g->tunables.most / g->own);
}

/* GSA-25..27: beyond its own number a client has what no other client may still need for its own. */
static bool is_over_quota(const struct gsa *g, const struct gsa_client *c)
{
	uint64_t reserved = 0;

	if (g->tunables.fixed || c->held < share(g, c))
		return false;
	for (uint32_t i = 0; i < GSA_CLIENTS; i++) {
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
	       t->period_ns >= GSA_PERIOD_LEAST && t->period_ns <= GSA_PERIOD_MOST && t->fixed <= t->most;
}

static uint32_t target_of(const struct gsa *g, uint32_t asked)
{
	return largest(asked == GSA_NONE ? g->tunables.each : asked, g->tunables.floor);
}

static void set_target(struct gsa *g, struct gsa_client *c, uint32_t own, uint32_t boost)
{
	g->own = g->own - (c->target - c->boost) + own;
	g->target = g->target - c->target + own + boost;
	c->target = own + boost;
	c->boost = boost;
}

static void set_boost(struct gsa *g, struct gsa_client *c, uint32_t boost)
{
	set_target(g, c, target_of(g, c->asked), boost);
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
	for (uint32_t i = 0; i < GSA_CLIENTS; i++)
		if (g->client[i].is_used)
			set_target(g, &g->client[i], target_of(g, g->client[i].asked), 0);
	top_up(g);
	return 0;
}

int gsa_init(struct gsa *g, wtime now, const struct gsa_tunables *t, gsa_feedback *feedback, void *arg)
{
	*g = (struct gsa){ .tunables = gsa_defaults, .feedback = feedback, .arg = arg, .watched_at = now };
	return t ? gsa_set(g, t) : 0;
}

static uint32_t find_class(const struct gsa *g, uint8_t mgmt_class)
{
	for (uint32_t i = 0; i < GSA_CLIENTS; i++)
		if (g->client[i].is_used && g->client[i].mgmt_class == mgmt_class)
			return i;
	return GSA_NONE;
}

int gsa_register(struct gsa *g, uint8_t mgmt_class, uint32_t count, uint32_t *client)
{
	uint32_t i = 0;

	if (find_class(g, mgmt_class) != GSA_NONE)
		return -EBUSY;
	while (i < GSA_CLIENTS && g->client[i].is_used)
		i++;
	if (i == GSA_CLIENTS || (count != GSA_NONE && !has_memory(g, count)))
		return -ENOSPC;
	g->client[i] = (struct gsa_client){ .is_used = true, .mgmt_class = mgmt_class, .asked = count };
	g->clients++;
	set_target(g, &g->client[i], target_of(g, count), 0);
	top_up(g);
	*client = i;
	return 0;
}

static struct gsa_client *find(struct gsa *g, uint32_t client)
{
	return client < GSA_CLIENTS && g->client[client].is_used ? &g->client[client] : NULL;
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
	count = (int64_t)c->target - c->boost + by;
	if (count < 0)
		return -EINVAL;
	if (by > 0 && !has_memory(g, (uint32_t)by))
		return -ENOSPC;
	c->asked = (uint32_t)count;
	c->is_told = false;
	set_boost(g, c, c->boost);
	return 0;
}

/* ---- messages ---- */

uint32_t gsa_arrive(struct gsa *g, wtime now, uint8_t mgmt_class)
{
	uint32_t client = find_class(g, mgmt_class);
	struct gsa_client *c;

	g->arrivals++;
	if (!g->posted) {
		g->drops++;
		return GSA_NONE;
	}
	if (client == GSA_NONE) {
		g->unknown++;
		return GSA_NONE;
	}
	c = &g->client[client];
	c->arrivals++;
	c->lately++;
	if (is_over_quota(g, c)) {
		c->discards++;
		g->discards++;
		return GSA_NONE;
	}
	g->posted--;
	g->held++;
	c->held++;
	add_if_low(g, now);
	return client;
}

/* GSA-13, GSA-18: one that is too many is not posted again. Trimming goes on till no automatic ones are left (GSA-20). */
static bool is_too_many(struct gsa *g)
{
	if (g->is_trimming && g->automatic) {
		forget_automatic(g);
		g->trims++;
		g->is_trimming = g->automatic != 0;
		return true;
	}
	return owned(g) >= wanted(g) || owned(g) >= g->tunables.most;
}

int gsa_release(struct gsa *g, uint32_t client)
{
	struct gsa_client *c = find(g, client);

	if (!c || !c->held)
		return -EINVAL;
	c->held--;
	g->held--;
	if (is_too_many(g))
		return 0;
	g->posted++;
	if (!g->tunables.fixed && g->posted > gsa_high(g) && g->automatic)
		g->is_trimming = true;
	return 0;
}

/* ---- time ---- */

wtime gsa_deadline(const struct gsa *g)
{
	return g->tunables.fixed || !g->tunables.watch_factor ? WTIME_NEVER : g->watched_at + g->tunables.period_ns;
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
	for (uint32_t i = 0; i < GSA_CLIENTS; i++)
		if (g->client[i].is_used)
			watch(g, i);
}
