/* What the fabric page says of devices and groups, and of a process at a node its port in the fabric. */
#ifndef WEFT_PEERS_DEVICES_H
#define WEFT_PEERS_DEVICES_H

#include "fabric/page.h"
#include "peers/node.h"
#include "verbs/ca.h"

/* The addresses of all devices' ports as the page, and the fabric, have them now; in the order of fabric/page.h. Returns how many
 * ports there are. */
int devices_read(const struct fabric_page *page, const struct node *node, struct ca_device dev[CA_DEVICES]);
/* Takes over changed addresses, states of ports, or a changed fabric, after which routes and direct paths are asked again, and
 * tells the program. Under the lock. */
void devices_refresh(const struct fabric_page *page, const struct node *node, struct ca *ca);

/* Which paths fail (ca.cut). Under the lock, as devices_refresh, which does it too. */
void devices_take_cuts(const struct fabric_page *page, struct ca *ca);

/* Routes and direct paths of all devices are asked again. Under the lock. */
void devices_forget_routes(struct ca *ca);

/* Has the device this GID in the page now? */
bool devices_has_gid(const struct fabric_page *page, int device, const uint8_t gid[16]);

/* The members of the group that dgid (or, without one, the MLID) names on this device, and the MLID that weftd knows it by;
 * false: no such group. */
bool group_members(const struct fabric_page *page, int device, const uint8_t *dgid, uint16_t mlid,
		   uint64_t members[PAGE_SLOTS / 64], uint16_t *own_mlid);
/* Of the ports by which what is sent from this one may be heard: the indexes at which there is such a group, by bits. */
uint32_t group_indexes(const struct fabric_page *page, const struct ca_device *dev, const uint8_t *dgid, uint16_t mlid);
/* The next member after this slot, or 0. */
uint32_t group_next(const uint64_t members[PAGE_SLOTS / 64], uint32_t slot);
/* 0 and the MLID of the group, or -ENOENT. Any thread. */
int group_mlid(const struct fabric_page *page, int device, const uint8_t gid[16], uint16_t *mlid);

#endif
