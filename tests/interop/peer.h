/* One of two ends on two hosts: a QP over libibverbs alone, and a TCP connection on which the ends agree. The same program runs
 * with any adapter at either end. Whatever goes wrong ends the process with 1. */
#ifndef INTEROP_PEER_H
#define INTEROP_PEER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PEER_BYTES = 1 << 18, PEER_WRS = 64, PEER_QKEY = 0x11111111 };

struct peer_address {
	uint32_t qpn, psn, rkey, mtu;	/* mtu: enum ibv_mtu of the port */
	uint64_t va;
	union ibv_gid gid;
};

struct peer {
	const char *role;		/* for messages: requester, responder */
	int tcp;
	uint8_t gid_index;
	enum ibv_qp_type type;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;		/* of both queues */
	struct ibv_mr *mr;		/* memory, with all rights */
	struct ibv_qp *qp;
	struct ibv_ah *ah;		/* UD: to the other end */
	struct peer_address own, other;
	uint8_t memory[PEER_BYTES];
};

/* How the QP is made and led to RTS. */
struct peer_options {
	enum ibv_qp_type type;
	int access;			/* qp_access_flags */
	uint8_t timeout, retry_cnt, rnr_retry;
};

_Noreturn void peer_fail(const struct peer *p, const char *what);

/* address: the server's, "" for who is the server. */
void peer_open(struct peer *p, const char *device, int gid_index, uint16_t port, const char *address);
void peer_connect(struct peer *p, const struct peer_options *options);

/* Until the other end has come here, too. */
void peer_meet(struct peer *p);

void peer_receive(struct peer *p, uint64_t wr_id, size_t offset, uint32_t bytes, uint32_t lkey);

/* false: none came within so many milliseconds. */
bool peer_completion(struct peer *p, struct ibv_wc *wc, int ms);

/* Content that tells its message and place. */
void peer_fill(uint8_t *to, uint32_t bytes, uint32_t number);
bool peer_holds(const uint8_t *at, uint32_t bytes, uint32_t number);

#endif
