/* The way to other hosts: a socket of UDP port 4791, which the process gets of weftd (CTL_WIRE) and from then on uses by itself.
 * weftd is asked when something is to go to an address that is no port's of this host, when the process listens by rdma_cm, and
 * when a QP is made to which strangers may send first; a process that does none of these has no socket. Who is refused is told
 * so only in the first case.
 *
 * The next weftd can open the port only when all sockets of the last are closed. So each process closes its own once it is
 * attached to the next one, and asks that for another; until then, and for good where the session is over, it goes on with the
 * one that it has. */
#ifndef WEFT_PEERS_WIRE_H
#define WEFT_PEERS_WIRE_H

#include "base/time.h"
#include "verbs/ca.h"

#include <stdbool.h>

struct mail;
struct peers;

/* Where frames come from that came over the wire: no process's number (fabric/page.h). */
enum { ORIGIN_WIRE = 1 << 30 };

enum wire_state { WIRE_CLOSED, WIRE_ASKED, WIRE_OPEN, WIRE_REFUSED };

struct wire {
	enum wire_state state;
	struct link *link;	/* owned; NULL unless open */
	int fd;			/* of the link, whose it is: the socket of port 4791; -1 unless open */
	bool is_left;		/* OPEN: the weftd that gave the socket has gone */
	bool takes_all;		/* constant: what is for this host goes over it too */
	bool is_needed;		/* something was to go over it */
	bool is_told;		/* that it was refused */
	bool is_telling;	/* wire_tell is to be called, or under way */
	bool is_narrow;		/* it was told that packets are too long */
	unsigned tries;		/* in a row that were refused for the moment */
	wtime pause;		/* REFUSED: after it weftd is asked again */
	wtime ask_at;		/* CLOSED, REFUSED: weftd is asked by itself; WTIME_NEVER: not so */
};

void wire_init(struct wire *w, bool takes_all);
void wire_fini(struct peers *ps);
/* In a forked child. consistent: no other thread was changing it. */
void wire_forget(struct wire *w, bool consistent);

/* Does what this device sends to the address leave the host? */
bool wire_leads_to(const struct peers *ps, const struct ca_device *dev, const struct packet_path *path, bool is_port);

/* Strangers may send something to a QP of this device. */
void wire_expect(struct peers *ps, const struct ca_device *dev);
/* Something is to go over it, or come from its peer. */
void wire_need(struct peers *ps);
/* There is no link: is one on its way? weftd is asked for it, which is not waited for; QPs are unblocked when it comes. */
bool wire_comes(struct peers *ps);

/* weftd's answer. True: it is to be told by wire_tell, without the lock, then wire_told with it. */
bool wire_answered(struct peers *ps, struct mail *mail);
void wire_tell(int refusal);
void wire_told(struct wire *w);
/* weftd has been asked, or will be in a moment, or what it has answered is being told. */
bool wire_is_undecided(const struct wire *w);
/* weftd has gone. An open socket stays until the session is back. */
void wire_lost(struct peers *ps);
/* Asks again when it is time to, of who was refused after a second and ever later up to half a minute. When next. */
wtime wire_ask_again(struct peers *ps, wtime now);

/* Which of this host's addresses packets to another host's address leave by. -ENETUNREACH: none. */
int wire_source(const uint8_t dgid[16], uint8_t sgid[16]);
/* The MTU of the packets between these two addresses, as far as the kernel knows it: enum ibv_mtu; 0: there is no limit here. */
int wire_path_mtu(const struct packet_path *path);

/* Adds what the link has counted to the adapter's counters. */
void wire_count(const struct peers *ps, struct counters *c);

#endif
