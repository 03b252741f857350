/* Any file to the reader of programs: it ends, and what it says fits together. */
#include "fuzz.h"

#include "cli/elf.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct elf e;

	if (fd < 0)
		fd = memfd_create("elf", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		return 0;
	elf_read(fd, &e);
	if ((!e.is_elf || e.is_other_machine) &&
	    (e.has_interpreter || e.needs_verbs || e.needs_asan || e.has_rpath || e.has_own_verbs || e.is_go))
		abort();
	if (e.is_elf && size < 4)
		abort();
	return 0;
}
