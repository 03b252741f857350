/* Clients of a real weftd that say what a test wants said. WEFTD names the program; every call that meets what it does not
 * expect fails the test. Nothing sleeps: every wait is for a message, an end of file or an exit. */
#ifndef WEFT_TESTS_CONTROL_CLIENT_H
#define WEFT_TESTS_CONTROL_CLIENT_H

#include "control/message.h"
#include "control/protocol.h"
#include "fabric/page.h"
#include "mgmt/gmp.h"
#include "wire/cm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20000 };

struct peer {
	int socket, wake_fd;
	uint32_t slot, number;
	uint8_t secret[16];
	const struct fabric_page *page;
	char text[CONTROL_TEXT + 1];
	int fds[CONTROL_FDS], nfds;
	struct peer *next;	/* of those that have not left */
};

extern char dir[64];	/* weftd's runtime directory */

pid_t spawn(const char *program, const char *option);
int exit_status(pid_t pid);
int try_to_connect(void);
int connect_raw(void);
/* The next message; its status, or -errno when the connection ended. */
int next(struct peer *p, struct control_msg *msg);
void drop_fds(struct peer *p);
void expect_end(struct peer *p);
int call_text(struct peer *p, struct control_msg *msg, const char *text);
int call(struct peer *p, struct control_msg *msg);
/* CONTROL_RETURN: with the slot and the secret that p has. */
int hello(struct peer *p, uint32_t kind, uint32_t version, int wake_fd);
struct peer *connect_peer(void);
struct peer *join(uint32_t kind);
void leave(struct peer *p);
/* For the teardown of a test: whom a failed one leaves would fail the next ones too. */
int leave_all(void **state);
int status_number(const char *name);
/* A client's end is noticed soon, but not at once. */
void wait_for(const char *name, int value);
/* A message to everybody else would have come before this answer. */
void still_well(struct peer *p);
int start_daemon(void **state);
int stop_daemon(void **state);
int bind_port(struct peer *p, uint64_t service, bool reuse, uint8_t address);
/* device: index + 1, or 0. */
int listen_at(struct peer *p, uint64_t service, uint32_t device, uint8_t address);
/* A frame of weft0 for weftd; its status. */
int send_frame(struct peer *p, const void *frame, size_t bytes);
/* From QP1 of weft0's port to itself: what all processes of this host do. */
struct gmp gmp_of(const struct peer *p, const struct cm_msg *msg);
int send_mad(struct peer *p, const struct cm_msg *msg);
/* A REQ of this process, for a service at this address (0: any). */
struct cm_msg req_of(const struct peer *p, uint64_t service, uint8_t address);
/* The next message is a MAD. */
void next_mad(struct peer *p, struct cm_msg *msg);

#endif
