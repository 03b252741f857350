/* Memory that two processes map: regions of ours in memory files, which weftd hands to peers of the same user, and files of
 * theirs. */
#ifndef WEFT_PEERS_MAPPED_FILES_H
#define WEFT_PEERS_MAPPED_FILES_H

#include "base/time.h"
#include "control/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peers;

/* A memory file of ours that others may map. */
struct shown_file {
	dev_t device;
	ino_t inode;
	uint32_t number;	/* weftd's; it keeps the file, so that the inode is not used again */
};

/* Memory files of one peer, by number, as we mapped them. */
struct mapped_files {
	struct mapped_file {
		uint8_t *base;	/* owned mapping, or NULL */
		uint64_t bytes;
		bool is_asked;	/* weftd's answer has not come */
		unsigned tries;	/* how often it was asked, or MAPPED_TRIES: no more */
		wtime next_try;	/* not before */
	} file[CONTROL_FILES];
};

/* Does memory that others can map hold the whole range? 0: no, or the number of its file, and where in it. */
uint32_t mapped_find(struct peers *ps, const void *memory, uint64_t bytes, uint64_t *offset);
/* That range of a file of the slot's process, which is asked for at its first use. NULL: no, or not yet. */
void *mapped_reach(struct peers *ps, struct mapped_files *m, uint32_t slot, uint32_t file, uint64_t offset, uint64_t bytes);
/* weftd's answer; fd -1: the file is not there, or not yet. */
void mapped_answer(struct mapped_files *m, uint32_t file, int fd);
/* No answer will come. */
void mapped_unasked(struct mapped_files *m);
bool mapped_any(const struct mapped_files *m);
void mapped_close(struct mapped_files *m);

#endif
