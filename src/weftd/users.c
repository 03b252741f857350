/* user_namespaces(7): /proc/PID/uid_map has a line "inside outside count" for each range; a namespace that maps 2^32 - 1 users
 * maps all. */
#include "weftd/users.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OVERFLOW_UID = 65534, MAP_TEXT = 16384 };	/* the kernel's default; 340 lines of the longest */

#define ALL_USERS 0xffffffffull

bool users_is_mapped(uid_t uid, uid_t overflow, const char *uid_map)
{
	unsigned long long inside, outside, count, mapped = 0;
	int used;

	if (uid != overflow)
		return true;
	for (; sscanf(uid_map, "%llu %llu %llu%n", &inside, &outside, &count, &used) == 3; uid_map += used)
		mapped += count;
	return mapped >= ALL_USERS;
}

static void read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, room - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

bool users_is_somebody(uid_t uid)
{
	static char map[MAP_TEXT];
	char text[16];

	read_text("/proc/sys/kernel/overflowuid", text, sizeof(text));
	if (uid != (*text ? (uid_t)strtoul(text, NULL, 10) : OVERFLOW_UID))
		return true;
	read_text("/proc/self/uid_map", map, sizeof(map));
	return users_is_mapped(uid, uid, map);
}
