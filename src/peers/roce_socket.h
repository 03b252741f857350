/* The way to other hosts: a socket of UDP port 4791, which the process gets of weftd (CTL_ROCE_SOCKET) and from then on uses by
 * itself. weftd is asked when something is to go to an address that is no port's of this host, when the process listens by
 * rdma_cm, and when a QP is made to which strangers may send first; a process that does none of these has no socket. Who is
 * refused is told so only in the first case.
 *
 * The next weftd can open the port only when all sockets of the last are closed. So each process closes its own once it is
 * attached to the next one, and asks that for another; until then, and for good where the session is over, it goes on with the
 * one that it has. */
#ifndef WEFT_PEERS_ROCE_SOCKET_H
#define WEFT_PEERS_ROCE_SOCKET_H

#include "base/time.h"
#include "verbs/ca.h"

#include <stdbool.h>

struct mail;
struct peers;

enum roce_socket_state { ROCE_SOCKET_CLOSED, ROCE_SOCKET_ASKED, ROCE_SOCKET_OPEN, ROCE_SOCKET_REFUSED };

struct roce_socket {
	enum roce_socket_state state;
	struct link *link;	/* owned; NULL unless open */
	int fd;			/* of the link, whose it is: the socket of port 4791; -1 unless open */
	bool is_left;		/* OPEN: the weftd that gave the socket has gone */
	bool takes_all;		/* constant: what is for this host goes over it too */
	bool is_needed;		/* something was to go over it */
	bool is_told;		/* that it was refused */
	bool is_telling;	/* roce_socket_tell is to be called, or under way */
	bool is_narrow;		/* it was told that packets are too long */
	unsigned tries;		/* in a row that were refused for the moment */
	wtime pause;		/* REFUSED: after it weftd is asked again */
	wtime ask_at;		/* CLOSED, REFUSED: weftd is asked by itself; WTIME_NEVER: not so */
};

void roce_socket_init(struct roce_socket *w, bool takes_all);
void roce_socket_fini(struct peers *ps);
/* In a forked child. consistent: no other thread was changing it. */
void roce_socket_forget(struct roce_socket *w, bool consistent);

/* Does what this device sends to the address leave the host? */
bool roce_socket_leads_to(const struct peers *ps, const struct ca_device *dev, const struct packet_path *path, bool is_port);

/* The link by which what this device sends to a multicast group reaches members on other hosts, beside those that are here; NULL:
 * none does, or not yet. weftd is asked for it, which is not waited for. */
struct link *roce_socket_spreads(struct peers *ps, const struct ca_device *dev, const uint8_t sgid[16], const uint8_t mgid[16]);

/* Strangers may send something to a QP of this device. */
void roce_socket_expect(struct peers *ps, const struct ca_device *dev);
/* Something is to go over it, or come from its peer. */
void roce_socket_need(struct peers *ps);
/* There is no link: is one on its way? weftd is asked for it, which is not waited for; QPs are unblocked when it comes. */
bool roce_socket_comes(struct peers *ps);

/* weftd's answer. True: it is to be told by roce_socket_tell, without the lock, then roce_socket_told with it. */
bool roce_socket_answered(struct peers *ps, struct mail *mail);
void roce_socket_tell(int refusal);
void roce_socket_told(struct roce_socket *w);
/* weftd has been asked, or will be in a moment, or what it has answered is being told. */
bool roce_socket_is_undecided(const struct roce_socket *w);
/* weftd has gone. An open socket stays until the session is back. */
void roce_socket_lost(struct peers *ps);
/* Asks weftd again when it is time to: a second after a refusal, then at intervals that double, up to half a minute. Returns
 * the time of the next call. */
wtime roce_socket_ask_again(struct peers *ps, wtime now);

/* Which of this host's addresses packets to another host's address leave by. -ENETUNREACH: none. */
int roce_socket_source(const uint8_t dgid[16], uint8_t sgid[16]);
/* The MTU of the packets between these two addresses, as far as the kernel knows it: enum ibv_mtu; 0: there is no limit here. */
int roce_socket_path_mtu(const struct packet_path *path);

/* Adds what the link has counted to the adapter's counters. */
void roce_socket_count(const struct peers *ps, struct counters *c);

#endif
