/* Any text as a file of the manager's options: it is refused with a word, or the head has what a manager can use as it is. */
#include "fuzz.h"

#include "cli/fabric.h"
#include "cli/manager_options.h"

#include <string.h>

static const uint8_t *text_at;
static size_t text_bytes;
static int told;

int fabric_read_all(const char *path, char **text, size_t *bytes)
{
	*text = malloc(text_bytes + 1);
	REQUIRE(*text && path);
	memcpy(*text, text_at, text_bytes);
	*bytes = text_bytes;
	return EXIT_OK;
}

int fabric_no_memory(void)
{
	abort();
}

int cli_fail(const char *next, const char *cause, ...)
{
	REQUIRE(next && *cause);
	told++;
	return EXIT_FAILED;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fabric_head head = { 0 };
	struct fabric f = { .head = &head };
	struct fabric_qos read;
	int status;

	text_at = data;
	text_bytes = size;
	told = 0;
	status = manager_options_apply(&f, "a file");
	REQUIRE(status == EXIT_OK ? !told : told == 1);
	qos_read(&head.manager_qos, &read);
	REQUIRE(status != EXIT_OK || !memcmp(&read, &head.manager_qos, sizeof(read)));
	REQUIRE(head.manager_m_key_protect <= 3);
	return 0;
}
