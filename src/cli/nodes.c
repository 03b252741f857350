#include "cli/nodes.h"

#include "cli/cli.h"
#include "cli/fabric_net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the shim hands on has room for as much: abi/shim/keep.c. */
enum { NAME_BYTES = 80, TEXT_BYTES = 8 << 10 };

/* Adds NAME=PORT. */
static int place(int socket, const char *name, uint32_t only, uint32_t *at, char *text, size_t *used)
{
	int status = fabric_net_node(socket, name, only, at), bytes;

	if (status != EXIT_OK)
		return status;
	bytes = snprintf(text + *used, TEXT_BYTES - *used, "%s%s=%u", *used ? "," : "", name, *at - 1);
	if (bytes < 0 || (size_t)bytes >= TEXT_BYTES - *used)
		return cli_fail("name fewer hosts: ranks beyond their number begin with the first again",
				"--nodes names too many");
	*used += (size_t)bytes;
	return EXIT_OK;
}

int nodes_place(int socket, const char *list, uint32_t only, uint32_t *first)
{
	char name[NAME_BYTES], text[TEXT_BYTES] = "";
	size_t used = 0, bytes;
	uint32_t at;
	int status;

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
		bytes = strcspn(list, ",");
		if (!bytes || bytes >= sizeof(name) || memchr(list, '=', bytes))
			return cli_fail("weft run --nodes h1,h2,h3 -- mpirun -n 3 PROGRAM", "--nodes is no list of hosts");
		memcpy(name, list, bytes);
		name[bytes] = '\0';
		if (!used && setenv("WEFT_NODE", name, 1))
			return cli_fail(NULL, "%s", strerror(errno));
		status = place(socket, name, only, &at, text, &used);
		if (status != EXIT_OK)
			return status;
		if (!memchr(text, ',', used))
			*first = at;
	}
	return setenv("WEFT_NODES", text, 1) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}
