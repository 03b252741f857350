#include "sm/election.h"

#include "base/log.h"
#include "sm/request.h"
#include "sm/sa.h"
#include "sm/sweep.h"
#include "wire/field.h"

#include <string.h>

/* 14.2.5.13, table 155 */
#define INFO_GUID 0, 0, 64
#define INFO_KEY 8, 0, 64
#define INFO_ACT_COUNT 16, 0, 32
#define INFO_PRIORITY 20, 0, 4
#define INFO_STATE 20, 4, 4

/* The attribute modifier of SubnSet(SMInfo): 14.4.1, table 195 */
enum { HANDOVER = 1, ACKNOWLEDGE, DISABLE, STANDBY, DISCOVER };

enum { POLLS_MOST = 3 };	/* our choice: unanswered, until the master is taken for gone */

static uint64_t own_guid(const struct sm *s)
{
	return s->net.own == PORT_NONE ? 0 : s->net.port[s->net.own].guid;
}

void sm_write_info(const struct sm *s, uint8_t info[SMP_DATA_BYTES])
{
	memset(info, 0, SMP_DATA_BYTES);
	wire_put(info, own_guid(s), INFO_GUID);
	wire_put(info, s->config.key, INFO_KEY);
	wire_put(info, s->act_count, INFO_ACT_COUNT);
	wire_put(info, s->config.priority, INFO_PRIORITY);
	wire_put(info, s->state, INFO_STATE);
}

void sm_write_other(const struct sm *s, const struct sm_other *o, uint8_t info[SMP_DATA_BYTES])
{
	memset(info, 0, SMP_DATA_BYTES);
	wire_put(info, o->guid, INFO_GUID);
	wire_put(info, s->config.key, INFO_KEY);
	wire_put(info, o->act_count, INFO_ACT_COUNT);
	wire_put(info, o->priority, INFO_PRIORITY);
	wire_put(info, o->state, INFO_STATE);
}

static bool is_better(uint8_t priority, uint64_t guid, uint8_t than_priority, uint64_t than_guid)
{
	return priority > than_priority || (priority == than_priority && guid < than_guid);
}

static struct sm_other *other_at(struct sm *s, uint32_t port)
{
	for (uint32_t i = 0; i < s->others; i++) {
		if (s->other[i].port == port)
			return &s->other[i];
	}
	return NULL;
}

/* A master is to be known before any other. */
static bool outranks(const struct sm_other *a, const struct sm_other *b)
{
	if ((a->state == SM_MASTER) != (b->state == SM_MASTER))
		return a->state == SM_MASTER;
	return is_better(a->priority, a->guid, b->priority, b->guid);
}

static struct sm_other *worst_of(struct sm *s)
{
	struct sm_other *worst = &s->other[0];

	for (uint32_t i = 1; i < s->others; i++) {
		if (outranks(worst, &s->other[i]))
			worst = &s->other[i];
	}
	return worst;
}

static void note_other(struct sm *s, uint32_t port, const uint8_t *info)
{
	const struct sm_other other = { .guid = wire_get(info, INFO_GUID), .port = port,
					.priority = (uint8_t)wire_get(info, INFO_PRIORITY),
					.act_count = (uint32_t)wire_get(info, INFO_ACT_COUNT),
					.state = (uint8_t)wire_get(info, INFO_STATE) };
	struct sm_other *o = other_at(s, port);

	s->net.port[port].is_sm = true;
	if (!o && s->others < SM_OTHERS) {
		o = &s->other[s->others++];
	} else if (!o) {
		o = worst_of(s);
		if (!outranks(&other, o))
			return;
	}
	*o = other;
}

/* Another one has been asked in a sweep. One with another key is none of ours (14.4.1). */
void election_sm_info(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	uint32_t port = net_port_index(&s->net, w->node, w->number);
	struct sm_other *o = other_at(s, port);
	bool is_ours = data && wire_get(data, INFO_KEY) == s->config.key;

	s->counters.info_refused += data && !is_ours;
	if (is_ours)
		note_other(s, port, data);
	else if (o)
		*o = s->other[--s->others];
}

/* ---- what follows from it ---- */

/* What a master before it has written nobody knows. */
static void begin_as_master(struct sm *s)
{
	s->is_reregister_due = s->has_changed = true;
	s->has_tables = false;
	net_forget_tables(&s->net);
}

static void become(struct sm *s, wtime now, enum sm_state state)
{
	static const char *const names[] = { "not active", "discovering", "standby", "master" };

	if (s->state == state)
		return;
	log_line(LOG_INFO, "the subnet manager is %s", names[state]);
	s->is_up &= state == SM_MASTER;
	s->state = state;
	s->unanswered = 0;
	s->has_stood_by |= state == SM_STANDBY;
	s->next_poll = state == SM_STANDBY ? now + s->config.poll_ns : WTIME_NEVER;
	s->handed_at = WTIME_NEVER;
	if (state == SM_MASTER) {
		begin_as_master(s);
		sa_groups_begin_anew(s, now);
	} else {
		net_distrust_ports(&s->net);
		net_drop_due_guids(&s->net);
		s->sa->has_groups = false;
	}
}

/* Of those in one of these states (bits), the best one that is better than this manager; or than nobody. */
static const struct sm_other *best_of(const struct sm *s, unsigned states, bool than_anybody)
{
	const struct sm_other *best = NULL;
	uint8_t priority = s->config.priority;
	uint64_t guid = own_guid(s);

	for (uint32_t i = 0; i < s->others; i++) {
		const struct sm_other *o = &s->other[i];

		if (!(states >> o->state & 1) || (!(than_anybody && !best) && !is_better(o->priority, o->guid, priority, guid)))
			continue;
		best = o;
		priority = o->priority;
		guid = o->guid;
	}
	return best;
}

/* 14.4.1: a master hands over to a better standby, or to a better master of what was another subnet. */
static void decide_master(struct sm *s)
{
	const struct sm_other *o = best_of(s, 1 << SM_STANDBY | 1 << SM_MASTER, false);

	if (o)
		request_add(s, &(struct sm_work){ .kind = WORK_CONTROL, .node = s->net.owner[o->port],
						  .number = (uint8_t)net_port_number(&s->net, o->port),
						  .modifier = HANDOVER });
	/* one that is still looking around, or a worse master, which is to hand over to this one */
	if (best_of(s, 1 << SM_DISCOVERING, false) || best_of(s, 1 << SM_MASTER, true))
		s->is_poll_due = true;
}

bool election_decide(struct sm *s, wtime now)
{
	const struct sm_other *o = best_of(s, 1 << SM_MASTER, true);

	s->is_poll_due = false;
	if (s->state == SM_MASTER)
		decide_master(s);
	if (s->state != SM_DISCOVERING)
		return s->state == SM_MASTER;
	if (!o)
		o = best_of(s, 1 << SM_STANDBY | 1 << SM_DISCOVERING, false);
	s->master = o ? o->port : PORT_NONE;
	become(s, now, o ? SM_STANDBY : SM_MASTER);
	return !o;
}

/* ---- a standby and its master ---- */

static void discover_again(struct sm *s, wtime now)
{
	become(s, now, SM_DISCOVERING);
	sm_sweep(s, now, true);
}

void election_expire(struct sm *s, wtime now)
{
	if (s->state != SM_STANDBY || now < s->next_poll)
		return;
	s->next_poll = now + s->config.poll_ns;
	/* without memory of a master it looks for one */
	if (s->master == PORT_NONE || ++s->unanswered > POLLS_MOST) {
		discover_again(s, now);
		return;
	}
	request_add(s, &(struct sm_work){ .kind = WORK_POLL, .node = s->net.owner[s->master],
					  .number = (uint8_t)net_port_number(&s->net, s->master) });
}

void election_poll(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	s->net.node[w->node].is_silent = false;
	if (s->state != SM_STANDBY)
		return;
	/* a refusal says that no manager is there any more */
	if (!data && !s->was_silent)
		s->unanswered = POLLS_MOST;
	if (!data)
		return;
	if (wire_get(data, INFO_STATE) == SM_MASTER)
		s->unanswered = 0;
	else if (wire_get(data, INFO_STATE) == SM_NOT_ACTIVE)
		s->unanswered = POLLS_MOST;
	/* one that is looking around, or stands by as well, becomes a master or does not answer as one for long */
}

/* ---- one manager tells another ---- */

void election_fill(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	sm_write_info(s, data);
	if (w->modifier == ACKNOWLEDGE)
		wire_put(data, SM_STANDBY, INFO_STATE);
}

/* Whoever takes a handover is the master from then on. */
void election_control(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	s->net.node[w->node].is_silent = false;
	if (!data || w->modifier != HANDOVER || s->state != SM_MASTER)
		return;
	s->master = net_port_index(&s->net, w->node, w->number);
	become(s, now, SM_STANDBY);
	sweep_stop(s);
}

/* Another master has given up its subnet, into which it wrote while this one looked: ports are asked. What this one has promised
 * them is still due, and they stay in its groups: it was their master all the time. */
void election_take_subnet(struct sm *s, wtime now)
{
	s->handed_at = WTIME_NEVER;
	s->next_handover = now + s->config.poll_ns;
	s->is_up = false;
	s->heavy_is_due = true;
	begin_as_master(s);
	net_distrust_ports(&s->net);
}

/* The port with this GUID tells whether a manager is there. Where two subnets have become one, a master does not know the other's
 * port yet. A standby knows its master's. */
static bool may_hand_over(const struct sm *s, uint64_t guid)
{
	uint32_t port = guid_map_find(&s->net.by_port, guid);
	struct smp_port_info info;

	if (port == UINT32_MAX || !net_is_here(&s->net, port) || !s->net.port[port].is_known)
		return s->state == SM_MASTER;
	smp_port_info_get(&info, s->net.port[port].info);
	return port != s->net.own && info.capabilities & CAPABLE_SM;
}

/* However often it is handed a subnet, a sweep under way ends, and poll_ns lie between two that begin therefore. */
static bool take_over(struct sm *s, wtime now, uint64_t guid)
{
	if (!may_hand_over(s, guid))
		return false;
	if (s->state == SM_MASTER) {
		s->handed_at = wtime_min(s->handed_at, now > s->next_handover ? now : s->next_handover);
		return true;
	}
	if (now < s->next_handover)
		return false;
	s->next_handover = now + s->config.poll_ns;
	become(s, now, SM_MASTER);
	sm_sweep(s, now, true);
	return true;
}

/* What it calls for in this state, or a refusal. 14.4.1: a master alone hands over, disables and wakes. */
static bool obey(struct sm *s, wtime now, uint32_t modifier, const uint8_t *info)
{
	unsigned sender_state = (unsigned)wire_get(info, INFO_STATE);

	if (modifier == ACKNOWLEDGE)
		return sender_state == SM_STANDBY;
	if (sender_state != SM_MASTER)
		return false;
	if (modifier == HANDOVER && (s->state == SM_STANDBY || s->state == SM_MASTER))
		return take_over(s, now, wire_get(info, INFO_GUID));
	if (modifier == DISABLE && (s->state == SM_STANDBY || s->state == SM_NOT_ACTIVE)) {
		become(s, now, SM_NOT_ACTIVE);
		sweep_stop(s);
		return true;
	}
	if (modifier == STANDBY && s->state == SM_NOT_ACTIVE) {
		become(s, now, SM_STANDBY);
		return true;
	}
	if (modifier == DISCOVER && s->state == SM_STANDBY) {
		discover_again(s, now);
		return true;
	}
	return false;
}

/* The end port that a directed route comes from, back over the links as they are known: PORT_NONE where one of them is not. */
static uint32_t comes_from(const struct sm *s, const uint8_t mad[MAD_BYTES])
{
	uint32_t port = s->net.own, node = s->net.owner[port];
	struct smp_head head;

	smp_head_get(&head, mad);
	for (unsigned hop = head.hop_count; hop && hop <= SMP_HOPS_MOST; hop--) {
		unsigned number = head.return_path[hop];

		port = number && number <= s->net.node[node].ports ?
				s->net.port[net_port_index(&s->net, node, number)].peer : PORT_NONE;
		if (port == PORT_NONE)
			return PORT_NONE;
		node = s->net.owner[port];
	}
	return net_is_switch(&s->net, node) ? net_port_index(&s->net, node, 0) : port;
}

/* Somebody asks who manages. At a known port a manager may have begun, and the trap that told of it may be lost: the next sweep
 * asks the port, and begins no earlier therefore. From where this master knows no link, two subnets may have become one, and
 * whoever was faster has cleared what would tell of it. */
static void judge_asker(struct sm *s, wtime now, const struct mad_header *h, const uint8_t mad[MAD_BYTES])
{
	uint32_t from;

	if (h->method != MAD_GET || h->mgmt_class != MAD_CLASS_SUBN_DIRECTED || s->state != SM_MASTER)
		return;
	from = comes_from(s, mad);
	if (from != PORT_NONE) {
		s->net.port[from].is_asked = true;
	} else if (now >= s->next_look) {
		s->next_look = now + s->config.poll_ns;
		sm_sweep(s, now, true);
	}
}

void election_input(struct sm *s, wtime now, uint8_t mad[MAD_BYTES])
{
	enum mad_status status = 0;
	struct mad_header h;
	bool is_ours = wire_get(mad + SMP_DATA, INFO_KEY) == s->config.key;

	mad_header_parse(&h, mad);
	s->act_count++;
	judge_asker(s, now, &h, mad);
	if (h.method == MAD_SET && (!is_ours || !obey(s, now, h.attr_modifier, mad + SMP_DATA)))
		status = MAD_STATUS_BAD_VALUE;
	s->counters.info_refused += status != 0;
	sm_write_info(s, mad + SMP_DATA);
	mad_respond(mad, status);
}
