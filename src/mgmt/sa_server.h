/* The side of the seed's subnet administration that answers (seed 001): many transactions at once (transaction.h), each of a
 * requester's LID and transaction id, over tables of records (sa_store.h). Pure: MADs in, MADs out by turns, a deadline.
 *
 * An answer is gathered when it is asked for. When the tables change while it is sent, what was not begun to be sent is gathered
 * anew: records that were sent stay as they were and come no second time, those behind them are as they are now (RMP-09), in
 * any order. Where nobody knows of them any more, the answer ends with the status `busy`. A Config is done when all of it
 * has come, at once, and never half of it (RMP-54, RMP-62), nor a second time, however many ask meanwhile: it is known as long as
 * it may be repeated (RMP-52, RMP-53). Its windows are of a room that all share: where there is none, an Ack waits (RMP-28), but
 * never that of the oldest, so that one always goes on. */
#ifndef WEFT_MGMT_SA_SERVER_H
#define WEFT_MGMT_SA_SERVER_H

#include "base/list.h"
#include "mgmt/sa_store.h"
#include "mgmt/transaction.h"

enum {
	SA_TABLES = 16,
	SA_SESSIONS = 64,		/* our choice: under way, or kept for what may be repeated */
	SA_SESSIONS_OF_ONE = 8,		/* of one LID: our choice */
	/* Configs that were done, besides these, of which those of a LID leave as many as they are: our choice. */
	SA_CONFIGS_KEPT = 512,
	SA_LONGEST_KB = 8 << 10,	/* of an answer: our choice, unless an administrator has another one */
	SA_LONGEST_KB_MOST = 128 << 10,	/* our choice: twice the 64 MB that are measured */
	/* All answers have the memory of so many of the longest, of which those to a LID leave as much as they take. The least in
	 * which one of LinkRecords, the shortest, has a place: it and its marks have up to twice its bytes each. */
	SA_ANSWERS = 8,
	SA_CONFIG_BYTES = 1 << 20,	/* of a Config: our choice */
	/* Of all Configs that come, besides their first windows and all of the oldest; of it those of a LID leave as much as they
	 * take: our choice. */
	SA_CONFIGS_BYTES = 4 << 20,
};

/* Of the administration in weftd and who asks it, where no port says what its SubnetTimeOut is. */
extern const struct series_config sa_live_config;

struct sa_session;

struct sa_server {
	struct series_config config;
	uint32_t longest_kb;		/* of an answer that is gathered from now on, and its share of all */
	struct sa_table table[SA_TABLES];
	uint32_t tables;
	struct sa_store *store;		/* borrowed: what Configs change; NULL: none do */
	/* Grows with each change of what the tables give, besides the store's; NULL: nothing else changes. */
	uint64_t (*version)(void *arg);
	void *arg;
	struct list sessions;
	uint32_t count;
	uint64_t bytes;			/* of all answers */
	uint64_t config_bytes;		/* that Configs which come were granted behind their first windows */
	uint64_t asked, refused, configs;	/* refused: there was no place */
	uint64_t held;			/* Acks of Configs that waited for room */
};

void sa_server_init(struct sa_server *s, const struct series_config *c);
void sa_server_fini(struct sa_server *s);

/* A MAD of this LID, of any bytes. */
void sa_server_input(struct sa_server *s, wtime now, uint16_t lid, const uint8_t mad[MAD_BYTES]);
/* The next MAD and whom it is for; false: none may go now. */
bool sa_server_output(struct sa_server *s, wtime now, uint16_t *lid, uint8_t mad[MAD_BYTES]);
void sa_server_expire(struct sa_server *s, wtime now);
wtime sa_server_deadline(const struct sa_server *s);

#endif
