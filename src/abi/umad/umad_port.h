/* A port that a program has opened: its connection with weftd, and what the next weftd must know of it when this one is
 * killed. */
#ifndef WEFT_ABI_UMAD_UMAD_PORT_H
#define WEFT_ABI_UMAD_UMAD_PORT_H

#include "abi/umad/umad_abi.h"
#include "abi/umad/umad_file.h"

#include "control/protocol.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TOLD_LATE = 2000 };		/* ms: weftd's word of a timeout is late at most so much; our choice */

/* A datagram that awaits its answer, or weftd's word that there is none. */
struct request {
	struct request *next;
	uint64_t until;			/* ms: weftd has said so by then */
	struct control_mad head;	/* of the program's agent */
	uint8_t data[];
};

/* As the program registered it; what weftd calls it. */
struct agent {
	struct control_agent what;
	_Atomic uint32_t id;
	uint32_t own;			/* buffers that it was registered with; 0: what weftd gives by itself */
	int buffers;			/* more than these */
};

/* Who takes several locks takes them in this order. */
struct port {
	struct port *next;
	int fd;				/* owned; its number stays */
	char name[UMAD_NAME];
	int number;
	_Atomic unsigned era;		/* which weftd it is open at, in the order in which they came */
	pthread_mutex_t reading;	/* pieces of one datagram go to one reader; guards the next one */
	bool has_long;			/* a datagram of several MADs may come: one was asked for, or the port serves */
	pthread_mutex_t sending;	/* pieces of several threads would mix; guards the next four */
	struct umad_file file;
	_Atomic uint32_t agents;	/* bits */
	struct agent agent[UMAD_AGENTS];
	uint32_t own;			/* as of struct agent: of the next one */
	pthread_mutex_t books;		/* guards the next three */
	struct request *requests, **last;	/* owned; in the order in which they were sent */
	unsigned kept;
	_Atomic unsigned taken;		/* datagrams: what was looked at before another one was taken is looked at again */
	unsigned users;
	_Atomic uint32_t read[UMAD_AGENTS];	/* datagrams that weftd was not told of yet: their receive buffers */
	_Atomic uint64_t told_by;	/* ms: weftd says by then that the last request has no answer; 0: nothing is due */
};

/* Is the port still the program's? If so, what `from` is open at is at the port's number from now on. */
bool port_move(struct port *p, int from);

/* Blocks. 0 or -errno; b of the answer is the agent. `sending` is held, or the port is nobody else's yet. */
int port_ask_about_agent(const struct port *p, struct control_msg *msg, const struct control_agent *agent);

/* The program has this agent no more. `sending` is held. */
void port_end_agent(struct port *p, uint32_t agent);

/* All of it, from head->at on. read: datagrams of the agent that are told of as read. `sending` is held. 0 or -errno. */
int port_send_pieces(int fd, struct control_mad *head, const uint8_t *data, uint32_t read);

/* Datagrams that expect an answer are kept until there is one: those of up to a bound, of others the next weftd does not know. */
void requests_init(struct port *p);
bool requests_keep(struct port *p, const struct control_mad *head, const uint8_t *data);
/* data: of the agent's request, of its answer, or of what came back without one. */
void requests_end(struct port *p, uint32_t agent, const uint8_t *data);
/* All of an agent that is gone: another one may get its number. */
void requests_forget(struct port *p, uint32_t agent);
void requests_fini(struct port *p);

/* Has weftd closed this socket? */
bool port_is_over(int fd);

/* weftd has ended, as who was at it in this era has seen: opens the port at the next one, which is started if need be, with the
 * same agents, and sends again what awaits an answer. Blocks for seconds, at most. 0; or the port is gone: -errno. */
int port_return(struct port *p, unsigned era);

/* The file that makes the port a subnet manager's returns with the ports of its process. */
void issm_note(int fd, const char *name, int number);

#endif
