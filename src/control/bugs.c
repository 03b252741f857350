/* The file is opened anew for each line: weftd closes what it inherits, and a program may close what it did not open. */
#include "control/bugs.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[512];

static void append(const char *line)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0)
		return;
	dprintf(fd, "%s[%d]: %s\n", program_invocation_short_name, (int)getpid(), line);
	close(fd);
}

void bugs_to_file(void)
{
	const char *value = secure_getenv("WEFT_BUGS");

	if (!value || *value != '/' || strlen(value) >= sizeof(path))
		return;
	strcpy(path, value);
	log_set_bug_sink(append);
}
