#include "control/proc_stat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields; the one before them is the name in parentheses, with anything in it. */
enum { STATE = 3, PARENT = 4, START = 22, MEMORY = 23 };

static bool parse(char *text, struct proc_stat *s)
{
	char *at = strrchr(text, ')');

	for (int field = STATE; field <= MEMORY; field++) {
		at = at ? strchr(at, ' ') : NULL;
		if (!at)
			return false;
		at++;
		if (field == STATE)
			s->state = *at;
		else if (field == PARENT)
			s->parent = (pid_t)strtol(at, NULL, 10);
		else if (field == START)
			s->start = strtoull(at, NULL, 10);
	}
	s->memory_bytes = strtoull(at, NULL, 10);
	return true;
}

static bool read_file(int folder, const char *name, struct proc_stat *s)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return parse(text, s);
}

bool proc_stat_read(pid_t pid, struct proc_stat *s)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return read_file(AT_FDCWD, path, s);
}

bool proc_stat_read_at(int folder, struct proc_stat *s)
{
	return read_file(folder, "stat", s);
}
