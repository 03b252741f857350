/* What a program's file says about whether weft can reach it: the dynamic loader must load our library and shim into it. */
#ifndef WEFT_CLI_PROGRAM_H
#define WEFT_CLI_PROGRAM_H

#include <stddef.h>

enum program_fault {
	PROGRAM_FINE,
	PROGRAM_MISSING,	/* not found: exec will say so */
	PROGRAM_STATIC,		/* an ELF file without an interpreter: no library is ever loaded */
	PROGRAM_PRIVILEGED,	/* setuid, setgid or with file capabilities: the loader ignores LD_PRELOAD */
	PROGRAM_OTHER_MACHINE,	/* an ELF file of another class or machine than ours */
};

/* Looks at the program that execvp would run; its path goes to path. Scripts are judged by their interpreter. */
enum program_fault program_examine(const char *name, char *path, size_t room);
/* What the fault means, and what to do. */
const char *program_cause(enum program_fault fault);
const char *program_next(enum program_fault fault);

/* Says on the standard error when the program cannot work with weft; it is run all the same. */
void program_warn(const char *name);

#endif
