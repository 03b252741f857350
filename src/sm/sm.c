#include "sm/sm.h"

#include "sm/election.h"
#include "sm/lanes.h"
#include "sm/reply.h"
#include "sm/request.h"
#include "sm/routing.h"
#include "sm/sa.h"
#include "sm/sweep.h"
#include "wire/field.h"
#include "wire/sa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BIT(method) (1ull << (method))
#define SMP_M_KEY 24, 0, 64	/* 14.2.1.1 */

const struct mad_registration sm_registrations[SM_AGENTS] = {
	[SM_AGENT_DIRECTED] = { .mgmt_class = MAD_CLASS_SUBN_DIRECTED, .class_version = SMP_CLASS_VERSION,
				.methods = { BIT(MAD_GET) | BIT(MAD_SET) | BIT(MAD_TRAP) } },
	[SM_AGENT_LID] = { .mgmt_class = MAD_CLASS_SUBN_LID, .class_version = SMP_CLASS_VERSION,
			   .methods = { BIT(MAD_GET) | BIT(MAD_SET) | BIT(MAD_TRAP) } },
	[SM_AGENT_SA] = { .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .rmpp_version = 1,
			  .methods = { BIT(MAD_GET) | BIT(MAD_SET) | BIT(SA_GET_TABLE) | BIT(SA_GET_MULTI) | BIT(SA_DELETE) |
				       BIT(MAD_SEND) | BIT(SA_GET_TRACE_TABLE) } },
};

enum {
	SUBNET_TIMEOUT = 18,		/* of traps: 4.096 us * 2^18, about a second, as OpenSM's */
	SUBNET_TIMEOUT_MOST = 31,	/* 14.2.5.6 */
};

static void use_defaults(struct sm_config *c)
{
	c->prefix = c->prefix ? c->prefix : PREFIX_DEFAULT;
	c->key = c->key ? c->key : 1;
	c->subnet_timeout &= SUBNET_TIMEOUT_MOST;
	c->subnet_timeout = c->subnet_timeout ? c->subnet_timeout : SUBNET_TIMEOUT;
	c->window = c->window ? c->window : 64;
	c->window = c->window < SM_WINDOW_MOST ? c->window : SM_WINDOW_MOST;
	c->response_ns = c->response_ns ? c->response_ns : 100 * WTIME_MS;
	c->sweep_ns = c->sweep_ns ? c->sweep_ns : 10 * WTIME_S;
	c->poll_ns = c->poll_ns ? c->poll_ns : WTIME_S;
	c->at_once = c->at_once ? c->at_once : SA_ANSWER_AT_ONCE;
}

int sm_init(struct sm *s, const struct sm_config *config)
{
	*s = (struct sm){ .config = *config, .next_sweep = WTIME_NEVER, .next_poll = WTIME_NEVER, .next_timeout = WTIME_NEVER,
			  .trees_at = WTIME_NEVER, .handed_at = WTIME_NEVER, .master = PORT_NONE };
	use_defaults(&s->config);
	lanes_init(s, config->qos);
	s->config.qos = NULL;
	s->config.partitions = NULL;
	s->engine = s->config.routing == ROUTE_ALWAYS_UP_DOWN ? ROUTE_UP_DOWN : ROUTE_MIN_HOP;
	list_init(&s->smp_replies);
	list_init(&s->sa_replies);
	if (net_init(&s->net) || sa_init(s) || partitions_init(s, config->partitions)) {
		sm_fini(s);
		return -ENOMEM;
	}
	return 0;
}

static void reply_free(struct sm_reply *r)
{
	if (r && r->source)
		r->source->end(r->source);
	free(r);
}

static void drop_replies(struct list *replies)
{
	struct list_node *n;

	while ((n = list_pop(replies)))
		reply_free(container_of(n, struct sm_reply, node));
}

void sm_fini(struct sm *s)
{
	drop_replies(&s->smp_replies);
	drop_replies(&s->sa_replies);
	reply_free(s->given);
	free(s->queue);
	sa_fini(s);
	groups_fini(s);
	routing_fini(s);
	partitions_fini(s);
	net_fini(&s->net);
	memset(s, 0, sizeof(*s));
}

void sm_start(struct sm *s, wtime now)
{
	s->state = SM_DISCOVERING;
	sm_sweep(s, now, true);
}

bool sm_is_quiet(const struct sm *s)
{
	return s->phase == SM_IDLE && !s->is_due && wtime_min(s->trees_at, s->handed_at) == WTIME_NEVER && request_all_done(s) &&
	       s->state != SM_DISCOVERING && (s->is_up || s->state != SM_MASTER);
}

/* ---- what goes out ---- */

uint8_t *reply_add(struct sm *s, const struct mad_letter *letter, uint32_t bytes)
{
	struct list *to = letter->agent == SM_AGENT_SA ? &s->sa_replies : &s->smp_replies;
	struct sm_reply *r = s->replies < REPLIES_MOST ? malloc(sizeof(*r) + bytes) : NULL;

	if (!r)
		return NULL;
	*r = (struct sm_reply){ .letter = *letter };
	r->letter.status = 0;
	r->letter.data = r->data;
	r->letter.bytes = bytes;
	list_append(to, &r->node);
	s->replies++;
	return r->data;
}

void reply_follow(uint8_t *data, struct mad_source *source)
{
	struct sm_reply *r = container_of(data, struct sm_reply, data);

	r->source = source;
	r->letter.source = &r->source;
}

static bool give(struct sm *s, struct list *replies, struct mad_letter *letter)
{
	struct list_node *n = list_pop(replies);

	if (!n)
		return false;
	s->replies--;
	s->given = container_of(n, struct sm_reply, node);
	*letter = s->given->letter;
	return true;
}

/* Answers of the SA wait for SMPs that are due: what it has granted is written then. */
bool sm_output(struct sm *s, wtime now, struct mad_letter *letter)
{
	s->now = now;
	reply_free(s->given);
	s->given = NULL;
	request_expire(s, now);
	election_expire(s, now);
	sa_expire(s, now);
	if (give(s, &s->smp_replies, letter) || request_output(s, now, letter))
		return true;
	sweep_go_on(s, now);
	return request_output(s, now, letter) || give(s, &s->sa_replies, letter);
}

wtime sm_deadline(const struct sm *s)
{
	wtime due = wtime_min(request_deadline(s), wtime_min(sweep_deadline(s), sa_deadline(s)));

	if (s->replies)
		return 0;
	return wtime_min(due, s->state == SM_STANDBY ? s->next_poll : WTIME_NEVER);
}

/* ---- what comes in ---- */

static void respond(struct sm *s, wtime now, const struct mad_letter *letter)
{
	uint8_t *mad = reply_add(s, &(struct mad_letter){ .agent = letter->agent, .remote = letter->remote }, MAD_BYTES);

	if (!mad)
		return;
	memcpy(mad, letter->data, MAD_BYTES);
	election_input(s, now, mad);
}

/* 13.4.9: its sender repeats it until it hears this. Its M_Key ends the lease that a wrong one has begun (14.2.4.2). */
static void repress(struct sm *s, const struct mad_letter *letter)
{
	uint8_t *mad = reply_add(s, &(struct mad_letter){ .agent = letter->agent, .remote = letter->remote }, MAD_BYTES);
	struct mad_header h;

	if (!mad)
		return;
	memcpy(mad, letter->data, MAD_BYTES);
	mad_header_parse(&h, mad);
	h.method = MAD_TRAP_REPRESS;
	mad_header_build(&h, mad);
	wire_put(mad, s->config.m_key, SMP_M_KEY);
}

static void take_trap(struct sm *s, wtime now, const struct mad_letter *letter)
{
	if (s->state != SM_MASTER)
		return;
	repress(s, letter);
	sweep_trap(s, now, letter->data + SMP_DATA);
	sa_notice(s, now, letter->data + SMP_DATA);
}

void sm_input(struct sm *s, wtime now, const struct mad_letter *letter)
{
	struct mad_header h;

	s->now = now;
	if (letter->agent == SM_AGENT_SA) {
		sa_input(s, now, letter);
		return;
	}
	if (letter->bytes < MAD_BYTES)
		return;
	mad_header_parse(&h, letter->data);
	if (h.method & MAD_RESPONSE || letter->status)
		request_input(s, now, letter);
	else if (h.attr_id == SMP_SM_INFO && (h.method == MAD_GET || h.method == MAD_SET))
		respond(s, now, letter);
	else if (h.attr_id == SMP_NOTICE && h.method == MAD_TRAP)
		take_trap(s, now, letter);
}
