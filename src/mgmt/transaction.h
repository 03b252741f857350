/* Transactions of the seed's subnet administration (seed 001: REQUIREMENTS RMP-01..62): GetTable and GetBulk are answered by a
 * series, a Config is one and may be answered by one. One end of one transaction, with injected time: MADs in, MADs out, a phase
 * and a deadline. The requester's address and transaction id name it: who carries MADs finds it by them.
 *
 * A requester asks, or sends its records, and has the answer when the phase is TXN_DONE. A server is made of the first packet
 * that comes; in the phase TXN_PREPARING it is to be given the answer, and of a Config has all records then, or never. Both stay
 * for a while when they are done, for the other end may not have heard of it: until their deadline. */
#ifndef WEFT_MGMT_TRANSACTION_H
#define WEFT_MGMT_TRANSACTION_H

#include "mgmt/series.h"

/* Methods of IBA 1.0's subnet administration. */
enum transaction_method { TXN_GET_TABLE = 0x12, TXN_GET_BULK = 0x13, TXN_CONFIG = 0x15 };

/* Of an answer without records, which is one: the SA's own status 3 (IBA 15.2.4). */
enum { TXN_NO_RECORDS = 0x0300 };

enum transaction_phase {
	TXN_ASKING,		/* requester: no answer yet */
	TXN_SENDING,		/* records of a Config, or the answer */
	TXN_RECEIVING,		/* the answer, or records of a Config */
	TXN_PREPARING,		/* server: transaction_answer is awaited */
	TXN_DONE, TXN_FAILED,	/* until the deadline it answers what is repeated */
};

struct transaction {
	struct series_config config;
	bool is_server;
	enum transaction_method method;
	enum transaction_phase phase;
	uint16_t status;		/* of the answer, or why it failed: 0 with TXN_FAILED: the other end was silent */
	uint16_t window;		/* of the answer */
	uint8_t head[SERIES_HEAD];	/* of what this end sends */
	struct series_out out;
	struct series_in in;		/* in.data: the answer, or a Config's records */
	struct series_header say;	/* to be sent next; flags 0: nothing */
	bool asks, tells_status;	/* the request, or an answer with a status alone, is to be sent */
	unsigned retries;
	wtime deadline;			/* while no series has one */
	wtime ends;			/* for good, while less than a MB has arrived */
};

/* head: the request's MAD and SA headers: class, version, method, transaction id, attribute, key. */
void transaction_ask(struct transaction *t, const struct series_config *c, wtime now, const uint8_t head[SERIES_HEAD],
		     uint16_t window);
/* data: borrowed until the transaction is over. */
void transaction_configure(struct transaction *t, const struct series_config *c, wtime now, const uint8_t head[SERIES_HEAD],
			   const uint8_t *data, uint32_t bytes);
/* False: this packet begins no transaction. It is still to be given to transaction_input. */
bool transaction_serve(struct transaction *t, const struct series_config *c, wtime now, const uint8_t mad[MAD_BYTES]);
void transaction_fini(struct transaction *t);

/* The server's answer: data that are borrowed until the transaction is over, as one packet may be repeated. They may grow and
 * shrink behind what was sent until is_all. A status that is not 0 goes without data, and ends what was begun to be sent; no data
 * at all go as TXN_NO_RECORDS. */
void transaction_answer(struct transaction *t, wtime now, uint16_t status, const uint8_t *data, uint32_t bytes, bool is_all);
/* The server of a Config has room for so many segments behind the window that comes, any number until it says so. */
void transaction_space(struct transaction *t, wtime now, uint32_t segments);

void transaction_input(struct transaction *t, wtime now, const uint8_t mad[MAD_BYTES]);
bool transaction_output(struct transaction *t, wtime now, uint8_t mad[MAD_BYTES]);
void transaction_expire(struct transaction *t, wtime now);
wtime transaction_deadline(const struct transaction *t);
/* It has ended, and nobody repeats anything any more. */
bool transaction_is_over(const struct transaction *t, wtime now);

#endif
