/* What one user has of weftd, over all of its processes, and how much that may be. A user whom subuid(5) gives to another counts
 * as that one. Root and weftd's own user are held to what there is in all; some of each is kept for them. Neither's subordinate
 * users, whom containers have, count as it (weftd/subids.h). */
#ifndef WEFT_WEFTD_ACCOUNT_H
#define WEFT_WEFTD_ACCOUNT_H

#include "base/list.h"
#include "control/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hub;
struct client;

struct account {
	struct list_node node;		/* hub.accounts */
	uint32_t user;
	uint32_t clients;
	uint64_t letter_bytes;		/* in messages that its clients have not read */
	uint32_t letter_fds;
	uint32_t questions;		/* reports under way */
	bool is_told[CONTROL_LIMITS];	/* in the log, since it had less */
};

/* The account of this user, with one client more; NULL: no memory. */
struct account *account_get(struct hub *h, uid_t uid);
/* With one less; the last frees it. */
void account_put(struct account *a);

/* Would so many more be too many for c: of one process, of its user, or of all but root? 0, or which limit it is; logged. */
enum control_limit account_check(struct hub *h, const struct client *c, enum control_limit limit, uint64_t more);
/* May more of its letters be held that may also be dropped? */
bool account_has_room(const struct hub *h, const struct account *a);

#endif
