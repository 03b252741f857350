#include "sm/request.h"

#include "base/array.h"
#include "wire/field.h"

#include <string.h>

static const struct kind {
	uint16_t attribute;
	uint8_t method;
	sm_fill *fill;
	sm_end *end;
} kinds[SM_KIND_COUNT] = {
#define KIND(NAME, attribute, method, fill, end) [WORK_##NAME] = { attribute, method, fill, end },
	SM_KINDS(KIND)
#undef KIND
};

enum {
	TRIES_LEAST = 4, TRIES_MOST = 64,	/* our choice */
	RECENT = 4096,			/* SMPs that the share of lost ones is taken from: our choice */
	DOUBLINGS = 8,			/* of the time that an answer is awaited, when it is asked for again: our choice */
};

#define WAIT_LEAST (5 * WTIME_MS)	/* our choice: weftd and its like may not run for so long */

/* What a Set writes is what the manager says from now on, and no more when it was refused. */
static void note_write(struct sm *s, const struct sm_work *w)
{
	s->net.writes += kinds[w->kind].method == MAD_SET;
}

void request_add(struct sm *s, const struct sm_work *w)
{
	note_write(s, w);
	if (s->queue_head == s->queue_tail)
		s->queue_head = s->queue_tail = 0;
	if (s->queue_head > s->queue_room / 2) {
		s->queue_tail -= s->queue_head;
		memmove(s->queue, s->queue + s->queue_head, s->queue_tail * sizeof(*s->queue));
		s->queue_head = 0;
	}
	if (s->queue_tail == s->queue_room && array_reserve(&s->queue, &s->queue_room, s->queue_tail + 1, sizeof(*s->queue))) {
		s->has_failed = true;
		return;
	}
	s->queue[s->queue_tail++] = *w;
}

bool request_all_done(const struct sm *s)
{
	return s->queue_head == s->queue_tail && !s->under_way;
}

void request_drop_all(struct sm *s)
{
	s->queue_head = s->queue_tail = 0;
	s->under_way = 0;
	s->next_timeout = WTIME_NEVER;
	memset(s->request, 0, sizeof(s->request));
}

/* So often that, at the share of answers that has been seen, one in a million is given up wrongly. */
static unsigned tries(const struct sm *s)
{
	double lost = 1 - (s->recent_answered + 4.0) / (s->recent_sent + 8.0), all = 1;
	unsigned n = 0;

	while (n < TRIES_LEAST || (n < TRIES_MOST && all > 1e-6)) {
		all *= lost;
		n++;
	}
	return n;
}

/* It goes over a link of the node, to one that is not known yet. */
static bool crosses(const struct sm_work *w)
{
	return w->kind == WORK_NODE_INFO && w->number;
}

/* How long the answer to a try is awaited: as for TCP (RFC 6298), from what agents have taken, twice as long for the next one,
 * and response_ns at most. Managers are programs, which take the time that they take. */
static wtime wait_of(const struct sm *s, const struct sm_work *w)
{
	bool is_program = w->kind == WORK_SM_INFO || w->kind == WORK_POLL || w->kind == WORK_CONTROL;
	wtime wait = is_program || !s->answer_ns ? s->config.response_ns : s->answer_ns + 4 * s->spread_ns;

	wait = wait > WAIT_LEAST ? wait : WAIT_LEAST;
	return wtime_min(wait << (w->tries < DOUBLINGS ? w->tries : DOUBLINGS), s->config.response_ns);
}

/* Have the tries so far been given the time that there is for one that nobody answers? */
static bool has_waited(const struct sm *s, const struct sm_work *w)
{
	struct sm_work each = *w;
	wtime all = 0;

	for (each.tries = 0; each.tries < w->tries; each.tries++)
		all += wait_of(s, &each);
	return all >= TRIES_LEAST * s->config.response_ns;
}

/* An answer to what was asked once. */
static void note_time(struct sm *s, wtime took)
{
	wtime off = took > s->answer_ns ? took - s->answer_ns : s->answer_ns - took;

	took = took ? took : 1;
	s->spread_ns = s->answer_ns ? s->spread_ns - s->spread_ns / 4 + off / 4 : took / 2;
	s->answer_ns = s->answer_ns ? s->answer_ns - s->answer_ns / 8 + took / 8 : took;
	s->answer_ns = s->answer_ns ? s->answer_ns : 1;
}

/* 14.2.4: the M_Key of the end port that judges the SMP. One that has another key than the manager's gets that, and the manager's
 * by turns: an answer that was lost may have told that the port has the new one. */
static uint64_t key_of(const struct sm *s, const struct sm_work *w)
{
	const struct net_node *n = &s->net.node[w->node];
	uint32_t port = n->first_port + (n->type == NODE_SWITCH ? 0u : w->number ? w->number : n->number);
	uint64_t key = s->net.port[port].m_key;

	return key && !(w->tries & 1) ? key : s->config.m_key;
}

static void build(const struct sm *s, const struct sm_work *w, uint32_t tid, uint8_t mad[MAD_BYTES])
{
	const struct net_node *n = s->net.nodes ? &s->net.node[w->node] : NULL;
	const struct kind *k = &kinds[w->kind];
	const struct mad_header h = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_SUBN_DIRECTED, .class_version = SMP_CLASS_VERSION,
		.method = k->method, .tid = tid, .attr_id = k->attribute, .attr_modifier = w->modifier,
	};
	struct smp_head head = { .m_key = s->config.m_key, .dr_slid = LID_PERMISSIVE, .dr_dlid = LID_PERMISSIVE };

	memset(mad, 0, MAD_BYTES);
	mad_header_build(&h, mad);
	if (n && !crosses(w))
		head.m_key = key_of(s, w);
	if (n)
		head.hop_count = net_write_way(&s->net, w->node, crosses(w) ? n->number : w->number, head.initial_path);
	if (crosses(w) && head.hop_count < SMP_HOPS_MOST)
		head.initial_path[++head.hop_count] = w->number;
	smp_head_put(&head, mad);
	if (k->fill)
		k->fill(s, w, mad + SMP_DATA);
}

static void note_sent(struct sm *s)
{
	if (++s->recent_sent > RECENT) {
		s->recent_sent /= 2;
		s->recent_answered /= 2;
	}
	s->counters.sent++;
}

static void end(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	note_write(s, w);
	kinds[w->kind].end(s, now, w, data);
}

/* May it be sent? Not to who is gone, or has been silent before in this sweep. */
static bool is_wanted(const struct sm *s, const struct sm_work *w)
{
	return !s->net.nodes || !s->net.node[w->node].is_silent;
}

static void skip(struct sm *s, wtime now)
{
	const struct sm_work w = s->queue[s->queue_head++];

	end(s, now, &w, NULL);
}

bool request_output(struct sm *s, wtime now, struct mad_letter *letter)
{
	struct sm_request *r = s->request;

	if (s->under_way >= s->config.window)
		return false;
	while (s->queue_head < s->queue_tail && !is_wanted(s, &s->queue[s->queue_head]))
		skip(s, now);
	if (s->queue_head == s->queue_tail)
		return false;
	while (r->tid)
		r++;
	r->work = s->queue[s->queue_head++];
	/* the lowest byte tells an answer's place; the others are never 0 */
	s->last_tid = s->last_tid % 0xffffff + 1;
	r->tid = s->last_tid << 8 | (uint32_t)(r - s->request);
	r->sent = now;
	r->deadline = now + wait_of(s, &r->work);
	s->next_timeout = wtime_min(s->next_timeout, r->deadline);
	s->under_way++;
	note_sent(s);
	build(s, &r->work, r->tid, s->mad);
	*letter = (struct mad_letter){
		.agent = SM_AGENT_DIRECTED, .timeout_ms = (uint32_t)((r->deadline - now + WTIME_MS - 1) / WTIME_MS),
		.data = s->mad, .bytes = sizeof(s->mad), .remote = { .lid = LID_PERMISSIVE },
	};
	return true;
}

static void take(struct sm *s, struct sm_request *r, struct sm_work *w)
{
	*w = r->work;
	r->tid = 0;
	if (!--s->under_way)
		s->next_timeout = WTIME_NEVER;
}

/* A node that was asked for over a link is not the one that the way so far leads to. What comes of silent nodes the sweep's end
 * says (discover.h). */
static void give_up(struct sm *s, wtime now, const struct sm_work *w)
{
	s->counters.given_up++;
	if (s->net.nodes && !crosses(w))
		s->net.node[w->node].is_silent = true;
	else
		s->has_failed = true;
	s->was_silent = true;
	end(s, now, w, NULL);
	s->was_silent = false;
}

void request_expire(struct sm *s, wtime now)
{
	if (now < s->next_timeout)
		return;
	s->next_timeout = WTIME_NEVER;
	for (struct sm_request *r = s->request; r < s->request + SM_WINDOW_MOST; r++) {
		struct sm_work w;

		if (r->tid && r->deadline > now)
			s->next_timeout = wtime_min(s->next_timeout, r->deadline);
		if (!r->tid || r->deadline > now)
			continue;
		take(s, r, &w);
		w.tries += w.tries < UINT8_MAX;
		if ((w.tries < tries(s) || !has_waited(s, &w)) &&
		    (s->is_heavy || !s->net.nodes || net_way_leads(&s->net, w.node))) {
			s->counters.repeated++;
			request_add(s, &w);
			continue;
		}
		give_up(s, now, &w);
	}
}

wtime request_deadline(const struct sm *s)
{
	return s->queue_head < s->queue_tail && s->under_way < s->config.window ? 0 : s->next_timeout;
}

void request_input(struct sm *s, wtime now, const struct mad_letter *letter)
{
	struct sm_request *r;
	struct mad_header h;
	struct sm_work w;

	mad_header_parse(&h, letter->data);
	r = &s->request[h.tid & 0xff];
	/* what was sent again has another number */
	if (letter->status || !r->tid || (uint32_t)h.tid != r->tid || h.attr_id != kinds[r->work.kind].attribute)
		return;
	if (!r->work.tries)
		note_time(s, now - r->sent);
	take(s, r, &w);
	s->recent_answered++;
	s->counters.answered++;
	end(s, now, &w, wire_get(letter->data, 4, 1, 15) ? NULL : letter->data + SMP_DATA);
}
