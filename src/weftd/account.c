/* What a user has is counted when it wants more, over the clients: it is seldom asked, and there is no second count that could
 * differ. Only what no client has by itself is kept in the account. */
#include "weftd/account.h"

#include "base/log.h"
#include "control/limits.h"
#include "weftd/hub.h"
#include "weftd/subids.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"

#include <stdlib.h>

#define MEBIBYTE (1ull << 20)

/* Our choices: several times what any program of the test matrix uses, and a fraction of what there is. */
static const struct {
	/* of one process (0: no such limit), of one user, of all but root and weftd's own */
	uint64_t process, user, others;
} table[CONTROL_LIMITS] = {
	[LIMIT_CONNECTIONS] = { 0, QUOTA_USER_CLIENTS, QUOTA_CLIENTS - QUOTA_CLIENTS / 16 },
	[LIMIT_LETTERS] = { 8 * MEBIBYTE, 16 * MEBIBYTE, 64 * MEBIBYTE },
	[LIMIT_SLOTS] = { QUOTA_SLOTS, QUOTA_USER_SLOTS, PAGE_SLOTS - PAGE_SLOTS / 16 },
	[LIMIT_CHANNELS] = { QUOTA_CHANNELS, 64 * QUOTA_CHANNELS, 256 * QUOTA_CHANNELS },
	[LIMIT_GROUPS] = { QUOTA_GROUPS, PAGE_GROUPS / 4, PAGE_GROUPS - PAGE_GROUPS / 8 },
	[LIMIT_LISTENERS] = { QUOTA_LISTENERS, QUOTA_LISTENERS, 4 * QUOTA_LISTENERS },
	[LIMIT_PORTS] = { QUOTA_PORTS, QUOTA_PORTS / 2, QUOTA_PORTS / 2 * 3 - QUOTA_PORTS / 32 },
	[LIMIT_QUESTIONS] = { 0, QUOTA_USER_QUESTIONS, QUOTA_QUESTIONS - QUOTA_QUESTIONS / 8 },
	[LIMIT_NODES] = { 0, SUBNET_TREES / 16, SUBNET_TREES / 4 },
	[LIMIT_DATAGRAMS] = { 0, 128 * MEBIBYTE, 256 * MEBIBYTE },
	[LIMIT_CHOICES] = { 0, CONTROL_USER_CHOICES, CONTROL_CHOICES - CONTROL_CHOICES / 6 },
};

struct account *account_get(struct hub *h, uid_t uid)
{
	uint32_t user = subids_owner(uid, h->uid);
	struct account *a;

	list_for_each(known, &h->accounts, struct account, node) {
		if (known->user == user) {
			known->clients++;
			return known;
		}
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	*a = (struct account){ .user = user, .clients = 1 };
	list_append(&h->accounts, &a->node);
	return a;
}

void account_put(struct account *a)
{
	if (--a->clients)
		return;
	list_remove(&a->node);
	free(a);
}

static bool is_privileged(const struct hub *h, const struct account *a)
{
	return subids_is_privileged(a->user, h->uid);
}

static uint64_t count_descriptors(const struct client *c)
{
	return 1 + (c->wake_fd >= 0) + (c->direct_fd[0] >= 0) + (c->direct_fd[1] >= 0) + c->files;
}

static uint64_t used_by_client(const struct client *c, enum control_limit limit)
{
	switch (limit) {
	case LIMIT_CONNECTIONS:
		return 1;
	case LIMIT_DESCRIPTORS:
		return count_descriptors(c);
	case LIMIT_SLOTS:
		return c->slots;
	case LIMIT_CHANNELS:
		return c->channels + c->kept_count;
	case LIMIT_LISTENERS:
		return c->listener_count;
	case LIMIT_PORTS:
		return c->port_count;
	case LIMIT_DATAGRAMS:
		return umad_bytes(c);
	default:
		return 0;
	}
}

static uint64_t used_by_account(const struct hub *h, const struct account *a, enum control_limit limit)
{
	uint64_t n = 0;

	switch (limit) {
	case LIMIT_DESCRIPTORS:
		return a->letter_fds;
	case LIMIT_LETTERS:
		return a->letter_bytes;
	case LIMIT_QUESTIONS:
		return a->questions;
	case LIMIT_GROUPS:
		for (int i = 0; i < PAGE_GROUPS; i++)
			n += h->page->group[i].used && h->group_user[i] == a->user;
		return n;
	default:
		return 0;
	}
}

/* What stays when the clients of the user who asked for it are gone. */
static void count_lasting(const struct hub *h, const struct account *a, uint32_t whose, uint64_t *user, uint64_t *others)
{
	*user += whose == a->user;
	*others += !subids_is_privileged(whose, h->uid);
}

static void count_trees(const struct hub *h, const struct account *a, enum control_limit limit, uint64_t *user, uint64_t *others)
{
	for (uint32_t i = 0; limit == LIMIT_NODES && h->subnet && i < h->subnet->trees; i++)
		count_lasting(h, a, h->subnet->tree[i].user, user, others);
	for (uint32_t i = 0; limit == LIMIT_CHOICES && h->subnet && i < h->subnet->choices; i++)
		count_lasting(h, a, h->subnet->choice[i].user, user, others);
}

/* Of the account, and of all that are neither root's nor weftd's own. */
static void count(const struct hub *h, const struct account *a, enum control_limit limit, uint64_t *user, uint64_t *others)
{
	*user = *others = 0;
	count_trees(h, a, limit, user, others);
	list_for_each(c, &h->clients, struct client, node) {
		uint64_t n = is_privileged(h, c->account) ? 0 : used_by_client(c, limit);

		*others += n;
		*user += c->account == a ? n : 0;
	}
	list_for_each(other, &h->accounts, struct account, node) {
		uint64_t n = is_privileged(h, other) ? 0 : used_by_account(h, other, limit);

		*others += n;
		*user += other == a ? n : 0;
	}
}

static void tell(struct account *a, enum control_limit limit, const char *whose, uint64_t most)
{
	if (!a->is_told[limit])
		log_line(LOG_WARNING, "user %u is refused more %s: %s may have %llu", a->user, limits_name(limit), whose,
			 (unsigned long long)most);
	a->is_told[limit] = true;
}

static enum control_limit check_account(const struct hub *h, struct account *a, enum control_limit limit, uint64_t more)
{
	uint64_t most_user = table[limit].user, most_others = table[limit].others, user, others;

	if (limit == LIMIT_DESCRIPTORS) {
		most_user = h->descriptors / 4;
		most_others = h->descriptors / 4 * 3;
	}
	if (is_privileged(h, a))
		return 0;
	count(h, a, limit, &user, &others);
	if (user + more > most_user)
		tell(a, limit, "one user", most_user);
	else if (others + more > most_others)
		tell(a, limit, "all users but root", most_others);
	else
		return a->is_told[limit] = false;
	return limit;
}

enum control_limit account_check(struct hub *h, const struct client *c, enum control_limit limit, uint64_t more)
{
	uint64_t most = table[limit].process, own = limit == LIMIT_GROUPS ? c->group_count : used_by_client(c, limit);

	if (most && limit != LIMIT_LETTERS && own + more > most) {
		tell(c->account, limit, "one process", most);
		return limit;
	}
	return check_account(h, c->account, limit, more);
}

bool account_has_room(const struct hub *h, const struct account *a)
{
	return is_privileged(h, a) ||
	       (a->letter_bytes < table[LIMIT_LETTERS].user / 4 * 3 && a->letter_fds < h->descriptors / 8);
}
