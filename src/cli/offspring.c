/* A process is killed only while it is a child of this one: its pid cannot become another process's before it is reaped. Its own
 * children are this process's children then, as the kernel gives orphans to the nearest subreaper. */
#include "cli/offspring.h"

#include "control/proc_stat.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Our choice: a killed process is gone within milliseconds, unless the kernel holds it. */
enum { LOOKS = 2500, LOOK_MS = 2 };

struct process {
	pid_t pid, parent;
	bool descends;
};

void offspring_adopt(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static bool look_at(pid_t pid, struct process *p)
{
	struct proc_stat s;

	if (!proc_stat_read(pid, &s) || !proc_stat_lives(&s))
		return false;
	*p = (struct process){ .pid = pid, .parent = s.parent };
	return true;
}

/* All living processes; the caller's to free. */
static struct process *list_all(size_t *count)
{
	DIR *proc = opendir("/proc");
	struct process *all = NULL, *more;
	const struct dirent *e;
	size_t room = 0;

	*count = 0;
	while (proc && (e = readdir(proc))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		if (*count == room) {
			room = room ? 2 * room : 256;
			more = realloc(all, room * sizeof(*all));
			if (!more)
				break;
			all = more;
		}
		*count += look_at(atoi(e->d_name), &all[*count]);
	}
	if (proc)
		closedir(proc);
	return all;
}

void offspring_visit(void (*visit)(void *arg, pid_t pid), void *arg)
{
	size_t count, found = 1;
	struct process *all = list_all(&count);
	pid_t self = getpid();

	/* one generation in each turn */
	while (found) {
		found = 0;
		for (size_t i = 0; i < count; i++) {
			bool is_next = all[i].parent == self;

			for (size_t k = 0; !is_next && k < count; k++)
				is_next = all[k].descends && all[k].pid == all[i].parent;
			if (all[i].descends || !is_next)
				continue;
			all[i].descends = true;
			found++;
			visit(arg, all[i].pid);
		}
	}
	free(all);
}

static bool executes(pid_t pid, const char *file)
{
	struct stat wanted, st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return file && stat(path, &st) == 0 && stat(file, &wanted) == 0 && st.st_dev == wanted.st_dev &&
	       st.st_ino == wanted.st_ino;
}

/* How many children were killed. */
static size_t kill_children(const char *spare)
{
	size_t count, killed = 0;
	struct process *all = list_all(&count);

	for (size_t i = 0; i < count; i++) {
		if (all[i].parent != getpid() || executes(all[i].pid, spare))
			continue;
		kill(all[i].pid, SIGKILL);
		killed++;
	}
	free(all);
	return killed;
}

void offspring_end(const char *spare)
{
	for (int i = 0; i < LOOKS && kill_children(spare); i++) {
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}
