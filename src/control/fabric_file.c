#include "control/fabric_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

int fabric_file_map(struct fabric *f, int fd, bool is_writer, char *why, size_t room)
{
	int protection = is_writer ? PROT_READ | PROT_WRITE : PROT_READ, err;
	struct stat st;
	void *mapping;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size <= 0 || st.st_size > FABRIC_BYTES_MOST) {
		snprintf(why, room, "its file has %lld bytes", (long long)st.st_size);
		return -EINVAL;
	}
	mapping = mmap(NULL, (size_t)st.st_size, protection, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		return -errno;
	err = fabric_open(f, mapping, (size_t)st.st_size, why, room);
	if (err)
		munmap(mapping, (size_t)st.st_size);
	return err;
}

void fabric_file_unmap(struct fabric *f)
{
	void *mapping = f->head;
	size_t bytes = f->bytes;

	fabric_close(f);
	if (mapping)
		munmap(mapping, bytes);
}
