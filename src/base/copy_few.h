/* memcpy of bytes that are few most often: 8 to 32 of them without a call. */
#ifndef WEFT_BASE_COPY_FEW_H
#define WEFT_BASE_COPY_FEW_H

#include <stdint.h>
#include <string.h>

static inline void copy_few(void *to, const void *from, uint32_t bytes)
{
	uint8_t first[16], last[16];

	if (bytes == 8) {
		memcpy(to, from, 8);
	} else if (bytes - 16 <= 16) {	/* the two overlap, or meet */
		memcpy(first, from, 16);
		memcpy(last, (const uint8_t *)from + bytes - 16, 16);
		memcpy(to, first, 16);
		memcpy((uint8_t *)to + bytes - 16, last, 16);
	} else if (bytes - 9 < 7) {
		memcpy(first, from, 8);
		memcpy(last, (const uint8_t *)from + bytes - 8, 8);
		memcpy(to, first, 8);
		memcpy((uint8_t *)to + bytes - 8, last, 8);
	} else {
		memcpy(to, from, bytes);
	}
}

#endif
