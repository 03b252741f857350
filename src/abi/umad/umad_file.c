#include "abi/umad/umad_file.h"

#include "control/connect.h"
#include "control/devices.h"
#include "control/message.h"
#include "control/starter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *umad_dir(void)
{
	const char *dir = getenv("WEFT_DIR");

	return dir ? dir : "";
}

uint64_t umad_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* May the next attempt succeed? A weftd that was killed has left its socket. */
static bool is_outage(int err)
{
	return err == -ECONNREFUSED ? !starter_start(umad_dir()) :
	       message_peer_ended(err) || err == -ETIMEDOUT;
}

static int open_once(const char *ca_name, int portnum, unsigned purpose, struct umad_file *f)
{
	const char *node = getenv("WEFT_NODE");
	struct control_msg msg = { .type = CTL_MAD_PORT, .a = !!(purpose & UMAD_IS_SM), .b = !!(purpose & UMAD_GIVES_BACK),
				  .c = (uint32_t)portnum, .text_bytes = node ? (uint32_t)strlen(node) : 0 };
	struct control_table names;
	int fd = connect_as(umad_dir(), CONTROL_MADS), err;

	if (fd < 0)
		return fd;
	control_table_names(umad_dir(), &names);
	if (msg.text_bytes)
		control_table_add_adapters(&names);
	msg.device = control_table_find(&names, ca_name, strlen(ca_name));
	err = msg.text_bytes > CONTROL_TEXT ? -EINVAL : connect_ask(fd, &msg, node);
	if (!err) {
		memcpy(f->secret, msg.gid, sizeof(f->secret));
		f->manager = (uint16_t)msg.b;
		f->seed = (uint16_t)msg.c;
		f->times = control_port_times(&msg);
		return fd;
	}
	close(fd);
	return err;
}

int umad_file_open(const char *ca_name, int portnum, unsigned purpose, struct umad_file *f)
{
	uint64_t give_up = umad_now_ms() + UMAD_OUTAGE_MS;
	int fd;

	while ((fd = open_once(ca_name, portnum, purpose, f)) < 0 && umad_now_ms() < give_up && is_outage(fd))
		nanosleep(&(struct timespec){ .tv_nsec = UMAD_LOOK_MS * 1000000L }, NULL);
	return fd;
}
