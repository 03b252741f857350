#include "runtime/stats.h"

#include "runtime/config.h"
#include "runtime/json_row.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A write of O_APPEND is one piece, so lines of several processes do not mix. */
static void append(const char *path, const char *line, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return;
	/* whoever started us may have gone, and another user's file of that name come */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
		while (write(fd, line, bytes) < 0 && errno == EINTR)
			;
	close(fd);
}

void stats_leave(struct runtime *rt)
{
	char line[128 + COUNTERS * 64];
	struct counters now;
	struct json_row row;
	size_t bytes;

	if (!*rt->config->stats || !lock_soon(&rt->lock))
		return;
	now = runtime_counters(rt);
	lock_leave(&rt->lock);
	json_row_begin(&row, line, sizeof(line) - 1);
	json_row_number(&row, "pid", (uint64_t)getpid());
	json_row_number(&row, "slot", rt->peers.slot);
	json_row_string(&row, "program", program_invocation_short_name);
	for (unsigned i = 0; i < COUNTERS; i++)
		json_row_number(&row, counters_name(i), counters_value(&now, i));
	bytes = json_row_end(&row);
	if (!bytes)
		return;
	line[bytes] = '\n';
	append(rt->config->stats, line, bytes + 1);
}
