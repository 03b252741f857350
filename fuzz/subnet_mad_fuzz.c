/* MADs that anybody sends into a fabric with a manager: each input is a row of them, with the ports that send them, their
 * addresses and the time between. Whatever they are, agents answer, hand on or lose them, and the fabric stays one that
 * fabric_open() accepts. */
#include "sound_fabric.h"

#include "agents/agents.h"
#include "mgmt/gmp.h"

#include <string.h>

static uint8_t *sound, *changed;
static size_t bytes;

static void make(void)
{
	struct fabric f;

	sound = torus_make((char[]){ "size=3" }, (char[]){ "hosts=1" }, &f, &bytes);
	changed = malloc(bytes);
	REQUIRE(changed);
	fabric_activate(&f);
	for (uint32_t port = 0; port < f.ports; port++)
		f.port[port].sm_lid = 1;
	fabric_close(&f);
}

static struct mad_address take_address(struct input *in)
{
	struct mad_address to = { .qkey = GSI_QKEY, .pkey = PKEY_DEFAULT };
	unsigned what = take_byte(in);

	to.src_qpn = what & 1;
	to.dest_qpn = what >> 1 & 1;
	to.path.sl = what >> 4;
	to.path.dlid = what & 4 ? LID_PERMISSIVE : (uint16_t)take(in, what & 8 ? 2 : 1);
	to.path.slid = what & 4 ? LID_PERMISSIVE : 0;
	return to;
}

/* The parts of a MAD that matter, without 200 bytes of zeros. */
static void take_mad(struct input *in, uint8_t mad[MAD_BYTES])
{
	unsigned length = take_byte(in) % (SMP_DATA_BYTES + 1), hops = take_byte(in) % 8;

	memset(mad, 0, MAD_BYTES);
	for (unsigned i = 0; i < 8; i++)
		mad[i] = take_byte(in);
	for (unsigned i = 16; i < 24; i++)
		mad[i] = i == 18 || i == 19 ? 0 : take_byte(in);
	for (unsigned i = 24; i < 36; i++)
		mad[i] = i < 31 ? 0 : take_byte(in);
	for (unsigned i = 0; i < length; i++)
		mad[SMP_DATA + i] = take_byte(in);
	for (unsigned i = 1; i <= hops; i++)
		mad[128 + i] = take_byte(in);
	for (unsigned i = 1; i <= hops; i++)
		mad[192 + i] = take_byte(in);
}

static void send(struct agents *a, wtime now, struct input *in)
{
	uint32_t from = take_byte(in) % (a->fabric->ports + 2);
	struct mad_address to = take_address(in);
	uint8_t mad[MAD_BYTES];
	struct mad_arrival at;
	enum mad_outcome outcome;

	take_mad(in, mad);
	outcome = agents_mad(a, now, from, &to, mad, &at);
	REQUIRE(outcome <= MAD_LOST && (outcome == MAD_LOST) == (a->lost != LOSS_NONE) && *mad_loss_text(a->lost));
	REQUIRE(outcome != MAD_ANSWERED || (at.port == from && mad[3] == MAD_GET_RESP));
	REQUIRE(outcome != MAD_ARRIVED || at.port < a->fabric->ports);
	if (outcome == MAD_ARRIVED)
		REQUIRE(agents_refuse(a, now, &at, mad, &at) != MAD_ARRIVED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t mad[MAD_BYTES];
	struct mad_arrival at;
	struct fabric f;
	struct agents a;
	char why[256] = "", text[4096];
	wtime now = 1;

	if (!sound)
		make();
	memcpy(changed, sound, bytes);
	REQUIRE(!fabric_open(&f, changed, bytes, why, sizeof(why)) && !agents_init(&a, &f));
	while (in.at < in.end) {
		send(&a, now, &in);
		now += take_byte(&in) * WTIME_S / 10;
		while (agents_output(&a, now, mad, &at))
			REQUIRE(at.port < f.ports && smp_dump(mad, text, sizeof(text)) > 0);
		REQUIRE(agents_deadline(&a) > now);
	}
	agents_fini(&a);
	fabric_close(&f);
	REQUIRE(!fabric_open(&f, changed, bytes, why, sizeof(why)));
	fabric_close(&f);
	return 0;
}
