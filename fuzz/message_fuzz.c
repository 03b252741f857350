/* What a hostile peer may write as a direct message: record_parse stays inside the record, and building what it accepts
 * gives the same bytes. What would be pulled is pulled by a mover that only looks whether it stays inside the receive. */
#include "fuzz.h"

#include "direct/record.h"

#include <string.h>

static uint8_t receive[1 << 16];

static bool look(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	(void)peer;
	(void)address;
	for (unsigned i = 0; i < iovs; bytes -= (uint32_t)iov[i++].iov_len) {
		uint8_t *at = iov[i].iov_base;

		REQUIRE(at >= receive && iov[i].iov_len <= sizeof(receive) && at + iov[i].iov_len <= receive + sizeof(receive));
	}
	REQUIRE(bytes == 0);
	return true;
}

/* record_parse forgoes what a message promises. */
static void forgo_promise(uint8_t *record)
{
	struct record_head *h = (struct record_head *)(void *)record;

	h->psn &= PSN_MASK;
	h->received &= PSN_MASK;
}

static void look_at_short(const uint8_t *record, size_t size)
{
	struct record_short m;
	uint8_t *again;

	if (!record_parse_short(&m, record, size))
		return;
	REQUIRE(m.promise.size <= PROMISE_SIZE && RECORD_HEAD_BYTES + m.bytes == size);
	again = malloc(size);
	record_build_short(again, m.dest_qpn, m.src_qpn, m.psn, m.received, m.promise, m.data, m.bytes, m.solicited);
	REQUIRE(!memcmp(again, record, size));
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rma_mover mover = { .read = look };
	struct iovec iov[DIRECT_IOVS], to[2] = { { receive, 100 }, { receive + 200, sizeof(receive) - 200 } };
	struct direct_message m;
	uint8_t *record, *again;

	/* of their exact size, so that the sanitizer sees each byte too far */
	record = malloc(size);
	memcpy(record, data, size);
	look_at_short(record, size);
	if (record_parse(&m, record, size, iov)) {
		REQUIRE(record_bytes(&m) == size && m.iovs <= DIRECT_IOVS);
		again = malloc(size);
		record_build(&m, again);
		forgo_promise(record);
		REQUIRE(!memcmp(again, record, size));
		free(again);
		if (m.payload == PAYLOAD_RENDEZVOUS)
			record_pull(&m, m.bytes / 2, &mover, NULL, to, 2);
	}
	free(record);
	return 0;
}
