#include "abi/umad/umad_file.h"

#include "control/connect.h"
#include "control/devices.h"
#include "control/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *umad_dir(void)
{
	const char *dir = getenv("WEFT_DIR");

	return dir ? dir : "";
}

int umad_file_open(const char *ca_name, int portnum, unsigned purpose, struct umad_file *f)
{
	const char *node = getenv("WEFT_NODE");
	struct control_msg msg = { .type = CTL_MAD_PORT, .a = !!(purpose & UMAD_IS_SM), .b = !!(purpose & UMAD_GIVES_BACK),
				  .c = (uint32_t)portnum, .text_bytes = node ? (uint32_t)strlen(node) : 0 };
	struct control_table names;
	int fd = connect_as(umad_dir(), CONTROL_MADS), err;

	if (fd < 0)
		return fd;
	control_table_names(umad_dir(), &names);
	msg.device = control_table_find(&names, ca_name, strlen(ca_name));
	err = msg.text_bytes > CONTROL_TEXT ? -EINVAL : connect_ask(fd, &msg, node);
	if (!err) {
		memcpy(f->secret, msg.gid, sizeof(f->secret));
		f->manager = (uint16_t)msg.b;
		f->seed = (uint16_t)msg.c;
		return fd;
	}
	close(fd);
	return err;
}
