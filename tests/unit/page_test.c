/* The fabric page, written by weftd and read by processes: what is read is never half of a change. */
#include "peers/devices.h"
#include "weftd/page.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { ETHERNET = 1 };

static const struct node nowhere;

static const uint8_t gid[16] = { 0xff, 0x02, [15] = 1 };

#define ADDRESS(last) { .raw = { [10] = 0xff, [11] = 0xff, 192, 0, 2, last }, .ifindex = 2, .ifname = "eth0" }
static const struct page_address addresses[] = { ADDRESS(1), ADDRESS(2), ADDRESS(3) };

static size_t memory_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t round_up(size_t bytes)
{
	return (bytes + memory_page() - 1) / memory_page() * memory_page();
}

static struct fabric_page *make_page(void)
{
	struct fabric_page *p = mmap(NULL, round_up(sizeof(*p)), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	page_set_devices(p, &control_default, 0x1234);
	return p;
}

static void free_page(struct fabric_page *p)
{
	munmap(p, round_up(sizeof(*p)));
}

static void nothing_is_read_within_a_change(void **state)
{
	struct fabric_page *p = make_page();
	struct ca_device dev[CA_DEVICES];

	(void)state;
	for (int change = 0; change < 3; change++) {
		assert_int_equal(devices_read(p, &nowhere, dev), (int)control_default.devices);
		page_write_begin(p);
		p->device[0].lid = (uint16_t)(7 + change);
		assert_int_equal(devices_read(p, &nowhere, dev), 0);
		page_write_end(p);
		assert_int_equal(devices_read(p, &nowhere, dev), (int)control_default.devices);
		assert_int_equal(dev[0].lid, 7 + change);
	}
	free_page(p);
}

static void a_change_that_its_weftd_did_not_end_is_ended_by_the_next(void **state)
{
	struct fabric_page *p = make_page();
	struct ca_device dev[CA_DEVICES];

	(void)state;
	page_write_begin(p);
	page_repair(p);
	assert_int_equal(devices_read(p, &nowhere, dev), (int)control_default.devices);
	page_repair(p);
	assert_int_equal(devices_read(p, &nowhere, dev), (int)control_default.devices);
	free_page(p);
}

static void every_change_of_weftds_is_ended(void **state)
{
	struct fabric_page *p = make_page();
	struct ca_device dev[CA_DEVICES];

	(void)state;
	assert_true(page_set_addresses(p, addresses, 2));
	assert_int_equal(devices_read(p, &nowhere, dev), (int)control_default.devices);
	assert_memory_equal(dev[ETHERNET].gid[1].raw, addresses[0].raw, 16);
	assert_false(page_set_addresses(p, addresses, 2));
	assert_true(page_set_addresses(p, addresses, 0));
	assert_int_equal(devices_read(p, &nowhere, dev), (int)control_default.devices);
	assert_int_equal(dev[ETHERNET].gid[1].valid, 0);
	free_page(p);
}

static void an_address_that_stays_keeps_its_index(void **state)
{
	struct fabric_page *p = make_page();
	struct ca_device dev[CA_DEVICES];

	(void)state;
	assert_true(page_set_addresses(p, addresses, 2));
	assert_true(page_set_addresses(p, addresses + 1, 2));
	assert_int_equal(devices_read(p, &nowhere, dev), (int)control_default.devices);
	assert_memory_equal(dev[ETHERNET].gid[1].raw, addresses[2].raw, 16);
	assert_memory_equal(dev[ETHERNET].gid[2].raw, addresses[1].raw, 16);
	assert_int_equal(dev[ETHERNET].gid[3].valid, 0);
	free_page(p);
}

static void a_device_has_the_addresses_of_its_interface_and_the_first_the_rest(void **state)
{
	const struct page_address two[] = { ADDRESS(1),
		{ .raw = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 }, .ifindex = 3, .ifname = "eth1" },
	};
	struct fabric_page *p = make_page();
	struct ca_device dev[CA_DEVICES];
	struct control_table t;
	char why[80];

	(void)state;
	assert_int_equal(control_table_parse("a,b:roce,netdev=eth1,c:roce,d:roce,e", &t, why, sizeof(why)), 0);
	page_set_devices(p, &t, 0x1234);
	assert_true(page_set_addresses(p, two, 2));
	assert_int_equal(devices_read(p, &nowhere, dev), 5);
	assert_memory_equal(dev[1].gid[1].raw, two[1].raw, 16);
	assert_memory_equal(dev[2].gid[1].raw, two[0].raw, 16);
	assert_false(dev[1].gid[2].valid || dev[2].gid[2].valid || dev[3].gid[1].valid);
	/* InfiniBand devices are on subnets of their own, others on one link */
	assert_int_equal(dev[0].gid[0].raw[7], 0);
	assert_int_equal(dev[4].gid[0].raw[7], 1);
	assert_int_equal(dev[3].gid[0].raw[7], 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(dev[i].guid, 0x1234 + i);
	free_page(p);
}

/* ---- a writer in the midst of a copy: the copy touches memory that is not there, and the handler writes ---- */

static struct {
	struct fabric_page *page;
	struct page_group *group;
	uint8_t *hidden;	/* the memory page at which the copy stops */
	unsigned stops;
} copy;

static void write_half(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	if ((uint8_t *)info->si_addr < copy.hidden || (uint8_t *)info->si_addr >= copy.hidden + memory_page())
		abort();
	copy.stops++;
	mprotect(copy.hidden, memory_page(), PROT_READ | PROT_WRITE);
	page_write_begin(copy.page);
	memset(copy.group->slots, 0, sizeof(copy.group->slots));
}

/* A group that a memory page begins in, behind what says which group it is. */
static struct page_group *group_over_two_pages(struct fabric_page *p)
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		struct page_group *g = &p->group[i];
		uintptr_t next = round_up((uintptr_t)g);

		if (next >= (uintptr_t)(g->slots + 1) && next < (uintptr_t)(g + 1))
			return g;
	}
	fail_msg("no group lies over two pages of memory");
	return NULL;
}

static void a_change_in_the_midst_of_a_copy_is_noticed(void **state)
{
	const struct sigaction catch = { .sa_sigaction = write_half, .sa_flags = SA_SIGINFO };
	uint64_t members[PAGE_SLOTS / 64];
	uint16_t mlid;
	struct sigaction before;

	(void)state;
	copy.page = make_page();
	copy.group = group_over_two_pages(copy.page);
	copy.hidden = (uint8_t *)round_up((uintptr_t)copy.group);
	copy.group->used = 1;
	memcpy(copy.group->gid, gid, sizeof(gid));
	memset(copy.group->slots, 0xff, sizeof(copy.group->slots));
	assert_true(group_members(copy.page, 0, gid, 0, members, &mlid));
	sigaction(SIGSEGV, &catch, &before);
	mprotect(copy.hidden, memory_page(), PROT_NONE);
	assert_false(group_members(copy.page, 0, gid, 0, members, &mlid));
	sigaction(SIGSEGV, &before, NULL);
	assert_int_equal(copy.stops, 1);
	page_write_end(copy.page);
	assert_true(group_members(copy.page, 0, gid, 0, members, &mlid));
	assert_int_equal(group_next(members, 0), 0);
	free_page(copy.page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_read_within_a_change),
		cmocka_unit_test(a_change_that_its_weftd_did_not_end_is_ended_by_the_next),
		cmocka_unit_test(every_change_of_weftds_is_ended),
		cmocka_unit_test(an_address_that_stays_keeps_its_index),
		cmocka_unit_test(a_device_has_the_addresses_of_its_interface_and_the_first_the_rest),
		cmocka_unit_test(a_change_in_the_midst_of_a_copy_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
