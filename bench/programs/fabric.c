/* libfabric's shared-memory provider between two pinned processes, for what fi_pingpong does not measure: RMA writes and rates.
 * `fabric WHAT SIZE ROUNDS CPU_A CPU_B` prints `result` with microseconds (half a round trip) or millions of messages a
 * second. */
#include "stopwatch.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WINDOW = 64, NAME = 256, MESSAGE = 1024 };	/* from 1 to 4 KB both ways of writing take the same time */

struct address {
	char name[NAME];
	uint64_t va, key;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *send_cq, *recv_cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static uint8_t *in, *out;
static size_t size;
static unsigned rounds;
static int me, link_fd;
static struct address peer;
static fi_addr_t peer_address;

static void check(int err, const char *what)
{
	if (err)
		die(what);
}

static void open_provider(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = { .size = 4 * WINDOW, .format = FI_CQ_FORMAT_DATA };
	struct fi_av_attr table = { .type = FI_AV_TABLE };

	check(!hints, "memory");
	hints->fabric_attr->prov_name = strdup("shm");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
	check(fi_getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info), "fi_getinfo: no shm provider");
	fi_freeinfo(hints);
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	check(fi_av_open(domain, &table, &av, NULL), "fi_av_open");
	check(fi_cq_open(domain, &cq, &send_cq, NULL) || fi_cq_open(domain, &cq, &recv_cq, NULL), "fi_cq_open");
	check(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	check(fi_ep_bind(ep, &av->fid, 0) || fi_ep_bind(ep, &send_cq->fid, FI_TRANSMIT) || fi_ep_bind(ep, &recv_cq->fid, FI_RECV),
	      "fi_ep_bind");
	check(fi_enable(ep), "fi_enable");
}

static void make_memory(void)
{
	in = calloc(2, size);
	check(!in, "memory");
	out = in + size;
	check(fi_mr_reg(domain, in, 2 * size, FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL), "fi_mr_reg");
}

static void exchange(void)
{
	struct address mine = { .key = fi_mr_key(mr) };
	size_t bytes = sizeof(mine.name);

	mine.va = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)in : 0;
	check(fi_getname(&ep->fid, mine.name, &bytes), "fi_getname");
	check(write(link_fd, &mine, sizeof(mine)) != sizeof(mine), "exchange");
	check(read(link_fd, &peer, sizeof(peer)) != sizeof(peer), "exchange");
	check(fi_av_insert(av, peer.name, 1, &peer_address, 0, NULL) != 1, "fi_av_insert");
}

/* Waits for so many completions. */
static void complete(struct fid_cq *cq, int count)
{
	struct fi_cq_data_entry entry[16];

	while (count > 0) {
		ssize_t n = fi_cq_read(cq, entry, count < 16 ? (size_t)count : 16);

		check(n < 0 && n != -FI_EAGAIN, "fi_cq_read");
		count -= n > 0 ? (int)n : 0;
	}
}

static void barrier(void)
{
	char byte = 0;

	check(write(link_fd, &byte, 1) != 1 || read(link_fd, &byte, 1) != 1, "barrier");
}

/* Few bytes go fastest inside a message to the target, which then has a completion to look at; more straight into its memory. */
static bool is_message(void)
{
	return size <= MESSAGE && size <= info->tx_attr->inject_size;
}

static void write_message(unsigned number)
{
	ssize_t n;

	out[size - 1] = (uint8_t)number;
	do {
		n = is_message() ? fi_inject_writedata(ep, out, size, number, peer_address, peer.va, peer.key) :
				   fi_write(ep, out, size, fi_mr_desc(mr), peer_address, peer.va, peer.key, NULL);
		if (n == -FI_EAGAIN)
			fi_cq_read(send_cq, NULL, 0);
	} while (n == -FI_EAGAIN);
	check(n != 0, "fi_write");
}

/* Looks at memory, and drives the provider, which is to answer the initiator. */
static void wait_in(uint8_t value)
{
	struct fi_cq_data_entry entry;
	unsigned turns = 0;

	while (__atomic_load_n(in + size - 1, __ATOMIC_ACQUIRE) != value) {
		fi_cq_read(recv_cq, &entry, 1);
		stay_fair(&turns);
	}
}

static void wait_for_message(unsigned number)
{
	if (is_message())
		complete(recv_cq, 1);
	else
		wait_in((uint8_t)number);
}

/* A completion is taken once the answer is there: by then nobody waits for it. */
static void write_latency(void)
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 1; i <= w.rounds; i++) {
		if (me == 0)
			write_message(i);
		wait_for_message(i);
		if (!is_message() && (me == 0 || i > 1))
			complete(send_cq, 1);
		if (me == 1)
			write_message(i);
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(stopwatch_median(&w) / 2 / 1000);
	stopwatch_fini(&w);
}

static bool is_injected(void)
{
	return size <= info->tx_attr->inject_size;
}

static void send_messages(int count)
{
	for (int i = 0; i < count; i++) {
		ssize_t n;

		do {
			n = is_injected() ? fi_inject(ep, out, size, peer_address) :
					    fi_send(ep, out, size, fi_mr_desc(mr), peer_address, NULL);
			if (n == -FI_EAGAIN)
				fi_cq_read(send_cq, NULL, 0);
		} while (n == -FI_EAGAIN);
		check(n != 0, "fi_send");
	}
	if (!is_injected())
		complete(send_cq, count);
}

static void post_receives(int count)
{
	for (int i = 0; i < count; i++)
		check(fi_recv(ep, in, size, fi_mr_desc(mr), FI_ADDR_UNSPEC, NULL) != 0, "fi_recv");
}

/* A window of messages, then one back. Receives are always posted before their messages are sent. */
static void rate(void)
{
	int sent = me == 0 ? WINDOW : 1, received = me == 0 ? 1 : WINDOW;
	struct stopwatch w;

	post_receives(received);
	barrier();
	stopwatch_init(&w, (rounds + WINDOW - 1) / WINDOW);
	for (unsigned i = 0; i < w.rounds; i++) {
		if (me == 0)
			send_messages(sent);
		complete(recv_cq, received);
		post_receives(received);
		if (me == 1)
			send_messages(sent);
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(1000 * WINDOW / stopwatch_median(&w));
	stopwatch_fini(&w);
}

static int run_end(const char *what, int cpu)
{
	pin(cpu);
	open_provider();
	make_memory();
	exchange();
	barrier();
	if (strcmp(what, "write-latency") == 0)
		write_latency();
	else
		rate();
	barrier();
	fi_close(&ep->fid);
	fi_close(&mr->fid);
	fi_close(&recv_cq->fid);
	fi_close(&send_cq->fid);
	fi_close(&av->fid);
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
	free(in);
	return 0;
}

int main(int argc, char **argv)
{
	int ends[2], status = 0;
	pid_t child;

	if (argc != 6) {
		fprintf(stderr, "usage: fabric WHAT SIZE ROUNDS CPU_A CPU_B\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 0);
	rounds = (unsigned)strtoul(argv[3], NULL, 0);
	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	child = fork();
	check(child < 0, "fork");
	me = child == 0;
	link_fd = ends[me];
	close(ends[!me]);
	if (me == 1) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		return run_end(argv[1], atoi(argv[5]));
	}
	run_end(argv[1], atoi(argv[4]));
	check(waitpid(child, &status, 0) != child, "waitpid");
	return status != 0;
}
