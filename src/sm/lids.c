#include "sm/lids.h"

#include "sm/request.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

uint32_t lids_end(const struct sm *s)
{
	uint32_t end = LIDS;

	for (uint32_t n = 0; n < s->net.nodes; n++) {
		struct smp_switch_info info;

		if (!s->net.node[n].is_here || !net_is_switch(&s->net, n))
			continue;
		smp_switch_info_get(&info, s->net.node[n].switch_info);
		/* one that has not said yet what it can has said 0 */
		if (info.linear_cap && info.linear_cap < end)
			end = info.linear_cap;
	}
	return end;
}

/* LIDs of a host's port. */
static unsigned range(const struct sm *s)
{
	return 1u << (s->config.lmc & LMC_MOST);
}

static unsigned count_of(const struct sm *s, uint32_t port)
{
	return net_is_switch(&s->net, s->net.owner[port]) ? 1 : range(s);
}

static bool is_free(const struct sm *s, uint32_t lid, unsigned count, uint32_t end)
{
	if (!lid || lid & (count - 1) || lid + count > end)
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (s->net.by_lid[lid + i])
			return false;
	}
	return true;
}

static void give(struct sm *s, uint32_t port, uint32_t lid)
{
	for (unsigned i = 0; i < count_of(s, port); i++)
		s->net.by_lid[lid + i] = port + 1;
	if (s->net.port[port].lid != lid) {
		s->net.lids_changed++;
		s->net.changes++;
	}
	s->net.port[port].lid = (uint16_t)lid;
}

static void take(struct sm *s, uint32_t port)
{
	uint32_t lid = s->net.port[port].lid;

	for (unsigned i = 0; lid && i < count_of(s, port); i++)
		s->net.by_lid[lid + i] = 0;
	s->net.changes += lid != 0;
	s->net.port[port].lid = 0;
}

/* LIDs of an earlier life's ports that have not been seen yet stay free as long as there are others. */
static bool is_for_all(const struct sm *s, uint32_t lid, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (s->net.is_kept[lid + i])
			return false;
	}
	return true;
}

/* Of ports that are gone, all at once. */
static bool take_from_the_gone(struct sm *s)
{
	bool any = memchr(s->net.is_kept, 1, LIDS) != NULL;

	memset(s->net.is_kept, 0, LIDS);
	for (uint32_t port = 0; port < s->net.ports; port++) {
		if (!s->net.port[port].lid || net_is_here(&s->net, port))
			continue;
		take(s, port);
		any = true;
	}
	return any;
}

static uint32_t find_free(const struct sm *s, unsigned count, uint32_t end, uint32_t *from)
{
	uint32_t lid = (*from + count - 1) & ~(count - 1);

	while (lid + count <= end && !(is_free(s, lid, count, end) && is_for_all(s, lid, count)))
		lid += count;
	*from = lid;
	return lid + count <= end ? lid : 0;
}

/* What a port says that it has, if nobody else has it. */
static void give_told(struct sm *s, uint32_t port, uint32_t end)
{
	struct smp_port_info info;

	smp_port_info_get(&info, s->net.port[port].info);
	if (is_free(s, info.lid, count_of(s, port), end))
		give(s, port, info.lid);
}

/* One that it had or has, if nobody else has it. */
static void give_own(struct sm *s, uint32_t port, uint32_t end)
{
	uint32_t kept = guid_map_find(&s->net.kept, s->net.port[port].guid);

	if (kept != UINT32_MAX && is_free(s, kept, count_of(s, port), end))
		give(s, port, kept);
	else
		give_told(s, port, end);
}

static unsigned count_holders(const struct sm *s, uint32_t lid, unsigned count)
{
	unsigned holders = 0;

	for (unsigned i = 0; i < count; i++)
		holders += s->net.by_lid[lid + i] && (!i || s->net.by_lid[lid + i] != s->net.by_lid[lid + i - 1]);
	return holders;
}

/* From ports that are here, and as few as possible: the first LID, or 0. */
static uint32_t take_from_the_fewest(struct sm *s, unsigned count, uint32_t end)
{
	uint32_t best = 0;
	unsigned fewest = UINT_MAX;

	for (uint32_t lid = count; lid + count <= end; lid += count) {
		unsigned holders = count_holders(s, lid, count);

		if (holders <= fewest) {
			best = lid;
			fewest = holders;
		}
	}
	for (unsigned i = 0; best && i < count; i++) {
		if (s->net.by_lid[best + i])
			take(s, s->net.by_lid[best + i] - 1);
	}
	return best;
}

/* The manager's own port goes first, and does not go without: nobody could send traps to it, or ask it. */
static uint32_t give_any(struct sm *s, uint32_t end)
{
	uint32_t from[2] = { 1, 1 }, without = 0;
	bool has_taken = false;

	for (uint32_t i = 0; i <= s->net.ports; i++) {
		uint32_t port = i ? i - 1 : s->net.own, lid;
		unsigned count = count_of(s, port);

		if (s->net.port[port].lid || !net_is_here(&s->net, port))
			continue;
		lid = find_free(s, count, end, &from[count > 1]);
		if (!lid && !has_taken && take_from_the_gone(s)) {
			from[0] = from[1] = 1;
			lid = find_free(s, count, end, &from[count > 1]);
		}
		has_taken |= !lid;
		if (!lid && !i)
			lid = take_from_the_fewest(s, count, end);
		without += i && !lid;
		if (lid)
			give(s, port, lid);
	}
	return without;
}

/* Another master has given LIDs since: ports that are here go before what this manager gave them and those that are gone. */
static void take_over(struct sm *s, uint32_t end)
{
	memset(s->net.by_lid, 0, LIDS * sizeof(*s->net.by_lid));
	for (uint32_t port = 0; port < s->net.ports; port++) {
		if (net_is_here(&s->net, port))
			give_told(s, port, end);
	}
	for (uint32_t port = 0; port < s->net.ports; port++) {
		uint32_t lid = s->net.port[port].lid;

		if (!lid || s->net.by_lid[lid] == port + 1)
			continue;
		if (is_free(s, lid, count_of(s, port), end)) {
			give(s, port, lid);
			continue;
		}
		s->net.port[port].lid = 0;
		s->net.changes++;
	}
}

/* Of nodes that are other than they were: their ports' GUIDs are those of other ports now. */
static void take_from_the_replaced(struct sm *s)
{
	for (uint32_t port = 0; port < s->net.ports; port++) {
		if (s->net.port[port].lid && !net_is_here(&s->net, port) && !net_has_own_guid(&s->net, port))
			take(s, port);
	}
}

uint32_t lids_assign(struct sm *s)
{
	uint32_t end = lids_end(s);

	take_from_the_replaced(s);
	if (s->has_stood_by)
		take_over(s, end);
	/* a port that has not answered is still to say what it has */
	s->has_stood_by &= s->has_failed;
	for (uint32_t port = 0; port < s->net.ports; port++) {
		uint32_t lid = s->net.port[port].lid;

		/* a switch that came since can forward fewer */
		if (lid && lid + count_of(s, port) > end)
			take(s, port);
		if (!s->net.port[port].lid && net_is_here(&s->net, port))
			give_own(s, port, end);
	}
	return give_any(s, end);
}

/* What has this LID is not known before it is seen. One that begins a range is kept with all of it, as a host's; if it is a
 * switch's, the rest is given when there are no others. One that begins none is a switch's, or of another LMC. */
int sm_keep_lid(struct sm *s, uint64_t guid, uint16_t lid)
{
	unsigned count = lid & (range(s) - 1) ? 1 : range(s);

	if (!guid || !lid || lid >= LIDS)
		return -EINVAL;
	memset(s->net.is_kept + lid, true, count);
	return guid_map_put(&s->net.kept, guid, lid);
}

bool sm_kept_lid(const struct sm *s, uint32_t *cursor, uint64_t *guid, uint16_t *lid)
{
	while (*cursor < s->net.ports) {
		const struct net_port *p = &s->net.port[(*cursor)++];

		if (!p->lid)
			continue;
		*guid = p->guid;
		*lid = p->lid;
		return true;
	}
	return false;
}
