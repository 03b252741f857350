/* The file starts over when it is full: a client that misbehaves again and again must not fill the disk. */
#include "weftd/logfile.h"

#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20 };	/* our choice */

static struct {
	int fd;
	long bytes;
	bool is_file;
} out = { .fd = -1 };

static void write_line(void *arg, enum log_level level, const char *line)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	int n;

	(void)arg;
	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
	if (out.is_file && out.bytes > FILE_BYTES && ftruncate(out.fd, 0) == 0) {
		lseek(out.fd, 0, SEEK_SET);
		out.bytes = 0;
	}
	n = dprintf(out.fd, "%s weftd[%d] %s: %s\n", stamp, (int)getpid(), names[level], line);
	out.bytes += n > 0 ? n : 0;
}

void logfile_open(const struct rundir *d, bool foreground)
{
	char path[RUNDIR_FILE];

	rundir_file(d, "weftd.log", path);
	out.is_file = !foreground;
	out.fd = foreground ? STDERR_FILENO : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out.fd >= 0)
		log_set_sink(write_line, NULL, LOG_INFO);
}

void logfile_close(const struct rundir *d, bool remove)
{
	char path[RUNDIR_FILE];

	log_set_sink(NULL, NULL, LOG_ERROR);
	if (!out.is_file || out.fd < 0)
		return;
	rundir_file(d, "weftd.log", path);
	if (remove)
		unlink(path);
	close(out.fd);
	out.fd = -1;
}
