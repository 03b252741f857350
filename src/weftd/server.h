/* weftd's event loop: the socket, its clients and their queues, the host's addresses, signals and the idle timer. One
 * thread; nothing in it waits for a client. */
#ifndef WEFT_WEFTD_SERVER_H
#define WEFT_WEFTD_SERVER_H

#include "base/time.h"
#include "control/devices.h"
#include "weftd/rundir.h"

#include <stdbool.h>
#include <stdint.h>

struct server_config {
	const struct rundir *dir;	/* borrowed; open, and ours by its lock */
	wtime idle;			/* leave this long after the last client */
	const struct control_table *devices;	/* borrowed: of a network that begins */
	bool keep;			/* stay when idle */
	bool gives_to_user;		/* hub.gives_to_user */
	uint16_t wire_port;		/* of RoCEv2; 0: no wire */
};

struct server;

/* Sets everything up: after it clients may connect. 0 or -errno, logged. */
int server_create(const struct server_config *config, struct server **server);
/* Serves until it is idle for long enough, told to leave, or signalled (SIGTERM, SIGINT). */
void server_run(struct server *s);
/* Removes the socket and, when nobody needs them, the state and the tree. False when something in the tree was not made by weft
 * and stays. */
bool server_destroy(struct server *s);

#endif
