/* What the shim calls before a program reads a port's counters in /sys: weftd writes them anew. Files that it cannot write stay
 * as they are. */
#include "abi/umad/umad_abi.h"

#include "control/connect.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a tree of device files is of, by its name: NAME[@PORT][-DEVICES]. The port and 1, 0: no port's; the devices by bits, in
 * hexadecimal, 0: all. */
static uint32_t port_of_tree(const char *root, uint32_t *which)
{
	const char *folder = strrchr(root, '/'), *end = folder ? folder + strcspn(folder, "@-") : "";
	unsigned long port = 0;

	if (*end == '@')
		port = strtoul(end + 1, (char **)&end, 10) + 1;
	*which = *end == '-' ? (uint32_t)strtoul(end + 1, NULL, 16) : 0;
	return (uint32_t)port;
}

static void ask(int fd, uint32_t port, uint32_t which)
{
	struct control_msg msg = { .type = CTL_NODE };

	if (!port) {
		msg = (struct control_msg){ .type = CTL_COUNTS, .c = which };
		connect_ask(fd, &msg, NULL);
	} else if (!connect_ask(fd, &msg, NULL)) {
		msg = (struct control_msg){ .type = CTL_NODE, .a = port, .b = msg.b, .c = which };
		connect_ask(fd, &msg, NULL);
	}
}

UMAD_EXPORT void weft_umad_refresh_counters(const char *root);
void weft_umad_refresh_counters(const char *root)
{
	const char *dir = getenv("WEFT_DIR");
	uint32_t which, port = port_of_tree(root, &which);
	int fd = dir ? connect_as(dir, CONTROL_COMMAND) : -1;

	if (fd < 0)
		return;
	ask(fd, port, which);
	close(fd);
}
