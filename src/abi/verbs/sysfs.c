/* The helpers that read sysfs for programs and providers. The path shim leads them into weftd's tree. */
#include "abi/verbs/object.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char root[IBV_SYSFS_PATH_MAX] = "/sys";

/* SYSFS_PATH moves the tree, though not for a program that runs with somebody else's rights. */
static void find_root(void)
{
	const char *path = getuid() == geteuid() ? getenv("SYSFS_PATH") : NULL;
	size_t n;

	if (!path)
		return;
	n = strnlen(path, sizeof(root) - 1);
	while (n > 0 && path[n - 1] == '/')
		n--;
	memcpy(root, path, n);
	root[n] = '\0';
}

ABI_EXPORT const char *ibv_get_sysfs_path(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_root);
	return root;
}

/* Bytes read without the newline at the end, terminated; -1: not there, or no room for the terminator. */
static int read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, buf, size);
	close(fd);
	if (n > 0 && buf[n - 1] == '\n')
		n--;
	if (n < 0 || (size_t)n == size)
		return -1;
	if (size)
		buf[n] = '\0';
	return (int)n;
}

ABI_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[2 * IBV_SYSFS_PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return read_text(path, buf, size);
}

/* What the stock library keeps of a device in sysfs, as far as its providers' calls need it (rdma-core, driver.h). */
struct verbs_sysfs_dev {
	struct { void *next, *prev; } entry;
	void *provider_data;
	const void *match;
	unsigned int flags;
	char sysfs_name[IBV_SYSFS_NAME_MAX];
	dev_t sysfs_cdev;
	char ibdev_name[IBV_SYSFS_NAME_MAX];
	char ibdev_path[IBV_SYSFS_PATH_MAX];
};

static int read_of_device(char *buf, size_t size, struct verbs_sysfs_dev *dev, const char *format, va_list args)
{
	char file[IBV_SYSFS_PATH_MAX];
	int n;

	if (!dev) {
		errno = EINVAL;
		return -1;
	}
	n = vsnprintf(file, sizeof(file), format, args);
	if (n < 0 || n >= (int)sizeof(file)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return ibv_read_sysfs_file(dev->ibdev_path, file, buf, size);
}

ABI_EXPORT int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *dev, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *dev, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = read_of_device(buf, size, dev, format, args);
	va_end(args);
	return n;
}

/* The same in the private node of rdma-core 33. No alias: of two symbols with one name and one address, ld keeps one. */
ABI_EXPORT int read_ibdev_sysfs_file_33(char *buf, size_t size, struct verbs_sysfs_dev *dev, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
int read_ibdev_sysfs_file_33(char *buf, size_t size, struct verbs_sysfs_dev *dev, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = read_of_device(buf, size, dev, format, args);
	va_end(args);
	return n;
}
__asm__(".symver read_ibdev_sysfs_file_33,ibv_read_ibdev_sysfs_file@IBVERBS_PRIVATE_33");
