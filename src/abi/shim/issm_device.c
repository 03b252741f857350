#include "issm_device.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Asked of the kernel directly: open itself is one of our calls. */
static int read_name(const struct shim_path *from, char *name, size_t room)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, from->text, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, name, room - 1);
	syscall(SYS_close, fd);
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return 0;
}

int issm_device_open(const struct shim_path *from)
{
	void *umad = dlopen("libibumad.so.3", RTLD_NOW);
	int (*open_issm)(const char *, int) = umad ? (int (*)(const char *, int))dlsym(umad, "weft_umad_issm_open") : NULL;
	char name[64], *port;

	if (!open_issm) {
		if (umad)
			dlclose(umad);
		errno = ENXIO;
		return -1;
	}
	/* cppcheck-suppress resourceLeak ; it stays for as long as we do */
	if (read_name(from, name, sizeof(name)))
		/* cppcheck-suppress resourceLeak ; so here */
		return -1;
	/* the device and the number of its port: weftd/sysfs.c */
	port = strchr(name, ' ');
	if (port)
		*port++ = '\0';
	/* cppcheck-suppress resourceLeak ; and here */
	return open_issm(name, port ? atoi(port) : 1);
}
