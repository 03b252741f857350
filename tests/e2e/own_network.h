/* A network namespace of the caller's own, where it may make interfaces whoever it is. */
#ifndef WEFT_TESTS_E2E_OWN_NETWORK_H
#define WEFT_TESTS_E2E_OWN_NETWORK_H

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NETWORK_SKIP = 77 };

/* Ends the program, as skipped, where the command fails: then there is no such network here. */
static inline void network_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void network_run(const char *format, ...)
{
	char command[300];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command)) {
		printf("SKIP: a user and network namespace does not let us: %s\n", command);
		exit(NETWORK_SKIP);
	}
}

static inline void network_map(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static inline void network_enter(void)
{
	char map[50];
	unsigned uid = getuid(), gid = getgid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		printf("SKIP: no user and network namespaces can be made here\n");
		exit(NETWORK_SKIP);
	}
	network_map("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	network_map("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	network_map("/proc/self/gid_map", map);
	network_run("ip link set lo up");
}

#endif
