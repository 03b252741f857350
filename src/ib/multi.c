/* The life of such a QP, and its packets in and out. */
#include "ib/multi.h"

#include "base/crc.h"
#include "ib/requester.h"
#include "ib/spread.h"
#include "verbs/qp_context.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Our choices: bounds of T, as a process takes its time to answer; and how many requests may wait for an earlier one. */
#define TIMEOUT_MOST (4 * WTIME_MS)
#define TIMEOUT_LEAST (500 * WTIME_US)
enum { REQUESTS_LEAST = 64, RNR_ENDLESS = 7 };

/* ---- life ---- */

int multi_init(struct qp *qp)
{
	struct engine *e = engine_of(qp);

	qp->sends_packets = e->options.profile == IB_MULTIPATH && qp->type == IBV_QPT_RC;
	if (!qp->sends_packets)
		return 0;
	e->multi = calloc(1, sizeof(*e->multi));
	return e->multi ? 0 : -ENOMEM;
}

static void forget_requester(struct multi *m)
{
	m->sends = false;
	mp_requester_fini(&m->requester);
}

static void forget_responder(struct multi *m)
{
	m->takes = false;
	mp_responder_fini(&m->responder);
	free(m->reply);
	free(m->answers);
	m->reply = NULL;
	m->answers = NULL;
	m->replies = 0;
}

void multi_fini(struct qp *qp)
{
	struct multi *m = multi_of(qp);

	if (!m)
		return;
	forget_requester(m);
	forget_responder(m);
	free(m);
	engine_of(qp)->multi = NULL;
}

/* The same at both ends, another for the other direction, and another when the QPs connect anew. */
static uint32_t name_of(uint32_t from, uint32_t to, psn_t psn)
{
	uint8_t names[12];

	wire_put(names, from, 0, 0, 32);
	wire_put(names, to, 4, 0, 32);
	wire_put(names, psn, 8, 0, 32);
	return crc_ieee(0, names, sizeof(names));
}

static void agree(const struct qp *qp, uint32_t from, uint32_t to, psn_t psn, struct mp_config *c)
{
	const struct ib_options *o = &engine_of(qp)->options;

	mp_config_init(c);
	c->connection = name_of(from, to, psn);
	c->start = psn & PSN_MASK;
	c->mtu_bytes = multi_mtu(qp);
	c->paths = MP_PATHS;
	c->replay = MULTI_REPLAY;
	c->window = o->window_pkts < MULTI_REPLAY ? o->window_pkts : MULTI_REPLAY;
	c->is_fast = !o->refuses_silently;
}

/* The program's timeout and retries are how long the last path may be silent. */
static uint32_t last_tries(const struct qp *qp, const struct mp_config *c)
{
	wtime timeout = ack_timeout_ns(qp->attr.timeout);
	uint64_t tries;

	if (timeout == WTIME_NEVER)
		return UINT32_MAX;
	tries = (uint64_t)timeout * (qp->attr.retry_cnt + 1u) / (uint64_t)c->timeout_ns;
	return tries < c->barrier_tries ? c->barrier_tries : tries < UINT32_MAX ? (uint32_t)tries : UINT32_MAX;
}

static void set_limits(const struct qp *qp, struct mp_config *c)
{
	c->retries = qp->attr.retry_cnt;
	c->refusals = qp->attr.rnr_retry == RNR_ENDLESS ? MP_ENDLESS : qp->attr.rnr_retry;
	c->timeout_ns = wtime_min(ack_timeout_ns(qp->attr.timeout), TIMEOUT_MOST);
	c->least_ns = wtime_min(c->timeout_ns, TIMEOUT_LEAST);
	c->last_tries = last_tries(qp, c);
}

void multi_take_limits(struct qp *qp)
{
	set_limits(qp, &multi_of(qp)->requester.config);
}

void multi_open_requester(struct qp *qp)
{
	const struct ib_options *o = &engine_of(qp)->options;
	struct multi *m = multi_of(qp);
	struct mp_config c;

	forget_requester(m);
	agree(qp, qp->qpn, qp->attr.dest_qp_num, qp->attr.sq_psn, &c);
	c.paths = o->paths;
	c.flights = o->window_pkts;
	c.requests = 2 * o->window_pkts > REQUESTS_LEAST ? (uint16_t)(2 * o->window_pkts) : REQUESTS_LEAST;
	c.spread = (enum mp_spread)o->spread_by;
	c.renumbers = o->renumbers;
	c.follows_ordered = true;
	set_limits(qp, &c);
	c.seed = rand_u64(&qp->ca->rand);
	if (mp_requester_init(&m->requester, &c) < 0)
		return;
	m->requester.sink = (struct mp_sink){ multi_place, qp };
	m->unanswered = 0;
	m->link = FLIGHT_LINK_UNKNOWN;
	m->paused = 0;
	m->sends = true;
	qp->sq.engine.started = qp->sq.engine.completed;
}

void multi_open_responder(struct qp *qp)
{
	const struct mp_target target = { multi_execute, qp };
	struct multi *m = multi_of(qp);
	struct mp_config c;

	forget_responder(m);
	memset(m->sent, 0, sizeof(m->sent));
	memset(m->back, 0, sizeof(m->back));
	m->has_heard = 0;
	m->is_established = false;
	m->has_receive = false;
	m->placed = 0;
	agree(qp, qp->attr.dest_qp_num, qp->qpn, qp->attr.rq_psn, &c);
	m->reply_bytes = c.mtu_bytes;
	m->reply = calloc(MULTI_REPLIES, sizeof(*m->reply));
	m->answers = calloc(MULTI_REPLIES, m->reply_bytes);
	m->takes = mp_responder_init(&m->responder, &c, &target) == 0 && m->reply && m->answers;
}

/* verbs completes or forgets a receive in hand with the rest of the queue. */
void multi_close(struct qp *qp, enum ibv_qp_state to)
{
	struct multi *m = multi_of(qp);

	m->sends = m->takes = m->has_receive = false;
	if (to == IBV_QPS_RESET)
		m->replies = 0;
}

void multi_check(const struct qp *qp)
{
	const struct multi *m = multi_of(qp);
	unsigned in_use = 0;

	if (!m)
		return;
	weft_bug_on(m->replies > MULTI_REPLIES || m->first_reply >= MULTI_REPLIES);
	if (!m->sends)
		return;
	for (unsigned i = 0; i < m->requester.config.flights; i++)
		in_use += m->requester.flight[i].phase != MP_FREE;
	weft_bug_on(in_use != m->requester.ordered + m->requester.unordered);
	weft_bug_on(qp->sq.engine.started - qp->sq.engine.completed != (uint32_t)(m->requester.posted - m->requester.done));
}

/* ---- in ---- */

/* By which of its LIDs the peer sends is its own choice. They are all of an LMC, which is the subnet's. */
enum path multi_path_of(const struct qp *qp, const struct packet *p)
{
	struct packet_path ours = qp->path;

	if (p->resv.bth7 >= MP_PATHS)
		return PATH_NONE;
	if (device_has(qp->dev, DEVICE_LIDS) && (p->path.slid ^ ours.dlid) >> qp->dev->lmc == 0)
		ours.dlid = p->path.slid;
	return path_leads_back(qp, &ours, p) ? PATH_PRIMARY : PATH_NONE;
}

/* MPT-18. The first one of a path may be any. */
static bool is_in_order(struct multi *m, unsigned path, psn_t psn)
{
	if (m->has_heard >> path & 1 && psn_cmp(psn, m->heard[path]) <= 0)
		return false;
	m->has_heard |= (uint8_t)(1u << path);
	m->heard[path] = psn;
	return true;
}

static bool is_for_responder(unsigned type)
{
	return type == MP_REQ || type == MP_BARRIER || type == MP_PATH_DOWN || type == MP_PATH_UP;
}

static bool is_barrier(unsigned type)
{
	return type == MP_BARRIER || type == MP_BARRIER_RSP;
}

bool multi_is_answer(const struct packet *p)
{
	return p->opcode == OPCODE_WEFT_MULTIPATH && p->payload_bytes &&
	       !is_for_responder((unsigned)wire_get(p->payload->iov_base, MP_TYPE));
}

/* Where the peer has heard a number that is beyond ours, somebody else made that up: ours go on behind it. */
static void go_on_behind(struct multi *m, unsigned path, uint32_t awaited)
{
	psn_t next = awaited & PSN_MASK;

	if (awaited && psn_cmp(m->sent[path], psn_add(next, -1)) <= 0)
		m->sent[path] = next;
}

/* It waits for its turn: answers leave by the path of their request in the order of their requests (MPT-29). */
static void keep_reply(struct multi *m, unsigned path, const struct mp_packet *reply)
{
	unsigned place = (m->first_reply + m->replies++) % MULTI_REPLIES;
	uint8_t *answer = m->answers + (size_t)place * m->reply_bytes;

	m->reply[place] = (struct multi_reply){ *reply, (uint8_t)path };
	if (reply->payload_bytes)
		memcpy(answer, reply->payload, reply->payload_bytes);
	m->reply[place].packet.payload = answer;
}

/* What the BARRIER asks is not answered, as others have overtaken it. But the peer hears which number is awaited (wrap). */
static void refuse_barrier(struct multi *m, unsigned path, const struct mp_packet *p)
{
	const struct mp_packet reply = { .version = MP_VERSION, .type = MP_BARRIER_RSP, .connection = p->connection,
					 .address = ~p->address };

	if (m->replies < MULTI_REPLIES)
		keep_reply(m, path, &reply);
}

static void answer(struct qp *qp, wtime now, unsigned path, const struct mp_packet *p)
{
	struct multi *m = multi_of(qp);
	uint64_t executed = m->responder.count[MP_EXECUTED], refused = m->responder.count[MP_REFUSED];
	struct mp_packet reply;
	bool has_reply;

	if (m->replies == MULTI_REPLIES)
		return;
	if (!m->is_established)
		qp_established(qp);
	m->is_established = true;
	has_reply = mp_responder_input(&m->responder, path, p, &reply);
	if (!m->takes)
		return;		/* the completion found its CQ overrun */
	if (m->responder.count[MP_EXECUTED] == executed && p->type == MP_REQ)
		QP_COUNT(qp, multipath_not_executed, 1);
	if (m->responder.count[MP_REFUSED] != refused)
		multi_refused(qp, now, &reply);
	if (has_reply)
		keep_reply(m, path, &reply);
}

void multi_input(struct qp *qp, wtime now, const struct packet *p)
{
	struct multi *m = multi_of(qp);
	unsigned path = p->resv.bth7;
	struct mp_packet packet;
	bool is_request, is_next;

	if (!p->payload_bytes || !mp_packet_parse(&packet, p->payload->iov_base, p->payload_bytes)) {
		QP_COUNT(qp, multipath_foreign, 1);
		return;
	}
	is_request = is_for_responder(packet.type);
	if (!(is_request ? m->takes : m->sends))
		return;
	if (packet.connection != (is_request ? m->responder.config.connection : m->requester.config.connection)) {
		QP_COUNT(qp, multipath_foreign, 1);
		return;
	}
	if (is_barrier(packet.type))
		go_on_behind(m, path, packet.extra);
	is_next = is_in_order(m, path, p->psn);
	if (is_request && (is_next || !m->back[path].slid))
		m->back[path] = (struct lid_pair){ p->path.dlid, p->path.slid };
	if (!is_next) {
		QP_COUNT(qp, multipath_foreign, 1);
		if (packet.type == MP_BARRIER)
			refuse_barrier(m, path, &packet);
	} else if (is_request) {
		answer(qp, now, path, &packet);
	} else {
		m->link = FLIGHT_LINK_UNKNOWN;
		m->paused = 0;
		mp_requester_input(&m->requester, now, path, &packet);
		multi_complete(qp, now);
	}
	qp_ready(qp);
}

/* ---- out ---- */

/* Where the administration names fewer pairs than there are paths, several share one. */
static void address_lids(const struct qp *qp, unsigned path, bool is_answer, struct packet *p)
{
	const struct lid_paths *l = qp->lid_paths;
	struct lid_pair lids = { p->path.slid, p->path.dlid };

	if (is_answer)
		lids = multi_of(qp)->back[path];
	else if (l)
		lids = l->path[path % l->paths].lids;
	p->path.slid = lids.slid;
	p->path.dlid = lids.dlid;
}

static void address(struct qp *qp, unsigned path, bool is_answer, struct packet *p)
{
	path_address(qp, p);
	p->opcode = OPCODE_WEFT_MULTIPATH;
	p->resv.bth7 = (uint8_t)path;
	p->psn = multi_of(qp)->sent[path];
	multi_of(qp)->sent[path] = psn_add(p->psn, 1);
	multi_of(qp)->packets[path]++;
	p->path.udp_sport ^= path % SPREAD_VARIANTS;
	if (device_has(qp->dev, DEVICE_LIDS))
		address_lids(qp, path, is_answer, p);
}

/* A BARRIER and its answer say which number is awaited by the path: 2^24 in place of 0, and 0 before the first. */
static uint32_t awaited(const struct multi *m, unsigned path)
{
	return m->has_heard >> path & 1 ? m->heard[path] + 1 : 0;
}

static void wrap(struct qp *qp, unsigned path, const struct mp_packet *packet, struct packet_out *out)
{
	struct packet *p = &out->packet;
	struct mp_packet telling;

	address(qp, path, !is_for_responder(packet->type), p);
	if (is_barrier(packet->type)) {
		telling = *packet;
		telling.extra = awaited(multi_of(qp), path);
		packet = &telling;
	}
	out->iov[0] = (struct iovec){ out->bounce, mp_packet_build(packet, out->bounce) };
	p->payload = out->iov;
	p->payload_iovs = 1;
	p->payload_bytes = (uint32_t)out->iov[0].iov_len;
	QP_COUNT(qp, sent_pkts, 1);
}

static bool output_reply(struct qp *qp, struct packet_out *out)
{
	struct multi *m = multi_of(qp);
	const struct multi_reply *reply = &m->reply[m->first_reply];

	if (!m->replies)
		return false;
	m->first_reply = (m->first_reply + 1) % MULTI_REPLIES;
	m->replies--;
	wrap(qp, reply->path, &reply->packet, out);
	return true;
}

static bool output_request(struct qp *qp, wtime now, struct packet_out *out)
{
	struct multi *m = multi_of(qp);
	struct mp_packet packet;
	unsigned path;

	if (!m->sends && qp->state == IBV_QPS_RTS && wq_pending(&qp->sq.engine))	/* there was no memory for it */
		requester_fail(qp, now, IBV_WC_FATAL_ERR);
	if (!m->sends)
		return false;
	multi_feed(qp, now);
	if (!m->sends || !mp_requester_output(&m->requester, now, &path, &packet))
		return false;
	if (packet.payload_bytes && !packet.payload && !multi_gather(qp, &packet, out->bounce + MP_HEADER)) {
		multi_complete(qp, now);
		return false;
	}
	if (packet.type == MP_REQ && packet.attempt) {
		m->repeats[path]++;
		QP_COUNT(qp, multipath_repeats, 1);
	}
	qp->bytes_sent += packet.payload_bytes;
	wrap(qp, path, &packet, out);
	return true;
}

bool multi_output(struct qp *qp, wtime now, struct packet_out *out)
{
	bool made = output_reply(qp, out) || output_request(qp, now, out);

#ifdef WEFT_DEBUG
	multi_check(qp);
#endif
	return made;
}

/* ---- time ---- */

wtime multi_deadline(const struct qp *qp)
{
	const struct multi *m = multi_of(qp);
	wtime at = m->sends ? mp_requester_deadline(&m->requester) : WTIME_NEVER;

	return at > m->paused ? at : m->paused;
}

/* A peer that is stopped, or has no CPU, has lost nothing and can answer nothing; once it has taken what was sent, the answer has
 * its whole time. */
static bool is_kept(struct qp *qp)
{
	struct multi *m = multi_of(qp);
	enum flight_link was = m->link;

	if (was == FLIGHT_LINK_LEFT)
		return false;
	if (was == FLIGHT_LINK_UNKNOWN)
		m->link_mark = 0;
	m->link = FLIGHT_LINK_LEFT;
	if (qp->ca->ops->undelivered(qp->ca->owner, qp_route(qp), &m->link_mark))
		m->link = FLIGHT_UNDELIVERED;
	return was == FLIGHT_UNDELIVERED || m->link == FLIGHT_UNDELIVERED;
}

void multi_expire(struct qp *qp, wtime now)
{
	struct multi *m = multi_of(qp);
	uint64_t failures;

	if (!m->sends || now < multi_deadline(qp))
		return;
	if (is_kept(qp)) {
		m->paused = now + m->requester.config.timeout_ns;
		return;
	}
	m->link = FLIGHT_LINK_UNKNOWN;
	failures = m->requester.count.path_failures;
	mp_requester_expire(&m->requester, now);
	qp->ca->counters.paths_set_aside += m->requester.count.path_failures - failures;
	multi_complete(qp, now);
	qp_ready(qp);
}

/* ---- for people ---- */

void multi_describe(const struct qp *qp, struct qp_context *c)
{
	static const char *const states[] = {
		[MP_PATH_GOOD] = "good", [MP_PATH_SUSPECT] = "suspect", [MP_PATH_LEAVING] = "leaving", [MP_PATH_BAD] = "bad",
		[MP_PATH_RETURNING] = "returning",
	};
	const struct multi *m = multi_of(qp);

	c->ways = m->sends ? m->requester.config.paths : 0;
	for (unsigned i = 0; i < c->ways; i++) {
		const struct mp_path *path = &m->requester.path[i];

		c->way[i] = (struct qp_context_way){
			.state = states[path->state], .variant = i % SPREAD_VARIANTS, .sent = m->packets[i],
			.lost = m->repeats[i], .set_aside = (path->epoch + 1) / 2, .round_trip_ns = path->trip_ns,
		};
		memcpy(c->way[i].sgid, qp->path.sgid, sizeof(c->way[i].sgid));
		memcpy(c->way[i].dgid, qp->path.dgid, sizeof(c->way[i].dgid));
		if (!qp->lid_paths)
			continue;
		c->way[i].slid = qp->lid_paths->path[i % qp->lid_paths->paths].lids.slid;
		c->way[i].dlid = qp->lid_paths->path[i % qp->lid_paths->paths].lids.dlid;
	}
}
