/* The file starts over when it is full: a client that misbehaves again and again must not fill the disk. */
#include "weftd/logfile.h"

#include "base/log.h"
#include "weftd/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_NAME "weftd.log"

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

bool logfile_is_weft(int fd)
{
	/* as write_line begins one */
	static const char form[] = "0000-00-00 00:00:00 weftd[";
	char text[sizeof(form) - 1];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	for (ssize_t i = 0; i < n; i++) {
		if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return false;
	}
	return n == 0 || n == sizeof(text);
}

/* Its descriptor. */
static int open_weft(const struct rundir *d, int flags)
{
	int fd = entry_open(d->fd, LOG_NAME, O_RDWR | flags, 0600);

	if (fd < 0 || logfile_is_weft(fd))
		return fd;
	close(fd);
	return -EEXIST;
}

int logfile_open(const struct rundir *d, bool foreground)
{
	out.is_file = !foreground;
	out.bytes = 0;
	out.fd = foreground ? STDERR_FILENO : open_weft(d, O_CREAT);
	if (out.fd >= 0 && out.is_file && ftruncate(out.fd, 0))
		logfile_close(d, false);
	if (out.fd >= 0)
		log_set_sink(write_line, NULL, LOG_INFO);
	return out.fd == -EEXIST ? -EEXIST : 0;
}

void logfile_close(const struct rundir *d, bool remove)
{
	log_set_sink(NULL, NULL, LOG_ERROR);
	if (!out.is_file || out.fd < 0)
		return;
	/* under its name may be another file by now */
	if (remove && entry_is(d->fd, LOG_NAME, out.fd))
		entry_remove(d->fd, LOG_NAME, S_IFREG);
	close(out.fd);
	out.fd = -1;
}

void logfile_remove(const struct rundir *d)
{
	int fd = open_weft(d, 0);

	if (fd < 0)
		return;
	entry_remove(d->fd, LOG_NAME, S_IFREG);
	close(fd);
}
