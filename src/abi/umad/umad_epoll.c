#include "abi/umad/umad_epoll.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 64, LINE = 256 };

static bool is_epoll(const char *number)
{
	static const char kind[] = "anon_inode:[eventpoll]";
	char path[PATH], target[sizeof(kind)];

	snprintf(path, sizeof(path), "/proc/self/fd/%.16s", number);
	return readlink(path, target, sizeof(target)) == sizeof(kind) - 1 && !memcmp(target, kind, sizeof(kind) - 1);
}

/* The kernel's line of one watch. True: it is of this descriptor. */
static bool parse(const char *line, int fd, struct epoll_event *event)
{
	unsigned events;
	uint64_t data;
	int of;

	if (sscanf(line, "tfd: %d events: %x data: %" SCNx64, &of, &events, &data) != 3 || of != fd)
		return false;
	event->events = events & ~(unsigned)(EPOLLERR | EPOLLHUP);	/* always watched, and not always accepted */
	event->data.u64 = data;
	return true;
}

static int take_of(const char *number, int fd, struct epoll_watch *w, int room)
{
	char path[PATH], line[LINE];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%.16s", number);
	f = fopen(path, "re");
	while (f && n < room && fgets(line, sizeof(line), f)) {
		w[n].epoll = atoi(number);
		n += parse(line, fd, &w[n].event) && !epoll_ctl(w[n].epoll, EPOLL_CTL_DEL, fd, NULL);
	}
	if (f)
		fclose(f);
	return n;
}

int epoll_watches_take(int fd, struct epoll_watch w[EPOLL_WATCHES])
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int n = 0;

	while (d && n < EPOLL_WATCHES && (e = readdir(d)))
		if (is_epoll(e->d_name))
			n += take_of(e->d_name, fd, w + n, EPOLL_WATCHES - n);
	if (d)
		closedir(d);
	return n;
}

void epoll_watches_put(int fd, const struct epoll_watch *w, int n)
{
	for (int i = 0; i < n; i++) {
		struct epoll_event event = w[i].event;

		epoll_ctl(w[i].epoll, EPOLL_CTL_ADD, fd, &event);
	}
}
