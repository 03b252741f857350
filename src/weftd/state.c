/* Nothing here trusts a file that is not complete: then both are made anew, under new inodes, so that who still maps the old
 * ones keeps them. */
#include "weftd/state.h"

#include "base/log.h"
#include "weftd/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLAIMS_MAGIC = 0x636c6d73, CLAIMS_VERSION = 1 };

static void remove_files(const struct rundir *d)
{
	static const char *const names[] = { "page", "claims" };
	char path[RUNDIR_FILE];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		rundir_file(d, names[i], path);
		unlink(path);
	}
}

/* Maps a file of exactly this size; a new one is allocated whole, so that no later write can find the file system full. */
static int map_file(const struct rundir *d, const char *name, int flags, size_t bytes, void **memory)
{
	char path[RUNDIR_FILE];
	struct stat st;
	int fd, err = 0;

	rundir_file(d, name, path);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (fd < 0)
		return -errno;
	if (flags & O_CREAT)
		err = -posix_fallocate(fd, 0, (off_t)bytes);
	if (!err && (fstat(fd, &st) || st.st_size != (off_t)bytes || !S_ISREG(st.st_mode)))
		err = -EINVAL;
	*memory = err ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!err && *memory == MAP_FAILED)
		err = -errno;
	close(fd);
	return err;
}

static void unmap(struct state *s)
{
	if (s->page)
		munmap(s->page, sizeof(*s->page));
	if (s->claims)
		munmap(s->claims, sizeof(*s->claims));
	if (s->page_fd >= 0)
		close(s->page_fd);
	*s = (struct state){ .page_fd = -1 };
}

static int map_both(const struct rundir *d, int flags, struct state *s)
{
	char path[RUNDIR_FILE];
	void *page = NULL, *claims = NULL;
	int err = map_file(d, "page", flags, sizeof(*s->page), &page);

	s->page = err ? NULL : page;
	if (!err)
		err = map_file(d, "claims", flags, sizeof(*s->claims), &claims);
	s->claims = err ? NULL : claims;
	rundir_file(d, "page", path);
	if (!err)
		s->page_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (!err && s->page_fd < 0)
		err = -errno;
	if (err)
		unmap(s);
	return err;
}

static bool is_complete(const struct state *s)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) ; both are mapped when map_both says 0: no errno is 0 or less */
	return s->page->magic == PAGE_MAGIC && s->page->version == PAGE_VERSION && s->page->devices == PAGE_DEVICES &&
	       /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	       s->claims->magic == CLAIMS_MAGIC && s->claims->version == CLAIMS_VERSION;
}

static int take_over(const struct rundir *d, struct state *s)
{
	int err = map_both(d, 0, s);

	if (err)
		return err;
	if (!is_complete(s)) {
		unmap(s);
		return -EINVAL;
	}
	page_repair(s->page);
	return 0;
}

int state_open(const struct rundir *d, struct state *s)
{
	int err;

	*s = (struct state){ .page_fd = -1 };
	if (take_over(d, s) == 0)
		return 0;
	remove_files(d);
	err = map_both(d, O_CREAT | O_EXCL, s);
	if (err) {
		remove_files(d);
		log_line(LOG_ERROR, "no room for %zu KiB of state in %s: %s; next: make room there, or set WEFT_DIR elsewhere",
			 (sizeof(*s->page) + sizeof(*s->claims)) >> 10, d->path, strerror(-err));
		return err;
	}
	s->claims->version = CLAIMS_VERSION;	/* NOLINT(clang-analyzer-core.NullDereference) ; as above */
	s->claims->magic = CLAIMS_MAGIC;
	return 0;
}

void state_close(const struct rundir *d, struct state *s, bool is_needed)
{
	if (!is_needed)
		remove_files(d);
	unmap(s);
}

/* 0: there is no such process, or only its parent has not noticed yet that it is dead. proc(5): the name, which may contain
 * anything, ends with the last parenthesis; what follows is field 3, the state. */
static uint64_t start_of(int pid)
{
	char path[32], text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	if (at && at[1] && (at[2] == 'Z' || at[2] == 'X'))
		return 0;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

struct holder state_holder(int pid)
{
	struct holder o = { .pid = pid, .start = pid > 0 ? start_of(pid) : 0 };

	if (!o.start)
		o.pid = 0;
	return o;
}

bool state_holder_lives(const struct holder *o)
{
	return o->pid == 0 || start_of(o->pid) == o->start;
}

bool state_same_holder(const struct holder *a, const struct holder *b)
{
	return a->pid != 0 && a->pid == b->pid && a->start == b->start;
}
