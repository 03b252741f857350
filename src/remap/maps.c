#include "remap/maps.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

/* Linux, include/uapi/linux/fs.h, PROCMAP_QUERY: headers of before 6.11 do not have it. */
struct question {
	uint64_t size, what, address;
	uint64_t start, end, rights, page_bytes, offset, inode;
	uint32_t major, minor, name_bytes, build_id_bytes;
	uint64_t name, build_id;
};

#define ASK_MAPPING _IOWR('f', 17, struct question)

enum { READABLE = 0x1, WRITABLE = 0x2, EXECUTABLE = 0x4, SHARED = 0x8, OR_NEXT = 0x10 };

FILE *maps_open(void)
{
	return fopen("/proc/self/maps", "re");
}

bool maps_next(FILE *maps, struct mapping *m)
{
	char line[PATH_MAX + 128], rights[5];
	unsigned major, minor;
	uint64_t inode;

	if (!fgets(line, sizeof(line), maps) ||
	    sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
		   &m->start, &m->end, rights, &m->offset, &major, &minor, &inode) != 7)
		return false;
	m->device = makedev(major, minor);
	m->inode = (ino_t)inode;
	m->is_readable = rights[0] == 'r';
	m->is_writable = rights[1] == 'w';
	m->is_executable = rights[2] == 'x';
	m->is_shared = rights[3] == 's';
	m->is_stack = strstr(line, "[stack]");
	return true;
}

/* 0, -ENOENT: there is none, or another error: the kernel does not answer. */
static int ask(FILE *maps, uint64_t from, struct mapping *m)
{
	char name[PATH_MAX];
	struct question q = {
		.size = sizeof(q), .what = OR_NEXT, .address = from, .name = (uintptr_t)name, .name_bytes = sizeof(name),
	};

	memset(name, 0, sizeof("[stack]"));	/* as far as it is compared */
	if (ioctl(fileno(maps), ASK_MAPPING, &q) < 0)
		return -errno;
	*m = (struct mapping){
		.start = q.start, .end = q.end, .offset = q.offset,
		.device = makedev(q.major, q.minor), .inode = (ino_t)q.inode,
		.is_readable = q.rights & READABLE, .is_writable = q.rights & WRITABLE,
		.is_executable = q.rights & EXECUTABLE, .is_shared = q.rights & SHARED,
		.is_stack = strcmp(name, "[stack]") == 0,
	};
	return 0;
}

bool maps_find(FILE *maps, uint64_t from, struct mapping *m)
{
	int err = ask(maps, from, m);

	if (err == 0 || err == -ENOENT)
		return err == 0;
	while (maps_next(maps, m))
		if (m->end > from)
			return true;
	return false;
}

bool maps_can_find(FILE *maps)
{
	struct mapping m;
	int err = ask(maps, 0, &m);

	return err == 0 || err == -ENOENT;
}

FILE *maps_open_flags(void)
{
	return fopen("/proc/self/smaps", "re");
}

/* The flags are the last line of each. */
bool maps_next_flags(FILE *maps, struct mapping *m, char flags[MAPS_FLAGS])
{
	if (!maps_next(maps, m))
		return false;
	while (fgets(flags, MAPS_FLAGS, maps))
		if (strncmp(flags, "VmFlags:", strlen("VmFlags:")) == 0)
			return true;
	return false;
}

bool maps_has_flag(const char *flags, const char *name)
{
	for (const char *at = strchr(flags, ' '); at; at = strchr(at + 1, ' '))
		if (strncmp(at + 1, name, 2) == 0)
			return true;
	return false;
}
