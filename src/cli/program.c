/* Which file execvp would run, and what its ELF facts mean for weft. */
#include "cli/program.h"

#include "cli/cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { HEAD = 4096, SCRIPTS = 4 };	/* a script's interpreter may be a script: Linux follows four */

static bool is_runnable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As execvp looks it up. */
static bool find_program(const char *name, char *path, size_t room)
{
	const char *list = getenv("PATH");

	if (strchr(name, '/'))
		return (size_t)snprintf(path, room, "%s", name) < room && is_runnable(path);
	for (list = list ? list : "/bin:/usr/bin"; *list;) {
		int n = (int)strcspn(list, ":");

		if ((size_t)snprintf(path, room, "%.*s%s%s", n, list, n ? "/" : "", name) < room && is_runnable(path))
			return true;
		list += n + (list[n] == ':');
	}
	return false;
}

static bool is_privileged(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
				     (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getegid())))
		return true;
	return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool is_launcher(const char *path)
{
	static const char *const names[] = { "sudo", "su", "doas", "pkexec" };
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(slash ? slash + 1 : path, names[i]) == 0)
			return true;
	return false;
}

/* The interpreter that a script's first line names goes to path. */
static bool read_script(char *head, size_t bytes, char *path, size_t room)
{
	char *name = head + 2;

	if (bytes < 4 || head[0] != '#' || head[1] != '!')
		return false;
	head[bytes - 1] = '\0';
	name += strspn(name, " \t");
	name[strcspn(name, " \t\r\n")] = '\0';
	return *name && (size_t)snprintf(path, room, "%s", name) < room;
}

static enum program_fault fault_of(const char *path, const struct elf *e)
{
	if (is_privileged(path))
		return is_launcher(path) ? PROGRAM_LAUNCHER : PROGRAM_PRIVILEGED;
	if (!e->is_elf)
		return PROGRAM_FINE;
	if (e->is_other_machine)
		return PROGRAM_OTHER_MACHINE;
	return e->has_interpreter ? PROGRAM_FINE : PROGRAM_STATIC;
}

enum program_fault program_examine(const char *name, char *path, size_t room, struct elf *e)
{
	char head[HEAD];

	*e = (struct elf){ 0 };
	if (!find_program(name, path, room))
		return PROGRAM_MISSING;
	for (int i = 0; i < SCRIPTS; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof(head));
		enum program_fault fault;

		elf_read(fd, e);
		fault = fault_of(path, e);
		if (fd >= 0)
			close(fd);
		if (fault || e->is_elf || n <= 0 || !read_script(head, (size_t)n, path, room))
			return fault;
	}
	return PROGRAM_FINE;
}

/* The first row that is so is told: from what keeps a program from weft's devices to what does not. */
bool program_foresee(const struct elf *e, const char **what, const char **next)
{
	*next = NULL;
	*what = "is no ELF file: what it starts gets weft's libibverbs";
	if (!e->is_elf)
		return true;
	if (e->has_own_verbs) {
		*what = "has a libibverbs linked into it statically, which sees none of weft's devices";
		*next = "link it with libibverbs.so.1 instead";
		return false;
	}
	if (e->is_go) {
		*what = "is a Go program: verbs (by cgo) are weft's, but Go's own file calls do not see /sys/class/infiniband";
		*next = "let it ask libibverbs for devices";
		return false;
	}
	if (!e->needs_verbs)
		*what = "does not name libibverbs; a library of its may, or it opens libibverbs.so.1 later: it gets weft's";
	else if (e->needs_asan)
		*what = "needs libibverbs.so.1 and gets weft's; AddressSanitizer is set to accept preloaded libraries";
	else if (e->has_rpath)
		*what = "needs libibverbs.so.1 and gets weft's, which is preloaded: its DT_RPATH is not asked";
	else
		*what = "needs libibverbs.so.1 and gets weft's";
	return true;
}

static const struct {
	const char *cause, *next;
} texts[] = {
	[PROGRAM_MISSING] = { "there is no such program", "look at its name and at PATH" },
	[PROGRAM_STATIC] = { "it is statically linked, so no library can be put in place of its own",
			     "link it dynamically with libibverbs" },
	[PROGRAM_PRIVILEGED] = { "it is setuid, setgid or has file capabilities, and the loader ignores LD_PRELOAD for such "
				 "programs", "run a copy without these bits, or be the user whom it becomes" },
	[PROGRAM_LAUNCHER] = { "it is setuid to become another user, and the loader ignores LD_PRELOAD for it",
			       "put weft inside: sudo weft run -- PROGRAM; that is a network of the other user's own, and "
			       "weft up --system, by root, makes one for all users" },
	[PROGRAM_OTHER_MACHINE] = { "it is built for another kind of processor than weft", "build both for the same one" },
};

const char *program_cause(enum program_fault fault)
{
	return texts[fault].cause;
}

const char *program_next(enum program_fault fault)
{
	return texts[fault].next;
}

void program_warn(const char *name)
{
	char path[4096];
	struct elf e;
	enum program_fault fault = program_examine(name, path, sizeof(path), &e);
	const char *what, *next;

	if (fault != PROGRAM_FINE && fault != PROGRAM_MISSING)
		fprintf(stderr, "weft: warning: %s will not see weft's devices: %s\n  next: %s\n", path, program_cause(fault),
			program_next(fault));
	else if (e.has_own_verbs && !program_foresee(&e, &what, &next))
		fprintf(stderr, "weft: warning: %s %s\n  next: %s\n", path, what, next);
}
