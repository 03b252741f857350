/* The kernel lists a mapping's flags in /proc/self/smaps, behind those of all mappings below, whose pages it counts. Most have
 * none that matters here, which calls that change nothing tell as well. */
#include "remap/movable.h"

#include "remap/maps.h"
#include "remap/pages.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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
		found = range_overlaps(r, (struct range){ tid == getpid() ? head : m->start, top });
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static enum remap_verdict judge_rights(const struct mapping *m, struct range r)
{
	if (m->is_shared)
		return REMAP_SHARED;
	if (m->inode)
		return REMAP_FILE;
	if (!m->is_readable || !m->is_writable || m->is_executable)
		return REMAP_RIGHTS;
	return m->is_stack || holds_stack(m, r) ? REMAP_STACK : REMAP_DONE;
}

/* ---- flags that the kernel lists ---- */

static bool has_any(const char *flags, const char *const *names)
{
	for (; *names; names++)
		if (maps_has_flag(flags, *names))
			return true;
	return false;
}

/* Linux, Documentation/filesystems/proc.rst, VmFlags. */
static enum remap_verdict judge_listed(const char *flags)
{
	static const char *const locked[] = { "lo", "ht", "io", "pf", "sl", NULL }, *const fork[] = { "dc", "wf", NULL };
	static const char *const watched[] = { "um", "uw", "ui", NULL };

	if (has_any(flags, locked))
		return REMAP_LOCKED;
	if (has_any(flags, fork))
		return REMAP_FORK;
	return has_any(flags, watched) ? REMAP_WATCHED : REMAP_DONE;
}

static enum remap_verdict judge_list(const struct remap *rm, struct range r)
{
	FILE *maps = maps_open_flags();
	enum remap_verdict v = REMAP_DONE;
	char flags[MAPS_FLAGS];
	struct mapping m;
	uint64_t at = r.start;

	while (maps && v == REMAP_DONE && at < r.end && maps_next_flags(maps, &m, flags)) {
		if (m.end <= at)
			continue;
		if (m.start > at)
			break;
		at = m.end;
		if (!remap_file_behind(rm, &m))
			v = judge_rights(&m, r);
		if (v == REMAP_DONE && !remap_file_behind(rm, &m))
			v = judge_listed(flags);
	}
	if (maps)
		fclose(maps);
	return v == REMAP_DONE && at < r.end ? REMAP_SYSTEM : v;
}

/* ---- flags that are found by trying ---- */

static bool advise(uint64_t page, int advice)
{
	return syscall(SYS_madvise, page, page_bytes(), advice) == 0;
}

static bool are_one_mapping(FILE *maps, uint64_t page, uint64_t other)
{
	struct mapping m;

	return maps_find(maps, other, &m) && m.start <= other && m.start <= page && page < m.end;
}

/* A page of a mapping is advised to be as it should be for a fork. If it was not, it is apart from the others of its mapping
 * now: then it gets back what makes it one of them again. REMAP_OFF: that is not told. */
static enum remap_verdict try_fork(FILE *maps, const struct mapping *m, uint64_t page)
{
	uint64_t bytes = page_bytes(), other = page + bytes < m->end ? page + bytes : page - bytes;
	bool copied, kept;

	if (m->end - m->start == bytes)
		return REMAP_OFF;
	copied = advise(page, MADV_DOFORK);
	kept = advise(page, MADV_KEEPONFORK);
	if (are_one_mapping(maps, page, other))
		return copied && kept ? REMAP_DONE : REMAP_OFF;
	advise(page, MADV_DONTFORK);
	if (are_one_mapping(maps, page, other))
		return REMAP_FORK;
	advise(page, MADV_WIPEONFORK);
	if (are_one_mapping(maps, page, other))
		return REMAP_FORK;
	advise(page, MADV_DOFORK);
	if (are_one_mapping(maps, page, other))
		return REMAP_FORK;
	advise(page, MADV_KEEPONFORK);
	return REMAP_OFF;
}

/* Piece: of m. Locked memory is not invalidated (msync(2), EBUSY), sealed memory not given the rights that it has (mseal(2)). */
static enum remap_verdict judge_tried(FILE *maps, int pages, const struct mapping *m, struct range piece)
{
	void *at = (void *)(uintptr_t)piece.start;
	uint64_t bytes = piece.end - piece.start;
	enum remap_verdict v;
	int err;

	if (syscall(SYS_msync, at, bytes, MS_INVALIDATE) < 0 && errno == EBUSY)
		return REMAP_LOCKED;
	if (syscall(SYS_mprotect, at, bytes, PROT_READ | PROT_WRITE) < 0)
		return REMAP_OFF;
	v = try_fork(maps, m, piece.start);
	err = v == REMAP_DONE ? pages_try(pages, at, bytes) : 0;
	if (err)
		return err == -EBUSY ? REMAP_WATCHED : REMAP_OFF;
	return v;
}

enum remap_verdict movable_judge(const struct remap *rm, int pages, struct range r, bool is_known)
{
	FILE *maps = maps_open();
	enum remap_verdict v = maps && (is_known || maps_can_find(maps)) ? REMAP_DONE : REMAP_OFF;
	struct mapping m = { .end = r.start };

	while (v == REMAP_DONE && m.end < r.end) {
		uint64_t at = m.end;

		if (!maps_find(maps, at, &m) || m.start > at) {
			v = REMAP_SYSTEM;
		} else if (!remap_file_behind(rm, &m)) {
			v = judge_rights(&m, r);
			if (v == REMAP_DONE && !is_known)
				v = judge_tried(maps, pages, &m, range_common(r, maps_range(&m)));
		}
	}
	if (maps)
		fclose(maps);
	return v == REMAP_OFF ? judge_list(rm, r) : v;
}
