/* The variables are inherited by whatever the program starts, which is how shells, scripts and mpirun work. */
#include "cli/environment.h"

#include "cli/cli.h"
#include "cli/fabric_net.h"
#include "cli/network.h"
#include "cli/nodes.h"
#include "cli/preload.h"
#include "control/devices.h"
#include "control/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	HEAP_BYTES = 128 << 10,	/* glibc's M_MMAP_THRESHOLD: such blocks are mappings of their own anyway */
	REMAP_BYTES = 64 << 10,	/* our choice: smaller ones are reached well by a system call */
	LEAST_BYTES = 4096,	/* blocks and what is moved are whole pages */
};

/* Puts value before what the variable has. */
static int prepend(const char *name, const char *value, char separator)
{
	const char *old = getenv(name);
	size_t bytes = strlen(value);
	char *joined;
	int err;

	if (old && strncmp(old, value, bytes) == 0 && (old[bytes] == separator || old[bytes] == '\0'))
		return 0;
	if (!old || !*old)
		return setenv(name, value, 1);
	joined = malloc(bytes + strlen(old) + 2);
	if (!joined)
		return -1;
	sprintf(joined, "%s%c%s", value, separator, old);
	err = setenv(name, joined, 1);
	free(joined);
	return err;
}

unsigned long long environment_bytes(const char *text, unsigned long long otherwise)
{
	static const char units[] = "kmg";
	const char *unit;
	char *end;
	unsigned long long bytes;

	if (!*text)
		return otherwise;
	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	bytes = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end | 0x20) : NULL;
	if (errno || bytes >> 32 || (*end && (!unit || end[1])))
		return 0;
	if (unit)
		bytes <<= 10 * (unit - units + 1);
	return bytes >= LEAST_BYTES ? bytes : 0;
}

static int set_heap(const char *text)
{
	char bytes[24];

	snprintf(bytes, sizeof(bytes), "%llu", environment_bytes(text, HEAP_BYTES));
	return setenv("WEFT_SHARED_HEAP", bytes, 1);
}

static int set_remap(const char *text)
{
	char bytes[24];

	snprintf(bytes, sizeof(bytes), "%llu", environment_bytes(text, REMAP_BYTES));
	return setenv("WEFT_REMAP", bytes, 1);
}

/* GCC's AddressSanitizer refuses to start a program whose first library is not its own. A preloaded library comes before those
 * that the program is linked with, so it always refused. Order does not matter here: weft's libraries call the next one's. */
static int set_sanitizer(void)
{
	return prepend("ASAN_OPTIONS", "verify_asan_link_order=0", ':');
}

uint32_t environment_devices(const struct cli_options *o)
{
	const char *list = o->devices ? o->devices : getenv("WEFT_DEVICES");
	struct control_table t;
	unsigned named, all;

	network_names(o, &t);
	all = (1u << t.devices) - 1;
	control_devices_listed(list ? list : "", &t, &named);
	return (named & all) == all ? 0 : named & all;
}

const char *environment_node(const struct cli_options *o)
{
	const char *node = o->node ? o->node : getenv("WEFT_NODE");

	return node && *node ? node : NULL;
}

int environment_refused_choice(void)
{
	return cli_fail("choose devices that were chosen before, or use another network (WEFT_DIR)",
			"--device has chosen so many sets of devices that there are no device files for another one: %d in a "
			"network, %d of one user", CONTROL_CHOICES, CONTROL_USER_CHOICES);
}

/* An exit status, or -errno as fabric_net_node. */
static int place_nowhere(int fd, uint32_t which)
{
	struct control_msg msg = { .type = CTL_COUNTS, .c = which };
	int err = which ? daemon_call(fd, &msg, NULL) : 0;

	if (!err || message_peer_ended(err))
		return err;
	if (err == -EDQUOT)
		return environment_refused_choice();
	return daemon_fail(err, "weftd.log may say why", "there are no device files for these devices");
}

static int place(const struct cli_options *o, int fd, uint32_t *at)
{
	const char *node = environment_node(o);
	uint32_t which = environment_devices(o);

	if (o->nodes)
		return nodes_place(fd, o->nodes, which, at);
	if (o->node)
		unsetenv("WEFT_NODES");
	return node ? fabric_net_node(fd, node, which, at) : place_nowhere(fd, which);
}

int environment_place(const struct cli_options *o, const struct rundir *d, bool keep, int *fd, uint32_t *at)
{
	enum { TRIES = 3 };

	*at = 0;
	for (int i = 0; i < TRIES; i++) {
		int status;

		*fd = keep ? daemon_keep(d) : daemon_start(d, CONTROL_LEASE, false);
		if (*fd < 0)
			return EXIT_FAILED;
		status = place(o, *fd, at);
		if (status == EXIT_OK)
			return EXIT_OK;
		close(*fd);
		if (status > 0)
			return status;
	}
	return cli_fail("look into weftd.log there", "weftd in %s exits as soon as it is asked for device files", d->path);
}

int environment_set(const struct cli_options *o, const struct places *p, const struct rundir *d, uint32_t at)
{
	char root[RUNDIR_TREE_PATH];

	rundir_tree(d, at, environment_devices(o), root);
	if (setenv("WEFT_DIR", d->path, 1) || setenv("WEFT_ROOT", root, 1) || prepend("LD_LIBRARY_PATH", p->library_dir, ':') ||
	    set_sanitizer())
		return -ENOMEM;
	if (at && setenv("WEFT_NODE", environment_node(o), 1))
		return -ENOMEM;
	if ((o->path && setenv("WEFT_PATH", o->path, 1)) || (o->devices && setenv("WEFT_DEVICES", o->devices, 1)) ||
	    (o->profile && setenv("WEFT_PROFILE", o->profile, 1)) || (o->shared_heap && set_heap(o->shared_heap)) ||
	    (o->remap && set_remap(o->remap)) || (o->engine && setenv("WEFT_ENGINE", o->engine, 1)))
		return -ENOMEM;
	return preload_set(p->library_dir, getenv("WEFT_SHARED_HEAP") != NULL);
}

int environment_check(const struct places *p)
{
	char verbs[4096 + 32];

	snprintf(verbs, sizeof(verbs), "%s/libibverbs.so.1", p->library_dir);
	if (access(p->shim, R_OK))
		return cli_fail("build or install weft completely", "%s is missing: %s", p->shim, strerror(errno));
	if (access(verbs, R_OK))
		return cli_fail("build or install weft completely", "%s is missing: %s", verbs, strerror(errno));
	if (strpbrk(p->shim, ": "))
		return cli_fail("install it in a folder without space or colon, which separate names in LD_PRELOAD",
				"weft cannot work from %s", p->library_dir);
	return EXIT_OK;
}
