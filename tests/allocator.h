/* The C library's allocator under a test's hand. The linker puts allocator.c in its place: weft_allocators of CMakeLists.txt. */
#ifndef WEFT_TESTS_ALLOCATOR_H
#define WEFT_TESTS_ALLOCATOR_H

#include <stddef.h>

extern struct allocator {
	unsigned fail_at;	/* the how many-th allocation from now fails; 0: none */
	long held;		/* allocations not yet freed, ... */
	size_t held_bytes;	/* ... and what they take */
} allocator;

#endif
