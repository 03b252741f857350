#include "host/maps.h"

#include <inttypes.h>
#include <limits.h>
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

	if (!fgets(line, sizeof(line), maps) || sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &m->start, &m->end,
						       rights, &m->offset, &major, &minor, &inode) != 7)
		return false;
	m->device = makedev(major, minor);
	m->inode = (ino_t)inode;
	m->is_readable = rights[0] == 'r';
	m->is_writable = rights[1] == 'w';
	m->is_shared = rights[3] == 's';
	return true;
}
