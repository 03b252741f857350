/* What a program's file says about whether weft can reach it: the dynamic loader must load our library and shim into it. */
#ifndef WEFT_CLI_PROGRAM_H
#define WEFT_CLI_PROGRAM_H

#include "cli/elf.h"

#include <stddef.h>

enum program_fault {
	PROGRAM_FINE,
	PROGRAM_MISSING,	/* not found: exec will say so */
	PROGRAM_STATIC,		/* an ELF file without an interpreter: no library is ever loaded */
	PROGRAM_PRIVILEGED,	/* setuid, setgid or with file capabilities: the loader ignores LD_PRELOAD */
	PROGRAM_LAUNCHER,	/* such a one that starts another as another user */
	PROGRAM_OTHER_MACHINE,	/* an ELF file of another class or machine than ours */
};

/* Looks at the program that execvp would run; its path goes to path and what its file says to *e. Scripts are judged by their
 * interpreter. */
enum program_fault program_examine(const char *name, char *path, size_t room, struct elf *e);
/* What will happen to a program without fault, to be said behind its name, and what to do about it (NULL: nothing). False: it
 * will not see all of weft's devices. */
bool program_foresee(const struct elf *e, const char **what, const char **next);
/* What the fault means, and what to do. */
const char *program_cause(enum program_fault fault);
const char *program_next(enum program_fault fault);

/* Says on the standard error when the program cannot work with weft; it is run all the same. */
void program_warn(const char *name);

#endif
