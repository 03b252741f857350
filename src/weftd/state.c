/* Nothing here trusts a file that is not complete: then both are made anew, under new inodes, so that who still maps the old
 * ones keeps them. */
#include "weftd/state.h"

#include "base/log.h"
#include "control/proc_stat.h"
#include "control/protocol.h"
#include "weftd/entry.h"
#include "weftd/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The fabric is subnet.c's. */
static const char *const names[] = { "page", "claims", "fabric", "fabric.new", "counts", "counts.new" };

void state_remove(const struct rundir *d)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (entry_remove(d->own, names[i], S_IFREG) == -EEXIST)
			log_line(LOG_WARNING, "%s/" CONTROL_OWN "/%s was not made by weft: it stays", d->path, names[i]);
	}
}

/* Maps a file of exactly this size; a new one is allocated whole, so that no later write can find the file system full. */
static int map_file(const struct rundir *d, const char *name, int flags, size_t bytes, void **memory)
{
	struct stat st;
	int fd = entry_open(d->own, name, O_RDWR | flags, 0600), err = 0;

	if (fd < 0)
		return fd;
	if (flags & O_CREAT)
		err = -posix_fallocate(fd, 0, (off_t)bytes);
	if (!err && (fstat(fd, &st) || st.st_size != (off_t)bytes))
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
	void *page = NULL, *claims = NULL;
	int err = map_file(d, names[0], flags, sizeof(*s->page), &page);

	s->page = err ? NULL : page;
	if (!err)
		err = map_file(d, names[1], flags, sizeof(*s->claims), &claims);
	s->claims = err ? NULL : claims;
	if (!err)
		s->page_fd = entry_open(d->own, names[0], O_RDONLY, 0);
	if (!err && s->page_fd < 0)
		err = s->page_fd;
	if (err)
		unmap(s);
	return err;
}

static bool is_complete(const struct state *s)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) ; both are mapped when map_both says 0: no errno is 0 or less */
	return s->page->magic == PAGE_MAGIC && s->page->version == PAGE_VERSION && s->page->devices >= 1 &&
	       s->page->devices <= PAGE_NAMED &&
	       /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	       s->claims->magic == CLAIMS_MAGIC && s->claims->version == CLAIMS_VERSION;
}

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* From another PID namespace nobody can be seen, and here the same pids mean others. */
static void forget_pids(struct claims *c)
{
	for (uint32_t i = 0; i < PAGE_SLOTS; i++)
		c->slot[i].holder = (struct holder){ 0 };
	memset(c->lease, 0, sizeof(c->lease));
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
	if (s->claims->pids != pid_namespace())
		forget_pids(s->claims);
	page_repair(s->page);
	return 0;
}

int state_open(const struct rundir *d, struct state *s)
{
	int err;

	*s = (struct state){ .page_fd = -1 };
	err = take_over(d, s);
	if (err && err != -EEXIST) {
		state_remove(d);
		err = map_both(d, O_CREAT | O_EXCL, s);
	}
	if (err == -EEXIST) {
		log_line(LOG_ERROR, "%s/" CONTROL_OWN " has a page or claims that weft did not make; next: move them elsewhere",
			 d->path);
		return err;
	}
	if (err) {
		state_remove(d);
		log_line(LOG_ERROR, "no room for %zu KiB of state in %s: %s; next: make room there, or set WEFT_DIR elsewhere",
			 (sizeof(*s->page) + sizeof(*s->claims)) >> 10, d->path, strerror(-err));
		return err;
	}
	s->claims->pids = pid_namespace();	/* NOLINT(clang-analyzer-core.NullDereference) ; as above */
	s->claims->version = CLAIMS_VERSION;
	s->claims->magic = CLAIMS_MAGIC;
	return 0;
}

void state_close(const struct rundir *d, struct state *s, bool is_needed)
{
	if (!is_needed)
		state_remove(d);
	unmap(s);
}

bool state_is_needed(const struct claims *c)
{
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (c->slot[i].first == i && state_holder_lives(&c->slot[i].holder))
			return true;
	}
	return false;
}

static bool has_lease(const struct claims *c)
{
	for (int i = 0; i < STATE_LEASES; i++) {
		if (c->lease[i].pid && state_holder_lives(&c->lease[i]))
			return true;
	}
	return false;
}

bool state_is_over(const struct rundir *d, bool any_version)
{
	struct claims *c;
	void *memory;
	bool is_over;
	int err = map_file(d, names[1], 0, sizeof(*c), &memory);

	if (err)
		return err == -ENOENT || (err == -EINVAL && any_version);
	c = memory;
	if (c->magic != CLAIMS_MAGIC || c->version != CLAIMS_VERSION)
		is_over = any_version;
	else
		is_over = c->pids == pid_namespace() && !state_is_needed(c) && !has_lease(c);
	munmap(memory, sizeof(*c));
	return is_over;
}

/* 0: there is no such process, or only its parent has not noticed yet that it is dead. */
static uint64_t start_of(int pid)
{
	struct proc_stat s;

	return proc_stat_read(pid, &s) && proc_stat_lives(&s) ? s.start : 0;
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
