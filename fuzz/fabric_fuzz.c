/* A mapping in which another user wrote: the input is pairs of a place and a byte. What is judged sound is read to the end of
 * every table, and routed, without leaving it. */
#include "sound_fabric.h"

#include "fabric/survey.h"
#include "fabric/walk.h"

#include <string.h>

static uint8_t *sound, *changed;
static size_t bytes;

static void make(void)
{
	struct fabric f;

	sound = torus_make((char[]){ "size=3x2" }, (char[]){ "hosts=2" }, &f, &bytes);
	changed = malloc(bytes);
	REQUIRE(changed && !fabric_route_group(&f, MLID_FIRST));
	fabric_activate(&f);
	fabric_close(&f);
}

static unsigned touch(const uint8_t *from, size_t length)
{
	unsigned sum = 0;

	while (length--)
		sum += from[length];
	return sum;
}

/* Every table to its end. */
static unsigned read_tables(const struct fabric *f)
{
	unsigned sum = 0;

	for (uint32_t n = 0; n < f->nodes; n++) {
		unsigned ports = f->place[n].ports;

		if (fabric_is_switch(f, n)) {
			sum += touch(fabric_lft(f, n), f->lids);
			sum += touch((const uint8_t *)fabric_mft(f, n, MLID_FIRST), f->mlids * (ports / MFT_BITS + 1) * 2);
		}
		sum += touch(fabric_sl2vl(f, n, fabric_is_switch(f, n) ? ports : 0, ports), FABRIC_SL2VL);
		for (unsigned i = 0; i <= ports; i++) {
			uint32_t port = fabric_port_index(f, n, i);

			sum += touch((const uint8_t *)fabric_pkeys(f, port), PORT_PKEYS * sizeof(uint16_t));
			sum += touch((const uint8_t *)fabric_partitions(f, port), PORT_PKEYS * sizeof(uint16_t));
		}
	}
	return sum;
}

/* Every pair of a port and a LID, and the group. */
static void walk_all(const struct fabric *f)
{
	struct walk_group g;

	REQUIRE(!walk_group_init(&g, f));
	for (uint32_t from = 0; from < f->ports; from++) {
		struct walk_packet p = { from, MLID_FIRST, PKEY_DEFAULT, (uint8_t)(from % 16), 255 };
		struct walk_route r;

		fabric_walk_group(f, &p, &g);
		REQUIRE(g.ports <= f->ports);
		for (p.dlid = 0; p.dlid <= f->lids; p.dlid++) {
			REQUIRE(fabric_walk(f, &p, &r) < WALK_VERDICTS && r.at < f->ports && r.nodes <= WALK_NODES);
			if (r.verdict != WALK_CHANGING)
				REQUIRE(fabric_walk_again(f, &r) == r.verdict);
		}
	}
	walk_group_fini(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct fabric f;
	char why[256] = "";

	if (!sound)
		make();
	memcpy(changed, sound, bytes);
	while (in.at < in.end) {
		size_t at = take(&in, 3) % bytes;

		changed[at] = take_byte(&in);
	}
	if (fabric_open(&f, changed, bytes, why, sizeof(why))) {
		REQUIRE(*why);
		return 0;
	}
	read_tables(&f);
	walk_all(&f);
	for (int e = 0; !fabric_check_lids(&f, why, sizeof(why)) && e < ROUTE_ENGINES; e++) {
		struct survey s;

		REQUIRE(!fabric_route(&f, (enum route_engine)e) && !survey(&s, &f));
		REQUIRE(s.paths == s.reached + s.lost + s.looping);
		survey_fini(&s);
	}
	fabric_close(&f);
	return 0;
}
