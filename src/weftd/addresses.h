/* The host's IP addresses, and word when they change. */
#ifndef WEFT_WEFTD_ADDRESSES_H
#define WEFT_WEFTD_ADDRESSES_H

#include "weftd/page.h"

/* Up to `room` addresses of interfaces that are up, IPv4 first. 127.0.0.1 only when there is no other IPv4 address, ::1
 * never. How many, or -errno. */
int addresses_read(struct page_address *to, int room);

/* A netlink socket that becomes readable when addresses or links change; -errno. */
int addresses_watch(void);
/* Takes off what is there to read. */
void addresses_drain(int fd);

/* A stable 64-bit GUID of this host and user, locally administered (IEEE EUI-64, bit 1 of the first octet). */
uint64_t addresses_guid(uint32_t uid);

#endif
