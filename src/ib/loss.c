/* The states of single packets in flight: who calls what is in requester.c and completer.c. */
#include "ib/loss.h"

#include "base/log.h"
#include "ib/flight.h"

#include <stdlib.h>
#include <string.h>

enum { LATE_FADES = 32 };	/* our choice: a path that stopped reordering is forgotten after so many losses */

static size_t bytes_of(const struct flight *f)
{
	return sizeof(*f->loss) + f->entries * sizeof(f->loss->packet[0]);
}

void loss_open(struct flight *f)
{
	if (f->loss)
		return;
	f->loss = malloc(bytes_of(f));
	loss_reset(f);
}

void loss_fini(struct flight *f)
{
	free(f->loss);
	f->loss = NULL;
}

void loss_reset(struct flight *f)
{
	f->selective = false;
	if (!f->loss)
		return;
	memset(f->loss, 0, bytes_of(f));
	f->loss->path.least_ns = f->loss->deadline = WTIME_NEVER;
	f->loss->allowance = LOSS_UNBOUND;
}

bool loss_is_open(const struct flight *f, uint32_t index)
{
	return f->selective && (int32_t)(f->loss->until - index) > 0;
}

static struct loss_packet *packet_at(const struct flight *f, uint32_t index)
{
	return &f->loss->packet[index & (f->entries - 1u)];
}

static struct loss_path *path_of(const struct flight *f, const struct loss_packet *p)
{
	return f->paths ? &f->paths[p->path] : &f->loss->path;
}

/* The packet is under way by its path, or nowhere in flight any more; it is LOSS_SENT. */
static void count(struct flight *f, const struct loss_packet *p, int packets, wtime now)
{
	struct loss_path *path = f->paths ? path_of(f, p) : NULL;

	if (!path)
		return;
	if (!path->under_way && packets > 0)
		path->since = now;
	path->under_way += (uint32_t)packets;
}

static void set_state(struct flight *f, struct loss_packet *p, enum loss_state state)
{
	if (f->paths)
		path_of(f, p)->under_way += (uint32_t)(state == LOSS_SENT) - (p->state == LOSS_SENT);
	f->loss->held += (uint32_t)(state == LOSS_HELD) - (p->state == LOSS_HELD);
	p->state = (uint8_t)state;
}

/* A lost packet is repaired by what leaves a round trip later, or two if that is lost too; so long what follows goes on. */
void loss_widen(struct flight *f)
{
	struct flight_entry *entry;
	struct loss *l;

	if (f->entries >= LOSS_SPAN)
		return;
	entry = calloc(LOSS_SPAN, sizeof(*entry));
	l = calloc(1, sizeof(*l) + LOSS_SPAN * sizeof(l->packet[0]));
	if (!entry || !l) {
		free(entry);
		free(l);
		return;
	}
	*l = *f->loss;
	for (uint32_t i = f->oldest; i != f->newest; i++) {
		entry[i % LOSS_SPAN] = *flight_at(f, i);
		l->packet[i % LOSS_SPAN] = *packet_at(f, i);
	}
	free(f->entry);
	free(f->loss);
	f->entry = entry;
	f->loss = l;
	f->entries = LOSS_SPAN;
}

bool loss_has_room(const struct flight *f, uint32_t span)
{
	return f->selective && f->loss->held && flight_under_way(f) < flight_most(f) && f->newest - f->oldest < f->entries &&
	       (uint32_t)psn_diff(f->psn, flight_at(f, f->oldest)->psn) + span <= LOSS_SPAN;
}

void loss_select(struct flight *f)
{
	f->selective = true;
	f->loss->until = f->newest;
	f->loss->known = flight_first_psn(f);
	for (uint32_t i = f->resend; i != f->newest; i++)
		set_state(f, packet_at(f, i), LOSS_LOST);
}

static void raise_known(struct flight *f, psn_t before)
{
	if (psn_cmp(before, f->loss->known) > 0)
		f->loss->known = before;
}

static bool is_known(const struct flight *f, uint32_t index)
{
	return psn_cmp(flight_at(f, index)->psn, f->loss->known) < 0;
}

/* What left by two paths is answered by either. */
static void change_path(struct flight *f, struct loss_packet *p, wtime now, unsigned path)
{
	count(f, p, -1, now);
	if (p->path != path && p->left != LEFT_HEARD)
		p->left = LEFT_TO_ASK;
	p->path = (uint8_t)(path & 15);
	count(f, p, 1, now);
}

void loss_sent(struct flight *f, uint32_t index, wtime now, bool fresh, unsigned path)
{
	struct loss *l = f->loss;
	struct loss_packet *p = packet_at(f, index);

	if (fresh) {
		p->waited_us = 0;
		p->left = LEFT_ONCE;
		p->path = (uint8_t)(path & 15);
		count(f, p, 1, now);
	} else {
		wtime waited_us = p->waited_us + (now - p->at) / WTIME_US;

		p->waited_us = waited_us < UINT16_MAX ? (uint16_t)waited_us : UINT16_MAX;
		if (p->left != LEFT_AGAIN && p->left != LEFT_HEARD)
			p->left = p->state == LOSS_LOST ? LEFT_AGAIN : LEFT_TO_ASK;
		set_state(f, p, LOSS_SENT);
		l->until = f->newest;
		if (l->allowance != LOSS_UNBOUND && l->allowance)
			l->allowance--;
		if (index + 1 == f->newest)
			l->allowance = LOSS_UNBOUND;
		change_path(f, p, now, path);
	}
	p->at = now;
	p->order = l->order++;
}

static wtime later_than(const struct loss_path *path, wtime took)
{
	return took > path->took_ns ? took - path->took_ns : 0;
}

static void came_late(struct loss_path *path, wtime late_ns)
{
	if (late_ns > path->late_ns)
		path->late_ns = late_ns;
}

static void heard(struct loss *l)
{
	if (l->allowance != LOSS_UNBOUND)
		l->allowance += LOSS_PER_ARRIVAL;
}

/* RFC 8985, 6.2, steps 2 and 3. What left twice and is answered sooner than any packet before is the first one's
 * answer; after a probe, which is sent when nothing is known to be lost, any answer may be. */
static void arrived(struct flight *f, uint32_t index, wtime now)
{
	struct loss *l = f->loss;
	const struct flight_entry *e = flight_at(f, index);
	const struct loss_packet *p = packet_at(f, index);
	struct loss_path *path = path_of(f, p);
	wtime took = now - p->at;

	heard(l);
	path->since = path->heard_at = now;
	if (e->is_direct || p->left == LEFT_HEARD)
		return;
	if (p->left == LEFT_AGAIN && e->answer == ANSWER_ACK)
		l->doubt[l->doubts++ % LOSS_DOUBTS] = (struct loss_doubt){
			e->psn, p->path, later_than(path, took + p->waited_us * WTIME_US),
		};
	if (p->left == LEFT_TO_ASK || (p->left == LEFT_AGAIN && took < path->least_ns))
		return;
	if ((int32_t)(p->order - path->arrived) < 0) {
		if (p->left == LEFT_ONCE)
			came_late(path, later_than(path, took));
		return;
	}
	path->arrived = p->order;
	path->took_ns = took;
	if (took < path->least_ns)
		path->least_ns = took;
}

/* The entry at `index` is known to have arrived, for the first time. */
static void credit(struct flight *f, uint32_t index)
{
	struct loss_path *path = f->paths ? path_of(f, packet_at(f, index)) : NULL;
	psn_t last = flight_last_psn(flight_at(f, index));

	if (!path)
		return;
	if (!path->heard++ || psn_cmp(last, path->last) > 0)
		path->last = last;
}

/* A READ has arrived with its first response, not with its last. One that others have overtaken may have waited for a request
 * that was lost: how late it was is no measure of the path. */
void loss_known(struct flight *f, psn_t before, wtime now)
{
	raise_known(f, before);
	for (uint32_t i = f->oldest; i != f->newest && psn_cmp(flight_at(f, i)->psn, before) < 0; i++) {
		struct loss_packet *p = packet_at(f, i);

		if (p->state != LOSS_HELD && (int32_t)(p->order - path_of(f, p)->arrived) >= 0)
			arrived(f, i, now);
		p->left = LEFT_HEARD;
	}
}

bool loss_is_held(const struct flight *f, uint32_t index)
{
	return packet_at(f, index)->state == LOSS_HELD;
}

void loss_held(struct flight *f, uint32_t index, wtime now)
{
	arrived(f, index, now);
	credit(f, index);
	set_state(f, packet_at(f, index), LOSS_HELD);
}

bool loss_repeated(struct flight *f, uint8_t repeats, psn_t psn)
{
	struct loss *l = f->loss;

	if (l->repeats == repeats)
		return false;
	l->repeats = repeats;
	for (uint32_t i = 0; i < LOSS_DOUBTS && i < l->doubts; i++) {
		struct loss_doubt *d = &l->doubt[i];

		if (d->psn != psn || !d->late_ns)
			continue;
		came_late(f->paths ? &f->paths[d->path] : &l->path, d->late_ns);
		d->late_ns = 0;
		return true;
	}
	return false;
}

void loss_settled(struct flight *f, uint32_t from, wtime now)
{
	/* packets go in order by one path, each once: the last one stands for all */
	if (!loss_is_open(f, from) && !f->paths)
		from = f->oldest - 1;
	for (uint32_t i = from; i != f->oldest; i++) {
		struct loss_packet *p = packet_at(f, i);

		if (p->state != LOSS_HELD)
			credit(f, i);
		if (p->state != LOSS_HELD && now != WTIME_NEVER)
			arrived(f, i, now);
		else if (p->state != LOSS_HELD)
			heard(f->loss);
		set_state(f, p, LOSS_SENT);
		count(f, p, -1, now);
	}
	if (!f->loss)
		return;
	if ((int32_t)(f->loss->until - f->oldest) < 0)
		f->loss->until = f->oldest;
	raise_known(f, flight_first_psn(f));
}

/* RFC 8985, 6.2, step 4. Half as much again as what was late, for the next may be later. */
static wtime window_of(const struct loss_path *path, wtime longest_ns)
{
	wtime window = path->late_ns + path->late_ns / 2;

	if (path->least_ns != WTIME_NEVER && window < path->least_ns / 4)
		window = path->least_ns / 4;
	return wtime_min(window, longest_ns);
}

wtime loss_least(const struct flight *f)
{
	wtime least = f->loss->path.least_ns;

	for (unsigned i = 0; f->paths && i < f->path_count; i++)
		least = wtime_min(i ? least : WTIME_NEVER, f->paths[i].least_ns);
	return least;
}

/* By several paths: how much later the slowest brings something than the fastest. */
wtime loss_window(const struct flight *f, wtime longest_ns)
{
	wtime least = WTIME_NEVER, most = 0;

	if (!f->paths)
		return window_of(&f->loss->path, longest_ns);
	for (unsigned i = 0; i < f->path_count; i++) {
		wtime latest = f->paths[i].took_ns + window_of(&f->paths[i], longest_ns);

		if (f->paths[i].least_ns == WTIME_NEVER)
			continue;
		least = wtime_min(least, f->paths[i].least_ns);
		if (latest > most)
			most = latest;
	}
	return most ? wtime_min(most - least, longest_ns) : 0;
}

wtime loss_path_window(const struct flight *f, unsigned path, wtime longest_ns)
{
	return window_of(&f->paths[path], longest_ns);
}

void loss_late(struct flight *f, unsigned path, wtime late_ns)
{
	came_late(f->paths ? &f->paths[path] : &f->loss->path, late_ns);
}

void loss_spread(struct flight *f, struct loss_path *path, unsigned paths)
{
	for (unsigned i = 0; i < paths; i++)
		path[i] = (struct loss_path){ .least_ns = WTIME_NEVER };
	path[0] = f->loss->path;
	path[0].last = psn_add(flight_first_psn(f), -1);
	for (uint32_t i = f->oldest; i != f->newest; i++) {
		struct loss_packet *p = packet_at(f, i);

		p->path = 0;
		path[0].under_way += p->state == LOSS_SENT;
		if (path[0].since < p->at)
			path[0].since = p->at;
	}
	f->paths = path;
	f->path_count = (uint8_t)paths;
}

void loss_path_begin(struct flight *f, unsigned path, wtime round_trip_ns)
{
	struct loss_path *p = &f->paths[path];

	p->arrived = f->loss->order;
	p->took_ns = p->least_ns = round_trip_ns;
	p->late_ns = 0;
	p->last = psn_add(flight_first_psn(f), -1);
}

unsigned loss_path_of(const struct flight *f, uint32_t index)
{
	return packet_at(f, index)->path;
}

unsigned loss_path_gone(struct flight *f, unsigned path)
{
	unsigned gone = 0;

	for (uint32_t i = f->oldest; i != f->newest && f->paths[path].under_way; i++) {
		struct loss_packet *p = packet_at(f, i);

		if (p->state != LOSS_SENT || p->path != path || is_known(f, i))
			continue;
		set_state(f, p, LOSS_LOST);
		gone++;
		if (i - f->oldest < f->resend - f->oldest)
			f->resend = i;
	}
	if (gone)
		f->loss->until = f->newest;
	return gone;
}

/* What the peer expects it does not hold: it was not ready when the turn came. What it owes a response for is executed then, and
 * answers.c asks for that. */
static void unhold(struct flight *f, wtime now)
{
	struct loss_packet *p = f->oldest != f->newest ? packet_at(f, f->oldest) : NULL;

	if (!p || p->state != LOSS_HELD || flight_at(f, f->oldest)->answer != ANSWER_ACK)
		return;
	set_state(f, p, LOSS_SENT);
	p->at = now;
	p->order = f->loss->order++;
}

unsigned loss_detect(struct flight *f, wtime now, wtime longest_ns)
{
	struct loss *l = f->loss;
	unsigned lost = 0;

	l->deadline = WTIME_NEVER;
	unhold(f, now);
	for (uint32_t i = f->oldest; i != f->newest; i++) {
		struct loss_packet *p = packet_at(f, i);
		struct loss_path *path = path_of(f, p);
		wtime patience;

		if (p->state != LOSS_SENT || (int32_t)(p->order - path->arrived) >= 0 || flight_at(f, i)->is_direct ||
		    is_known(f, i))
			continue;
		patience = path->took_ns + window_of(path, longest_ns);
		if (now < p->at + patience) {
			l->deadline = wtime_min(l->deadline, p->at + patience);
			continue;
		}
		set_state(f, p, LOSS_LOST);
		path->late_ns -= path->late_ns / LATE_FADES;
		path->lost++;
		lost++;
		if (i - f->oldest < f->resend - f->oldest)
			f->resend = i;
	}
	return lost;
}

bool loss_rewind(struct flight *f, uint32_t index, bool all)
{
	bool any = false;

	for (uint32_t i = index; i != f->newest; i++) {
		struct loss_packet *p = packet_at(f, i);

		if (p->state == LOSS_LOST || (p->state == LOSS_HELD && !all && i != index))
			continue;
		set_state(f, p, LOSS_LOST);
		any = true;
	}
	if (index - f->oldest < f->resend - f->oldest)
		f->resend = index;
	f->loss->until = f->newest;
	if (all) {
		f->loss->known = flight_first_psn(f);
		f->loss->allowance = LOSS_RESTART;
	} else {
		heard(f->loss);		/* a NAK tells that the path works */
	}
	return any;
}

static bool is_to_leave(struct flight *f)
{
	struct loss_packet *p = packet_at(f, f->resend);

	if (p->state == LOSS_LOST && is_known(f, f->resend))
		set_state(f, p, LOSS_SENT);
	return p->state == LOSS_LOST;
}

bool loss_next(struct flight *f)
{
	while (f->resend != f->newest && !is_to_leave(f))
		f->resend++;
	if (f->resend == f->newest)
		f->loss->allowance = LOSS_UNBOUND;
	return f->resend != f->newest && f->loss->allowance;
}

bool loss_restarts(const struct flight *f)
{
	return f->selective && f->resend != f->newest && !f->loss->allowance;
}

void loss_take_back(struct flight *f, uint32_t from)
{
	for (uint32_t i = from; f->selective && i != f->newest; i++) {
		set_state(f, packet_at(f, i), LOSS_SENT);
		count(f, packet_at(f, i), -1, 0);
	}
}

void loss_check(const struct flight *f)
{
	uint32_t held = 0;

	weft_bug_on(f->selective && !f->loss);
	for (uint32_t i = f->oldest; f->selective && i != f->resend; i++)
		weft_bug_on(packet_at(f, i)->state == LOSS_LOST);
	for (uint32_t i = f->oldest; f->selective && i != f->newest; i++)
		held += packet_at(f, i)->state == LOSS_HELD;
	weft_bug_on(f->selective && f->loss && held != f->loss->held);
	for (unsigned path = 0; f->paths && path < f->path_count; path++) {
		uint32_t under_way = 0;

		for (uint32_t i = f->oldest; i != f->newest; i++)
			under_way += packet_at(f, i)->state == LOSS_SENT && packet_at(f, i)->path == path;
		weft_bug_on(under_way != f->paths[path].under_way);
	}
}
