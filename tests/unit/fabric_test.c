/* A fabric's mapping: its tables have room and do not meet, and what a hostile writer puts into it is refused. */
#include "fabric.h"

#include "base/rand.h"
#include "fabric/speed.h"

#include <errno.h>
#include <stddef.h>

static void tables_are_apart_and_inside(void **state)
{
	struct test_fabric t;
	struct fabric *f = &t.f;
	uint8_t *end;

	MAKE(&t, "fat-tree", "ports=36");
	/* writing all of each table changes no other one */
	end = (uint8_t *)t.mapping + t.bytes;
	for (uint32_t n = 0; n < f->nodes; n++) {
		unsigned ports = f->place[n].ports;
		unsigned words = ports / MFT_BITS + 1;

		if (!fabric_is_switch(f, n)) {
			memset(fabric_sl2vl(f, n, 0, 0), (int)n, (ports + 1) * FABRIC_SL2VL);
			continue;
		}
		memset(fabric_lft(f, n), (int)n, f->lids);
		memset(fabric_mft(f, n, MLID_FIRST), (int)n, f->mlids * words * sizeof(uint16_t));
		memset(fabric_sl2vl(f, n, 0, 0), (int)n, (ports + 1) * (ports + 1) * FABRIC_SL2VL);
		assert_true(fabric_sl2vl(f, n, ports, ports) + FABRIC_SL2VL <= end);
	}
	for (uint32_t p = 0; p < f->ports; p++) {
		memset(fabric_pkeys(f, p), (int)p, PORT_PKEYS * sizeof(uint16_t));
		memset(fabric_guids(f, p), (int)p, FABRIC_GUIDS * sizeof(uint64_t));
		memset(fabric_vlarb(f, p), (int)p, FABRIC_VLARB * sizeof(struct fabric_vlarb));
	}
	for (uint32_t n = 0; n < f->nodes; n++) {
		assert_int_equal(*fabric_sl2vl(f, n, 0, 0), (uint8_t)n);
		if (!fabric_is_switch(f, n))
			continue;
		assert_int_equal(fabric_lft(f, n)[0], (uint8_t)n);
		assert_int_equal(fabric_lft(f, n)[f->lids - 1], (uint8_t)n);
		assert_int_equal(*(uint8_t *)fabric_mft(f, n, MLID_FIRST + f->mlids - 1), (uint8_t)n);
		assert_int_equal(fabric_sl2vl(f, n, 36, 36)[7], (uint8_t)n);
	}
	for (uint32_t p = 0; p < f->ports; p++) {
		assert_int_equal(*(uint8_t *)fabric_pkeys(f, p), (uint8_t)p);
		assert_int_equal(*(uint8_t *)fabric_guids(f, p), (uint8_t)p);
		assert_int_equal(fabric_vlarb(f, p)->vl, (uint8_t)p);
	}
	end_fabric(&t);
}

static void a_new_fabric_is_as_after_power_on(void **state)
{
	struct test_fabric t;
	uint32_t port;

	MAKE(&t, "star", "hosts=2");
	port = port_named(&t.f, "h1", 1);
	assert_int_equal(fabric_pkeys(&t.f, port)[0], PKEY_DEFAULT);
	assert_int_equal(fabric_pkeys(&t.f, port)[1], 0);
	assert_int_equal(fabric_guids(&t.f, port)[0], t.f.port[port].guid);
	assert_int_equal(t.f.port[port].prefix, PREFIX_DEFAULT);
	assert_int_equal(t.f.port[port].state, PORT_INIT);
	assert_int_equal(t.f.port[port].phys_state, PHYS_LINK_UP);
	assert_int_equal(fabric_lft(&t.f, 0)[1], LFT_NONE);
	assert_int_equal(fabric_mft(&t.f, 0, MLID_FIRST)[0], 0);
	/* service levels 2 and 3, 8 and 9 */
	assert_int_equal(fabric_sl2vl(&t.f, 0, 1, 2)[1], 0x23);
	assert_int_equal(fabric_sl2vl(&t.f, 0, 1, 2)[4], 0x01);
	assert_int_equal(fabric_vlarb(&t.f, port)[FABRIC_VLARB / 2 + 3].vl, 3);
	assert_int_equal(fabric_vlarb(&t.f, port)[FABRIC_VLARB / 2 + 3].weight, 1);
	end_fabric(&t);
}

static void refuse(struct test_fabric *t, size_t bytes, const char *says)
{
	char why[256] = "";
	struct fabric f;

	assert_int_equal(fabric_open(&f, t->mapping, bytes, why, sizeof(why)), -EINVAL);
	if (!strstr(why, says))
		fail_msg("'%s' instead of '%s'", why, says);
}

/* One value is changed, and put back. */
#define REFUSED(t, value, to, says)			\
	do {						\
		__typeof__(value) before = (value);	\
		(value) = (to);				\
		refuse(t, (t)->bytes, says);		\
		(value) = before;			\
	} while (0)

static void a_fabric_that_lies_is_refused(void **state)
{
	struct test_fabric t;
	struct fabric *f = &t.f;
	struct fabric_head *head;
	uint32_t h1, h2, s1;

	MAKE(&t, "line", "switches=2");
	head = f->head;
	h1 = port_named(f, "h1", 1);
	h2 = port_named(f, "h2", 1);
	s1 = port_named(f, "s1", 0);
	refuse(&t, 10, "fewer than its head");
	refuse(&t, t.bytes - 1, "bytes, and says");
	REFUSED(&t, head->magic, 1, "no fabric");
	REFUSED(&t, head->version, 99, "version 99");
	REFUSED(&t, head->nodes, TOPOLOGY_NODES + 1, "too many");
	REFUSED(&t, head->ports, UINT32_MAX, "too many");
	REFUSED(&t, head->lids, LIDS + 1, "too many");
	REFUSED(&t, head->mlids, MLIDS + 1, "too many");
	REFUSED(&t, head->nodes, TOPOLOGY_NODES, "no room");
	REFUSED(&t, head->nodes, 3, "its nodes have");
	REFUSED(&t, head->nodes, 5, "node 2 have no room");
	REFUSED(&t, head->lids, 2 * f->lids, "no room");
	REFUSED(&t, head->lids, f->lids - 64, "end at byte");
	REFUSED(&t, f->node[0].type, 0, "of type 0");
	REFUSED(&t, f->node[0].type, 4, "of type 4");
	REFUSED(&t, f->node[0].ports, 255, "are not behind");
	REFUSED(&t, f->node[0].ports, 2, "are not behind");
	REFUSED(&t, f->node[3].ports, 2, "are not behind");
	REFUSED(&t, f->node[1].first_port, 0, "are not behind");
	memset(f->node[2].description, 'x', sizeof(f->node[2].description));
	refuse(&t, t.bytes, "does not end");
	memset(f->node[2].description, 0, sizeof(f->node[2].description));
	REFUSED(&t, f->port[h1].peer, h1, "is linked with port");
	REFUSED(&t, f->port[h1].peer, f->ports, "is linked with port");
	REFUSED(&t, f->port[h1].peer, h2, "but not port");
	REFUSED(&t, f->port[h1].peer, PORT_NONE, "but not port");
	REFUSED(&t, f->port[s1].peer, h1, "is a port 0");
	REFUSED(&t, f->port[h1].width, 3, "no width or speed");
	REFUSED(&t, f->port[h1].speed, SPEEDS, "no width or speed");
	REFUSED(&t, f->port[h1].state, 0, "in state 0");
	REFUSED(&t, f->port[h1].state, 5, "in state 5");
	end_fabric(&t);
}

/* They are judged when a fabric is loaded; while a manager moves them it can be read. */
static void expect_lid(struct test_fabric *t, uint32_t port, unsigned lid, unsigned lmc, const char *says)
{
	struct fabric_port before = t->f.port[port];
	struct fabric f;
	char why[256] = "";

	t->f.port[port].lid = (uint16_t)lid;
	t->f.port[port].lmc = (uint8_t)lmc;
	assert_int_equal(fabric_check_lids(&t->f, why, sizeof(why)), -EINVAL);
	if (!strstr(why, says))
		fail_msg("'%s' instead of '%s'", why, says);
	assert_int_equal(fabric_open(&f, t->mapping, t->bytes, why, sizeof(why)), 0);
	fabric_close(&f);
	t->f.port[port] = before;
}

static void lids_that_two_ports_have(void **state)
{
	struct test_fabric t;
	char why[256] = "";
	uint32_t h1;

	MAKE(&t, "line", "switches=2");
	h1 = port_named(&t.f, "h1", 1);
	assert_int_equal(fabric_check_lids(&t.f, why, sizeof(why)), 0);
	expect_lid(&t, h1, t.f.lids, 0, "of 64 LIDs");
	expect_lid(&t, h1, t.f.port[h1].lid, 8, "LMC 8");
	expect_lid(&t, h1, t.f.port[h1].lid, 2, "LMC 2");
	expect_lid(&t, h1, t.f.port[port_named(&t.f, "h2", 1)].lid, 0, "and another one have LID 4");
	t.f.port[h1].lid = 0;
	t.f.port[h1].lmc = 8;
	assert_int_equal(fabric_check_lids(&t.f, why, sizeof(why)), 0);
	end_fabric(&t);
}

/* Any byte is changed to anything: what is accepted can be read to the end of every table. */
static void no_byte_leads_outside(void **state)
{
	struct test_fabric t;
	struct rand r;

	rand_seed(&r, 1);
	MAKE(&t, "line", "switches=3", "hosts=2");
	for (int i = 0; i < 20000; i++) {
		uint8_t *at = (uint8_t *)t.mapping + rand_below(&r, i % 2 ? t.bytes : t.f.pkeys), before = *at;
		struct fabric f;
		char why[256];

		*at = (uint8_t)rand_u64(&r);
		if (!fabric_open(&f, t.mapping, t.bytes, why, sizeof(why))) {
			for (uint32_t n = 0; n < f.nodes; n++)
				assert_true(fabric_sl2vl(&f, n, 0, f.place[n].ports) < (uint8_t *)t.mapping + t.bytes);
			assert_int_equal(f.owner[f.ports - 1], f.nodes - 1);
			fabric_close(&f);
		}
		*at = before;
	}
	end_fabric(&t);
}

static void a_sequence_word_is_odd_while_its_node_changes(void **state)
{
	struct test_fabric t;

	MAKE(&t, "star", "hosts=2");
	fabric_write(&t.f, 1);
	assert_int_equal(t.f.node[1].sequence, 1);
	fabric_written(&t.f, 1);
	assert_int_equal(t.f.node[1].sequence, 2);
	assert_int_equal(t.f.node[0].sequence, 0);
	/* a writer that died in between is followed by another */
	fabric_write(&t.f, 1);
	fabric_write(&t.f, 1);
	fabric_written(&t.f, 1);
	assert_int_equal(t.f.node[1].sequence, 4);
	end_fabric(&t);
}

static void rates(void **state)
{
	assert_int_equal(link_mbps(WIDTH_4X, SPEED_QDR), 32000);
	assert_int_equal(link_mbps(WIDTH_12X, SPEED_SDR), 24000);
	assert_int_equal(link_mbps(WIDTH_2X, SPEED_NDR), 200000);
	assert_int_equal(link_mbps(3, SPEED_SDR), 0);
	assert_int_equal(link_mbps(WIDTH_1X, SPEEDS), 0);
	assert_int_equal(width_of(8), WIDTH_8X);
	assert_int_equal(width_of(3), 0);
	assert_int_equal(speed_of("FDR10", 5), SPEED_FDR10);
	assert_int_equal(speed_of("FDR10", 3), SPEED_FDR);
	assert_int_equal(speed_of("fdr", 3), SPEED_UNKNOWN);
	assert_int_equal(speed_of_bits(7, 0), SPEED_QDR);
	assert_int_equal(speed_of_bits(7, 3), SPEED_EDR);
	assert_int_equal(width_of_bits(3), WIDTH_4X);
	assert_string_equal(speed_name(SPEEDS), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_are_apart_and_inside),
		cmocka_unit_test(a_new_fabric_is_as_after_power_on),
		cmocka_unit_test(a_fabric_that_lies_is_refused),
		cmocka_unit_test(lids_that_two_ports_have),
		cmocka_unit_test(no_byte_leads_outside),
		cmocka_unit_test(a_sequence_word_is_odd_while_its_node_changes),
		cmocka_unit_test(rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
