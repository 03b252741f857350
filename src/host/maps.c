#include "host/maps.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

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
