/* How programs of several processes end when something is wrong. */
#ifndef WEFT_TESTS_E2E_FAIL_H
#define WEFT_TESTS_E2E_FAIL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void die(const char *what)
{
	fprintf(stderr, "%s[%d]: %s\n", program_invocation_short_name, (int)getpid(), what);
	exit(1);
}

/* err: -errno, or anything but 0 for what has no number. */
static inline void check(int err, const char *what)
{
	if (err < 0)
		fprintf(stderr, "%s[%d]: %s\n", program_invocation_short_name, (int)getpid(), strerror(-err));
	if (err)
		die(what);
}

#endif
