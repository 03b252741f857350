/* What weft ping and weft doctor --peer share: where another host is, by which way it is reached, and questions to its weftd. */
#ifndef WEFT_CLI_PINGER_H
#define WEFT_CLI_PINGER_H

#include "base/time.h"
#include "weftd/rundir.h"

#include <stddef.h>
#include <stdint.h>

enum { PINGER_TEXT = 64, PINGER_LEAST = 256, PINGER_MOST = 4096 };

struct pinger {
	int socket;		/* of weftd, which has the port open as long as it is */
	uint32_t seq;
	uint8_t from[16], to[16];
	char from_text[PINGER_TEXT], to_text[PINGER_TEXT];
	int gid_index;		/* of from, in the table of weft1 */
	char interface[PINGER_TEXT];
};

struct pong {
	wtime round_trip;
	char version[PINGER_TEXT];
};

/* The address of this host's name. 0 or getaddrinfo's error; *p is for pinger_route. */
int pinger_resolve(struct pinger *p, const char *host);
/* The address of this host by which the other one is reached. 0 or -errno. */
int pinger_route(struct pinger *p);
/* That address in weft1's table of GIDs, as a weftd says that runs; closes the socket. 0; -ENOENT: it is not there. */
int pinger_find_gid(struct pinger *p, int socket);
/* Has weftd open the port. 0 or -errno, as CTL_PING. */
int pinger_hold(int socket);
/* 0; -ETIMEDOUT: there is no answer; another -errno: as CTL_PING. */
int pinger_ask(struct pinger *p, unsigned bytes, wtime patience, struct pong *pong);
/* errno, or 0, by which a question of `bytes` bytes has no answer, where asking ended with err, a -errno: the question is only
 * lost, or the kernel did not take it, of which a plain datagram or a shorter question may tell more. */
int pinger_why(struct pinger *p, unsigned bytes, int err);
/* What the kernel hears of a datagram to the other host's port: an errno, 0: nothing. */
int pinger_probe(const struct pinger *p);
/* What an errno of these means, and what to do. text: room for the second. */
const char *pinger_cause(int err);
const char *pinger_advice(int err, char *text, size_t room);

#endif
