/* What the shim calls before a program reads a port's counters in /sys: weftd writes them anew. Files that it cannot write stay
 * as they are. */
#include "abi/umad/umad_abi.h"

#include "control/connect.h"
#include "control/devices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The port and 1, and what devices the tree is of, by the name of the tree: NAME@PORT or NAME@PORT-DEVICE. 0: it is no port's. */
static uint32_t port_of_tree(const char *root, uint32_t *which)
{
	const char *folder = strrchr(root, '/'), *at = folder ? strchr(folder, '@') : NULL;
	char *end;
	unsigned long port = at ? strtoul(at + 1, &end, 10) : 0;

	*which = 0;
	if (!at || end == at + 1 || (*end && *end != '-'))
		return 0;
	while (*end && *which < CONTROL_DEVICES && strcmp(control_devices[*which].name, end + 1) != 0)
		++*which;
	*which += *end != '\0';
	return (uint32_t)port + 1;
}

UMAD_EXPORT void weft_umad_refresh_counters(const char *root);
void weft_umad_refresh_counters(const char *root)
{
	struct control_msg msg = { .type = CTL_NODE };
	const char *dir = getenv("WEFT_DIR");
	uint32_t which, port = port_of_tree(root, &which);
	int fd = dir && port ? connect_as(dir, CONTROL_COMMAND) : -1;

	if (fd < 0)
		return;
	if (!connect_ask(fd, &msg, NULL)) {
		msg = (struct control_msg){ .type = CTL_NODE, .a = port, .b = msg.b, .c = which };
		connect_ask(fd, &msg, NULL);
	}
	close(fd);
}
