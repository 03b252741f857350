/* What a file of weft fabric load is read by, in place of the command's own: the bytes of an input, and what is said of them. */
#ifndef WEFT_FUZZ_CLI_TEXT_H
#define WEFT_FUZZ_CLI_TEXT_H

#include "fuzz.h"

#include "cli/fabric.h"

#include <string.h>

static const uint8_t *text_at;
static size_t text_bytes;
static int text_told;		/* refusals */

static void text_set(const uint8_t *data, size_t size)
{
	text_at = data;
	text_bytes = size;
	text_told = 0;
}

int fabric_read_text(const char *path, char **text, size_t *bytes)
{
	*text = malloc(text_bytes + 1);
	REQUIRE(*text && path);
	memcpy(*text, text_at, text_bytes);
	(*text)[text_bytes] = '\0';
	*bytes = text_bytes;
	return EXIT_OK;
}

int cli_fail(const char *next, const char *cause, ...)
{
	REQUIRE(next && *cause);
	text_told++;
	return EXIT_FAILED;
}

#endif
