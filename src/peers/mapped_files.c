/* Memory that two processes map: regions of ours in memory files, which weftd hands to peers of the same user, and files
 * of theirs. A file that could become shorter would kill whoever maps it with a signal, so only sealed ones count; the
 * program must still have it open, as the kernel opens a mapping's file for administrators alone. */
#include "peers/mapped_files.h"

#include "base/log.h"
#include "link/memfile.h"
#include "peers/peers.h"
#include "remap/maps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Our choices. weftd answers in microseconds, but has a child take in the owner's descriptor, which may wait for its turn on a
 * busy machine: the pauses double, to more than a second in all. */
enum { MAPPED_TRIES = 15 };

static const wtime FIRST_PAUSE = 50 * WTIME_US;

/* ---- ours ---- */

/* The range as one shared mapping of one file; several that continue each other count as one. */
static bool find_mapping(FILE *maps, uint64_t start, uint64_t end, struct mapping *whole)
{
	struct mapping m;
	uint64_t at = start;

	while (at < end && maps_find(maps, at, &m)) {
		if (m.start > at || !m.is_shared || !m.is_readable || !m.is_writable)
			return false;
		if (at == start)
			*whole = m;
		else if (m.device != whole->device || m.inode != whole->inode ||
			 m.offset != whole->offset + (m.start - whole->start))
			return false;
		at = m.end;
	}
	return at >= end;
}

static bool is_sealed_memory(int fd)
{
	struct statfs fs;

	return memfile_is_fixed(fd, 0) && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

/* The program's own descriptor (not ours to close), or -1. */
static int find_open_file(const struct mapping *m)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	struct stat st;
	int fd, found = -1;

	while (d && found < 0 && (e = readdir(d))) {
		fd = atoi(e->d_name);
		if (e->d_name[0] != '.' && fstat(fd, &st) == 0 && st.st_dev == m->device && st.st_ino == m->inode &&
		    (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && is_sealed_memory(fd))
			found = fd;
	}
	if (d)
		closedir(d);
	return found;
}

/* Gives the file to weftd. Its number, or 0. */
static uint32_t show_file(struct peers *ps, const struct mapping *m)
{
	struct published *pub = &ps->published;
	uint32_t number;
	int fd;

	for (uint32_t i = 0; i < pub->files; i++) {
		if (pub->file[i].device == m->device && pub->file[i].inode == m->inode)
			return pub->file[i].number;
	}
	fd = pub->files < CONTROL_FILES ? find_open_file(m) : -1;
	if (fd < 0 || session_give_file(ps->session, fd, &number) < 0)
		return 0;
	pub->file[pub->files++] = (struct shown_file){ .device = m->device, .inode = m->inode, .number = number };
	return number;
}

/* Does the range begin with private memory, as most do? The page tables know; reading all mappings takes many times as long.
 * Linux, Documentation/admin-guide/mm/pagemap.rst. */
static bool is_private(const struct peers *ps, uint64_t start)
{
	const uint64_t present = 1ull << 63, file_or_shared = 1ull << 61;
	uint64_t page = start / (uint64_t)sysconf(_SC_PAGESIZE), entry;

	return pread(ps->published.pagemap, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) == sizeof(entry) &&
	       (entry & (present | file_or_shared)) == present;
}

uint32_t mapped_find(struct peers *ps, const void *memory, uint64_t bytes, uint64_t *offset)
{
	uint64_t start = (uintptr_t)memory;
	struct mapping m = { 0 };
	uint32_t file = 0;
	FILE *maps;

	if (is_private(ps, start))
		return 0;
	maps = maps_open();
	if (maps && find_mapping(maps, start, start + bytes, &m)) {
		file = show_file(ps, &m);
		*offset = m.offset + (start - m.start);
	}
	if (maps)
		fclose(maps);
	return file;
}

/* ---- theirs ---- */

static void map_file(struct mapped_file *f, int fd)
{
	struct stat st;
	void *base;

	if (!is_sealed_memory(fd) || fstat(fd, &st) < 0 || st.st_size <= 0)
		return;
	base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED)
		return;
	madvise(base, (size_t)st.st_size, MADV_DONTFORK);
	madvise(base, (size_t)st.st_size, MADV_DONTDUMP);
	f->base = base;
	f->bytes = (uint64_t)st.st_size;
}

/* The first time it may be too early: its owner has shown it to us, but weftd has not read that yet. */
static void ask_for(struct peers *ps, struct mapped_file *f, uint32_t slot, uint32_t number)
{
	struct control_msg msg = { .type = CTL_MAP, .slot = slot, .b = number };

	f->is_asked = session_ask(ps->session, &msg) == 0;
	f->next_try = ps->ca->now + (FIRST_PAUSE << f->tries);
	f->tries += f->is_asked;
}

void mapped_answer(struct mapped_files *m, uint32_t file, int fd)
{
	struct mapped_file *f = file && file <= CONTROL_FILES ? &m->file[file - 1] : NULL;

	if (!f || !f->is_asked)
		return;
	f->is_asked = false;
	if (fd < 0)
		return;
	map_file(f, fd);
	f->tries = MAPPED_TRIES;
	if (!f->base)
		log_line(LOG_INFO, "a peer's memory file cannot be mapped: its memory is reached as if it were private");
}

void mapped_unasked(struct mapped_files *m)
{
	for (uint32_t i = 0; i < CONTROL_FILES; i++) {
		m->file[i].tries -= m->file[i].is_asked;
		m->file[i].is_asked = false;
	}
}

void *mapped_reach(struct peers *ps, struct mapped_files *m, uint32_t slot, uint32_t file, uint64_t offset, uint64_t bytes)
{
	struct mapped_file *f;

	if (file == 0 || file > CONTROL_FILES)
		return NULL;
	f = &m->file[file - 1];
	if (!f->base && !f->is_asked && f->tries < MAPPED_TRIES && ps->ca->now >= f->next_try)
		ask_for(ps, f, slot, file);
	if (!f->base || offset > f->bytes || bytes > f->bytes - offset)
		return NULL;
	return f->base + offset;
}

bool mapped_any(const struct mapped_files *m)
{
	for (uint32_t i = 0; i < CONTROL_FILES; i++) {
		if (m->file[i].base)
			return true;
	}
	return false;
}

void mapped_close(struct mapped_files *m)
{
	for (uint32_t i = 0; i < CONTROL_FILES; i++) {
		if (m->file[i].base)
			munmap(m->file[i].base, m->file[i].bytes);
	}
}
