/* The ELF header and program headers (System V ABI, chapter 5): PT_INTERP names the dynamic loader. */
#include "cli/program.h"

#include "cli/cli.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_NONE
#endif

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

static enum program_fault examine_elf(int fd, const unsigned char *head, size_t bytes)
{
	Elf64_Ehdr e;
	Elf64_Phdr ph;

	if (bytes < sizeof(e) || head[EI_CLASS] != ELFCLASS64)
		return PROGRAM_OTHER_MACHINE;
	memcpy(&e, head, sizeof(e));
	if (OUR_MACHINE != EM_NONE && e.e_machine != OUR_MACHINE)
		return PROGRAM_OTHER_MACHINE;
	for (int i = 0; i < e.e_phnum; i++) {
		if (pread(fd, &ph, sizeof(ph), (off_t)(e.e_phoff + (Elf64_Off)i * e.e_phentsize)) != sizeof(ph))
			break;
		if (ph.p_type == PT_INTERP)
			return PROGRAM_FINE;
	}
	return PROGRAM_STATIC;
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

enum program_fault program_examine(const char *name, char *path, size_t room)
{
	char head[HEAD];

	if (!find_program(name, path, room))
		return PROGRAM_MISSING;
	for (int i = 0; i < SCRIPTS; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof(head));
		enum program_fault fault = PROGRAM_FINE;
		bool is_elf = n >= EI_NIDENT && memcmp(head, ELFMAG, SELFMAG) == 0;

		if (is_privileged(path))
			fault = PROGRAM_PRIVILEGED;
		else if (is_elf)
			fault = examine_elf(fd, (unsigned char *)head, (size_t)n);
		if (fd >= 0)
			close(fd);
		if (fault || is_elf || n <= 0 || !read_script(head, (size_t)n, path, room))
			return fault;
	}
	return PROGRAM_FINE;
}

static const struct {
	const char *cause, *next;
} texts[] = {
	[PROGRAM_MISSING] = { "there is no such program", "look at its name and at PATH" },
	[PROGRAM_STATIC] = { "it is statically linked, so no library can be put in place of its own",
			     "link it dynamically with libibverbs" },
	[PROGRAM_PRIVILEGED] = { "it is setuid, setgid or has file capabilities, and the loader ignores LD_PRELOAD for such "
				 "programs", "run a copy without these bits, or be the user whom it becomes" },
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
	enum program_fault fault = program_examine(name, path, sizeof(path));

	if (fault != PROGRAM_FINE && fault != PROGRAM_MISSING)
		fprintf(stderr, "weft: warning: %s will not see weft's devices: %s\n  next: %s\n", path, program_cause(fault),
			program_next(fault));
}
