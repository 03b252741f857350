/* What a file of weft fabric load is read by, in place of the command's own: a text, and what is said of it. */
#ifndef WEFT_TESTS_CLI_FILE_H
#define WEFT_TESTS_CLI_FILE_H

#include "cli/fabric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *file;		/* what is read */
static char told[400];			/* what was refused, and why */

int fabric_read_text(const char *path, char **text, size_t *bytes)
{
	*text = strdup(file);
	assert_non_null(*text);
	*bytes = strlen(file);
	return EXIT_OK;
}

int cli_fail(const char *next, const char *cause, ...)
{
	va_list args;

	va_start(args, cause);
	vsnprintf(told, sizeof(told), cause, args);
	va_end(args);
	return EXIT_FAILED;
}

static void set_file(const char *text)
{
	file = text;
	told[0] = '\0';
}

#endif
