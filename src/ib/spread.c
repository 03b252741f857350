/* Paths: their choice, their probes and their silence. What READs ask for by them is in spread_read.c. */
#include "ib/spread.h"

#include "ib/answers.h"
#include "ib/loss.h"
#include "ib/pace.h"
#include "ib/path.h"
#include "ib/request.h"
#include "ib/requester.h"
#include "ib/timer.h"
#include "verbs/qp_context.h"
#include "wire/addr.h"
#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static bool is_loopback(const uint8_t gid[16])
{
	return gid_is_ipv4(gid) && gid[12] == 127;
}

/* Can packets of the QP have it for an address besides its own? */
static bool is_alike(const struct qp *qp, const uint8_t gid[16])
{
	return gid_is_ipv4(gid) == gid_is_ipv4(qp->path.sgid) && !is_link_local(gid) && !is_loopback(gid) &&
	       !gid_is_multicast(gid);
}

unsigned spread_addresses(const struct qp *qp, uint8_t address[PATH_ADDRESSES][16])
{
	unsigned n = 1;

	memcpy(address[0], qp->path.sgid, 16);
	for (unsigned i = 0; i < CA_GIDS && n < PATH_ADDRESSES; i++) {
		const struct ca_gid *gid = &qp->dev->gid[i];

		if (!gid->valid || gid->type != IBV_GID_TYPE_ROCE_V2 || !is_alike(qp, gid->raw) ||
		    !memcmp(gid->raw, qp->path.sgid, 16))
			continue;
		memcpy(address[n++], gid->raw, 16);
	}
	return n;
}

void spread_write(const struct qp *qp, uint32_t number, unsigned variant, struct packet_out *out)
{
	uint8_t address[PATH_ADDRESSES][16] = { { 0 } }, *payload = out->bounce;
	unsigned n = spread_addresses(qp, address);

	memset(payload, 0, PATH_PROBE_BYTES);
	wire_put(payload, number, PATH_PROBE_NUMBER);
	wire_put(payload, n, PATH_PROBE_ADDRESSES);
	wire_put(payload, variant, PATH_PROBE_VARIANT);
	memcpy(payload + PATH_PROBE_ADDRESS, address, n * sizeof(address[0]));
	out->iov[0] = (struct iovec){ payload, PATH_PROBE_BYTES };
	out->packet.payload = out->iov;
	out->packet.payload_iovs = 1;
	out->packet.payload_bytes = PATH_PROBE_BYTES;
}

/* ---- which paths there are ---- */

static void begin_probes(struct qp *qp, struct spread_path *path)
{
	path->wait_ns = engine_of(qp)->flight.rtt.wait_ns;
	path->probe_is_due = true;
	qp_ready(qp);
}

/* It needs no packets, whether or not some are under way. */
static bool goes_directly(struct qp *qp)
{
	return engine_could_go_directly(qp) && route_goes_both_ways(qp_route(qp)->kind) &&
	       qp->ca->direct->connect(qp->ca->direct_arg, qp);
}

void spread_open(struct qp *qp, wtime now)
{
	struct engine *e = engine_of(qp);
	unsigned most = e->options.paths;
	bool by_lids = lid_paths_are_several(qp->lid_paths) && e->paces && !e->flight.copied && !goes_directly(qp);
	struct spread *s;

	if (most < 2 || e->spread || qp->migration || !(by_lids || pace_applies(qp)) || !answers_are_selective(qp) ||
	    !e->flight.loss)
		return;
	s = calloc(1, sizeof(*s) + most * sizeof(s->path[0]));
	if (!s)
		return;
	s->most = (uint8_t)most;
	s->paths = 1;
	s->deadline = WTIME_NEVER;
	memcpy(s->path[0].sgid, qp->path.sgid, 16);
	memcpy(s->path[0].dgid, qp->path.dgid, 16);
	s->path[0].state = SPREAD_UP;
	s->path[0].look_at = now;
	loss_widen(&e->flight);
	loss_spread(&e->flight, s->loss, most);
	s->path[0].heard = s->loss[0].heard;
	e->spread = s;
	e->spreads_by_lids = by_lids;
	begin_probes(qp, &s->path[0]);
	if (!by_lids)
		return;
	s->path[0].lids = qp->lid_paths->path[0].lids;
	spread_follow(qp);
}

void spread_close(struct qp *qp)
{
	struct engine *e = engine_of(qp);

	if (!e->spread)
		return;
	e->flight.paths = NULL;
	free(e->spread);
	e->spread = NULL;
	e->spreads_by_lids = false;
}

static unsigned bits_in_common(const uint8_t a[16], const uint8_t b[16])
{
	unsigned i = 0;

	while (i < 128 && !((a[i / 8] ^ b[i / 8]) >> (7 - i % 8) & 1))
		i++;
	return i;
}

/* Which of these addresses are not in a pair yet: one bit each. */
struct unpaired {
	const uint8_t (*address)[16];
	unsigned left;
};

/* The two that have most in common are those of one network, as a rule. Where one side has more, the QP's own are used again. */
static bool next_pair(struct unpaired *ours, struct unpaired *theirs, uint8_t sgid[16], uint8_t dgid[16])
{
	unsigned a = 0, b = 0, most = 0;

	if (!ours->left && !theirs->left)
		return false;
	for (unsigned i = 0; i < PATH_ADDRESSES; i++)
		for (unsigned j = 0; j < PATH_ADDRESSES; j++) {
			unsigned common;

			if (!(ours->left >> i & 1) && (ours->left || i))
				continue;
			if (!(theirs->left >> j & 1) && (theirs->left || j))
				continue;
			common = 1 + bits_in_common(ours->address[i], theirs->address[j]);
			if (common > most) {
				most = common;
				a = i;
				b = j;
			}
		}
	ours->left &= ~(1u << a);
	theirs->left &= ~(1u << b);
	memcpy(sgid, ours->address[a], 16);
	memcpy(dgid, theirs->address[b], 16);
	return true;
}

/* Addresses that both have are no host's, but of networks inside each. */
static unsigned usable(const struct qp *qp, const uint8_t (*theirs)[16], unsigned n)
{
	unsigned left = 0;

	for (unsigned i = 1; i < n; i++)
		if (is_alike(qp, theirs[i]) && memcmp(theirs[i], qp->path.dgid, 16) && device_gid_index(qp->dev, theirs[i]) < 0)
			left |= 1u << i;
	return left;
}

/* Pairs of addresses first, then other source ports of each. */
static void lay(struct qp *qp, const uint8_t (*address)[16], unsigned n)
{
	struct spread *s = spread_of(qp);
	uint8_t our[PATH_ADDRESSES][16] = { { 0 } }, their[PATH_ADDRESSES][16] = { { 0 } };
	unsigned ours_n = spread_addresses(qp, our), pairs = 1;
	struct unpaired ours = { (const uint8_t (*)[16])our, (1u << ours_n) - 2 }, theirs = { (const uint8_t (*)[16])their, 0 };

	memcpy(their, address, n * sizeof(their[0]));
	memcpy(their[0], qp->path.dgid, 16);
	theirs.left = usable(qp, (const uint8_t (*)[16])their, n);
	if (!theirs.left)	/* of a host with one address, all of ours reach that */
		ours.left = 0;
	while (pairs < s->most && next_pair(&ours, &theirs, s->path[pairs].sgid, s->path[pairs].dgid))
		pairs++;
	for (s->paths = 1; s->paths < s->most && s->paths < pairs * SPREAD_VARIANTS; s->paths++) {
		struct spread_path *path = &s->path[s->paths];

		if (s->paths >= pairs) {
			memcpy(path->sgid, s->path[s->paths % pairs].sgid, 16);
			memcpy(path->dgid, s->path[s->paths % pairs].dgid, 16);
		}
		path->variant = (uint8_t)(s->paths / pairs);
		begin_probes(qp, path);
	}
}

void spread_address(const struct qp *qp, unsigned path, struct packet *p)
{
	const struct spread_path *to = &spread_of(qp)->path[path];

	if (engine_of(qp)->spreads_by_lids) {
		p->path.slid = to->lids.slid;
		p->path.dlid = to->lids.dlid;
		p->resv.bth7 = bth_by_path(path);
		return;
	}
	if (!path)
		return;
	memcpy(p->path.sgid, to->sgid, 16);
	memcpy(p->path.dgid, to->dgid, 16);
	p->path.udp_sport ^= to->variant;
	p->resv.bth7 = bth_by_path(path);
}

bool spread_leads_to(const struct qp *qp, unsigned path, const struct packet_path *from)
{
	const struct spread *s = spread_of(qp);

	if (engine_of(qp)->spreads_by_lids)
		return path < s->paths && s->path[path].lids.dlid == from->slid && s->path[path].lids.slid == from->dlid;
	return s && path < s->paths && !memcmp(s->path[path].dgid, from->sgid, 16) && !memcmp(s->path[path].sgid, from->dgid, 16);
}

/* ---- which one a packet takes ---- */

/* Of those that are up and not yet in `tried`, the one with the shortest round trip; -1: there is none. */
static int next_best(const struct qp *qp, unsigned tried)
{
	const struct spread *s = spread_of(qp);
	wtime least = WTIME_NEVER;
	int best = -1;

	for (unsigned i = 0; i < s->paths; i++) {
		const struct congestion *c = pace_of(qp, i);
		wtime trip = c ? c->smooth_ns : 0;

		if (s->path[i].state != SPREAD_UP || tried >> i & 1 || trip >= least)
			continue;
		least = trip;
		best = (int)i;
	}
	return best;
}

unsigned spread_usual(const struct qp *qp)
{
	int best = next_best(qp, 0);

	return best < 0 ? 0 : (unsigned)best;
}

/* Is what leaves next, fresh or as it was lost, a READ request? */
static bool is_read(struct qp *qp, bool is_fresh)
{
	const struct flight *f = &engine_of(qp)->flight;

	return (is_fresh ? request_row(qp_send_next(qp))->answer : flight_at(f, f->resend)->answer) == ANSWER_READ;
}

int spread_choose(struct qp *qp, wtime now, bool is_fresh)
{
	struct spread *s = spread_of(qp);
	unsigned tried = 0;
	int path;

	if (is_read(qp, is_fresh))
		return spread_choose_for_read(qp, now, is_fresh);
	for (; (path = next_best(qp, tried)) >= 0; tried |= 1u << path) {
		struct congestion *c = pace_of(qp, (unsigned)path);
		uint32_t under_way = is_fresh && s->path[path].unasked ? 0 : s->loss[path].under_way;

		if (!c || congestion_asks(c, now, under_way) == CONGESTION_GOES)
			return path;
	}
	return -1;
}

uint32_t spread_window(const struct qp *qp, unsigned path)
{
	const struct congestion *c = pace_of(qp, path);
	uint32_t window = engine_of(qp)->flight.window, packets = c ? congestion_packets(c) : window;

	return packets < window ? packets : window;
}

bool spread_asks(struct qp *qp, unsigned path, bool asks_anyway)
{
	struct spread_path *to = &spread_of(qp)->path[path];
	uint32_t window = spread_window(qp, path);

	to->unasked++;
	if (!asks_anyway && to->unasked < (window + 1) / 2 && spread_of(qp)->loss[path].under_way + 1 < window)
		return false;
	to->unasked = 0;
	return true;
}

/* Messages without packets go by those that lead there and back, as the fabric's tables say. */
static void describe_lids(const struct qp *qp, struct qp_context *c)
{
	const struct lid_paths *l = qp->lid_paths;

	for (unsigned i = 0; i < c->ways && l && i < l->paths; i++) {
		const struct lid_pair *lids = spread_of(qp) ? &spread_of(qp)->path[i].lids : &l->path[i].lids;

		c->way[i].slid = lids->slid;
		c->way[i].dlid = lids->dlid;
		c->way[i].messages = l->path[i].messages;
		if (!spread_of(qp))
			c->way[i].state = route_goes_both_ways(l->path[i].route.kind) ? "up" : "cut";
	}
}

void spread_describe(const struct qp *qp, struct qp_context *c)
{
	static const char *const states[] = {
		[SPREAD_UNPROVEN] = "unproven", [SPREAD_UP] = "up", [SPREAD_ASIDE] = "aside",
	};
	const struct spread *s = spread_of(qp);

	c->ways = s ? s->paths : lid_paths_are_several(qp->lid_paths) ? qp->lid_paths->paths : 0;
	for (unsigned i = 0; s && i < c->ways; i++) {
		const struct spread_path *path = &s->path[i];
		const struct congestion *out = path->state == SPREAD_UNPROVEN ? NULL : pace_of(qp, i);
		struct qp_context_way *way = &c->way[i];

		*way = (struct qp_context_way){
			.state = states[path->state], .variant = path->variant, .sent = path->sent, .lost = path->losses,
			.set_aside = path->setbacks, .bytes_per_s = out ? congestion_rate(out, engine_mtu(qp)) : 0,
			.round_trip_ns = out ? out->smooth_ns : 0,
		};
		memcpy(way->sgid, path->sgid, 16);
		memcpy(way->dgid, path->dgid, 16);
	}
	describe_lids(qp, c);
}

/* ---- silence ---- */

/* How long nothing may come by it: two round trips, and the wait of what is asked for once more. */
static wtime patience(const struct qp *qp, unsigned path)
{
	const struct congestion *c = pace_of(qp, path);

	return (c ? 2 * c->smooth_ns : 0) + engine_of(qp)->flight.rtt.wait_ns;
}

static void reckon(struct spread *s)
{
	s->deadline = WTIME_NEVER;
	for (unsigned i = 0; i < s->paths; i++) {
		if (s->loss[i].under_way)
			s->deadline = wtime_min(s->deadline, s->path[i].look_at);
		if (s->path[i].number && !s->path[i].probe_is_due)
			s->deadline = wtime_min(s->deadline, s->path[i].probe_at);
	}
}

void spread_sent(struct qp *qp, wtime now, unsigned path)
{
	struct spread *s = spread_of(qp);

	s->path[path].sent++;
	if (s->loss[path].under_way == 1)	/* it begins to be waited for */
		s->path[path].look_at = now + patience(qp, path);
	if (s->deadline == WTIME_NEVER || s->path[path].look_at < s->deadline)
		reckon(s);
}

void spread_heard(struct qp *qp, wtime now, const struct packet *p)
{
	struct spread *s = spread_of(qp);
	int path = bth_path(p->resv.bth7);

	engine_of(qp)->flight.heard_by = (uint8_t)(path > 0 ? path : 0);
	if (opcode_row(p->opcode)->op != OP_READ_RESPONSE || path < 0 || path >= s->paths)
		return;
	s->loss[path].since = s->loss[path].heard_at = now;
	spread_response_came(qp, now, (unsigned)path, p->psn);
}

static bool another_is_up(const struct spread *s, unsigned path)
{
	for (unsigned i = 0; i < s->paths; i++)
		if (i != path && s->path[i].state == SPREAD_UP)
			return true;
	return false;
}

static void set_aside(struct qp *qp, unsigned path)
{
	struct spread_path *p = &spread_of(qp)->path[path];

	if (p->state != SPREAD_UP)
		return;
	p->state = SPREAD_ASIDE;
	p->setbacks++;
	p->number = 0;
	qp->ca->counters.paths_set_aside++;
	begin_probes(qp, p);
}

/* What left by it is sent again by others. */
static void give_up_on(struct qp *qp, unsigned path)
{
	struct flight *f = &engine_of(qp)->flight;
	unsigned gone;

	set_aside(qp, path);
	gone = loss_path_gone(f, path);
	spread_of(qp)->path[path].losses += gone;
	spread_of(qp)->path[path].unasked = 0;
	spread_owes_nothing(qp, path);
	if (gone) {
		rtt_lost(&f->rtt, flight_at(f, f->resend)->psn);
		timer_rearm(qp);
		qp_ready(qp);
	}
}

/* A path is another one: what left by it is sent again, and nothing is known of it. */
static void lay_lids(struct qp *qp, unsigned number)
{
	const struct lid_path *from = &qp->lid_paths->path[number];
	struct spread_path *path = &spread_of(qp)->path[number];

	if (number < spread_of(qp)->paths)
		give_up_on(qp, number);
	path->lids = from->lids;
	path->epoch = from->epoch;
	path->state = SPREAD_UNPROVEN;
	path->number = 0;
	begin_probes(qp, path);
}

void spread_follow(struct qp *qp)
{
	const struct lid_paths *l = qp->lid_paths;
	struct spread *s = spread_of(qp);

	for (unsigned i = 1; l && i < l->paths && i < s->most; i++) {
		if (i < s->paths && s->path[i].epoch == l->path[i].epoch)
			continue;
		lay_lids(qp, i);
		if (i >= s->paths)
			s->paths = (uint8_t)(i + 1);
	}
}

/* Something came by another since anything came by this one, or since it was to come. */
static bool others_are_heard(const struct spread *s, unsigned path)
{
	for (unsigned i = 0; i < s->paths; i++)
		if (i != path && s->path[i].state == SPREAD_UP && s->loss[i].heard_at > s->loss[path].since)
			return true;
	return false;
}

static void look(struct qp *qp, wtime now, unsigned path)
{
	struct spread *s = spread_of(qp);
	wtime due = s->loss[path].since + patience(qp, path);

	if (!s->loss[path].under_way || now < s->path[path].look_at)
		return;
	if (now < due) {
		s->path[path].look_at = due;
		return;
	}
	s->path[path].look_at = now + patience(qp, path) / 2;
	if (engine_of(qp)->flight.phase == FLIGHT_OPEN && others_are_heard(s, path))
		give_up_on(qp, path);
}

/* The peer gets on, and nothing comes by the path of the oldest packet for two round trips: its answers are lost, or the packet
 * is. Programs that are answered post more, and their send queues are to hold what is not acknowledged. */
void spread_peer_sends(struct qp *qp, wtime now)
{
	struct spread *s = spread_of(qp);
	const struct flight *f = &engine_of(qp)->flight;
	const struct congestion *c;
	unsigned path;

	if (flight_empty(f) || f->phase != FLIGHT_OPEN)
		return;
	path = loss_path_of(f, f->oldest);
	if (s->silent_since != s->loss[path].since) {
		s->silent_since = s->loss[path].since;
		s->requests = 0;
	}
	c = pace_of(qp, path);
	if (++s->requests >= SPREAD_REQUESTS && s->loss[path].under_way && c && now > s->silent_since + 2 * c->smooth_ns &&
	    another_is_up(s, path))
		give_up_on(qp, path);
}

unsigned spread_instead(struct qp *qp, unsigned path)
{
	int other = next_best(qp, 1u << path);

	if (other < 0)
		return path;
	if (!spread_of(qp)->path[path].number)
		begin_probes(qp, &spread_of(qp)->path[path]);
	return (unsigned)other;
}

void spread_timeout(struct qp *qp)
{
	struct spread *s = spread_of(qp);
	const struct flight *f = &engine_of(qp)->flight;
	unsigned path = flight_empty(f) ? 0 : loss_path_of(f, f->oldest);

	if (another_is_up(s, path))
		set_aside(qp, path);
	for (unsigned i = 0; i < s->paths; i++)
		s->path[i].unasked = 0;
}

static bool is_idle(const struct qp *qp)
{
	return flight_empty(&engine_of(qp)->flight);
}

/* While nothing is in flight nothing is probed again: what is sent next begins it anew. A path that does not answer is not up. */
static void probe_again(struct qp *qp, wtime now, unsigned number)
{
	struct spread_path *path = &spread_of(qp)->path[number];

	if (!path->number || path->probe_is_due || now < path->probe_at)
		return;
	if (path->state == SPREAD_UP && another_is_up(spread_of(qp), number)) {
		set_aside(qp, number);
		return;
	}
	path->wait_ns = wtime_min(2 * path->wait_ns, SPREAD_PROBE_MOST);
	path->probe_at = now + path->wait_ns;
	if (is_idle(qp))
		return;
	path->probe_is_due = true;
	qp_ready(qp);
}

void spread_expire(struct qp *qp, wtime now)
{
	struct spread *s = spread_of(qp);

	if (!s || now < s->deadline)
		return;
	for (unsigned i = 0; i < s->paths; i++) {
		look(qp, now, i);
		probe_again(qp, now, i);
	}
	reckon(s);
	if (is_idle(qp))
		s->deadline = WTIME_NEVER;
}

/* ---- probes ---- */

static struct spread_path *next_due(struct spread *s)
{
	for (unsigned i = 0; i < s->paths; i++)
		if (s->path[i].probe_is_due)
			return &s->path[i];
	return NULL;
}

/* They may have been told since the peer was heard, or be others; or packets are needed no more. */
static void follow_lids(struct qp *qp, wtime now)
{
	if (engine_of(qp)->spreads_by_lids && goes_directly(qp))
		spread_close(qp);
	else if (engine_of(qp)->spreads_by_lids)
		spread_follow(qp);
	else if (engine_of(qp)->flight.phase != FLIGHT_CLOSED)
		spread_open(qp, now);
}

bool spread_output(struct qp *qp, wtime now, struct packet_out *out)
{
	struct spread_path *path;
	struct packet *p = &out->packet;
	struct spread *s;

	if (qp->lid_paths)
		follow_lids(qp, now);
	s = spread_of(qp);
	path = s && engine_of(qp)->flight.phase != FLIGHT_CLOSED ? next_due(s) : NULL;
	if (!path)
		return false;
	path->probe_is_due = false;
	path->number = (uint32_t)rand_u64(&qp->ca->rand) | 1;
	path->probed = now;
	path->probe_at = now + path->wait_ns;
	path_address(qp, p);
	p->opcode = OPCODE_WEFT_PATH_PROBE;
	p->psn = flight_first_psn(&engine_of(qp)->flight);
	spread_address(qp, (unsigned)(path - s->path), p);
	spread_write(qp, path->number, path->variant, out);
	QP_COUNT(qp, sent_pkts, 1);
	qp->ca->counters.path_probes++;
	reckon(s);
	return true;
}

static void bring_up(struct qp *qp, wtime now, unsigned number)
{
	struct spread *s = spread_of(qp);
	struct spread_path *path = &s->path[number];

	path->state = SPREAD_UP;
	path->unasked = 0;
	spread_owes_nothing(qp, number);
	loss_path_begin(&engine_of(qp)->flight, number, now - path->probed);
	pace_path_begin(qp, now, number);
	path->heard = s->loss[number].heard;
	path->lost = s->loss[number].lost;
	s->loss[number].since = s->loss[number].heard_at = now;
	path->look_at = now + patience(qp, number);
	qp_ready(qp);
}

void spread_answered(struct qp *qp, wtime now, const struct packet *p)
{
	struct spread *s = spread_of(qp);
	const uint8_t *payload = p->payload->iov_base;
	uint32_t number = (uint32_t)wire_get(payload, PATH_PROBE_NUMBER);
	unsigned addresses = (unsigned)wire_get(payload, PATH_PROBE_ADDRESSES), i = 0;

	while (s && i < s->paths && (s->path[i].number != number || s->path[i].probe_is_due))
		i++;
	if (!s || !number || i == s->paths || addresses > PATH_ADDRESSES || engine_of(qp)->flight.phase == FLIGHT_CLOSED) {
		qp->ca->counters.bad_path_answers++;
		return;
	}
	s->path[i].number = 0;
	if (s->path[i].state != SPREAD_UP)
		bring_up(qp, now, i);
	if (i == 0 && s->paths == 1 && !engine_of(qp)->spreads_by_lids)
		lay(qp, (const uint8_t (*)[16])(payload + PATH_PROBE_ADDRESS), addresses);
	reckon(s);
}
