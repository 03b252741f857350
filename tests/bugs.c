/* Part of every test program that links weft's rooms: the program fails when an internal check of weft did, in its own process
 * or, in programs that start others, in any that inherits its environment. Where the test's harness has set WEFT_BUGS, the
 * harness looks at the file. */
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FAILED = 70 };

static pid_t owner;
static char file[64];

__attribute__((constructor)) static void watch(void)
{
	owner = getpid();
	if (getenv("WEFT_BUGS"))
		return;
	snprintf(file, sizeof(file), "/tmp/weft-test-bugs-%d", (int)owner);
	setenv("WEFT_BUGS", file, 1);
}

/* Prints and removes the file; false: there is none. */
static bool show_file(void)
{
	FILE *from = *file && getpid() == owner ? fopen(file, "r") : NULL;
	int c;

	if (!from)
		return false;
	while ((c = getc(from)) != EOF)
		putc(c, stderr);
	fclose(from);
	unlink(file);
	return true;
}

__attribute__((destructor)) static void judge(void)
{
	bool elsewhere = show_file();

	if (!log_bugs() && !elsewhere)
		return;
	fprintf(stderr, "FAILED: internal checks of weft failed, %" PRIu64 " of them in this process\n", log_bugs());
	fflush(NULL);
	_exit(FAILED);
}
