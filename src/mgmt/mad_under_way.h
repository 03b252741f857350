/* What agents have sent and what comes to them, until it is over. Of mad_clients.c, mad_requests.c and
 * mad_room.c alone. */
#ifndef WEFT_MGMT_MAD_UNDER_WAY_H
#define WEFT_MGMT_MAD_UNDER_WAY_H

#include "mgmt/mad_agents.h"
#include "mgmt/mad_clients.h"
#include "mgmt/mad_source.h"
#include "mgmt/rmpp.h"
#include "wire/field.h"

#define TID 8, 0, 64
#define RMPP_TYPE 25, 0, 8
#define RMPP_DATA1 28, 0, 32
#define RMPP_DATA2 32, 0, 32

/* Something that an agent has sent and that is not over: an answer is due, or ACKs of its segments. */
struct request {
	struct list_node node;		/* mad_file.request_list */
	struct timer_heap_node timer;	/* mad_clients.requests */
	struct mad_file *file;
	uint32_t agent;
	struct mad_remote remote;
	uint32_t timeout_ms, retries;
	uint64_t own_tid, tid;		/* as the program wrote it, and as it was sent */
	bool is_segmented, is_sending;
	bool has_come;			/* the other side has all segments */
	wtime ends;			/* for good, once an answer has begun */
	struct rmpp_send rmpp;
	struct mad_flow flow;		/* of an answer that is made while it is sent */
	uint32_t bytes;			/* that count */
	uint8_t *data;			/* owned: given by the sender, or a copy behind it */
	uint8_t copy[];
};

/* A datagram that comes in segments, or has come. */
struct transfer {
	struct list_node node;		/* mad_file.transfer_list */
	struct timer_heap_node timer;	/* mad_clients.transfers */
	struct mad_file *file;
	uint32_t agent;
	uint64_t tid;
	struct mad_remote sender;
	uint8_t mgmt_class, method;
	bool is_answer, is_done;
	uint32_t answer_window;		/* segments of its answer that may go at first; 0: its sender has not said */
	uint32_t lent;			/* buffers that the agent has more meanwhile: its window */
	uint32_t counted;		/* bytes on the file's account */
	struct rmpp_recv rmpp;
};

/* IBA 13.4.5; TrapRepress answers a trap, and the board manager tells in the modifier (Linux knows it so). */
static inline bool is_response(const uint8_t *mad)
{
	uint8_t method = mad_method(mad);

	return method & MAD_RESPONSE || method == MAD_TRAP_REPRESS ||
	       (mad_class(mad) == MAD_CLASS_BM && wire_get(mad, 20, 0, 32) & 1);
}

/* An answer in segments, among others to the same LID: who asks for many leaves half of the room to others. */
bool mad_leaves_room(const struct mad_clients *c, const struct mad_file *f, const struct mad_letter *l);

#endif
