/* The calls that start a program: each hands on an environment in which weft is kept. See keep.h; what libc starts itself, for
 * system and popen, has the environment of this process. */
#include "keep.h"
#include "next.h"

#include <spawn.h>
#include <stdarg.h>
#include <unistd.h>

/* Calls next with envp as it is or completed on this stack. */
#define KEEPING(next, envp, call)                                                        \
	do {                                                                             \
		struct keep_room room = keep_measure(envp);                              \
		char *list[room.entries + 1], text[room.bytes + 1];                      \
		if (!(next))                                                             \
			return -1;                                                       \
		if (room.entries)                                                        \
			(envp) = keep_complete(envp, list, text);                        \
		return call;                                                             \
	} while (0)

SHIM_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	__typeof__(&execve) next = SHIM_NEXT(execve);

	KEEPING(next, envp, next(path, argv, envp));
}

SHIM_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	__typeof__(&execvpe) next = SHIM_NEXT(execvpe);

	KEEPING(next, envp, next(file, argv, envp));
}

SHIM_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	__typeof__(&fexecve) next = SHIM_NEXT(fexecve);

	KEEPING(next, envp, next(fd, argv, envp));
}

SHIM_EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

SHIM_EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

/* How many arguments a list has: the first, behind which ap stands, and what follows until NULL. */
static size_t count(va_list ap)
{
	va_list copy;
	size_t n = 1;

	va_copy(copy, ap);
	while (va_arg(copy, char *))
		n++;
	va_end(copy);
	return n;
}

/* Fills argv, which ends with NULL; ap stands behind that. */
#define LIST(argv, first, ap)                          \
	char *argv[count(ap) + 1], **argv##_at = argv; \
	*argv##_at = (char *)(first);                  \
	do                                             \
		*++argv##_at = va_arg(ap, char *);     \
	while (*argv##_at)

SHIM_EXPORT int execl(const char *path, const char *first, ...)
{
	va_list ap;

	va_start(ap, first);
	LIST(argv, first, ap);
	va_end(ap);
	return execve(path, argv, environ);
}

SHIM_EXPORT int execlp(const char *file, const char *first, ...)
{
	va_list ap;

	va_start(ap, first);
	LIST(argv, first, ap);
	va_end(ap);
	return execvpe(file, argv, environ);
}

SHIM_EXPORT int execle(const char *path, const char *first, ...)
{
	char *const *envp;
	va_list ap;

	va_start(ap, first);
	LIST(argv, first, ap);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

SHIM_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	__typeof__(&posix_spawn) next = SHIM_NEXT(posix_spawn);

	if (!next)
		return ENOSYS;
	KEEPING(next, envp, next(pid, path, actions, attributes, argv, envp));
}

SHIM_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			     const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	__typeof__(&posix_spawnp) next = SHIM_NEXT(posix_spawnp);

	if (!next)
		return ENOSYS;
	KEEPING(next, envp, next(pid, file, actions, attributes, argv, envp));
}
