/* Any text as a file of partitions for a small fabric: it is refused with a word, or each port has each key once. */
#include "fuzz.h"
#include "cli_text.h"

#include "cli/fabric.h"
#include "cli/partitions.h"
#include "fabric/generate.h"
#include "wire/pkey.h"

#include <string.h>

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
	text_set(data, size);
	REQUIRE(partitions_apply(&f, "a file", 0) == EXIT_OK ? !text_told : text_told == 1);
	for (uint32_t port = 0; port < f.ports; port++)
		judge(&f, port);
	fabric_close(&f);
	free(mapping);
	return 0;
}
