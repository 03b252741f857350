/* What the seed's subnet administration gives out and changes (seed 001: RMP-01, RMP-61, RMP-62): tables of records, which others
 * give one by one, and records of its own that Configs add, delete and edit: all that a Config says, or nothing. Pure. */
#ifndef WEFT_MGMT_SA_STORE_H
#define WEFT_MGMT_SA_STORE_H

#include "wire/sa_records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SA_KEPT_MOST = 4096,		/* records that Configs have added: our choice */
	SA_KEPT_TEXT = 48,
	SA_KEPT_BYTES = 16 + SA_KEPT_TEXT,	/* on the wire: id, key, text: our choice, as the seed has no records */
	SA_EDIT_BYTES = 8 + SA_KEPT_BYTES,	/* of a Config: what to do, seven bytes of nothing, a record */
	SA_BULK_HEAD = 4,		/* before each record of a GetBulk: attribute, bytes of the record */
	SA_KEPT_ATTRIBUTE = SA_SERVICE_RECORD_ID,	/* they are as these: names of what is where */
	SA_KEPT_ID = 8,			/* bytes at the begin of such a record that name it */
	SA_ID_MOST = 64,		/* bytes that name a record: of the longest name that there is, rounded up */
};

/* Which records a key leads to (RMP-61, A-20). */
enum sa_policy {
	SA_KEY_CHOOSES,		/* the seed's: without a key all, with one those of that key */
	SA_KEY_IS_TRUSTED,	/* today's: with the trusted key all; with another one or none, those of that key and of none */
};

struct sa_question {
	uint64_t key;
	uint16_t lid;		/* of who asks */
};

/* Records of an attribute. What gives them is the caller's. */
struct sa_table {
	const char *name;
	uint16_t attribute, record_bytes;	/* at most SA_RECORD_MOST */
	/* The next record of the answer from *at on, a number that begins with 0 and that it moves behind that record; false:
	 * there is none. Between a 0 and the last record nothing changes; any *at is harmless. */
	bool (*give)(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record);
	void *arg;			/* borrowed */
	bool is_apart;			/* GetBulk leaves it out: who wants it asks for it */
	/* Bytes at a record's begin that name it: they stay while other bytes change. At most SA_ID_MOST. */
	uint16_t id_bytes;
	/* Does anybody know the records now? NULL: yes, always. */
	bool (*is_known)(void *arg, const struct sa_question *q);
};

enum sa_edit { SA_ADD = 1, SA_DELETE_ONE = 2, SA_EDIT_ONE = 3 };

/* What became of each edit of a Config, in two bytes each of its answer. */
enum sa_edit_status {
	SA_DONE,
	SA_NOT_DONE,		/* as another one of the same Config could not be done */
	SA_IS_THERE,		/* nothing is added twice */
	SA_IS_NOT_THERE,
	SA_NOT_YOURS,		/* it has another key */
	SA_NO_SUCH_EDIT,
	SA_NO_PLACE,
};

struct sa_kept {
	uint64_t id, key;	/* key 0: anybody's */
	uint8_t text[SA_KEPT_TEXT];
};

struct sa_store {
	enum sa_policy policy;
	uint64_t trusted;
	struct sa_kept *kept;	/* owned: by id */
	uint32_t count;
	uint64_t changes;
};

/* 0 or -ENOMEM. */
int sa_store_init(struct sa_store *s, enum sa_policy policy, uint64_t trusted);
void sa_store_fini(struct sa_store *s);

/* Gives its own records: of struct sa_table; arg is the store. */
bool sa_store_give(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record);

/* The edits of a Config, of any bytes, all or none. The answer: two bytes each, the caller's to free; its bytes are 0 for what is
 * no Config. NULL: there is no memory, and nothing was changed. */
uint8_t *sa_store_edit(struct sa_store *s, uint64_t key, const uint8_t *edits, uint32_t bytes, uint32_t *answer_bytes);

#endif
