/* Whether a region may move, its pages, and fork. /proc/self/maps is the truth about what was moved and is still there:
 * programs unmap, free and map again as they like. */
#include "host/remap.h"

#include "base/log.h"
#include "host/config.h"
#include "host/internal.h"
#include "host/maps.h"
#include "host/pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MOST_REGIONS = 1 << 13,	/* our choice: each costs up to four mappings, together half of those that the kernel allows */
	FAR_FD = 900,		/* away from the numbers that programs count on */
	STACK_IN_USE = 64 << 10,	/* our choice: more than our own calls need */
};

static const uint64_t FILE_BYTES = 256ull << 30;	/* our choice, as the shared heap's: hundreds fit in a peer's addresses */
static const uint64_t FILE_ALIGN = 2ull << 20;		/* of huge pages */

struct range {
	uint64_t start, end;
};

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct range pages_of(const struct mr *mr)
{
	uint64_t start = (uintptr_t)mr->memory, mask = page_bytes() - 1;

	return (struct range){ start & ~mask, (start + mr->length + mask) & ~mask };
}

static bool overlap(struct range a, struct range b)
{
	return a.start < b.end && b.start < a.end;
}

static struct range common(struct range r, const struct mapping *m)
{
	return (struct range){ m->start > r.start ? m->start : r.start, m->end < r.end ? m->end : r.end };
}

/* ---- files ---- */

static bool is_open(const struct remap_file *f)
{
	struct stat st;

	return fstat(f->fd, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode;
}

static bool holds(const struct remap_file *f, struct range r)
{
	return r.start >= f->base && r.end - f->base <= FILE_BYTES;
}

static int make_file(struct remap_file *f, uint64_t base)
{
	int near = memfd_create("weft-remap", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd;
	struct stat st;

	if (near < 0)
		return -errno;
	fd = fcntl(near, F_DUPFD_CLOEXEC, FAR_FD);
	if (fd < 0)
		fd = near;
	else
		close(near);
	if (ftruncate(fd, (off_t)FILE_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
	    fstat(fd, &st) < 0) {
		close(fd);
		return -ENOMEM;
	}
	*f = (struct remap_file){ .base = base, .fd = fd, .device = st.st_dev, .inode = st.st_ino };
	return 0;
}

/* The file for the range, made with the range in its middle if there is none. */
static struct remap_file *file_for(struct remap *rm, struct range r)
{
	struct rlimit limit;
	uint64_t middle = (r.start + (r.end - r.start) / 2) & ~(FILE_ALIGN - 1);

	/* what is written behind the limit is answered with a signal */
	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur < FILE_BYTES)
		return NULL;
	for (uint32_t i = 0; i < rm->files; i++)
		if (holds(&rm->file[i], r))
			return is_open(&rm->file[i]) ? &rm->file[i] : NULL;
	if (rm->files == REMAP_FILES || r.end - r.start > FILE_BYTES / 2 ||
	    make_file(&rm->file[rm->files], middle > FILE_BYTES / 2 ? middle - FILE_BYTES / 2 : 0) < 0)
		return NULL;
	return &rm->file[rm->files++];
}

static const struct remap_file *file_behind(const struct remap *rm, const struct mapping *m)
{
	for (uint32_t i = 0; m->is_shared && i < rm->files; i++)
		if (m->device == rm->file[i].device && m->inode == rm->file[i].inode)
			return &rm->file[i];
	return NULL;
}

static bool is_in_place(const struct remap_file *f, const struct mapping *m)
{
	return m->start - f->base == m->offset;
}

/* mremap by the program: then two addresses may mean one place of a file. */
static void look_for_strays(struct remap *rm)
{
	FILE *maps = rm->files ? maps_open() : NULL;
	struct mapping m;

	while (maps && maps_next(maps, &m)) {
		const struct remap_file *f = file_behind(rm, &m);

		rm->is_over = rm->is_over || (f && !is_in_place(f, &m));
	}
	if (maps)
		fclose(maps);
}

/* ---- may it move? ---- */

/* The kernel writes to stacks, for signals and restartable sequences, and kills whoever has none. A thread's list of robust
 * futexes is in its control block at the top of its stack; the first thread's is elsewhere, and its stack has a name. */
static bool holds_stack(const struct mapping *m, struct range r)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *e;
	bool found = false;

	while (tasks && !found && (e = readdir(tasks))) {
		pid_t tid = (pid_t)atoi(e->d_name);
		uint64_t head = 0, bytes, top;

		if (tid <= 0 || syscall(SYS_get_robust_list, tid, &head, &bytes) < 0 || head < m->start || head >= m->end)
			continue;
		top = (head & ~(page_bytes() - 1)) + 2 * page_bytes();
		found = overlap(r, (struct range){ tid == getpid() ? head : m->start, top });
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static bool has_any(const char *flags, const char *const *names)
{
	for (; *names; names++)
		if (maps_has_flag(flags, *names))
			return true;
	return false;
}

/* Linux, Documentation/filesystems/proc.rst, VmFlags. */
static enum remap_verdict judge_mapping(const struct mapping *m, const char *flags, struct range r)
{
	static const char *const locked[] = { "lo", "ht", "io", "pf", "sl", NULL }, *const fork[] = { "dc", "wf", NULL };
	static const char *const watched[] = { "um", "uw", "ui", NULL };

	if (m->is_shared)
		return REMAP_SHARED;
	if (m->inode)
		return REMAP_FILE;
	if (!m->is_readable || !m->is_writable || m->is_executable)
		return REMAP_RIGHTS;
	if (m->is_stack || holds_stack(m, r))
		return REMAP_STACK;
	if (has_any(flags, locked))
		return REMAP_LOCKED;
	if (has_any(flags, fork))
		return REMAP_FORK;
	return has_any(flags, watched) ? REMAP_WATCHED : REMAP_DONE;
}

/* For a region that has moved before, its flags are known: reading them takes long. */
static enum remap_verdict judge_mappings(const struct remap *rm, const struct mr *mr, struct range r)
{
	bool known = mr->placed == REMAP_DONE;
	FILE *maps = known ? maps_open() : maps_open_flags();
	char flags[MAPS_FLAGS] = "";
	struct mapping m;
	enum remap_verdict v = REMAP_DONE;
	uint64_t at = r.start;

	while (maps && v == REMAP_DONE && at < r.end && (known ? maps_next(maps, &m) : maps_next_flags(maps, &m, flags))) {
		if (m.end <= at)
			continue;
		if (m.start > at)
			break;
		at = m.end;
		if (!file_behind(rm, &m))
			v = judge_mapping(&m, flags, r);
	}
	if (maps)
		fclose(maps);
	return v == REMAP_DONE && at < r.end ? REMAP_SYSTEM : v;
}

/* Peers may be writing into private pages of this one by system calls, which nothing holds up. */
static bool has_neighbour(struct ca *ca, const struct mr *self, struct range r)
{
	uint32_t cursor = 0;
	const struct mr *mr;

	while ((mr = table_next(&ca->keys, &cursor)))
		if (mr != self && mr->shown && !mr->is_mapped && overlap(pages_of(mr), r))
			return true;
	return false;
}

static bool is_our_stack(struct range r)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	return overlap(r, (struct range){ here - STACK_IN_USE, here + STACK_IN_USE });
}

static enum remap_verdict judge(struct host *h, const struct mr *mr, struct range r)
{
	if (mr->length < config_get()->remap_bytes)
		return REMAP_SMALL;
	if (h->direct.remap.regions >= MOST_REGIONS && mr->placed != REMAP_DONE)
		return REMAP_MANY;
	look_for_strays(&h->direct.remap);
	if (h->direct.remap.is_over)
		return REMAP_TAKEN;
	if (is_our_stack(r))
		return REMAP_STACK;
	if (has_neighbour(&h->ca, mr, r))
		return REMAP_NEIGHBOUR;
	return judge_mappings(&h->direct.remap, mr, r);
}

/* ---- moving ---- */

static void punch(const struct remap_file *f, struct range r)
{
	if (r.start < r.end)
		fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(r.start - f->base),
			  (off_t)(r.end - r.start));
}

static int share_piece(int pages, const struct remap_file *f, struct range r)
{
	punch(f, r);
	return pages_share(pages, (void *)(uintptr_t)r.start, r.end - r.start, f->fd, r.start - f->base);
}

static int unshare_piece(int pages, const struct remap_file *f, struct range r)
{
	int err = pages_unshare(pages, (void *)(uintptr_t)r.start, r.end - r.start, f->fd, r.start - f->base);

	if (err == 0)
		punch(f, r);
	return err;
}

typedef int move_piece(int pages, const struct remap_file *f, struct range r);

/* Mappings that follow each other move as one. */
static int move_mappings(const struct remap *rm, const struct remap_file *f, struct range r, move_piece *piece, int pages)
{
	FILE *maps = maps_open();
	struct range now = { r.start, r.start };
	struct mapping m;
	int err = maps ? 0 : -ENOENT;

	while (err == 0 && maps_next(maps, &m) && m.start < r.end) {
		const struct remap_file *behind = file_behind(rm, &m);

		if (m.end <= r.start || (piece == share_piece ? behind != NULL : behind != f || !is_in_place(f, &m)))
			continue;
		if (now.end < m.start) {
			err = piece(pages, f, now);
			now.start = m.start;
		}
		now.end = common(r, &m).end;
	}
	if (maps)
		fclose(maps);
	return err ? err : piece(pages, f, now);
}

/* Whatever of the range is private (share_piece) or in the file (unshare_piece). */
static int move(const struct remap *rm, const struct remap_file *f, struct range r, move_piece *piece)
{
	bool kernel_waits;
	int pages = pages_open(&kernel_waits), err = pages < 0 ? pages : move_mappings(rm, f, r, piece, pages);

	if (pages >= 0)
		close(pages);
	return err;
}

/* A mapping of a file that grows by mremap, as realloc does it, would run into its neighbour in the file. Two mappings do not
 * grow, and realloc copies. So the last page is told apart, by advice that means nothing to memory. */
static void forbid_growth(struct range r)
{
	madvise((void *)(uintptr_t)(r.end - page_bytes()), page_bytes(), MADV_RANDOM);
}

static enum remap_verdict try_enter(struct host *h, const struct mr *mr)
{
	struct range r = pages_of(mr);
	enum remap_verdict v = judge(h, mr, r);
	const struct remap_file *f;
	int err;

	if (v != REMAP_DONE)
		return v;
	f = file_for(&h->direct.remap, r);
	if (!f)
		return REMAP_FAR;
	err = move(&h->direct.remap, f, r, share_piece);
	if (err) {
		log_line(LOG_INFO, "memory of a region stays private: %s", strerror(-err));
		return REMAP_SYSTEM;
	}
	forbid_growth(r);
	return REMAP_DONE;
}

/* The next piece of the range from *start on that is in no other region which peers map, or write into by system calls. */
static bool find_unused(struct ca *ca, const struct mr *self, uint64_t end, uint64_t *start, uint64_t *stop)
{
	const struct mr *mr;
	bool again = true;

	while (again && *start < end) {
		uint32_t cursor = 0;

		again = false;
		*stop = end;
		while ((mr = table_next(&ca->keys, &cursor))) {
			struct range r = pages_of(mr);

			if (mr == self || (!mr->is_mapped && !mr->shown) || r.end <= *start || r.start >= *stop)
				continue;
			if (r.start <= *start) {
				*start = r.end;
				again = true;
			} else {
				*stop = r.start;
			}
		}
	}
	return *start < end;
}

/* What the program has unmapped is given back too. */
static void take_back(const struct remap *rm, struct range r)
{
	for (uint32_t i = 0; i < rm->files; i++) {
		const struct remap_file *f = &rm->file[i];
		int err;

		if (!holds(f, r) || !is_open(f))
			continue;
		err = move(rm, f, r, unshare_piece);
		if (err)
			log_line(LOG_WARNING, "memory of a region stays shared: %s", strerror(-err));
		else if (!rm->is_over)
			punch(f, r);
	}
}

static void leave(struct host *h, const struct mr *mr)
{
	struct range r = pages_of(mr);
	uint64_t stop;

	look_for_strays(&h->direct.remap);
	for (uint64_t at = r.start; find_unused(&h->ca, mr, r.end, &at, &stop); at = stop)
		take_back(&h->direct.remap, (struct range){ at, stop });
}

static void place(struct host *h, struct mr *mr, enum remap_verdict v)
{
	h->direct.remap.regions += (v == REMAP_DONE) - (mr->placed == REMAP_DONE);
	mr->placed = v;
}

void remap_enter(struct host *h, struct mr *mr)
{
	enum remap_verdict v;

	if (!config_get()->remap_bytes || mr->kind != MR_MEMORY)
		return;
	v = try_enter(h, mr);
	if (v == REMAP_SYSTEM)
		leave(h, mr);
	place(h, mr, v);
}

void remap_leave(struct host *h, struct mr *mr, enum remap_verdict v)
{
	if (h->direct.remap.files && mr->kind == MR_MEMORY)
		leave(h, mr);
	mr->is_mapped = false;
	place(h, mr, v);
}

/* ---- fork ---- */

/* The first and last page, where others' memory may be. */
static void take_edges_back(const struct remap *rm, const struct mr *mr)
{
	struct range r = pages_of(mr);

	if ((uintptr_t)mr->memory != r.start)
		take_back(rm, (struct range){ r.start, r.start + page_bytes() });
	if ((uintptr_t)mr->memory + mr->length != r.end)
		take_back(rm, (struct range){ r.end - page_bytes(), r.end });
}

void remap_before_fork(struct host *h)
{
	uint32_t cursor = 0;
	struct mr *mr;

	if (!h->direct.remap.regions)
		return;
	while ((mr = table_next(&h->ca.keys, &cursor)))
		if (mr->shown && !direct_hide_region(h, mr))
			return;		/* a peer stands still: the pages stay */
	look_for_strays(&h->direct.remap);
	cursor = 0;
	while ((mr = table_next(&h->ca.keys, &cursor)))
		if (mr->placed == REMAP_DONE)
			take_edges_back(&h->direct.remap, mr);
}

void remap_after_fork(struct host *h)
{
	uint32_t cursor = 0;
	struct mr *mr;

	if (!h->direct.remap.regions)
		return;
	while ((mr = table_next(&h->ca.keys, &cursor)))
		if (mr->placed == REMAP_DONE)
			remap_enter(h, mr);
	cursor = 0;
	while ((mr = table_next(&h->ca.keys, &cursor)))
		if (!mr->shown)
			direct_show_placed(h, mr);
}

static void make_private(const struct remap_file *f, const struct mapping *m)
{
	int rights = (m->is_readable ? PROT_READ : 0) | (m->is_writable ? PROT_WRITE : 0);

	/* cppcheck-suppress leakReturnValNotUsed ; it replaces the mapping there is */
	if (mmap((void *)(uintptr_t)m->start, m->end - m->start, rights, MAP_PRIVATE | MAP_FIXED, f->fd,
		 (off_t)m->offset) == MAP_FAILED)
		log_line(LOG_ERROR, "a region's memory stays shared with the parent: %s", strerror(errno));
}

void remap_forget(struct host *h)
{
	struct remap *rm = &h->direct.remap;
	FILE *maps = rm->files ? maps_open() : NULL;
	struct mapping m;

	while (maps && maps_next(maps, &m)) {
		const struct remap_file *f = file_behind(rm, &m);

		if (f && is_open(f))
			make_private(f, &m);
	}
	if (maps)
		fclose(maps);
	for (uint32_t i = 0; i < rm->files; i++)
		if (is_open(&rm->file[i]))
			close(rm->file[i].fd);
	rm->files = 0;
}

/* ---- for people ---- */

const char *remap_reason(int placed)
{
	static const char *const texts[] = {
		[REMAP_DONE] = "moved", [REMAP_SMALL] = "small", [REMAP_SHARED] = "shared already",
		[REMAP_FILE] = "mapping of a file", [REMAP_STACK] = "stack", [REMAP_RIGHTS] = "not readable and writable",
		[REMAP_LOCKED] = "locked, or huge pages by name", [REMAP_FORK] = "not for children of a fork",
		[REMAP_WATCHED] = "watched by a userfaultfd",
		[REMAP_NEIGHBOUR] = "pages of another region", [REMAP_MANY] = "too many regions", [REMAP_FAR] = "no file for it",
		[REMAP_TAKEN] = "the program moves it itself (mremap)", [REMAP_SYSTEM] = "refused by the system",
	};

	return placed > 0 && (size_t)placed < sizeof(texts) / sizeof(texts[0]) ? texts[placed] : NULL;
}
