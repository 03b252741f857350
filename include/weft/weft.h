/* weft's own calls, for programs that want to know that they run on it. Found in libibverbs.so.1 under `weft run`; a program
 * that must also run elsewhere looks them up with dlsym. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *weft_version(void);

struct weft_counter {
	const char *name;	/* as rxe's hw_counters where it has the same; lives as long as the library */
	const char *text;	/* what it counts */
	uint64_t value;
};

/* This process's counters as they are at one moment: fills at most `room` of them and returns how many there are; 0 before
 * the first device was listed. Any thread. */
size_t weft_counters(struct weft_counter *counters, size_t room);

#ifdef __cplusplus
}
#endif

#endif
