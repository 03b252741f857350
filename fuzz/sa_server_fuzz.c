/* The seed's subnet administration meets any MADs of several requesters, in any time: it stays within its bounds, answers no more
 * than it was asked, and forgets all in the end. */
#include "fuzz.h"

#include "mgmt/sa_server.h"
#include "wire/field.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <string.h>

enum { STEPS = 2000, RECORD = 40, PACKETS = 200 };

static bool give(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record)
{
	const uint8_t *records = arg;

	(void)q;
	if (*at >= *records)
		return false;
	memset(record, (int)(*at)++, RECORD);
	return true;
}

static uint64_t version(void *arg)
{
	return *(const uint8_t *)arg;
}

static void say(struct sa_server *s, wtime now, struct input *in)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION };

	mad[3] = 0x12 + take_byte(in) % 4;
	mad[15] = take_byte(in) % 4;
	wire_put(mad, take_byte(in) & 1 ? SA_KEPT_ATTRIBUTE : 0x70, 16, 0, 16);
	mad[31] = take_byte(in) % 3;
	wire_put(mad, take_byte(in), 32, 0, 32);
	wire_put(mad, take(in, 2), 36, 0, 32);
	mad[40] = take_byte(in);
	wire_put(mad, take_byte(in), 42, 0, 16);
	for (unsigned i = 0; i < 3; i++) {
		mad[64 + 72 * i % 192] = take_byte(in) % 4;
		mad[64 + (72 * i + 15) % 192] = take_byte(in);
	}
	sa_server_input(s, now, take_byte(in) % 12, mad);
}

static void pull(struct sa_server *s, wtime now)
{
	uint8_t mad[MAD_BYTES];
	uint16_t lid;

	for (int i = 0; i < PACKETS && sa_server_output(s, now, &lid, mad); i++)
		REQUIRE(lid < 12 && mad[1] == MAD_CLASS_SA && mad[3] & 0x80);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct series_config config = { .subnet_timeout = 4, .response_time = 4, .retries = 3 };
	struct input in = { data, data + size };
	struct sa_server s;
	struct sa_store store;
	uint8_t records = 50;
	wtime now = 0;

	if (sa_store_init(&store, SA_KEY_CHOOSES, 0))
		return 0;
	sa_server_init(&s, &config);
	s.store = &store;
	s.version = version;
	s.arg = &records;
	s.table[s.tables++] = (struct sa_table){ "some", 0x70, RECORD, give, &records, .id_bytes = RECORD };
	s.table[s.tables++] = (struct sa_table){ "kept", SA_KEPT_ATTRIBUTE, SA_KEPT_BYTES, sa_store_give, &store,
						     .id_bytes = SA_KEPT_ID };
	for (int i = 0; i < STEPS && in.at < in.end; i++) {
		uint8_t what = take_byte(&in);

		if (what < 200)
			say(&s, now, &in);
		else if (what < 220)
			records = take_byte(&in);
		else
			now += take_byte(&in) * 10 * WTIME_US;
		pull(&s, now);
		sa_server_expire(&s, now);
		REQUIRE(s.count <= SA_SESSIONS + SA_CONFIGS_KEPT && store.count <= SA_KEPT_MOST);
		REQUIRE(s.config_bytes <= SA_CONFIGS_BYTES + SA_CONFIG_BYTES);
	}
	for (int i = 0; i < 2; i++)
		sa_server_expire(&s, now += 2 * SERIES_TOTAL_NS);
	REQUIRE(!s.config_bytes && !s.count && list_empty(&s.sessions) && sa_server_deadline(&s) == WTIME_NEVER);
	sa_server_fini(&s);
	sa_store_fini(&store);
	return 0;
}
