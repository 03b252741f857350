/* The fabric page as its one writer sees it: made, filled with the devices, and kept up with the host's addresses. */
#ifndef WEFT_WEFTD_PAGE_H
#define WEFT_WEFTD_PAGE_H

#include "control/devices.h"
#include "fabric/page.h"

#include <stdbool.h>

/* Ends the change in which another weftd was killed. What it left half-written is written anew by who cares: addresses when
 * they are read next, groups when their members come back. */
void page_repair(struct fabric_page *p);

/* Fills in the devices with addresses derived from `guid` (the first one's; the second has the next). */
void page_set_devices(struct fabric_page *p, const struct control_table *t, uint64_t guid);

/* One address of the host, for the GID tables of RoCE devices. */
struct page_address {
	uint8_t raw[16];	/* IPv6, or IPv4-mapped */
	uint32_t ifindex;
	char ifname[16];
};

/* Brings their GID tables into line: an address that stays keeps its index. An address is of the device that names its interface,
 * else of the first one that names none. True when anything changed. */
bool page_set_addresses(struct fabric_page *p, const struct page_address *addresses, int n);

/* The link of the device's port, index < page.devices. */
void page_set_link(struct fabric_page *p, uint32_t device, bool is_up);
bool page_is_any_down(const struct fabric_page *p);

/* The path of this number to a host fails, or heals: 0; -EBUSY: there is no place for one more host. */
int page_cut_path(struct fabric_page *p, const uint8_t gid[16], unsigned path, bool fails);
/* Those that fail, one bit each. */
uint32_t page_cut_paths(const struct fabric_page *p, const uint8_t gid[16]);
bool page_is_any_cut(const struct fabric_page *p);

/* Around every change; readers between the two see an odd generation and try again. */
void page_write_begin(struct fabric_page *p);
void page_write_end(struct fabric_page *p);

#endif
