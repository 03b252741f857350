#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* What the other end may take until it is there: an emulated machine. */
enum { PATIENCE_S = 30 };

void peer_fail(const struct peer *p, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", p->role, what, strerror(errno));
	exit(1);
}

static void transfer(struct peer *p, void *bytes, size_t n, bool out)
{
	while (n > 0) {
		ssize_t done = out ? write(p->tcp, bytes, n) : read(p->tcp, bytes, n);

		if (done <= 0)
			peer_fail(p, "the other end has gone");
		bytes = (char *)bytes + done;
		n -= (size_t)done;
	}
}

static void open_tcp(struct peer *p, uint16_t port, const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int one = 1;

	p->tcp = socket(AF_INET, SOCK_STREAM, 0);
	if (*address) {
		if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || connect(p->tcp, (struct sockaddr *)&to, sizeof(to)))
			peer_fail(p, address);
	} else {
		int listener = p->tcp;

		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, (struct sockaddr *)&to, sizeof(to)) || listen(listener, 1) ||
		    (p->tcp = accept(listener, NULL, NULL)) < 0)
			peer_fail(p, "the TCP port");
		close(listener);
	}
	setsockopt(p->tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(p->tcp, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

void peer_open(struct peer *p, const char *device, int gid_index, uint16_t port, const char *address)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr attr;

	for (int i = 0; list && list[i] && !p->ctx; i++)
		if (strcmp(ibv_get_device_name(list[i]), device) == 0)
			p->ctx = ibv_open_device(list[i]);
	if (!p->ctx || ibv_query_port(p->ctx, 1, &attr) || ibv_query_gid(p->ctx, 1, gid_index, &p->own.gid))
		peer_fail(p, device);
	ibv_free_device_list(list);
	p->gid_index = (uint8_t)gid_index;
	p->own.mtu = attr.active_mtu;
	p->pd = ibv_alloc_pd(p->ctx);
	p->cq = ibv_create_cq(p->ctx, 2 * PEER_WRS, NULL, NULL, 0);
	p->mr = p->pd ? ibv_reg_mr(p->pd, p->memory, sizeof(p->memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC) : NULL;
	if (!p->cq || !p->mr)
		peer_fail(p, "PD, CQ, MR");
	p->own.rkey = p->mr->rkey;
	p->own.va = (uintptr_t)p->memory;
	open_tcp(p, port, address);
}

static void to_init(struct peer *p, const struct peer_options *o)
{
	struct ibv_qp_init_attr init = { .send_cq = p->cq, .recv_cq = p->cq, .cap = { PEER_WRS, PEER_WRS, 1, 1, 0 },
					 .qp_type = o->type, .sq_sig_all = 1 };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = PEER_QKEY,
				 .qp_access_flags = (unsigned)o->access };

	p->type = o->type;
	p->qp = ibv_create_qp(p->pd, &init);
	if (!p->qp || ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (o->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		peer_fail(p, "INIT");
}

void peer_connect(struct peer *p, const struct peer_options *o)
{
	bool is_rc = o->type == IBV_QPT_RC, is_ud = o->type == IBV_QPT_UD;
	struct ibv_ah_attr ah = { .port_num = 1, .is_global = 1, .grh = { .sgid_index = p->gid_index, .hop_limit = 64 } };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };

	to_init(p, o);
	p->own.qpn = p->qp->qp_num;
	p->own.psn = 0xfffff8;		/* soon begins again */
	transfer(p, &p->own, sizeof(p->own), true);
	transfer(p, &p->other, sizeof(p->other), false);
	ah.grh.dgid = p->other.gid;
	a.ah_attr = ah;
	a.path_mtu = p->own.mtu < p->other.mtu ? p->own.mtu : p->other.mtu;
	a.dest_qp_num = p->other.qpn;
	a.rq_psn = p->other.psn;
	a.max_dest_rd_atomic = 4;
	a.min_rnr_timer = 14;		/* 1 ms */
	if (ibv_modify_qp(p->qp, &a, IBV_QP_STATE |
			  (is_ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			  (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)))
		peer_fail(p, "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = p->own.psn, .timeout = o->timeout, .retry_cnt = o->retry_cnt,
				  .rnr_retry = o->rnr_retry, .max_rd_atomic = 4 };
	if (ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN |
			  (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)))
		peer_fail(p, "RTS");
	if (is_ud && !(p->ah = ibv_create_ah(p->pd, &ah)))
		peer_fail(p, "ibv_create_ah");
}

void peer_meet(struct peer *p)
{
	char byte = 0;

	transfer(p, &byte, 1, true);
	transfer(p, &byte, 1, false);
}

void peer_receive(struct peer *p, uint64_t wr_id, size_t offset, uint32_t bytes, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)p->memory + offset, bytes, lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	if ((errno = ibv_post_recv(p->qp, &wr, &bad)))
		peer_fail(p, "ibv_post_recv");
}

bool peer_completion(struct peer *p, struct ibv_wc *wc, int ms)
{
	struct timespec begin, now;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		n = ibv_poll_cq(p->cq, 1, wc);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (n == 0 && (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
	if (n < 0)
		peer_fail(p, "ibv_poll_cq");
	return n == 1;
}

static uint8_t byte_of(uint32_t number, uint32_t i)
{
	uint32_t x = (number + 1) * 0x9e3779b1 + i / 4 * 0x85ebca6b;

	x ^= x >> 15;
	return (uint8_t)(x >> i % 4 * 8);
}

void peer_fill(uint8_t *to, uint32_t bytes, uint32_t number)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = byte_of(number, i);
}

bool peer_holds(const uint8_t *at, uint32_t bytes, uint32_t number)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (at[i] != byte_of(number, i))
			return false;
	return true;
}
