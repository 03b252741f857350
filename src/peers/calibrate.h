/* From which size on process_vm_writev and _readv are faster than pwrite and pread on a process's memory file. */
#ifndef WEFT_PEERS_CALIBRATE_H
#define WEFT_PEERS_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PEER_TAIL = 64 };	/* programs poll the last byte: its line is written when all else is there */

/* From so many bytes on process_vm is used; UINT32_MAX: never. */
struct crossover {
	uint32_t write_bytes, read_bytes;
};
struct calibration {
	uint8_t *scratch;	/* owned: where others may read and write to measure; NULL: nowhere */
	bool is_known;
	struct crossover found;
};
void calibration_init(struct calibration *c);
void calibration_fini(struct calibration *c);
/* Measured at the first call, with the peer's memory file, pid and scratch. Under the lock. */
struct crossover calibrate(struct calibration *c, int proc_mem_fd, pid_t pid, uint64_t address);

#endif
