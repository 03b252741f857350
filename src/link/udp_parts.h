/* Between the files of the UDP link: sockets and their set-up (udp_socket.c), sending (udp_send.c), receiving (udp_receive.c),
 * the table of operations (udp.c). */
#ifndef WEFT_LINK_UDP_PARTS_H
#define WEFT_LINK_UDP_PARTS_H

#include "base/time.h"
#include "link/udp.h"
#include "wire/roce_udp.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

enum {
	UDP_LOOK_NS = 1000,	/* a system call that finds nothing, or no room, is not made again sooner ... */
	UDP_EAGER_NS = 20000,	/* ... than that, once nothing came or went for so long: our choice, some round trips */
	UDP_LANES = 17,		/* our choice: 4 classes of destination processes, 4 source ports to each; and one to weftds */
	UDP_BATCH = 16,		/* packets built at once: a burst */
	UDP_IOVS = 256,
	UDP_BACKLOG = 32,	/* packets that wait for a socket: our choice, two bursts */
	UDP_MESSAGES = 8,	/* received by one call: our choice, 512 KB where segments come in one piece */
	UDP_MESSAGE_BYTES = 65536,
	UDP_CONTROL_BYTES = 192,
};

union udp_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;	/* of an IPv4 host: ::ffff:a.b.c.d, as in a GID */
};

/* A socket that only sends. */
struct udp_lane {
	int fd;			/* -1: not open yet */
	uint16_t port;
};

/* The packet that waits the longest is at `first`. */
struct udp_backlog {
	unsigned first, packets;
	struct udp_waiting {
		int lane;
		uint32_t bytes;
		struct packet_path path;
		uint8_t frame[PACKET_MAX_BYTES];	/* from the IP header on */
	} at[UDP_BACKLOG];
};

struct udp_send {
	struct roce_udp datagram[UDP_BATCH];
	struct iovec iov[UDP_IOVS];
	struct mmsghdr message[UDP_BATCH];
	unsigned first[UDP_BATCH + 1];	/* of each message: which packet of the batch */
	union udp_address to;
	socklen_t to_bytes;
	_Alignas(8) uint8_t control[UDP_BATCH][UDP_CONTROL_BYTES];
	uint8_t copy[UDP_BATCH][PACKET_MAX_PAYLOAD];	/* of what the program may change meanwhile */
	struct iovec copied[UDP_BATCH];
	uint8_t frame[PACKET_MAX_BYTES];	/* one that goes alone */
	struct udp_backlog backlog;
};

struct udp_receive {
	_Atomic uint32_t arrival;	/* link.arrival: the last call found something */
	unsigned messages, at;		/* received, and the one that is handed out */
	size_t offset;			/* in it: where the next segment begins */
	uint16_t number;		/* of that segment: what Linux gives it as its identification */
	struct packet_path path;	/* of that message */
	size_t segment;			/* bytes of its segments but the last */
	struct mmsghdr message[UDP_MESSAGES];
	struct iovec iov[UDP_MESSAGES];
	union udp_address from[UDP_MESSAGES];
	_Alignas(8) uint8_t control[UDP_MESSAGES][UDP_CONTROL_BYTES];
	uint8_t memory[UDP_MESSAGES][ROCE_UDP_HEADERS + UDP_MESSAGE_BYTES];
};

struct udp {
	struct link link;
	struct udp_config config;
	sa_family_t family;		/* AF_INET6, for both, or AF_INET where there is no other */
	bool can_segment;
	wtime looked, tried;		/* when the last call emptied the socket or found nothing, or no room */
	wtime passed;			/* when something was received or sent last */
	struct icrc_id solver;
	struct udp_lane lane[UDP_LANES];
	struct udp_counts counts;
	uint32_t dropped_before;	/* by the socket before it was this link's */
	struct udp_send tx;
	struct udp_receive rx;
};

static inline struct udp *udp_of(struct link *l)
{
	return (struct udp *)l;
}

static inline wtime udp_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (wtime)t.tv_sec * WTIME_S + (wtime)t.tv_nsec;
}

/* ---- udp_socket.c ---- */

/* Sets what both families need: DF, and the answers of the kernel to each datagram. */
void udp_set_options(int fd, sa_family_t family, bool receives, bool gro);
/* The address as this family's sockets take it. False: they cannot. */
bool udp_address_set(sa_family_t family, const uint8_t gid[16], uint16_t port, union udp_address *address, socklen_t *bytes);
void udp_address_get(const union udp_address *address, uint8_t gid[16], uint16_t *port);
/* The lane for packets to this QP along this path, opened if it is not; -1 with nothing open: none can be. */
int udp_lane_for(struct udp *u, uint32_t dest_qpn, const struct packet_path *path);
/* Whatever arrives at this socket is dropped by the kernel. 0 or -errno. */
int udp_deafen(int fd);

/* ---- udp_send.c ---- */

unsigned udp_send(struct link *l, unsigned device, const struct packet *const p[], unsigned n);
bool udp_send_frame(struct link *l, unsigned kind, const void *frame, size_t bytes);
unsigned udp_room(struct link *l);
/* Sends what waits. True: nothing waits any more. */
bool udp_drain(struct udp *u);

/* ---- udp_receive.c ---- */

void udp_receive_init(struct udp *u);
const void *udp_receive(struct link *l, unsigned *kind, size_t *bytes);
void udp_look(struct link *l);
/* Is there something to receive? Asks the kernel if nothing is left from the last call. */
bool udp_arrived(struct udp *u);

#endif
