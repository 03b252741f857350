/* Two hosts, each a network namespace and a process, that have nothing in common but a wire: RC over the UDP link.
 * `udp_engines 4|6 MTU cut|uncut LOSS ROUNDS`: SENDs that come back, WRITEs, and READs of what was written, of every length up to
 * 200 KB, with LOSS percent of the packets dropped on arrival at both. Exit 0: every byte was right, and nothing was lost that
 * was not dropped; 77: no namespaces here. */
#include "own_network.h"
#include "udp_node.h"

#include <sys/socket.h>
#include <sys/wait.h>

enum { LONGEST = 200000, MEMORY = 4 * LONGEST, PATIENCE_S = 100 };

struct address {
	uint32_t qpn, psn, rkey;
	uint64_t va;
};

struct options {
	const char *address[2];
	enum ibv_mtu mtu;
	bool one_by_one;
	unsigned loss, rounds;
};

static void set_up(const char *interface, const char *address, unsigned mtu)
{
	network_run("ip link set lo up && ip link set %s mtu %u up && ip addr add %s%s dev %s", interface, mtu, address,
		    strchr(address, ':') ? "/64 nodad" : "/24", interface);
}

static void exchange(struct node *node, int with, const struct options *o, struct address *peer)
{
	struct address own = { node->qp->qpn, (psn_t)rand_below(&node->rand, PSN_MASK), node->mr->key, (uintptr_t)node->memory };

	check(write(with, &own, sizeof(own)) != sizeof(own) || read(with, peer, sizeof(*peer)) != sizeof(*peer), "exchange");
	node_connect(node, o->mtu, peer->qpn, peer->psn, own.psn);
}

/* What comes by SEND goes back, from where it was received. Until the other side hangs up. */
static void serve(struct node *node, int with)
{
	struct cqe cqe;
	char byte;

	node_post_recv(node, 0, LONGEST);
	while (recv(with, &byte, 1, MSG_DONTWAIT) != 0) {
		node_turn(node, with);
		while (node_poll(node, &cqe))
			if (cqe.opcode & IBV_WC_RECV) {
				node_post_recv(node, 0, LONGEST);
				node_post(node, IBV_WR_SEND, 0, cqe.byte_len, 0, 0);
			}
	}
}

static void wait_done(struct node *node, unsigned sends, unsigned recvs)
{
	struct cqe cqe;

	while (sends || recvs) {
		node_turn(node, -1);
		while (node_poll(node, &cqe))
			*(cqe.opcode & IBV_WC_RECV ? &recvs : &sends) -= 1;
	}
}

static void compare(const struct node *node, size_t a, size_t b, uint32_t bytes, const char *what)
{
	if (memcmp(node->memory + a, node->memory + b, bytes))
		die(what);
}

/* Our memory: [0) what we send, [1) what comes back. Theirs: [0) what they receive, [2) what we write. */
static void one_round(struct node *node, const struct address *peer, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		node->memory[i] = (uint8_t)rand_u64(&node->rand);
	memset(node->memory + LONGEST, 0, LONGEST);
	node_post_recv(node, LONGEST, LONGEST);
	node_post(node, IBV_WR_SEND, 0, bytes, 0, 0);
	wait_done(node, 1, 1);
	compare(node, 0, LONGEST, bytes, "a SEND came back spoilt");
	memset(node->memory + LONGEST, 0, LONGEST);
	for (unsigned i = 0; i < 4; i++)
		node_post(node, IBV_WR_RDMA_WRITE, 0, bytes, peer->va + 2 * LONGEST, peer->rkey);
	node_post(node, IBV_WR_RDMA_READ, LONGEST, bytes, peer->va + 2 * LONGEST, peer->rkey);
	wait_done(node, 5, 0);
	compare(node, 0, LONGEST, bytes, "a READ of what was written is something else");
}

static void check_counts(const struct node *node, const struct options *o)
{
	const struct udp_counts *c = udp_counts(node->link);

	for (unsigned i = 0; i < UDP_LOSSES; i++)
		if (c->lost[i])
			die("the link lost packets");
	if (!o->one_by_one && c->send_calls * 2 > c->sent)
		die("packets of one destination do not share calls");
}

static void be_host(const struct options *o, int index, int with, uint64_t seed)
{
	static struct node node;
	struct address peer;

	node_open(&node, o->address[index], o->one_by_one, MEMORY);
	node_gid(o->address[!index], node.peer);
	node.lossy = o->loss;
	rand_seed(&node.rand, seed + (uint64_t)index);
	exchange(&node, with, o, &peer);
	if (index)
		serve(&node, with);
	for (unsigned i = 0; !index && i < o->rounds; i++)
		one_round(&node, &peer, i < 3 ? i : 1 + (uint32_t)rand_below(&node.rand, i & 1 ? LONGEST : 5000));
	node_report(&node, index ? "passive" : "active");
	if (!index)
		check_counts(&node, o);
	node_close(&node);
}

static struct options read_options(char **argv)
{
	bool is_ipv4 = strcmp(argv[1], "4") == 0;
	struct options o = { .address = { is_ipv4 ? "10.7.0.1" : "fd07::1", is_ipv4 ? "10.7.0.2" : "fd07::2" } };

	o.mtu = atoi(argv[2]) == 1024 ? IBV_MTU_1024 : IBV_MTU_4096;
	o.one_by_one = strcmp(argv[3], "uncut") == 0;
	o.loss = (unsigned)atoi(argv[4]);
	o.rounds = (unsigned)atoi(argv[5]);
	return o;
}

int main(int argc, char **argv)
{
	int pair[2], ready[2], status;
	struct options o;
	uint64_t seed;
	char byte = 0;
	pid_t child;

	if (argc != 6)
		die("usage: udp_engines 4|6 MTU cut|uncut LOSS ROUNDS");
	o = read_options(argv);
	check(getrandom(&seed, sizeof(seed), 0) != sizeof(seed), "a seed");
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	alarm(PATIENCE_S);
	network_enter();
	check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, ready), "pairs");
	child = fork();
	if (child == 0) {
		close(pair[0]);
		close(ready[0]);
		alarm(PATIENCE_S);
		check(unshare(CLONE_NEWNET), "a network namespace");
		check(write(ready[1], &byte, 1) != 1 || read(ready[1], &byte, 1) != 1, "the wire");
		set_up("w1", o.address[1], o.mtu == IBV_MTU_1024 ? 1500 : 4200);
		be_host(&o, 1, pair[1], seed);
		exit(0);
	}
	close(pair[1]);
	close(ready[1]);
	check(read(ready[0], &byte, 1) != 1, "the child");
	network_run("ip link add w0 type veth peer name w1 netns %d", (int)child);
	set_up("w0", o.address[0], o.mtu == IBV_MTU_1024 ? 1500 : 4200);
	check(write(ready[0], &byte, 1) != 1, "the child");
	be_host(&o, 0, pair[0], seed);
	close(pair[0]);
	if (waitpid(child, &status, 0) != child || status)
		die("the passive side failed");
	return 0;
}
