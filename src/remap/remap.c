/* Whether a region may move, its pages, and fork. /proc/self/maps is the truth about what was moved and is still there:
 * programs unmap, free and map again as they like. */
#include "remap/remap.h"

#include "base/log.h"
#include "link/memfile.h"
#include "remap/maps.h"
#include "remap/movable.h"
#include "remap/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MOST_REGIONS = 1 << 13,	/* our choice: each costs up to four mappings, together half of those that the kernel allows */
	STACK_IN_USE = 64 << 10,	/* our choice: more than our own calls need */
	LOOKS = 64,	/* our choice: so many mappings are looked at in less time than a region takes */
};

static const uint64_t FILE_ALIGN = 2ull << 20;		/* of huge pages */

static struct range pages_of(const struct mr *mr)
{
	uint64_t start = (uintptr_t)mr->memory, mask = page_bytes() - 1;

	return (struct range){ start & ~mask, (start + mr->length + mask) & ~mask };
}

void remap_init(struct remap *rm, struct ca *ca, uint64_t least_bytes)
{
	*rm = (struct remap){ .ca = ca, .least_bytes = least_bytes };
	ranges_init(&rm->in_private);
	ranges_init(&rm->in_files);
	ranges_init(&rm->in_others);
}

/* ---- files ---- */

static bool is_open(const struct remap_fd *f)
{
	struct stat st;

	return f->inode && fstat(f->fd, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode;
}

/* Closes fd when it fails. */
static int keep_open(struct remap_fd *f, int fd)
{
	struct stat st;

	fd = memfile_move_away(fd);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return -ENOMEM;
	}
	*f = (struct remap_fd){ .fd = fd, .device = st.st_dev, .inode = st.st_ino };
	return 0;
}

static void close_kept(struct remap_fd *f)
{
	if (is_open(f))
		close(f->fd);
	*f = (struct remap_fd){ 0 };
}

static bool holds(const struct remap_file *f, struct range r)
{
	return r.start >= f->base && r.end - f->base <= MEMFILE_STRETCH_MOST;
}

static int make_file(struct remap_file *f, uint64_t base)
{
	int fd = memfile_create_fixed("weft-remap", MEMFILE_STRETCH_MOST);

	if (fd < 0)
		return fd;
	f->base = base;
	return keep_open(&f->memory, fd);
}

/* The file for the range, made with the range in its middle if there is none. */
static struct remap_file *file_for(struct remap *rm, struct range r)
{
	struct rlimit limit;
	uint64_t middle = (r.start + (r.end - r.start) / 2) & ~(FILE_ALIGN - 1);

	/* what is written behind the limit is answered with a signal */
	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur < MEMFILE_STRETCH_MOST)
		return NULL;
	for (uint32_t i = 0; i < rm->files; i++)
		if (holds(&rm->file[i], r))
			return is_open(&rm->file[i].memory) ? &rm->file[i] : NULL;
	if (rm->files == REMAP_FILES || r.end - r.start > MEMFILE_STRETCH_MOST / 2 ||
	    make_file(&rm->file[rm->files], middle > MEMFILE_STRETCH_MOST / 2 ? middle - MEMFILE_STRETCH_MOST / 2 : 0) < 0)
		return NULL;
	return &rm->file[rm->files++];
}

const struct remap_file *remap_file_behind(const struct remap *rm, const struct mapping *m)
{
	for (uint32_t i = 0; m->is_shared && i < rm->files; i++)
		if (m->device == rm->file[i].memory.device && m->inode == rm->file[i].memory.inode)
			return &rm->file[i];
	return NULL;
}

static bool is_in_place(const struct remap_file *f, const struct mapping *m)
{
	return m->start - f->base == m->offset;
}

/* ---- mremap by the program: then two addresses may mean one place of a file ---- */

static bool is_stray(const struct remap *rm, const struct mapping *m)
{
	const struct remap_file *f = remap_file_behind(rm, m);

	return f && !is_in_place(f, m);
}

static void look_for_strays(struct remap *rm)
{
	FILE *maps = rm->files ? maps_open() : NULL;
	struct mapping m = { 0 };

	rm->mappings = rm->due = 0;
	while (maps && maps_find(maps, m.end, &m)) {
		rm->mappings++;
		rm->is_over = rm->is_over || is_stray(rm, &m);
	}
	if (maps)
		fclose(maps);
}

/* Is something else where memory of our files should be? Then the program has unmapped that, or moved it elsewhere. */
static bool is_something_gone(const struct remap *rm, struct range r)
{
	FILE *maps;
	struct mapping m = { .end = r.start };
	bool gone = false;

	if (!ranges_meet(&rm->in_files, r))
		return false;
	maps = maps_open();
	while (!gone && m.end < r.end) {
		struct range other = { m.end, r.end };
		bool found = maps && maps_find(maps, m.end, &m) && m.start < r.end;

		if (!found)
			m = (struct mapping){ .start = r.end, .end = r.end };
		else if (!remap_file_behind(rm, &m) || is_stray(rm, &m))
			other.end = m.end < r.end ? m.end : r.end;
		else
			other.end = m.start;
		gone = other.start < other.end && ranges_meet(&rm->in_files, other);
	}
	if (maps)
		fclose(maps);
	return gone;
}

/* A place of a file that the program has not touched is mapped where it should be or nowhere, so it is enough to look at
 * all mappings when something is gone from there. They are looked at now and then as well, as MREMAP_DONTUNMAP shows nothing:
 * for each region where they are few. */
static void look_if_needed(struct remap *rm, struct range r)
{
	if (rm->has_looked)
		return;
	rm->due += LOOKS;
	if (rm->due >= rm->mappings || is_something_gone(rm, r))
		look_for_strays(rm);
}

/* ---- may it move? ---- */

static bool is_our_stack(struct range r)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	return range_overlaps(r, (struct range){ here - STACK_IN_USE, here + STACK_IN_USE });
}

/* pages_open, once. */
static int open_pages(struct remap *rm)
{
	bool kernel_waits;
	int fd, err;

	if (is_open(&rm->pages))
		return rm->pages.fd;
	fd = pages_open(&kernel_waits);
	if (fd < 0)
		return fd;
	err = keep_open(&rm->pages, fd);
	return err ? err : rm->pages.fd;
}

static enum remap_verdict judge(struct remap *rm, const struct mr *mr, struct range r)
{
	int pages;

	if (mr->length < rm->least_bytes)
		return REMAP_SMALL;
	if (rm->regions >= MOST_REGIONS && region_of(mr)->placed != REMAP_DONE)
		return REMAP_MANY;
	look_if_needed(rm, r);
	if (rm->is_over)
		return REMAP_TAKEN;
	if (is_our_stack(r))
		return REMAP_STACK;
	/* peers may be writing into private pages by system calls, which nothing holds up */
	if (ranges_meet(&rm->in_private, r))
		return REMAP_NEIGHBOUR;
	pages = open_pages(rm);
	if (pages < 0) {
		log_line(LOG_INFO, "memory of a region stays private: %s", strerror(-pages));
		return REMAP_SYSTEM;
	}
	return movable_judge(rm, pages, r, region_of(mr)->placed == REMAP_DONE);
}

/* ---- moving ---- */

static void punch(const struct remap_file *f, struct range r)
{
	if (r.start < r.end)
		fallocate(f->memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(r.start - f->base),
			  (off_t)(r.end - r.start));
}

static int share_piece(int pages, const struct remap_file *f, struct range r)
{
	punch(f, r);
	return pages_share(pages, (void *)(uintptr_t)r.start, r.end - r.start, f->memory.fd, r.start - f->base);
}

static int unshare_piece(int pages, const struct remap_file *f, struct range r)
{
	return pages_unshare(pages, (void *)(uintptr_t)r.start, r.end - r.start, f->memory.fd, r.start - f->base);
}

typedef int move_piece(int pages, const struct remap_file *f, struct range r);

/* Mappings that follow each other move as one. */
static int move_mappings(const struct remap *rm, const struct remap_file *f, struct range r, move_piece *piece, int pages)
{
	FILE *maps = maps_open();
	struct range now = { r.start, r.start };
	struct mapping m = { .end = r.start };
	int err = maps ? 0 : -ENOENT;

	while (err == 0 && maps_find(maps, m.end, &m) && m.start < r.end) {
		const struct remap_file *behind = remap_file_behind(rm, &m);

		if (piece == share_piece ? behind != NULL : behind != f || !is_in_place(f, &m))
			continue;
		if (now.end < m.start) {
			err = piece(pages, f, now);
			now.start = m.start;
		}
		now.end = range_common(r, maps_range(&m)).end;
	}
	if (maps)
		fclose(maps);
	return err ? err : piece(pages, f, now);
}

/* Whatever of the range is private (share_piece) or in the file (unshare_piece). */
static int move(struct remap *rm, const struct remap_file *f, struct range r, move_piece *piece)
{
	int pages = open_pages(rm);

	return pages < 0 ? pages : move_mappings(rm, f, r, piece, pages);
}

/* A mapping of a file that grows by mremap, as realloc does it, would run into its neighbour in the file. Two mappings do not
 * grow, and realloc copies. So the last page is told apart, by advice that means nothing to memory. */
static void forbid_growth(struct range r)
{
	madvise((void *)(uintptr_t)(r.end - page_bytes()), page_bytes(), MADV_RANDOM);
}

static enum remap_verdict try_enter(struct remap *rm, const struct mr *mr)
{
	struct range r = pages_of(mr);
	enum remap_verdict v = judge(rm, mr, r);
	const struct remap_file *f;
	int err;

	if (v != REMAP_DONE)
		return v;
	f = file_for(rm, r);
	if (!f)
		return REMAP_FAR;
	err = move(rm, f, r, share_piece);
	if (err) {
		log_line(LOG_INFO, "memory of a region stays private: %s", strerror(-err));
		return REMAP_SYSTEM;
	}
	forbid_growth(r);
	return REMAP_DONE;
}

/* The next piece of the range from *start on that is in no region which peers map, or write into by system calls. */
static bool find_unused(const struct remap *rm, uint64_t end, uint64_t *start, uint64_t *stop)
{
	const struct ranges *const used[] = { &rm->in_private, &rm->in_files, &rm->in_others };
	bool again = true;

	while (again && *start < end) {
		again = false;
		*stop = end;
		for (unsigned i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
			uint64_t reach = ranges_reach(used[i], *start), next = ranges_next(used[i], *start);

			if (reach > *start) {
				*start = reach;
				again = true;
			}
			if (next < *stop)
				*stop = next;
		}
	}
	return *start < end;
}

/* What the program has unmapped is given back too; but not what it may have elsewhere. */
static void take_back(struct remap *rm, struct range r)
{
	for (uint32_t i = 0; i < rm->files; i++) {
		const struct remap_file *f = &rm->file[i];
		int err;

		if (!holds(f, r) || !is_open(&f->memory))
			continue;
		err = move(rm, f, r, unshare_piece);
		if (err)
			log_line(LOG_WARNING, "memory of a region stays shared: %s", strerror(-err));
		else if (!rm->is_over)
			punch(f, r);
	}
}

/* What no other region needs. */
static void leave(struct remap *rm, struct mr *mr)
{
	struct range r = pages_of(mr);
	uint64_t stop;

	look_if_needed(rm, r);
	ranges_remove(&region_of(mr)->pages);
	for (uint64_t at = r.start; find_unused(rm, r.end, &at, &stop); at = stop)
		take_back(rm, (struct range){ at, stop });
}

static void place(struct remap *rm, struct mr *mr, enum remap_verdict v)
{
	rm->regions += (v == REMAP_DONE) - (region_of(mr)->placed == REMAP_DONE);
	region_of(mr)->placed = v;
}

void remap_enter(struct remap *rm, struct mr *mr)
{
	enum remap_verdict v;

	if (!rm->least_bytes || mr->kind != MR_MEMORY)
		return;
	v = try_enter(rm, mr);
	if (v == REMAP_SYSTEM)
		leave(rm, mr);
	place(rm, mr, v);
}

void remap_leave(struct remap *rm, struct mr *mr, enum remap_verdict v)
{
	if (rm->files && mr->kind == MR_MEMORY)
		leave(rm, mr);
	ranges_remove(&region_of(mr)->pages);
	region_of(mr)->is_mapped = false;
	place(rm, mr, v);
}

static bool is_in_files(const struct remap *rm, const struct mr *mr)
{
	FILE *maps = rm->files ? maps_open() : NULL;
	struct mapping m;
	const struct remap_file *f = maps && maps_find(maps, (uintptr_t)mr->memory, &m) ? remap_file_behind(rm, &m) : NULL;

	if (maps)
		fclose(maps);
	return f && is_in_place(f, &m);
}

void remap_shown(struct remap *rm, struct mr *mr)
{
	struct region *g = region_of(mr);
	struct range r = pages_of(mr);

	ranges_remove(&g->pages);
	if (!rm->least_bytes || !g->published || r.start >= r.end)
		return;
	ranges_insert(!g->is_mapped ? &rm->in_private : is_in_files(rm, mr) ? &rm->in_files : &rm->in_others, &g->pages, r);
}

void remap_hidden(struct mr *mr)
{
	if (!region_of(mr)->is_mapped)
		ranges_remove(&region_of(mr)->pages);
}

/* ---- fork ---- */

static bool is_moved(const struct mr *mr)
{
	return mr->direct && region_of(mr)->placed == REMAP_DONE;
}

/* The first and last page, where others' memory may be. */
static void take_edges_back(struct remap *rm, const struct mr *mr)
{
	struct range r = pages_of(mr);

	if ((uintptr_t)mr->memory != r.start)
		take_back(rm, (struct range){ r.start, r.start + page_bytes() });
	if ((uintptr_t)mr->memory + mr->length != r.end)
		take_back(rm, (struct range){ r.end - page_bytes(), r.end });
}

void remap_before_fork(struct remap *rm)
{
	uint32_t cursor = 0;
	const struct mr *mr;

	look_for_strays(rm);
	while ((mr = table_next(&rm->ca->keys, &cursor)))
		if (is_moved(mr))
			take_edges_back(rm, mr);
}

void remap_after_fork(struct remap *rm)
{
	uint32_t cursor = 0;
	struct mr *mr;

	look_for_strays(rm);
	rm->has_looked = true;
	while ((mr = table_next(&rm->ca->keys, &cursor)))
		if (is_moved(mr))
			remap_enter(rm, mr);
	rm->has_looked = false;
}

static void make_private(const struct remap_file *f, const struct mapping *m)
{
	int rights = (m->is_readable ? PROT_READ : 0) | (m->is_writable ? PROT_WRITE : 0);

	/* cppcheck-suppress leakReturnValNotUsed ; it replaces the mapping there is */
	if (mmap((void *)(uintptr_t)m->start, m->end - m->start, rights, MAP_PRIVATE | MAP_FIXED, f->memory.fd,
		 (off_t)m->offset) == MAP_FAILED)
		log_line(LOG_ERROR, "a region's memory stays shared with the parent: %s", strerror(errno));
}

void remap_forget(struct remap *rm)
{
	FILE *maps = rm->files ? maps_open() : NULL;
	struct mapping m;

	while (maps && maps_next(maps, &m)) {
		const struct remap_file *f = remap_file_behind(rm, &m);

		if (f && is_open(&f->memory))
			make_private(f, &m);
	}
	if (maps)
		fclose(maps);
	for (uint32_t i = 0; i < rm->files; i++)
		close_kept(&rm->file[i].memory);
	close_kept(&rm->pages);
	rm->files = 0;
}

/* ---- for people ---- */

const char *remap_reason(enum remap_verdict placed)
{
	static const char *const texts[] = {
		[REMAP_DONE] = "moved", [REMAP_SMALL] = "small", [REMAP_SHARED] = "shared already",
		[REMAP_FILE] = "mapping of a file", [REMAP_STACK] = "stack", [REMAP_RIGHTS] = "not readable and writable",
		[REMAP_LOCKED] = "locked, or huge pages by name", [REMAP_FORK] = "not for children of a fork",
		[REMAP_WATCHED] = "watched by a userfaultfd",
		[REMAP_NEIGHBOUR] = "pages of another region", [REMAP_MANY] = "too many regions", [REMAP_FAR] = "no file for it",
		[REMAP_TAKEN] = "the program moves it itself (mremap)", [REMAP_SYSTEM] = "refused by the system",
	};

	return (size_t)placed < sizeof(texts) / sizeof(texts[0]) ? texts[placed] : NULL;
}
