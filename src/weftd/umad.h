/* Files of management datagrams that programs have opened (abi/umad). Each is a connection: what is sent by it comes in as
 * CTL_MAD, and what is for its agents goes out so. mgmt/mad_clients.h has the agents, timeouts and segments; here a file gets its
 * port, and datagrams come in pieces. QP0 belongs to the owner of the network: who else registers an agent of a class of QP0, or
 * sends a datagram of one, is refused. What a user's datagrams take is on its account. */
#ifndef WEFT_WEFTD_UMAD_H
#define WEFT_WEFTD_UMAD_H

#include "mgmt/gmp.h"
#include "weftd/hub.h"

void umad_start(struct hub *h);
/* All clients have left. */
void umad_end(struct hub *h);

/* A file of weftd's own at a port of the fabric, which asks as agent 0. What is heard may be heard while it asks. */
typedef void umad_heard(void *arg, const struct mad_letter *l);
struct mad_port *umad_open(struct hub *h, uint32_t port, const struct mad_registration *what, umad_heard *heard, void *arg);
int umad_ask(struct hub *h, struct mad_port *p, const struct mad_letter *l);
bool umad_has_room(const struct mad_port *p, uint16_t lid);	/* mad_has_room_for */
void umad_close(struct hub *h, struct mad_port *p);

/* The same of who asks the subnet administration of the port's subnet. */
struct mad_port *umad_open_sa(struct hub *h, uint32_t port, umad_heard *heard, void *arg);
struct sa_request {
	uint8_t method;
	uint16_t attr_id;
	uint32_t tid, timeout_ms;
	wtime until;			/* later than now: its last try begins before */
};
/* mad: the record with its mask; the head is written here. Who is told to ask again later asks until the same time, which is when
 * one that is never answered ends. 0 or -errno. */
int umad_ask_sa(struct hub *h, struct mad_port *p, const struct sa_request *r, uint8_t mad[MAD_BYTES]);

/* CTL_MAD_PORT, CTL_MAD_AGENT, CTL_MAD. */
void umad_port(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);
void umad_agent(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);
void umad_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);
/* A datagram of a program's UD QP to QP1 leaves this port; whose QP it is was checked. */
void umad_from_qp(struct hub *h, uint32_t port, struct gmp *in);
/* CTL_MAD_DONE. */
void umad_done(struct hub *h, struct client *c, const struct control_msg *msg);
/* A message of the connection manager has come for this process, at its port of this index. False: the port has no receive buffer
 * for it, and it is lost. */
bool umad_admits_cm(struct hub *h, struct client *c, uint32_t index);
/* Whose file it is; NULL: weftd's own. */
const struct client *umad_client(const struct mad_file *f);
/* What its connection was full of has gone: what waits for it follows. */
void umad_resume(struct hub *h, struct client *c);
/* The connection ends. */
void umad_leave(struct hub *h, struct client *c);

/* By which agents are registered for this file. */
void umad_secret(const struct mad_file *f, uint8_t secret[16]);
/* In datagrams that weftd holds for the client's file. */
uint64_t umad_bytes(const struct client *c);
/* Files at ports of the fabric. */
uint32_t umad_count_placed(const struct hub *h);

void umad_expire(struct hub *h);
wtime umad_deadline(const struct hub *h);

#endif
