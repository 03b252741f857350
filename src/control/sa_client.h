/* Questions to subnet administration by a file of management datagrams that a program has opened with weftd: the seed's protocol
 * (mgmt/transaction.h) by class version 1, today's by class version 2. Blocks until there is an answer. */
#ifndef WEFT_CONTROL_SA_CLIENT_H
#define WEFT_CONTROL_SA_CLIENT_H

#include "control/protocol.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SA_CLIENT_RETRIES = 7 };		/* the most */

struct sa_client_question {
	uint8_t class_version;		/* 1 or 2 */
	uint8_t method;			/* enum transaction_method; of version 2: SA_GET_TABLE */
	uint16_t attribute, window;	/* window: 0: 64 */
	uint8_t retries;		/* of version 1: how often a packet goes again, or is asked for */
	bool is_lsb_first;		/* of version 1: bit 0 of the flags is the least significant one */
	uint16_t lid;			/* of the administration */
	struct control_times times;	/* of version 1: as CTL_MAD_PORT told them */
	uint64_t key;			/* of version 2: the SM_Key */
	const uint8_t *records;		/* borrowed: of a Config */
	uint32_t bytes;
	uint32_t timeout_ms;		/* of all; 0: of version 1 as mgmt/series.h says, ten seconds of version 2 */
};

struct sa_client_answer {
	uint16_t status;		/* of the MAD; 0: data are the answer */
	uint16_t record_bytes;		/* of version 2: AttributeOffset; else 0 */
	uint8_t *data;			/* the caller's to free */
	uint32_t bytes;
	uint64_t sent, received;	/* packets; of version 2: whole datagrams */
};

/* How its agent is to be registered. */
struct control_agent sa_client_agent(uint8_t class_version);

/* Receive buffers that the agent is to have besides the default: as many as packets of the answer may come at once. */
uint16_t sa_client_buffers(const struct sa_client_question *q);

/* Registers it for the file with this secret, and asks for so many receive buffers more: they go with the file. What there is no
 * memory for it does without. command: a connection of CONTROL_COMMAND. 0 or -errno. */
int sa_client_register(int command, const uint8_t secret[16], const struct control_agent *agent, uint16_t buffers,
			uint32_t *id);

/* fd: a connection of CONTROL_MADS that gives back, of which nothing else is read meanwhile. 0; -ETIMEDOUT; -EINVAL: no such
 * question; -ENOMEM; -ECONNRESET: weftd has ended; -EIO. */
int sa_client_ask(int fd, uint32_t agent, const struct sa_client_question *q, struct sa_client_answer *a);

/* One datagram of any class, with its head and a transaction id, to QP1 at a LID, and the answer in its place. As
 * sa_client_ask. */
int sa_client_call(int fd, uint32_t agent, uint16_t lid, uint32_t timeout_ms, uint8_t mad[MAD_BYTES]);

#endif
