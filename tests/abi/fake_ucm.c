/* Stands for libibverbs.so.1 in shim_test: the entry points of the CM device, which only count what the shim hands them. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/types.h>

int weft_ucm_open(int flags);
ssize_t weft_ucm_write(int fd, const void *cmd, size_t bytes);
void weft_ucm_await_reader(int fd);
void weft_ucm_close(int fd);
int fake_awaited_fd(void);
int fake_last_fd(void);
int fake_open_files(void);

static int last_fd = -1;
static int open_files;
static int awaited_fd = -1;

int weft_ucm_open(int flags)
{
	open_files++;
	return eventfd(0, flags & O_CLOEXEC ? EFD_CLOEXEC : 0);
}

ssize_t weft_ucm_write(int fd, const void *cmd, size_t bytes)
{
	last_fd = fd;
	if (bytes < 8) {
		errno = EINVAL;
		return -1;
	}
	return bytes;
}

void weft_ucm_await_reader(int fd)
{
	awaited_fd = open_files ? fd : -1;
}

void weft_ucm_close(int fd)
{
	open_files--;
}

int fake_awaited_fd(void)
{
	return awaited_fd;
}

int fake_last_fd(void)
{
	return last_fd;
}

int fake_open_files(void)
{
	return open_files;
}
