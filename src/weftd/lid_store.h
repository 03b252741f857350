/* LIDs of ports by their GUIDs, in an SQLite database of the runtime directory: what a subnet manager has given, for that of the
 * next weftd. A change is in it whole or not at all, whenever weftd is killed. What cannot be used is logged; a file of this user
 * that is no such database, or is damaged, stays under another name, and nothing else is touched. */
#ifndef WEFT_WEFTD_LID_STORE_H
#define WEFT_WEFTD_LID_STORE_H

#include "weftd/rundir.h"

#include <stdbool.h>
#include <stdint.h>

/* In the directory of weftd's own. The last one is what was before: lines of GUID and LID, which are taken over. */
#define LID_STORE_NAME "lids.db"
#define LID_STORE_JOURNAL "lids.db-journal"	/* as SQLite names it */
#define LID_STORE_FILES LID_STORE_JOURNAL, LID_STORE_NAME, "lids.new", "lids"
/* Where a file that is none of these goes: this, a number, and behind it what is behind its name. */
#define LID_STORE_ASIDE LID_STORE_NAME ".aside-"

struct lid_store {
	struct sqlite3 *db;	/* owned; NULL: nothing is kept */
	const struct rundir *dir;	/* borrowed */
	bool is_ready;		/* its table is there */
	bool is_told;		/* that another program has it */
};

/* Never fails: without a database, or while another program has it, nothing is read. */
void lid_store_open(struct lid_store *s, const struct rundir *dir);
void lid_store_close(struct lid_store *s);

/* Calls for each port that is kept. */
void lid_store_read(struct lid_store *s, void (*take)(void *arg, uint64_t guid, uint16_t lid), void *arg);

/* Keeps all that `give` gives until it says false, or nothing. What other ports have had stays, but for LIDs that are another's
 * now. 0, also where nothing can be kept; -EBUSY: another program has the database, now is no time. */
int lid_store_write(struct lid_store *s, bool (*give)(void *arg, uint64_t *guid, uint16_t *lid), void *arg);

/* Another fabric is loaded: of the files above those that weft made go. */
void lid_store_remove(const struct rundir *dir);

#endif
