/* What ports carry: where processes write it, and what weftd makes of it. */
#include "link/memfile.h"
#include "peers/loads.h"
#include "peers/peers.h"
#include "weftd/loads.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLOT = 7, OTHER = 4095, NOBODYS = 9, DEVICE = 1 };

static struct {
	struct hub hub;
	struct fabric_page page;
	struct port_loads loads;
} weftd;

static uint64_t value_of(const uint64_t value[SYSFS_COUNTERS], const char *name)
{
	static const char *const names[] = {
#define PORT_COUNTER(file, ...) #file,
#define PORT_COUNTER_EXT PORT_COUNTER
#include "weftd/port_counter.def"
#undef PORT_COUNTER
#undef PORT_COUNTER_EXT
	};

	for (unsigned i = 0; i < SYSFS_COUNTERS; i++)
		if (strcmp(names[i], name) == 0)
			return value[i];
	fail_msg("no counter %s", name);
	return 0;
}

static void what_processes_have_sent_and_received_adds_up(void **state)
{
	static const struct { const char *name; uint64_t value; } rows[] = {
		{ "port_xmit_data", 1000 + 300 + 20 }, { "port_rcv_data", 1000 + 300 + 5 }, { "port_xmit_packets", 10 + 3 + 2 },
		{ "port_rcv_packets", 10 + 3 + 1 }, { "multicast_xmit_packets", 3 + 2 }, { "multicast_rcv_packets", 3 },
		{ "unicast_xmit_packets", 10 }, { "unicast_rcv_packets", 10 + 1 }, { "port_xmit_discards", 6 },
		{ "link_downed", 2 }, { "symbol_error", 0 }, { "port_xmit_wait", 0 },
	};
	uint64_t value[SYSFS_COUNTERS];

	(void)state;
	weftd.hub = (struct hub){ .page = &weftd.page, .loads = { .all = &weftd.loads, .link_downed = { 8, 2 } } };
	weftd.page.slot_owner[SLOT] = weftd.page.slot_owner[OTHER] = 1;
	port_load_pass(&weftd.loads.slot[SLOT][DEVICE], PORT_LOAD_LOOP, 1000, 10, false);
	port_load_pass(&weftd.loads.slot[OTHER][DEVICE], PORT_LOAD_LOOP, 300, 3, true);
	port_load_pass(&weftd.loads.slot[OTHER][DEVICE], PORT_LOAD_XMIT, 20, 2, true);
	port_load_pass(&weftd.loads.slot[SLOT][DEVICE], PORT_LOAD_RCV, 5, 1, false);
	port_load_add(&weftd.loads.slot[SLOT][DEVICE], PORT_LOAD_XMIT_DISCARDS, 6);
	/* another device, and a slot that nobody had */
	port_load_pass(&weftd.loads.slot[SLOT][0], PORT_LOAD_RCV, 500, 50, false);
	port_load_pass(&weftd.loads.slot[NOBODYS][DEVICE], PORT_LOAD_RCV, 500, 50, false);
	loads_read(&weftd.hub, DEVICE, value);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (value_of(value, rows[i].name) != rows[i].value)
			fail_msg("%s is %llu", rows[i].name, (unsigned long long)value_of(value, rows[i].name));
}

static void what_processes_count_at_a_device_adds_up(void **state)
{
	static const struct { uint32_t slot, device; uint64_t sent; } rows[] = {
		{ SLOT, DEVICE, UINT64_MAX - 1 }, { OTHER, DEVICE, 42 }, { NOBODYS, DEVICE, 500 }, { SLOT, 0, 7 },
	};
	uint64_t value[SYSFS_HW_COUNTERS] = { 0 };

	(void)state;
	weftd.hub = (struct hub){ .page = &weftd.page, .loads = { .all = &weftd.loads, .link_downed = { 8, 2 } } };
	weftd.page.slot_owner[SLOT] = weftd.page.slot_owner[OTHER] = 1;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		weftd.loads.counters[rows[i].slot][rows[i].device].sent_pkts = rows[i].sent;
	weftd.loads.counters[SLOT][DEVICE].ack_deferred = 3;
	weftd.loads.counters[SLOT][DEVICE].link_downed = 100;
	loads_read_hw(&weftd.hub, DEVICE, value);
	assert_int_equal(value[0], 3);
	assert_int_equal(value[3], 2);
	assert_int_equal(value[SYSFS_HW_COUNTERS - 1], 40);
	loads_read_hw(&weftd.hub, 0, value);
	assert_int_equal(value[SYSFS_HW_COUNTERS - 1], 7);
}

static void without_a_file_all_is_0(void **state)
{
	uint64_t value[SYSFS_COUNTERS];

	(void)state;
	weftd.hub = (struct hub){ .page = &weftd.page };
	loads_read(&weftd.hub, DEVICE, value);
	for (unsigned i = 0; i < SYSFS_COUNTERS; i++)
		assert_int_equal(value[i], 0);
}

/* ---- of a process ---- */

static const struct port_load *count_in(struct peers *ps, int device)
{
	port_load_pass(ps->ca->dev[device].load, PORT_LOAD_XMIT, 1, 1, false);
	return ps->ca->dev[device].load;
}

static uint64_t words_in(int fd, int device)
{
	struct port_loads *at = mmap(NULL, sizeof(*at), PROT_READ, MAP_SHARED, fd, 0);
	uint64_t words;

	assert_ptr_not_equal(at, MAP_FAILED);
	words = at->slot[SLOT][device].count[PORT_LOAD_XMIT_WORDS];
	munmap(at, sizeof(*at));
	return words;
}

static int again(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void a_process_counts_in_the_file_that_was_given_last(void **state)
{
	const size_t bytes = sizeof(struct port_loads);
	int file[2] = { memfile_create_fixed("a", bytes), memfile_create_fixed("b", bytes) };
	struct ca_device dev[2] = { { .protocol = &protocol_ib }, { .protocol = &protocol_roce_v2 } };
	struct ca ca = { .dev = dev, .devices = 2 };
	struct peers ps = { .ca = &ca, .slot = SLOT };
	int i;

	(void)state;
	loads_point(&ps);
	assert_null(count_in(&ps, 0));
	assert_null(dev[1].counters);
	for (i = 0; i < 2; i++) {
		loads_take(&ps, again(file[i]));
		count_in(&ps, 1);
	}
	loads_take(&ps, -1);
	count_in(&ps, 0);
	assert_int_equal(words_in(file[0], 0), 0);
	assert_int_equal(words_in(file[0], 1), 1);
	assert_int_equal(words_in(file[1], 0), 1);
	assert_int_equal(words_in(file[1], 1), 1);
	/* at a port of a fabric */
	ps.node.fabric.head = (void *)&ps;
	loads_point(&ps);
	assert_null(count_in(&ps, 0));
	assert_null(dev[0].counters);
	assert_ptr_equal(dev[1].counters, &ps.loads->counters[SLOT][1]);
	count_in(&ps, 1);
	assert_int_equal(words_in(file[1], 0), 1);
	assert_int_equal(words_in(file[1], 1), 2);
	loads_end(&ps);
	close(file[0]);
	close(file[1]);
}

static void a_file_that_may_shrink_is_not_taken(void **state)
{
	struct ca_device dev = { .protocol = &protocol_ib };
	struct ca ca = { .dev = &dev, .devices = 1 };
	struct peers ps = { .ca = &ca, .slot = SLOT };
	int fd = memfd_create("weft-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(ftruncate(fd, sizeof(struct port_loads)), 0);
	loads_take(&ps, fd);
	assert_null(ps.loads);
	loads_take(&ps, memfile_create_fixed("weft-test", sizeof(struct port_loads) - 1));
	assert_null(ps.loads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_processes_have_sent_and_received_adds_up),
		cmocka_unit_test(what_processes_count_at_a_device_adds_up),
		cmocka_unit_test(without_a_file_all_is_0),
		cmocka_unit_test(a_process_counts_in_the_file_that_was_given_last),
		cmocka_unit_test(a_file_that_may_shrink_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
