#include "cli/node_mads.h"

#include "cli/cli.h"
#include "cli/daemon.h"
#include "control/message.h"
#include "control/sa_client.h"
#include "fabric/page.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int fail_ended(void)
{
	return cli_fail("ask again: the next weftd takes up the fabric", "weftd has ended before anything was asked");
}

/* Its socket, or -1 with everything told. */
static int open_at(const struct rundir *d, const char *node, struct node_mads *f, uint8_t secret[16])
{
	struct control_msg msg;
	int fd = daemon_start(d, CONTROL_MADS, false), err = -ENODEV;

	for (uint32_t i = 0; fd >= 0 && err == -ENODEV && i < PAGE_DEVICES; i++) {
		msg = (struct control_msg){ .type = CTL_MAD_PORT, .b = 1, .device = i };
		err = daemon_call(fd, &msg, node);
	}
	if (!err) {
		memcpy(secret, msg.gid, sizeof(msg.gid));
		f->seed_lid = (uint16_t)msg.c;
		f->sa_lid = (uint16_t)msg.b;
		f->times = control_port_times(&msg);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && message_peer_ended(err)) {
		fail_ended();
	} else if (fd >= 0 && err == -ETIMEDOUT) {
		daemon_fail(err, NULL, NULL);
	} else if (fd >= 0) {
		cli_fail("weft fabric load FILE gives the network a fabric; weft-fabric(1)",
			 err == -ENOENT ? "there is no fabric, or no host %s in it" : "weftd opens no port at %s", node);
	}
	return -1;
}

/* The next weftd knows nothing of the secret that the last one gave (CTL_MAD_AGENT). */
static int add_agent(const struct rundir *d, const struct control_agent *agent, uint16_t buffers, const uint8_t secret[16],
		     struct node_mads *f)
{
	int fd = daemon_start(d, CONTROL_COMMAND, false), err;

	if (fd < 0)
		return EXIT_FAILED;
	err = sa_client_register(fd, secret, agent, buffers, &f->agent);
	close(fd);
	if (err == -ENOENT || message_peer_ended(err))
		return fail_ended();
	return err ? daemon_fail(err, "end programs that ask (weft mad lists them)", "weftd registers no agent") : EXIT_OK;
}

int node_mads_open(const struct rundir *d, const char *node, const struct control_agent *agent, uint16_t buffers,
		   struct node_mads *f)
{
	uint8_t secret[16];
	int status;

	f->fd = open_at(d, node, f, secret);
	if (f->fd < 0)
		return EXIT_FAILED;
	status = add_agent(d, agent, buffers, secret, f);
	if (status != EXIT_OK)
		close(f->fd);
	return status;
}
