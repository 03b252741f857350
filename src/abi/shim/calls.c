/* The calls that take a path, in all variants which programs of Debian 12 import: each hands the rewritten path to the next
 * library. Opening the rdma_cm device is cm_device.c's. What is not reachable this way: calls libc makes to itself, static
 * binaries, io_uring. */
#include "cm_device.h"
#include "issm_device.h"
#include "next.h"
#include "path.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PATH_CALL(type, failure, name, params, args)                   \
	SHIM_EXPORT type name params;                                  \
	SHIM_EXPORT type name params                                   \
	{                                                              \
		__typeof__(&name) next = SHIM_NEXT(name);              \
		struct shim_path room;                                 \
		if (!next)                                             \
			return failure;                                \
		path = shim_path(path, &room);                         \
		return next args;                                      \
	}

/* open(2): the mode is there only if the file may be created. */
#define OPEN_CALL(name, params, args)                                  \
	SHIM_EXPORT int name params;                                   \
	SHIM_EXPORT int name params                                    \
	{                                                              \
		__typeof__(&name) next = SHIM_NEXT(name);              \
		struct shim_path room;                                 \
		mode_t mode = 0;                                       \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
			va_list ap;                                    \
			va_start(ap, flags);                           \
			mode = va_arg(ap, mode_t);                     \
			va_end(ap);                                    \
		}                                                      \
		if (!next)                                             \
			return -1;                                     \
		if (shim_path_is_rdma_cm(path))                        \
			return cm_device_open(flags);                  \
		if (shim_path_is_issm(path, &room))                    \
			return issm_device_open(&room);                \
		path = shim_path(path, &room);                         \
		return next args;                                      \
	}

/* What open becomes under _FORTIFY_SOURCE when no mode is given. */
#define OPEN_2_CALL(name, params, args)                                \
	SHIM_EXPORT int name params;                                   \
	SHIM_EXPORT int name params                                    \
	{                                                              \
		__typeof__(&name) next = SHIM_NEXT(name);              \
		struct shim_path room;                                 \
		if (!next)                                             \
			return -1;                                     \
		if (shim_path_is_rdma_cm(path))                        \
			return cm_device_open(flags);                  \
		if (shim_path_is_issm(path, &room))                    \
			return issm_device_open(&room);                \
		path = shim_path(path, &room);                         \
		return next args;                                      \
	}

#define INT_CALL(name, params, args) PATH_CALL(int, -1, name, params, args)
#define SIZE_CALL(name, params, args) PATH_CALL(ssize_t, -1, name, params, args)

OPEN_CALL(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
OPEN_CALL(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
OPEN_2_CALL(__open_2, (const char *path, int flags), (path, flags))
OPEN_2_CALL(__open64_2, (const char *path, int flags), (path, flags))
OPEN_2_CALL(__openat_2, (int dir, const char *path, int flags), (dir, path, flags))
OPEN_2_CALL(__openat64_2, (int dir, const char *path, int flags), (dir, path, flags))
INT_CALL(creat, (const char *path, mode_t mode), (path, mode))
INT_CALL(creat64, (const char *path, mode_t mode), (path, mode))

PATH_CALL(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
PATH_CALL(FILE *, NULL, fopen64, (const char *path, const char *mode), (path, mode))
PATH_CALL(FILE *, NULL, freopen, (const char *path, const char *mode, FILE *f), (path, mode, f))
PATH_CALL(FILE *, NULL, freopen64, (const char *path, const char *mode, FILE *f), (path, mode, f))

INT_CALL(stat, (const char *path, struct stat *st), (path, st))
INT_CALL(stat64, (const char *path, struct stat64 *st), (path, st))
INT_CALL(lstat, (const char *path, struct stat *st), (path, st))
INT_CALL(lstat64, (const char *path, struct stat64 *st), (path, st))
INT_CALL(fstatat, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))
INT_CALL(fstatat64, (int dir, const char *path, struct stat64 *st, int flags), (dir, path, st, flags))
INT_CALL(statx, (int dir, const char *path, int flags, unsigned int mask, struct statx *st), (dir, path, flags, mask, st))

/* stat as binaries linked with a glibc before 2.33 know it. */
INT_CALL(__xstat, (int ver, const char *path, struct stat *st), (ver, path, st))
INT_CALL(__xstat64, (int ver, const char *path, struct stat64 *st), (ver, path, st))
INT_CALL(__lxstat, (int ver, const char *path, struct stat *st), (ver, path, st))
INT_CALL(__lxstat64, (int ver, const char *path, struct stat64 *st), (ver, path, st))
INT_CALL(__fxstatat, (int ver, int dir, const char *path, struct stat *st, int flags), (ver, dir, path, st, flags))
INT_CALL(__fxstatat64, (int ver, int dir, const char *path, struct stat64 *st, int flags), (ver, dir, path, st, flags))

INT_CALL(access, (const char *path, int mode), (path, mode))
INT_CALL(faccessat, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags))
INT_CALL(euidaccess, (const char *path, int mode), (path, mode))
INT_CALL(eaccess, (const char *path, int mode), (path, mode))

PATH_CALL(DIR *, NULL, opendir, (const char *path), (path))
INT_CALL(scandir, (const char *path, struct dirent ***list, int (*keep)(const struct dirent *),
		   int (*order)(const struct dirent **, const struct dirent **)), (path, list, keep, order))
INT_CALL(scandir64, (const char *path, struct dirent64 ***list, int (*keep)(const struct dirent64 *),
		     int (*order)(const struct dirent64 **, const struct dirent64 **)), (path, list, keep, order))
INT_CALL(glob, (const char *path, int flags, int (*error)(const char *, int), glob_t *found), (path, flags, error, found))
INT_CALL(glob64, (const char *path, int flags, int (*error)(const char *, int), glob64_t *found), (path, flags, error, found))
INT_CALL(chdir, (const char *path), (path))

SIZE_CALL(readlink, (const char *path, char *buf, size_t bytes), (path, buf, bytes))
SIZE_CALL(readlinkat, (int dir, const char *path, char *buf, size_t bytes), (dir, path, buf, bytes))
SIZE_CALL(__readlink_chk, (const char *path, char *buf, size_t bytes, size_t room_bytes), (path, buf, bytes, room_bytes))
SIZE_CALL(__readlinkat_chk, (int dir, const char *path, char *buf, size_t bytes, size_t room_bytes),
	  (dir, path, buf, bytes, room_bytes))
PATH_CALL(char *, NULL, realpath, (const char *path, char *resolved), (path, resolved))
PATH_CALL(char *, NULL, __realpath_chk, (const char *path, char *resolved, size_t room_bytes), (path, resolved, room_bytes))
PATH_CALL(char *, NULL, canonicalize_file_name, (const char *path), (path))

/* `ls -l` asks for the access control list of each file. */
SIZE_CALL(getxattr, (const char *path, const char *name, void *value, size_t bytes), (path, name, value, bytes))
SIZE_CALL(lgetxattr, (const char *path, const char *name, void *value, size_t bytes), (path, name, value, bytes))
