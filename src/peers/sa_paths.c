#include "peers/sa_paths.h"

#include "control/session.h"
#include "peers/peers.h"
#include "peers/route.h"
#include "wire/addr.h"

#include <stdlib.h>
#include <string.h>

/* Our choices: what an answer may take in all; questions in a row without an answer, until something changes. */
enum { ANSWER_MS = 2000, FAILURES = 3 };

/* What an answer was true for. All of it is compared. */
struct stamp {
	uint16_t lid, peer_lid, sm_lid;
	uint8_t lmc, peer_lmc, reregistered, rsvd;
};

_Static_assert(sizeof(struct stamp) == 10, "stamps are compared as bytes");

struct sa_path_row {
	uint8_t device;
	uint16_t pkey;
	uint8_t sgid[16], dgid[16];
	struct stamp stamp;
	bool is_asked;
	bool is_old;			/* routes have changed since: it is asked once more when they rest */
	struct stamp seen;		/* the port and the peer, then */
	uint8_t failures;		/* in a row */
	wtime asked_at;
	uint64_t change;		/* of routes, when it was asked last; 0: never */
	uint8_t pairs;
	struct lid_pair pair[LID_PATHS];
};

void sa_paths_fini(struct sa_paths *s)
{
	free(s->row);
	*s = (struct sa_paths){ 0 };
}

static struct sa_path_row *find(const struct sa_paths *s, unsigned device, uint16_t pkey, const uint8_t sgid[16],
				const uint8_t dgid[16])
{
	for (uint32_t i = 0; i < s->rows; i++) {
		struct sa_path_row *row = &s->row[i];

		if (row->device == device && row->pkey == pkey && !memcmp(row->dgid, dgid, 16) && !memcmp(row->sgid, sgid, 16))
			return row;
	}
	return NULL;
}

static struct sa_path_row *add(struct sa_paths *s, unsigned device, uint16_t pkey, const struct node_ends *ends)
{
	uint32_t places = s->places ? 2 * s->places : 8;
	struct sa_path_row *row;

	if (s->rows == SA_PATHS_MOST)
		return NULL;
	if (s->rows == s->places) {
		row = realloc(s->row, places * sizeof(*row));
		if (!row)
			return NULL;
		s->row = row;
		s->places = places;
	}
	row = &s->row[s->rows++];
	*row = (struct sa_path_row){ .device = (uint8_t)device, .pkey = pkey };
	memcpy(row->sgid, ends->sgid, 16);
	memcpy(row->dgid, ends->dgid, 16);
	return row;
}

static unsigned most_of(const struct stamp *stamp)
{
	unsigned bits = stamp->lmc < stamp->peer_lmc ? stamp->lmc : stamp->peer_lmc;

	return bits < 3 ? 1u << bits : LID_PATHS;
}

_Static_assert(LID_PATHS == 1 << 3, "as many as an LMC of 3 gives");

/* The number of the change that routes of this generation follow: those that answers made are none. */
static uint64_t change_of(const struct sa_paths *s, uint64_t generation)
{
	return generation - s->answers;
}

static bool is_awaited(const struct sa_path_row *row, wtime now)
{
	return row->is_asked && now < row->asked_at + SA_PATHS_PATIENCE;
}

static bool is_due(const struct sa_path_row *row, const struct stamp *stamp, wtime now, uint64_t change)
{
	if (is_awaited(row, now))
		return false;
	if ((!row->change && row->failures < FAILURES) || memcmp(&row->stamp, stamp, sizeof(*stamp)) != 0)
		return true;
	return row->change != change && (row->pairs < most_of(stamp) || now >= row->asked_at + SA_PATHS_PAUSE);
}

static void ask(struct peers *ps, struct sa_path_row *row, const struct stamp *stamp)
{
	struct control_msg msg = { .type = CTL_PATHS, .device = row->device, .a = row->pkey, .b = most_of(stamp),
				   .c = ANSWER_MS };

	memcpy(msg.gid, row->sgid, 16);
	memcpy(msg.dgid, row->dgid, 16);
	if (session_ask(ps->session, &msg))
		return;
	row->is_asked = true;
	row->asked_at = ps->ca->now;
	row->change = change_of(&ps->sa_paths, ps->ca->routes.generation);
	if (memcmp(&row->stamp, stamp, sizeof(*stamp)) != 0)
		row->failures = 0;
	row->stamp = *stamp;
}

unsigned sa_paths_find(struct peers *ps, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
		       const struct route *r, struct lid_pair pair[LID_PATHS])
{
	struct sa_path_row *row;
	struct node_ends ends;
	struct stamp stamp;

	/* who chose another LID of the peer than the first chose a path */
	if (ps->in_forked_child || !node_find_ends(&ps->node, ps->page, dev, path, route_slot(r), &ends) || !ends.lmc ||
	    path->dlid != ends.lid)
		return 0;
	row = find(&ps->sa_paths, dev->index, pkey, ends.sgid, ends.dgid);
	if (!row)
		row = add(&ps->sa_paths, dev->index, pkey, &ends);
	if (!row)
		return 0;
	stamp = (struct stamp){
		.lid = dev->lid, .peer_lid = ends.lid, .sm_lid = dev->sm_lid, .lmc = dev->lmc, .peer_lmc = ends.lmc,
		.reregistered = dev->reregistered,
	};
	if (row->change && row->change != change_of(&ps->sa_paths, r->generation)) {
		row->is_old = true;
		row->seen = stamp;
	}
	if (is_due(row, &stamp, ps->ca->now, change_of(&ps->sa_paths, r->generation)))
		ask(ps, row, &stamp);
	memcpy(pair, row->pair, row->pairs * sizeof(*pair));
	return row->pairs;
}

wtime sa_paths_ask_again(struct peers *ps, wtime now)
{
	struct sa_paths *s = &ps->sa_paths;

	if (!s->rows)
		return WTIME_NEVER;
	if (s->change != change_of(s, ps->ca->routes.generation)) {
		s->change = change_of(s, ps->ca->routes.generation);
		s->again_at = now + SA_PATHS_PAUSE;
	}
	if (now < s->again_at)
		return s->again_at;
	s->again_at = WTIME_NEVER;
	for (struct sa_path_row *row = s->row; row < s->row + s->rows; row++) {
		if (!row->is_old)
			continue;
		row->is_old = is_awaited(row, now);
		if (row->is_old)
			s->again_at = wtime_min(s->again_at, row->asked_at + SA_PATHS_PATIENCE);
		else
			ask(ps, row, &row->seen);
	}
	return s->again_at;
}

/* Pairs that make sense to the port: from one of its LIDs to one of the peer's. */
static unsigned read_pairs(const struct ca_device *dev, const struct stamp *stamp, const void *text, uint32_t bytes,
			   struct lid_pair pair[LID_PATHS])
{
	unsigned n = 0;

	for (uint32_t at = 0; at + sizeof(*pair) <= bytes && n < LID_PATHS; at += sizeof(*pair)) {
		memcpy(&pair[n], (const uint8_t *)text + at, sizeof(*pair));
		if (device_has_lid(dev, pair[n].slid) && lid_is_of(pair[n].dlid, stamp->peer_lid, stamp->peer_lmc))
			n++;
	}
	return n;
}

bool sa_paths_take(struct peers *ps, const struct control_msg *answer, const void *text, uint32_t bytes)
{
	struct sa_path_row *row = answer->device < (uint32_t)ps->ca->devices ?
				  find(&ps->sa_paths, answer->device, (uint16_t)answer->a, answer->gid, answer->dgid) : NULL;
	struct lid_pair pair[LID_PATHS] = { { 0 } };
	unsigned pairs;

	if (!row || !row->is_asked)
		return false;
	row->is_asked = false;
	if (answer->status) {
		row->change = 0;
		row->failures += row->failures < FAILURES;
		ps->sa_paths.answers += row->failures < FAILURES;
		return row->failures < FAILURES;
	}
	row->failures = 0;
	pairs = read_pairs(&ps->ca->dev[answer->device], &row->stamp, text, bytes, pair);
	if (pairs == row->pairs && !memcmp(pair, row->pair, sizeof(pair)))
		return false;
	row->pairs = (uint8_t)pairs;
	memcpy(row->pair, pair, sizeof(pair));
	ps->sa_paths.answers++;
	return true;
}
