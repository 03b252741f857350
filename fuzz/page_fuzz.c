/* Any contents of the fabric page: what a process takes over from it is in range, and reading it ends. */
#include "fuzz.h"

#include "peers/devices.h"

#include <string.h>

enum { PIECE = 40, GROUPS_AT = offsetof(struct fabric_page, group), DEVICES_AT = offsetof(struct fabric_page, device) };

static struct fabric_page page;

/* Pieces of the input land on the devices, on the groups, or anywhere. */
static void lay(uint32_t where, const uint8_t *bytes, size_t n)
{
	size_t at = where >> 2;

	if (where & 1)
		at = DEVICES_AT + at % sizeof(page.device);
	else if (where & 2)
		at = GROUPS_AT + at % sizeof(page.group);
	at %= sizeof(page) - n;
	memcpy((uint8_t *)&page + at, bytes, n);
}

static void set_plausible(uint8_t how)
{
	page = (struct fabric_page){ .magic = PAGE_MAGIC, .version = PAGE_VERSION, .devices = how % (PAGE_NAMED + 2) };
	for (int i = 0; i < PAGE_NAMED; i++)
		page.device[i] = (struct page_device){ .name = "weft", .active_mtu = 3, .max_mtu = 5, .pkeys = 1 };
	page.group[how % PAGE_GROUPS] = (struct page_group){ .used = 1, .mlid = 0xc000 };
}

static void check_devices(void)
{
	struct ca_device dev[CA_DEVICES];
	int n = devices_read(&page, &(const struct node){ 0 }, dev);

	REQUIRE(n >= 0 && n <= CA_DEVICES);
	for (int i = 0; i < n; i++) {
		REQUIRE(memchr(dev[i].name, '\0', sizeof(dev[i].name)));
		REQUIRE(dev[i].active_mtu >= IBV_MTU_256 && dev[i].active_mtu <= dev[i].max_mtu);
		REQUIRE(dev[i].max_mtu <= IBV_MTU_4096);
		REQUIRE(dev[i].protocol == &protocol_ib || dev[i].protocol == &protocol_roce_v2);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t gid[16];
	uint64_t members[PAGE_SLOTS / 64];
	uint16_t mlid;
	uint32_t where;

	if (!size)
		return 0;
	set_plausible(*data++);
	for (size--; size > sizeof(where); ) {
		size_t n = size - sizeof(where) < PIECE ? size - sizeof(where) : PIECE;

		memcpy(&where, data, sizeof(where));
		lay(where, data + sizeof(where), n);
		data += sizeof(where) + n;
		size -= sizeof(where) + n;
	}
	check_devices();
	(void)group_members(&page, 0, gid, 0, members, &mlid);
	(void)group_members(&page, 0, NULL, 0xc000, members, &mlid);
	return 0;
}
