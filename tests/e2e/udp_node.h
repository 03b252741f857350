/* A host of one adapter whose only link is UDP, for programs of two network namespaces: an engine, a device with one address, a
 * registered memory, an RC QP. What the runtime does for a process, in a page. */
#ifndef WEFT_TESTS_E2E_UDP_NODE_H
#define WEFT_TESTS_E2E_UDP_NODE_H

#include "connect.h"
#include "control/clock.h"
#include "ib/ib.h"
#include "link/udp.h"
#include "link/udp_group.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "wire/addr.h"
#include "wire/header.h"

#include <arpa/inet.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>

enum { NODE_ARENA = 256 << 20, NODE_DEPTH = 64, NODE_MEMBERS = 4, NODE_MEMBER = 1, NODE_FRAMES = 64 };

struct node {
	struct ca ca;
	struct udp_group *group;
	struct link *link;
	struct burst burst;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	struct rand rand;
	uint8_t gid[16], peer[16];
	uint8_t *memory;
	uint32_t slot, next_qpn;
	unsigned lossy, dropped, frames;	/* percent of what arrives; how many were dropped; and arrived */
	unsigned narrow_mtu;			/* what the link told */
};

static inline void node_event(void *owner, struct cq *cq)
{
	(void)owner;
	(void)cq;
}

static inline void node_async(void *owner, enum ibv_event_type type, void *object)
{
	(void)owner;
	(void)object;
	fprintf(stderr, "event %d\n", type);
}

/* There is one way: the link. */
static inline void node_route(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	(void)owner;
	(void)dev;
	(void)path;
	r->kind = ROUTE_NONE;
}

static inline unsigned node_room(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	struct node *node = owner;

	(void)dev;
	(void)r;
	(void)av;
	return node->link->ops->room(node->link);
}

static inline bool node_origin_matches(void *owner, origin_t origin, const struct route *back)
{
	(void)owner;
	(void)origin;
	(void)back;
	return true;
}

static inline bool node_undelivered(void *owner, const struct route *r, uint64_t *mark)
{
	(void)owner;
	(void)r;
	(void)mark;
	return false;
}

static inline int node_copy(void *owner, void *to, const void *from, size_t bytes)
{
	(void)owner;
	memcpy(to, from, bytes);
	return 0;
}

static inline int node_mcast(void *owner, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	(void)owner;
	(void)dev;
	(void)gid;
	(void)joined;
	return 0;
}

static inline int node_qpn_alloc(void *owner, uint32_t *qpn)
{
	struct node *node = owner;

	*qpn = node->slot << 12 | node->next_qpn++;
	return 0;
}

static inline void node_qpn_free(void *owner, uint32_t qpn)
{
	(void)owner;
	(void)qpn;
}

static const struct ca_ops node_host = {
	.cq_event = node_event, .async_event = node_async, .route = node_route, .space = node_room,
	.origin_matches = node_origin_matches, .undelivered = node_undelivered, .read_program = node_copy,
	.write_program = node_copy, .mcast = node_mcast,
	.qpn_alloc = node_qpn_alloc, .qpn_free = node_qpn_free,
};

static inline void node_narrow(void *owner, const struct packet_path *path, unsigned mtu_bytes)
{
	(void)path;
	((struct node *)owner)->narrow_mtu = mtu_bytes;
}

/* "10.1.0.2" or "fd00::2" as a GID. */
static inline void node_gid(const char *text, uint8_t gid[16])
{
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		gid_from_ipv4(gid, ipv4);
	else
		check(inet_pton(AF_INET6, text, gid) != 1, "an address");
}

static inline void node_open_link(struct node *node, bool one_by_one)
{
	struct udp_config config = { .member = NODE_MEMBER, .members = NODE_MEMBERS, .one_by_one = one_by_one,
		.narrow = node_narrow, .owner = node };
	char text[200];
	int err = udp_group_open(ROCE_PORT, NODE_MEMBERS, &node->group);

	if (err) {
		udp_port_holder(ROCE_PORT, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
	}
	check(err, "the sockets of port 4791");
	config.fd = udp_group_issue(node->group, NODE_MEMBER);
	check(config.fd < 0, "a member of the group");
	config.fd = dup(config.fd);
	check(udp_open(&config, &node->link), "the link");
}

static inline void node_open(struct node *node, const char *address, bool one_by_one, size_t memory_bytes)
{
	struct ca_device dev = {
		.name = "node", .protocol = &protocol_roce_v2, .transport = &ib_transport, .guid = 1,
		.active_mtu = IBV_MTU_4096, .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkeys = 1,
		.pkey = { 0xffff },
	};
	struct ca_config config = { .ops = &node_host, .owner = node, .arena_bytes = NODE_ARENA, .dev = &dev, .devices = 1 };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { NODE_DEPTH, NODE_DEPTH, 4, 4, 0 }, .sq_sig_all = 1 };
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	node_gid(address, node->gid);
	memcpy(dev.gid[0].raw, node->gid, 16);
	dev.gid[0].valid = true;
	dev.gid[0].type = protocol_roce_v2.gid_type;
	check(getrandom(&config.seed, sizeof(config.seed), 0) != sizeof(config.seed), "a seed");
	node->slot = (uint32_t)config.seed << 2 & 0xfff;
	node->slot |= NODE_MEMBER;
	node->next_qpn = 0x11;
	config.arena = mmap(NULL, NODE_ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	node->memory = calloc(1, memory_bytes);
	check(config.arena == MAP_FAILED || !node->memory, "memory");
	node_open_link(node, one_by_one);
	check(ca_init(&node->ca, &config), "an adapter");
	check(pd_create(&node->ca, &node->ca.dev[0], &node->pd), "pd");
	check(cq_create(&node->ca, &node->ca.dev[0], 4 * NODE_DEPTH, &node->cq), "cq");
	check(mr_create(node->pd, node->memory, memory_bytes, (uintptr_t)node->memory, access, &node->mr), "mr");
	check(qp_create(&node->ca, &node->ca.dev[0], &init, node->pd, node->cq, node->cq, NULL, NULL, &node->qp), "qp");
}

static inline void node_close(struct node *node)
{
	void *arena = node->ca.arena.base;

	ca_fini(&node->ca);
	node->link->ops->close(node->link);
	udp_group_close(node->group);
	munmap(arena, NODE_ARENA);
	free(node->memory);
}

static inline void node_connect(struct node *node, enum ibv_mtu mtu, uint32_t qpn, psn_t their_psn, psn_t our_psn)
{
	struct ibv_qp_attr attr = {
		.port_num = 1, .path_mtu = mtu, .dest_qp_num = qpn, .rq_psn = their_psn, .sq_psn = our_psn,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 17, .traffic_class = 0x68 } },
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.max_rd_atomic = 4, .max_dest_rd_atomic = 4, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
	};

	memcpy(attr.ah_attr.grh.dgid.raw, node->peer, 16);
	rc_connect(node->qp, clock_now(), attr);
}

static inline unsigned node_take_in(struct node *node, wtime now)
{
	const void *frame;
	struct packet p;
	unsigned kind, n = 0;
	size_t bytes;

	for (; n < NODE_FRAMES && (frame = node->link->ops->receive(node->link, &kind, &bytes)); n++) {
		check(link_form(kind) != PACKET_ROCE, "the form of a frame");
		if (node->lossy && rand_below(&node->rand, 100) < node->lossy) {
			node->dropped++;
			continue;
		}
		if (packet_parse(&p, PACKET_ROCE, frame, bytes, true) == PACKET_OK)
			ca_input(&node->ca, &node->ca.dev[0], now, 1, &p);
	}
	node->link->ops->release(node->link);
	node->frames += n;
	return n;
}

static inline unsigned node_put_out(struct node *node, wtime now)
{
	const struct packet *packet[BURST_PACKETS];
	unsigned n = 0;

	for (; n < NODE_FRAMES && ca_output(&node->ca, now, &node->burst); n += node->burst.packets) {
		for (unsigned i = 0; i < node->burst.packets; i++)
			packet[i] = &node->burst.out[i].packet;
		check(node->link->ops->send(node->link, 0, packet, node->burst.packets) != node->burst.packets, "room");
	}
	return n;
}

/* One turn: what arrived, what is to go, timers. Where there is nothing, sleeps until something is, or also_fd can be read. */
static inline void node_turn(struct node *node, int also_fd)
{
	wtime now = clock_now(), deadline;
	struct pollfd fd[2] = { { node->link->event_fd, POLLIN, 0 }, { also_fd, POLLIN, 0 } };

	if (ca_deadline(&node->ca) <= now)
		ca_expire(&node->ca, now);
	if (node->link->ops->room(node->link))
		ca_unblock(&node->ca);
	if (node_take_in(node, now) + node_put_out(node, now) || !node->link->ops->may_sleep(node->link, false))
		return;
	deadline = ca_deadline(&node->ca);
	if (deadline > now)
		poll(fd, 2, deadline == WTIME_NEVER ? 10000 : (int)((deadline - now) / WTIME_MS) + 1);
	node->link->ops->awake(node->link);
}

static inline void node_post_recv(struct node *node, size_t at, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)node->memory + at, bytes, node->mr->key };
	struct ibv_recv_wr wr = { .wr_id = at, .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;

	check(qp_post_recv(node->qp, clock_now(), &wr, &bad), "post a receive");
}

static inline void node_post(struct node *node, enum ibv_wr_opcode opcode, size_t at, uint32_t bytes, uint64_t va, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)node->memory + at, bytes, node->mr->key };
	struct ibv_send_wr *bad, wr = { .wr_id = at, .sg_list = &sge, .num_sge = 1, .opcode = opcode };

	wr.wr.rdma.remote_addr = va;
	wr.wr.rdma.rkey = rkey;
	check(qp_post_send(node->qp, clock_now(), &wr, &bad), "post");
}

/* The next completion, which must be a success. */
static inline bool node_poll(struct node *node, struct cqe *cqe)
{
	if (!cq_poll(node->cq, cqe))
		return false;
	if (cqe->status != IBV_WC_SUCCESS)
		fprintf(stderr, "status %d\n", cqe->status);
	check(cqe->status != IBV_WC_SUCCESS, "a completion");
	return true;
}

static inline void node_report(const struct node *node, const char *who)
{
	const struct udp_counts *c = udp_counts(node->link);

	printf("%s: sent %llu packets in %llu calls, received %llu in %llu calls, dropped on purpose %u, overruns %llu, lost:",
	       who, (unsigned long long)c->sent, (unsigned long long)c->send_calls, (unsigned long long)c->received,
	       (unsigned long long)c->receive_calls, node->dropped, (unsigned long long)udp_overruns(node->link));
	for (unsigned i = 0; i < UDP_LOSSES; i++)
		printf(" %llu", (unsigned long long)c->lost[i]);
	printf("\n");
	fflush(stdout);
}

#endif
