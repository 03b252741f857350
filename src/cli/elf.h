/* What an ELF file says about how the dynamic loader and weft can reach it (System V ABI, chapters 4 and 5). The file is
 * anybody's: nothing of it is believed, and no more than a bounded part of it is read, whatever it says. */
#ifndef WEFT_CLI_ELF_H
#define WEFT_CLI_ELF_H

#include <stdbool.h>

struct elf {
	bool is_elf;
	bool is_other_machine;	/* of another class or machine than weft; the rest is false then */
	bool has_interpreter;	/* PT_INTERP: libraries are loaded into it */
	bool needs_verbs;	/* names libibverbs.so.1 (DT_NEEDED) */
	bool needs_asan;	/* names a libasan */
	bool has_rpath;		/* DT_RPATH, which comes before LD_LIBRARY_PATH */
	bool has_own_verbs;	/* has a libibverbs in itself: a text of it is found */
	bool is_go;
};

/* Looks at the open file. Its offset is not used; a special file is no ELF file. Blocks as reads of the file do. */
void elf_read(int fd, struct elf *e);

#endif
