/* What plain sockets do between two hosts, without any library: `sockets WHAT SIZE ROUNDS listen PORT` at one, and `sockets
 * WHAT SIZE ROUNDS HOST PORT` at the other, which prints `result` with microseconds (half a round trip) or GB/s.
 * udp-bandwidth is the least that RDMA writes over UDP could do: packets of 4096 bytes with a header and a CRC, as many in one
 * call as the kernel takes (UDP_SEGMENT, UDP_GRO), each checked and copied once, and an answer to each piece that arrived. */
#include "ends.h"
#include "stopwatch.h"

#include "base/crc.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PAYLOAD = 4096,
	HEADER = 28,			/* of a write: BTH and RETH */
	PACKET = HEADER + PAYLOAD + 4,	/* the CRC */
	BURST = 65507 / PACKET,		/* what is one datagram before it is cut */
	WINDOW = 3 * BURST,		/* our choice: what a socket's usual buffer holds */
	PIECE = 65536,
};

static struct ends ends;
static uint8_t *in, *out;
static size_t size;
static unsigned rounds;
static int fd;		/* of the messages */
static int flags;	/* MSG_DONTWAIT: spinning */

static void open_udp(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(at);
	in_port_t port;

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) || getsockname(fd, (struct sockaddr *)&at, &bytes))
		die("a UDP socket");
	port = at.sin_port;
	if (write(ends.link_fd, &port, sizeof(port)) != sizeof(port) || read(ends.link_fd, &port, sizeof(port)) != sizeof(port) ||
	    getpeername(ends.link_fd, (struct sockaddr *)&at, &bytes))
		die("exchange");
	at.sin_port = port;
	if (connect(fd, (struct sockaddr *)&at, bytes))
		die("connect");
}

static void send_message(void)
{
	if (send(fd, out, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("send");
}

static void receive_message(void)
{
	unsigned turns = 0;

	for (size_t got = 0; got < size;) {
		ssize_t n = recv(fd, in + got, size - got, flags);

		if (n > 0)
			got += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			stay_fair(&turns);
		else
			die("recv");
	}
}

/* Half the time of a round trip. */
static void ping_pong(void)
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 0; i < w.rounds; i++) {
		if (ends.me == 0)
			send_message();
		receive_message();
		if (ends.me == 1)
			send_message();
		stopwatch_round(&w);
	}
	if (ends.me == 0)
		print_result(stopwatch_median(&w) / 2 / 1000);
	stopwatch_fini(&w);
}

static struct packet {
	uint8_t header[HEADER], crc[4];
} packets[BURST];

/* Returns how many elements of iov it takes. */
static unsigned build(struct packet *p, uint32_t number, struct iovec iov[3])
{
	uint32_t crc;

	memcpy(p->header, &number, sizeof(number));
	iov[0] = (struct iovec){ p->header, HEADER };
	iov[1] = (struct iovec){ out + (size_t)number * PAYLOAD % size, PAYLOAD };
	crc = crc_ieee_iov(0, iov, 2);
	memcpy(p->crc, &crc, sizeof(crc));
	iov[2] = (struct iovec){ p->crc, 4 };
	return 3;
}

static void send_burst(uint32_t number)
{
	struct iovec iov[3 * BURST];
	struct msghdr m = { .msg_iov = iov };

	for (unsigned i = 0; i < BURST; i++)
		m.msg_iovlen += build(&packets[i], number + i, iov + m.msg_iovlen);
	if (sendmsg(fd, &m, MSG_NOSIGNAL) != BURST * PACKET)
		die("sendmsg");
}

/* Waits until there is room in the window for another burst, and so at last for all. */
static void wait_for_room(uint32_t sent, uint32_t *done, uint32_t window)
{
	uint64_t since = now_ns();
	unsigned turns = 0;
	uint32_t answer;

	while (sent + BURST - *done > window) {
		if (recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer))
			*done = answer;
		else if (++turns % LONG_TURNS == 0 && now_ns() - since > 2000000000)
			die("a packet was lost");
	}
}

static void send_stream(uint32_t bursts)
{
	uint32_t sent = 0, done = 0;
	struct stopwatch w;

	stopwatch_init(&w, bursts);
	for (uint32_t i = 0; i < w.rounds; i++, sent += BURST) {
		wait_for_room(sent, &done, WINDOW);
		send_burst(sent);
		stopwatch_round(&w);
	}
	wait_for_room(sent, &done, BURST);
	print_result((double)BURST * PAYLOAD / stopwatch_median(&w));
	stopwatch_fini(&w);
}

/* The packets of one piece. */
static void take(const uint8_t *piece, size_t bytes, uint32_t *done)
{
	for (; bytes >= PACKET; piece += PACKET, bytes -= PACKET, ++*done) {
		uint32_t crc = crc_ieee(0, piece, PACKET - 4), sent;

		memcpy(&sent, piece + PACKET - 4, sizeof(sent));
		if (sent != crc || memcmp(piece, done, sizeof(*done)))
			die("a packet is not the next");
		memcpy(in + (size_t)*done * PAYLOAD % size, piece + HEADER, PAYLOAD);
	}
}

static void receive_stream(uint32_t bursts)
{
	static uint8_t piece[PIECE];
	uint32_t done = 0;
	struct stopwatch w;
	unsigned turns = 0;

	stopwatch_init(&w, bursts);
	while (done < w.rounds * BURST) {
		ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

		if (n < 0) {
			stay_fair(&turns);
			continue;
		}
		take(piece, (size_t)n, &done);
		if (send(fd, &done, sizeof(done), 0) != sizeof(done))
			die("send");
	}
	stopwatch_fini(&w);
}

static void bandwidth(void)
{
	int segment = PACKET, on = 1, room = 4 << 20;
	uint32_t bursts = (uint32_t)((double)rounds * (double)size / (BURST * PAYLOAD)) + 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (setsockopt(fd, IPPROTO_UDP, ends.me == 0 ? UDP_SEGMENT : UDP_GRO, ends.me == 0 ? &segment : &on, sizeof(int)))
		die("UDP_SEGMENT and UDP_GRO");
	ends_meet(&ends);
	if (ends.me == 0)
		send_stream(bursts);
	else
		receive_stream(bursts);
}

static const struct way {
	const char *name;
	int flags;
	bool is_udp;
	void (*run)(void);
} ways[] = {
	{ "tcp-spinning", MSG_DONTWAIT, false, ping_pong },
	{ "tcp-asleep", 0, false, ping_pong },
	{ "udp-spinning", MSG_DONTWAIT, true, ping_pong },
	{ "udp-asleep", 0, true, ping_pong },
	{ "udp-bandwidth", 0, true, bandwidth },
};

static int run(const struct way *way, char *const place[2])
{
	ends = ends_open(place);
	size = way->run == bandwidth ? (size + PAYLOAD - 1) / PAYLOAD * PAYLOAD : size;
	in = calloc(1, size);
	out = calloc(1, size);
	if (!in || !out)
		die("memory");
	flags = way->flags;
	if (way->is_udp)
		open_udp();
	else
		fd = ends.link_fd;
	ends_meet(&ends);
	way->run();
	ends_meet(&ends);
	free(in);
	free(out);
	return ends_close(&ends);
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: sockets WHAT SIZE ROUNDS {listen|HOST} PORT\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 0);
	rounds = (unsigned)strtoul(argv[3], NULL, 0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, argv[1]) == 0 && rounds > 0 && size > 0)
			return run(&ways[i], argv + 4);
	fprintf(stderr, "sockets: there is no '%s'\n", argv[1]);
	return 2;
}
