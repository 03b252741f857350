/* The ports at which programs are: those of hosts, found by name, and shown as the InfiniBand device of a program there. A
 * mapping that another process may write is looked at here without harm. */
#ifndef WEFT_FABRIC_HOST_H
#define WEFT_FABRIC_HOST_H

#include "fabric/fabric.h"
#include "fabric/page.h"

/* The port that text names: NODE, its port 0 if it is a switch, else the first with a link; or NODE:PORT. NODE is the description
 * of a node, the first that has it. PORT_NONE: there is none. */
uint32_t host_find_port(const struct fabric *f, const char *text);

/* Can a program be there? At ports of channel adapters and routers that have a link, or a LID. Any value of port. */
bool host_has_programs(const struct fabric *f, uint32_t port);

/* A packet to this LID is for the port. port < f->ports. */
bool host_has_lid(const struct fabric *f, uint32_t port, uint32_t lid);
/* The GID of this index, below FABRIC_GUIDS, of the port's table. */
void host_write_gid(const struct fabric *f, uint32_t port, unsigned index, uint8_t gid[16]);
/* The GID is the port's prefix and one of the GUIDs of its GUIDInfo (IBA 4.1.1). */
bool host_has_gid(const struct fabric *f, uint32_t port, const uint8_t gid[16]);

/* Fills in what the device is at this port; its name, protocol and largest MTU stay. host_has_programs(f, port). */
void host_describe(const struct fabric *f, uint32_t port, struct page_device *d);

#endif
