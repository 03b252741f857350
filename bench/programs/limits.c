/* What the machine itself can do, without any library: `limits WHAT SIZE ROUNDS CPU_A CPU_B` forks a second process, pins both
 * and prints `result` with microseconds (half a round trip), GB/s or millions a second, as WHAT has it.
 * The memory of a "private" way is private to each process and lies at the same address in both. */
#include "stopwatch.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 64, SLOTS = 1024, CREDIT_EVERY = 64 };

/* Memory that both processes map. */
struct shared {
	_Alignas(LINE) _Atomic uint64_t line[2][LINE / 8];
	_Alignas(LINE) _Atomic uint64_t credit;
	_Alignas(LINE) struct slot { _Atomic uint64_t sequence; uint64_t payload[7]; } ring[SLOTS];
	_Alignas(LINE) _Atomic int mem_fd[2];
	_Atomic int ready;
};

static struct shared *shared;
static uint8_t *mapped[2], *private_in, *out;	/* mapped[i] is written by the other end */
static size_t size;
static unsigned rounds;
static int me;
static pid_t pid[2];
static int event[2], tcp[2], mem_fd;

static void line_send(uint64_t i)
{
	atomic_store_explicit(&shared->line[!me][0], i, memory_order_release);
}

static void line_wait(uint64_t i)
{
	unsigned turns = 0;

	while (atomic_load_explicit(&shared->line[me][0], memory_order_acquire) != i)
		relax(&turns);
}

/* To a line that the other end has just written: the one before it wrote there what its own add had returned. */
static void add_send(uint64_t i)
{
	(void)i;
	shared->line[me][1] = atomic_fetch_add(&shared->line[!me][0], 1);
}

/* The last eight bytes say which message it is, and are written last. */
static void memcpy_send(uint64_t i)
{
	memcpy(mapped[!me], out, size - 8);
	atomic_store_explicit((_Atomic uint64_t *)(mapped[!me] + size - 8), i, memory_order_release);
}

static void wait_in(uint8_t *in, uint64_t i)
{
	unsigned turns = 0;

	while (atomic_load_explicit((_Atomic uint64_t *)(in + size - 8), memory_order_acquire) != i)
		relax(&turns);
}

static void memcpy_wait(uint64_t i)
{
	wait_in(mapped[me], i);
}

static void private_wait(uint64_t i)
{
	wait_in(private_in, i);
}

static void mem_fd_send(uint64_t i)
{
	memcpy(out + size - 8, &i, 8);
	if (pwrite(mem_fd, out, size, (off_t)(uintptr_t)private_in) != (ssize_t)size)
		die("pwrite");
}

static void process_vm_send(uint64_t i)
{
	struct iovec from = { out, size }, to = { private_in, size };

	memcpy(out + size - 8, &i, 8);
	if (process_vm_writev(pid[!me], &from, 1, &to, 1, 0) != (ssize_t)size)
		die("process_vm_writev");
}

static void event_send(uint64_t i)
{
	(void)i;
	if (eventfd_write(event[!me], 1))
		die("eventfd");
}

static void event_wait(uint64_t i)
{
	eventfd_t value;

	(void)i;
	if (eventfd_read(event[me], &value))
		die("eventfd");
}

static void tcp_send(uint64_t i)
{
	(void)i;
	if (send(tcp[me], out, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("send");
}

static void tcp_wait(uint64_t i)
{
	(void)i;
	if (recv(tcp[me], private_in, size, MSG_WAITALL) != (ssize_t)size)
		die("recv");
}

static void no_send(uint64_t i)
{
	(void)i;
}

static const struct way {
	const char *name;
	void (*send)(uint64_t i);
	void (*wait)(uint64_t i);
} ways[] = {
	{ "line", line_send, line_wait },
	{ "add", add_send, line_wait },
	{ "memcpy", memcpy_send, memcpy_wait },
	{ "mem-fd", mem_fd_send, private_wait },
	{ "process-vm", process_vm_send, private_wait },
	{ "eventfd", event_send, event_wait },
	{ "tcp", tcp_send, tcp_wait },
	{ "memcpy-bandwidth", memcpy_send, NULL },
	{ "process-vm-bandwidth", process_vm_send, NULL },
	{ "ring-rate", no_send, NULL },
};

/* Half the time of a round trip. */
static void ping_pong(const struct way *way)
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 1; i <= w.rounds; i++) {
		if (me == 0)
			way->send(i);
		way->wait(i);
		if (me == 1)
			way->send(i);
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(stopwatch_median(&w) / 2 / 1000);
	stopwatch_fini(&w);
}

/* The first process writes, the second does nothing. */
static void bandwidth(const struct way *way)
{
	struct stopwatch w;

	if (me == 1)
		return event_wait(0);
	stopwatch_init(&w, rounds);
	for (unsigned i = 1; i <= w.rounds; i++) {
		way->send(i);
		stopwatch_round(&w);
	}
	print_result((double)size / stopwatch_median(&w));
	stopwatch_fini(&w);
	event_send(0);
}

static void produce(uint64_t i, uint64_t *credit)
{
	struct slot *slot = &shared->ring[i % SLOTS];
	unsigned turns = 0;

	for (; i > *credit + SLOTS - CREDIT_EVERY; relax(&turns))
		*credit = atomic_load_explicit(&shared->credit, memory_order_acquire);
	slot->payload[0] = i;
	atomic_store_explicit(&slot->sequence, i, memory_order_release);
}

static void consume(uint64_t i)
{
	struct slot *slot = &shared->ring[i % SLOTS];
	unsigned turns = 0;

	while (atomic_load_explicit(&slot->sequence, memory_order_acquire) != i)
		relax(&turns);
	if (slot->payload[0] != i)
		die("a wrong message in the ring");
	if (i % CREDIT_EVERY == 0)
		atomic_store_explicit(&shared->credit, i, memory_order_release);
}

/* Millions of messages a second through slots of one cache line that hold their sequence number. */
static void ring_rate(void)
{
	uint64_t credit = 0;
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (uint64_t i = 1; i <= w.rounds; i++) {
		if (me == 0)
			produce(i, &credit);
		else
			consume(i);
		stopwatch_round(&w);
	}
	if (me == 1)
		print_result(1000 / stopwatch_median(&w));
	stopwatch_fini(&w);
}

static void *map(size_t bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

static void make_tcp(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	socklen_t bytes = sizeof(to);

	tcp[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&to, bytes) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&to, &bytes) || connect(tcp[0], (struct sockaddr *)&to, bytes))
		die("TCP over the loopback");
	tcp[1] = accept(listener, NULL, NULL);
	for (int i = 0; i < 2; i++)
		setsockopt(tcp[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	close(listener);
}

static void make_everything(void)
{
	shared = map(sizeof(*shared), MAP_SHARED);
	for (int i = 0; i < 2; i++) {
		mapped[i] = map(size, MAP_SHARED);
		event[i] = eventfd(0, 0);
	}
	private_in = map(size, MAP_PRIVATE);
	out = map(size, MAP_PRIVATE);
	make_tcp();
}

/* The descriptors are one table until both have opened their own memory and may use the other's. */
static void exchange(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	shared->mem_fd[me] = open("/proc/self/mem", O_RDWR);
	memset(private_in, 0, size);
	memset(out, 1, size);
	atomic_fetch_add(&shared->ready, 1);
	while (atomic_load(&shared->ready) < 2)
		sched_yield();
	mem_fd = shared->mem_fd[!me];
	if (mem_fd < 0 || unshare(CLONE_FILES))
		die("/proc/self/mem");
}

static int run_end(const struct way *way, int cpu)
{
	pid[me] = getpid();
	pin(cpu);
	exchange();
	if (way->wait)
		ping_pong(way);
	else if (way->send == no_send)
		ring_rate();
	else
		bandwidth(way);
	return 0;
}

static int run(const struct way *way, const int cpu[2])
{
	int status;

	make_everything();
	pid[0] = getpid();
	pid[1] = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (pid[1] < 0)
		die("clone");
	me = pid[1] == 0;
	if (me == 1) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(run_end(way, cpu[1]));
	}
	run_end(way, cpu[0]);
	return waitpid(pid[1], &status, 0) == pid[1] && status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: limits WHAT SIZE ROUNDS CPU_A CPU_B\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 0);
	size = size < 8 ? 8 : (size + 7) / 8 * 8;	/* the last word is the message's number */
	rounds = (unsigned)strtoul(argv[3], NULL, 0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, argv[1]) == 0 && rounds > 0)
			return run(&ways[i], (int[]){ atoi(argv[4]), atoi(argv[5]) });
	fprintf(stderr, "limits: there is no '%s'\n", argv[1]);
	return 2;
}
