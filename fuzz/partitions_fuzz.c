/* Any text as a file of partitions for a small fabric: it is refused with a word, or each port has each key once. */
#include "fuzz.h"

#include "cli/fabric.h"
#include "cli/partitions.h"
#include "fabric/generate.h"
#include "wire/pkey.h"

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

static void judge(const struct fabric *f, uint32_t port)
{
	const uint16_t *keys = fabric_pkeys(f, port);

	for (unsigned i = 0; i < PORT_PKEYS; i++) {
		REQUIRE(!keys[i] || keys[i] & ~PKEY_FULL);
		for (unsigned k = 0; keys[i] && k < i; k++)
			REQUIRE((keys[i] ^ keys[k]) & ~PKEY_FULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct topology t;
	struct fabric f;
	char why[300];
	void *mapping;
	size_t bytes;

	topology_init(&t);
	REQUIRE(!generate(&t, "line", 0, NULL, why, sizeof(why)));
	bytes = fabric_bytes(&t);
	mapping = calloc(1, bytes);
	REQUIRE(mapping);
	fabric_format(mapping, &t);
	topology_fini(&t);
	REQUIRE(!fabric_open(&f, mapping, bytes, why, sizeof(why)));
	text_at = data;
	text_bytes = size;
	told = 0;
	REQUIRE(partitions_apply(&f, "a file", 0) == EXIT_OK ? !told : told == 1);
	for (uint32_t port = 0; port < f.ports; port++)
		judge(&f, port);
	fabric_close(&f);
	free(mapping);
	return 0;
}
