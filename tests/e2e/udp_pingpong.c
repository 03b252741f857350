/* The client of a stock ibv_rc_pingpong over the UDP link: `udp_pingpong ADDRESS PEER TCP_HOST TCP_PORT BYTES MTU ROUNDS
 * LOSS`. ADDRESS and PEER are of one family; at TCP_HOST, an IPv4 address, runs `ibv_rc_pingpong -g INDEX -p TCP_PORT -s BYTES
 * -m MTU -n ROUNDS`, where GID INDEX is PEER, on rdma_rxe say. LOSS percent of what comes is dropped. Exit 0: all rounds were. */
#include "udp_node.h"

#include <netdb.h>
#include <sys/socket.h>

enum { MESSAGE = sizeof("0000:000000:000000:00000000000000000000000000000000"), PATIENCE_S = 60 };

static int connect_tcp(const char *peer, const char *port)
{
	struct addrinfo *info = NULL, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	int fd;

	check(getaddrinfo(peer, port, &hints, &info), "an address");
	fd = socket(info->ai_family, SOCK_STREAM, 0);
	while (connect(fd, info->ai_addr, info->ai_addrlen)) {	/* the server is about to start; alarm() ends it */
		close(fd);
		poll(NULL, 0, 50);
		fd = socket(info->ai_family, SOCK_STREAM, 0);
	}
	freeaddrinfo(info);
	return fd;
}

/* Both tell LID, QPN, PSN and GID; then the server waits for "done". */
static void meet(struct node *node, int tcp, enum ibv_mtu mtu)
{
	psn_t psn = (psn_t)rand_below(&node->rand, PSN_MASK);
	char text[MESSAGE + 8] = "";
	unsigned lid, qpn, their_psn;
	int n = snprintf(text, sizeof(text), "0000:%06x:%06x:", node->qp->qpn, psn);

	for (unsigned i = 0; i < 16; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", node->gid[i]);
	check(write(tcp, text, MESSAGE) != MESSAGE || recv(tcp, text, MESSAGE, MSG_WAITALL) != MESSAGE, "exchange");
	check(sscanf(text, "%x:%x:%x:", &lid, &qpn, &their_psn) != 3, "what the server says");
	node_connect(node, mtu, qpn, their_psn, psn);
	check(write(tcp, "done", sizeof("done")) != sizeof("done"), "exchange");
}

int main(int argc, char **argv)
{
	static struct node node;
	unsigned rounds, sends = 0, recvs = 0;
	uint32_t bytes;
	struct cqe cqe;
	int tcp, mtu;

	if (argc != 9)
		die("usage: udp_pingpong ADDRESS PEER TCP_HOST TCP_PORT BYTES MTU ROUNDS LOSS");
	alarm(PATIENCE_S);
	bytes = (uint32_t)atoi(argv[5]);
	mtu = atoi(argv[6]);
	rounds = (unsigned)atoi(argv[7]);
	node_open(&node, argv[1], false, bytes ? 2 * (size_t)bytes : 2);
	node_gid(argv[2], node.peer);
	rand_seed(&node.rand, node.slot);
	node.lossy = (unsigned)atoi(argv[8]);
	tcp = connect_tcp(argv[3], argv[4]);
	meet(&node, tcp, mtu == 4096 ? IBV_MTU_4096 : mtu == 2048 ? IBV_MTU_2048 : mtu == 1024 ? IBV_MTU_1024 : IBV_MTU_512);
	node_post_recv(&node, bytes, bytes);
	node_post(&node, IBV_WR_SEND, 0, bytes, 0, 0);
	while (sends < rounds || recvs < rounds) {
		unsigned before = sends + recvs;

		node_turn(&node, -1);
		while (node_poll(&node, &cqe))
			*(cqe.opcode & IBV_WC_RECV ? &recvs : &sends) += 1;
		if (sends == recvs && sends + recvs > before && sends < rounds) {
			node_post_recv(&node, bytes, bytes);
			node_post(&node, IBV_WR_SEND, 0, bytes, 0, 0);
		}
	}
	node_report(&node, "client");
	while (node.lossy && recv(tcp, argv[1], 1, 0) > 0)
		;
	node_close(&node);
	return 0;
}
