/* Any text as a file of partitions for a small fabric: it is refused with a word, or each port has each key once. */
#include "sound_fabric.h"
#include "cli_text.h"

#include "cli/fabric.h"
#include "cli/partitions.h"
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
	struct fabric f;
	size_t bytes;
	uint8_t *mapping = sound_fabric("line", 0, NULL, 0, &f, &bytes);

	text_set(data, size);
	REQUIRE(partitions_apply(&f, "a file", 0) == EXIT_OK ? !text_told : text_told == 1);
	for (uint32_t port = 0; port < f.ports; port++)
		judge(&f, port);
	fabric_close(&f);
	free(mapping);
	return 0;
}
