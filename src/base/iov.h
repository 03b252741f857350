/* Lists of pieces of memory. */
#ifndef WEFT_BASE_IOV_H
#define WEFT_BASE_IOV_H

#include <stdint.h>
#include <sys/uio.h>

/* The part of the list from `skip` bytes on, at most `bytes` of it; `part` has room for as many pieces. Returns how many. */
static inline unsigned iov_part(const struct iovec *iov, unsigned iovs, uint64_t skip, uint64_t bytes, struct iovec *part)
{
	unsigned n = 0;

	for (unsigned i = 0; i < iovs && bytes; i++) {
		uint64_t left = iov[i].iov_len > skip ? iov[i].iov_len - skip : 0, some = left < bytes ? left : bytes;

		if (some)
			part[n++] = (struct iovec){ (uint8_t *)iov[i].iov_base + skip, some };
		skip = iov[i].iov_len > skip ? 0 : skip - iov[i].iov_len;
		bytes -= some;
	}
	return n;
}

#endif
