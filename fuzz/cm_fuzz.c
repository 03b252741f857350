/* Any 256 bytes as a CM MAD: what cm_parse accepts, cm_build gives back but for the reserved bits, and then for good. The private
 * data is read as rdma_cm's header too. */
#include "fuzz.h"

#include "wire/cm.h"

#include <string.h>

static void check_accepted(const struct cm_msg *m, const uint8_t *mad)
{
	uint8_t built[MAD_BYTES], again[MAD_BYTES];
	struct cm_msg n;
	char text[300];

	cm_build(m, built);
	for (unsigned i = 0; i < MAD_BYTES; i++)
		REQUIRE(!(built[i] & ~mad[i]));
	REQUIRE(cm_parse(&n, built));
	cm_build(&n, again);
	REQUIRE(!memcmp(again, built, MAD_BYTES));
	REQUIRE(cm_dump(m, text, sizeof(text)) > 0);
}

static void check_cma(const uint8_t *private_data)
{
	uint8_t built[CMA_BYTES];
	struct cma_header h, g;

	if (!cma_parse(&h, private_data))
		return;
	cma_build(&h, built);
	REQUIRE(cma_parse(&g, built) && !memcmp(&g, &h, sizeof(g)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mad[MAD_BYTES] = { 0 };
	struct cm_msg m;

	memcpy(mad, data, size < MAD_BYTES ? size : MAD_BYTES);
	if (!cm_parse(&m, mad))
		return 0;
	check_accepted(&m, mad);
	if (m.attribute == CM_REQ)
		check_cma(m.req.private_data);
	else if (m.attribute == CM_SIDR_REQ)
		check_cma(m.sidr_req.private_data);
	return 0;
}
