/* The fabric of a network, when one was loaded: a file of the runtime directory, which weftd alone writes and processes map
 * read-only, and which the next weftd finds. Who is at which port is told in the fabric page. */
#ifndef WEFT_WEFTD_SUBNET_H
#define WEFT_WEFTD_SUBNET_H

#include "agents/agents.h"
#include "fabric/fabric.h"
#include "fabric/page.h"
#include "mgmt/gmp.h"
#include "weftd/hub.h"
#include "weftd/kept_counts.h"
#include "weftd/rundir.h"

/* Our choice: hosts that have trees of device files, of 350 small files each (weftd/tree.h). Trees stay until another fabric is
 * loaded. account.c has how many of these hosts are one user's. */
enum { SUBNET_TREES = 1024 };
#define SUBNET_NOBODY UINT32_MAX

struct subnet {
	const struct rundir *dir;	/* borrowed */
	int fd;				/* owned, read-only: what clients get; -1: there is no fabric */
	struct fabric fabric;		/* owned mapping, writable */
	int traffic_fd;			/* owned: a memory file of fixed size, which clients at ports write; -1: there is none */
	struct traffic_block *traffic;	/* owned mapping of it: read, but for turns at slow links */
	struct kept_counts counts;	/* of all ports, for the next weftd */
	wtime counts_saved, counts_due;	/* due: some were set, and are to be saved then; 0: none */
	struct agents agents;		/* of the fabric */
	uint64_t told;			/* of agents.changes */
	struct {
		uint32_t place, era;
		uint32_t sequence;	/* of the place's node, when the tree was written */
		uint32_t user;		/* whose account it is on: who asked first; SUBNET_NOBODY: the last weftd wrote it */
		uint32_t written;	/* in this era, by bits: all devices, and each choice */
	} tree[SUBNET_TREES];		/* hosts that have trees */
	uint32_t trees;
	uint64_t routed[PAGE_GROUPS / 64];	/* MLIDs, by bits, whose trees weftd has written */
	struct {
		uint32_t which;
		uint32_t user;		/* as of a tree */
	} choice[CONTROL_CHOICES];	/* of devices: that somebody has asked for files of */
	uint32_t choices;
	uint32_t counts_place, counts_which;	/* whose counters were written last, and until when they are held for true */
	wtime counts_until;
	uint32_t era;			/* trees of another one tell old addresses */
	bool is_taken_over;		/* from the last weftd, whose programs may come back */
};

/* Takes over what the last weftd left, if its page is the one at hand. A file that is not sound is removed; logged. */
void subnet_open(struct subnet *s, const struct rundir *dir, struct fabric_page *page);
void subnet_close(struct subnet *s);
/* Removes the files. */
void subnet_remove(const struct rundir *dir);
/* The host's addresses have changed: trees of device files are written anew when the next program starts. */
void subnet_addresses_changed(struct subnet *s);

/* Of the fabric; 0: there is none. */
uint32_t subnet_nodes(const struct hub *h);
/* Where the process is (fabric/host.h), or PORT_NONE. */
uint32_t subnet_place(const struct hub *h, const struct client *c);
/* Has the process a port of this index (fabric/page.h)? Any value. */
bool subnet_has_index(const struct hub *h, const struct client *c, uint32_t index);
/* That port in the fabric, PORT_NONE: it is nowhere in it, or there is no such port. Of the InfiniBand device. */
uint32_t subnet_port(const struct hub *h, const struct client *c, uint32_t index);
/* The index by which the process knows this port of the fabric; PAGE_DEVICES: it does not. port < fabric.ports. */
uint32_t subnet_index(const struct hub *h, const struct client *c, uint32_t port);
/* What the port of this index is for that process. subnet_has_index(h, c, index). */
void subnet_describe(const struct hub *h, const struct client *c, uint32_t index, struct page_device *d);
enum subnet_way {
	SUBNET_LEADS,
	SUBNET_LEADS_ELSEWHERE,		/* or to nobody */
	SUBNET_LOSES,			/* this packet, at a link with a fault or one that too much waits at */
};
/* The port of the fabric that a packet of QP1 from the process's port, gmp->device, leads to; nothing counts it. PORT_NONE: none,
 * or the process is nowhere. */
uint32_t subnet_destination(const struct hub *h, const struct client *from, const struct gmp *gmp);
/* A packet of QP1 goes from one process's port, gmp->device, to one of the other's, whose index is *index then; it is there at
 * *due. Ports count it. Both are in the fabric, or neither is. */
enum subnet_way subnet_carry(struct hub *h, const struct client *from, const struct client *to, const struct gmp *gmp,
			     uint32_t *index, wtime *due);
/* The same to whichever port its address leads to, whose answer comes back, at *due. SUBNET_LOSES: or gets lost. */
enum subnet_way subnet_carry_back(struct hub *h, const struct client *from, const struct gmp *gmp, wtime *due);

/* The process is at a port that has a LID and no manager: weftd writes the tree of the group, once, of everybody. */
void subnet_route_group(struct hub *h, const struct client *c, uint32_t index, uint16_t mlid);

/* Processes and trees of device files learn of what agents have changed in the fabric since the last call. */
void subnet_tell_changes(struct hub *h);

/* Sets the link of a port of the fabric of this number. 0; -ENOENT: there is no fabric; -ESTALE: it has another number; -EINVAL:
 * no port with a link. */
int subnet_set_link(struct hub *h, uint32_t port, uint32_t number, bool is_up);

/* The fault of such a link, as fabric_set_fault(); as subnet_set_link. */
int subnet_set_fault(struct hub *h, uint32_t port, uint32_t number, uint32_t loss_ppm, uint32_t rate_kbps, uint64_t seed);

/* Such a link's port notices errors, as agents_link_error(). As subnet_set_link; -ENETDOWN: the link is down. */
int subnet_link_error(struct hub *h, uint32_t port, uint32_t number, enum link_error e, uint32_t times);

/* Somebody has read counters of ports, or set them: the next weftd goes on from there. There is a fabric. */
void subnet_counts_read(struct hub *h, bool is_set);
/* What was set is saved when that is due; in each round of weftd. */
void subnet_expire(struct hub *h);
wtime subnet_deadline(const struct hub *h);

/* CTL_FABRIC, CTL_NODE, CTL_COUNTS. */
void subnet_load(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);
void subnet_node(struct hub *h, struct client *c, const struct control_msg *msg);
void subnet_counts(struct hub *h, struct client *c, const struct control_msg *msg);

#endif
