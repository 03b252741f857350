/* The context of a queue pair and of its work queues, as the seed's receive-queue device shows them: IPS-13, IPS-16. */
#ifndef WEFT_VERBS_QP_CONTEXT_H
#define WEFT_VERBS_QP_CONTEXT_H

#include "verbs/qp.h"

/* Addresses of queues are offsets in the arena, which every process that maps it understands. */
struct wq_context {
	uint64_t head;			/* where the next WQE will be written */
	uint64_t next_wqe;		/* the WQE that the engine takes next */
	uint32_t cq;			/* index of its CQ in the adapter's table; 0 without one */
	uint32_t pending_wqes;		/* announced and not finished */
	uint32_t pending_transfers;	/* of those, begun */
	uint64_t after_logical;		/* the address right after the last byte transferred, as its region counts ... */
	uint64_t after_memory;		/* ... and in this process's memory; 0 when the region is gone or cannot be reached so */
};

enum { QP_CONTEXT_WAYS = 8 };

struct qp_context {
	/* The consumer's to write. */
	struct qp_context_ulp {
		uint32_t ip_version;	/* 4 or 6: a path of another is refused; 0: any. Ethernet only */
		uint32_t port;
		uint32_t pmtu_bytes;
		uint32_t retry_limit;
		uint32_t max_reads;	/* MRDMA */
		uint64_t ack_wait_ns;	/* ACKT, taken up to the next that the attribute's code has; WTIME_NEVER */
		uint64_t window_out_bytes;	/* what may be unacknowledged; less than a packet counts as one */
	} ulp;
	/* The engine's. */
	struct qp_context_engine {
		enum ibv_qp_state state;
		uint32_t retries;		/* of the packet that waits */
		uint32_t receives_awaiting_ack;	/* PRC: completed and not yet acknowledged */
		uint64_t window_in_bytes;	/* what the posted receives hold */
	} engine;
	/* Given at creation. */
	struct qp_context_fixed {
		enum ibv_qp_type type;		/* QT */
		uint32_t data_segments;		/* DS, of a send WQE */
		uint32_t pd;			/* handle; 0 without one */
	} fixed;
	struct wq_context send, recv;
	/* What the path to another host carries, as far as the engine knows; is_known: packets went there. */
	struct qp_context_path {
		bool is_known;
		uint64_t bytes_per_s;		/* may leave; 0: any number */
		uint64_t round_trip_ns, shortest_ns;	/* 0: not known */
		uint64_t lost, marked, notified;	/* packets, and notifications of congestion, since the connection began */
	} path;
	/* Where they go by several paths: so many, 0 where by one. */
	uint32_t ways;
	struct qp_context_way {
		const char *state;		/* "unproven", "up" or "aside"; "cut": messages without packets do not go by it */
		uint8_t sgid[16], dgid[16];
		uint16_t slid, dlid;		/* where the paths are pairs of LIDs; else 0 */
		uint64_t messages;		/* that went by it without packets */
		uint32_t variant;		/* bits of the source port that differ from the first one's */
		uint64_t bytes_per_s, round_trip_ns;	/* as of the path */
		uint64_t sent, lost, set_aside;	/* packets, and times */
	} way[QP_CONTEXT_WAYS];
};

void qp_context_get(const struct qp *qp, struct qp_context *context);
/* Writes the consumer's part. -EPERM: another part is not as it is. -EINVAL: a value that the adapter does not have, or -EBUSY:
 * one that is settled once the QP is connected (IP version, port, PMTU, reads), or a window smaller than what is unacknowledged.
 * Nothing is changed then. */
int qp_context_set(struct qp *qp, const struct qp_context *context);

#endif
