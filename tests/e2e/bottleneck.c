/* A wire between two network namespaces that carries little: the devices w0 here and w1 in the namespace of another process are
 * its ends. Each direction has a rate, a queue with a room, and a length from which on packets that allow it are marked
 * (RFC 3168). bottleneck PID BYTES_PER_S ROOM MARK: bytes; MARK 0: never. It prints a line for each end when SIGUSR1 asks, and
 * when SIGTERM ends it.
 * Exit 77: there are no such devices here. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { SKIP = 77, PACKET = 9000, PLACES = 4096, ECN = 3 };

struct end {
	int fd;
	unsigned long bytes, packets, dropped, marked;	/* that came from here */
	unsigned long waiting;				/* bytes */
	uint64_t free_at;				/* ns: when the last one has left */
	unsigned first, count;
	struct { uint64_t leaves; unsigned bytes; uint8_t data[PACKET]; } *queue;
};

static unsigned long rate, room, mark;
static volatile sig_atomic_t ended, asked;

static void obey(int signal)
{
	asked = 1;
	ended = signal == SIGTERM;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int open_end(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	strcpy(request.ifr_name, name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request)) {
		printf("SKIP: no device %s can be made here: %s\n", name, strerror(errno));
		exit(SKIP);
	}
	return fd;
}

/* RFC 1624: the checksum after the word of version and traffic class has changed. */
static void mark_ipv4(uint8_t *p)
{
	uint16_t sum, word;
	uint32_t next;

	memcpy(&word, p, 2);
	memcpy(&sum, p + 10, 2);
	next = (uint16_t)~ntohs(sum) + (uint32_t)(uint16_t)~ntohs(word);
	p[1] |= ECN;
	memcpy(&word, p, 2);
	next += ntohs(word);
	next = (next & 0xffff) + (next >> 16);
	next = (next & 0xffff) + (next >> 16);
	sum = htons((uint16_t)~next);
	memcpy(p + 10, &sum, 2);
}

static bool mark_packet(uint8_t *p)
{
	bool is_ipv4 = p[0] >> 4 == 4;
	unsigned bits = is_ipv4 ? p[1] & ECN : p[1] >> 4 & ECN;

	if (!bits)
		return false;
	if (is_ipv4)
		mark_ipv4(p);
	else
		p[1] |= ECN << 4;
	return true;
}

static bool take_in(struct end *e)
{
	unsigned at = (e->first + e->count) % PLACES;
	uint8_t *p = e->queue[at].data;
	ssize_t n = read(e->fd, p, PACKET);
	uint64_t t = now();

	if (n <= 0)
		return false;
	if (e->waiting + (size_t)n > room || e->count == PLACES - 1) {
		e->dropped++;
		return true;
	}
	if (mark && e->waiting >= mark)
		e->marked += mark_packet(p);
	e->free_at = (e->free_at > t ? e->free_at : t) + (uint64_t)n * 1000000000u / rate;
	e->queue[at].leaves = e->free_at;
	e->queue[at].bytes = (unsigned)n;
	e->waiting += (size_t)n;
	e->count++;
	return true;
}

/* What has left by now arrives at the other end. When the next one leaves. */
static uint64_t let_leave(struct end *e, const struct end *to, uint64_t t)
{
	while (e->count && e->queue[e->first].leaves <= t) {
		unsigned n = e->queue[e->first].bytes;

		if (write(to->fd, e->queue[e->first].data, n) == (ssize_t)n) {
			e->bytes += n;
			e->packets++;
		}
		e->waiting -= n;
		e->first = (e->first + 1) % PLACES;
		e->count--;
	}
	return e->count ? e->queue[e->first].leaves : UINT64_MAX;
}

static void carry(struct end ends[2])
{
	struct pollfd polled[2] = { { ends[0].fd, POLLIN, 0 }, { ends[1].fd, POLLIN, 0 } };
	uint64_t t = now(), next = UINT64_MAX;
	struct timespec wait;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = let_leave(&ends[i], &ends[1 - i], t);

		next = at < next ? at : next;
	}
	next = next > t ? next - t : 0;
	wait = (struct timespec){ (time_t)(next / 1000000000u), (long)(next % 1000000000u) };
	if (ppoll(polled, 2, next > UINT64_MAX / 2 ? NULL : &wait, NULL) < 0)
		return;
	for (unsigned i = 0; i < 2; i++)
		while (polled[i].revents & POLLIN && take_in(&ends[i]))
			;
}

/* Since this was told last. */
static void tell(struct end ends[2])
{
	asked = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct end *e = &ends[i];

		printf("w%u %lu bytes %lu packets %lu dropped %lu marked\n", i, e->bytes, e->packets, e->dropped, e->marked);
		e->bytes = e->packets = e->dropped = e->marked = 0;
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct end ends[2] = { { .fd = -1 }, { .fd = -1 } };
	struct sigaction action = { .sa_handler = obey };
	char path[64];
	int there;

	if (argc != 5)
		return 2;
	rate = strtoul(argv[2], NULL, 10);
	room = strtoul(argv[3], NULL, 10);
	mark = strtoul(argv[4], NULL, 10);
	snprintf(path, sizeof(path), "/proc/%s/ns/net", argv[1]);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (unsigned i = 0; i < 2; i++)
		ends[i].queue = calloc(PLACES, sizeof(*ends[i].queue));
	if (!rate || !ends[0].queue || !ends[1].queue)
		return 2;
	ends[0].fd = open_end("w0");
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (there < 0 || setns(there, CLONE_NEWNET)) {
		printf("SKIP: no way into the namespace of %s: %s\n", argv[1], strerror(errno));
		return SKIP;
	}
	ends[1].fd = open_end("w1");
	puts("ready");
	fflush(stdout);
	while (!ended) {
		carry(ends);
		if (asked)
			tell(ends);
	}
	return 0;
}
