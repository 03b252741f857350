/* Path rewriting of the shim: see path.h. Only the prefixes below are ours; the rest of /sys, /dev and /proc is the host's. */
#include "counters.h"
#include "loaded.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEV_DIR "/dev/infiniband"
#define VERBS_DIR "/sys/class/infiniband_verbs"

static const char *const prefixes[] = {
	"/sys/class/infiniband",
	VERBS_DIR,
	"/sys/class/infiniband_mad",
	"/sys/class/misc/rdma_cm",
	"/proc/sys/net/rdma_ucm",
	DEV_DIR,
};

static char root[PATH_MAX];
static size_t root_bytes;
static pthread_once_t root_once = PTHREAD_ONCE_INIT;

static void read_root(void)
{
	const char *env = getenv("WEFT_ROOT");
	size_t bytes = env ? strlen(env) : 0;

	while (bytes && env[bytes - 1] == '/')
		bytes--;
	if (!bytes || bytes >= sizeof(root) || env[0] != '/')
		return;
	memcpy(root, env, bytes);	/* NOLINT(bugprone-not-null-terminated-result) ; the rest of root is zero */
	root_bytes = bytes;
}

bool shim_active(void)
{
	pthread_once(&root_once, read_root);
	return root_bytes != 0;
}

/* True when path is dir or lies below it. */
static bool is_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_ours(const char *path)
{
	if (path[0] != '/' || (path[1] != 's' && path[1] != 'd' && path[1] != 'p'))
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (is_within(path, prefixes[i]))
			return shim_active();
	return false;
}

/* The tree shows a device node as any kind of file. Asked of the kernel directly: faccessat itself is one of our calls. */
static bool is_node(const char *path, const char *stand_in)
{
	const char *name = path + sizeof(DEV_DIR) - 1;
	int saved = errno;
	bool exists;

	if (!is_within(path, DEV_DIR) || name[0] == '\0' || name[strspn(name, "/.")] == '\0')
		return false;
	exists = syscall(SYS_faccessat, AT_FDCWD, stand_in, F_OK) == 0;
	errno = saved;
	return exists;
}

/* The tree's path of a path; false: it is too long. */
static bool put_below_root(const char *path, struct shim_path *room)
{
	size_t bytes = strlen(path);

	if (root_bytes + bytes >= sizeof(room->text))
		return false;
	memcpy(room->text, root, root_bytes);
	memcpy(room->text + root_bytes, path, bytes + 1);
	return true;
}

bool shim_tree_path(const char *name, struct shim_path *room)
{
	return shim_active() && put_below_root(name, room);
}

const char *shim_path(const char *path, struct shim_path *room)
{
	if (!path || !is_ours(path))
		return path;
	if (is_within(path, VERBS_DIR))
		loaded_check();
	if (!put_below_root(path, room))
		return path;
	counters_refresh(root, path);
	return is_node(path, room->text) ? "/dev/null" : room->text;
}

bool shim_path_is_rdma_cm(const char *path)
{
	return path && strcmp(path, DEV_DIR "/rdma_cm") == 0 && shim_active();
}

bool shim_path_is_issm(const char *path, struct shim_path *room)
{
	static const char issm[] = DEV_DIR "/issm";

	return path && strncmp(path, issm, sizeof(issm) - 1) == 0 && shim_tree_path(path, room) && is_node(path, room->text);
}
