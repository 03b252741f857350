/* The ports at which programs are: those of hosts, found by name, and shown as the InfiniBand device of a program there. A
 * mapping that another process may write is looked at here without harm. */
#ifndef WEFT_FABRIC_HOST_H
#define WEFT_FABRIC_HOST_H

#include "fabric/fabric.h"
#include "fabric/page.h"

/* The port that text names: NODE, its port 0 if it is a switch, else the first with a link; or NODE:PORT. NODE is the description
 * of a node, the first that has it, or the name of a host, which stands for its first adapter. PORT_NONE: there is none. */
uint32_t host_find_port(const struct fabric *f, const char *text);

/* Where a program is: at all adapters of a host that has several (fabric/adapters.h): then its place is the first one's node,
 * counted from f->ports on; at all ports of an adapter that has several: then it is the index of the adapter's number 0, which is
 * no port; or at one port alone. So HOST, NODE and NODE:PORT name them. One port there has a link. PORT_NONE: there is none. */
uint32_t host_find_place(const struct fabric *f, const char *text);
/* Any value of place. */
bool host_is_place(const struct fabric *f, uint32_t place);
/* How many ports a program there has, 0: it is no place; and the port that has this number there, from 1 on through all adapters,
 * or PORT_NONE. */
unsigned host_ports(const struct fabric *f, uint32_t place);
uint32_t host_port(const struct fabric *f, uint32_t place, unsigned number);
/* Which number this port has there; 0: it is none of the place's. port < f->ports. */
unsigned host_port_number(const struct fabric *f, uint32_t place, uint32_t port);

/* A program there has a device for each adapter: this one, from 0 on, has so many ports, the first of which has this number at
 * the place. Without ports: there is no such adapter. */
struct host_adapter {
	unsigned first, ports;
};
struct host_adapter host_adapter(const struct fabric *f, uint32_t place, unsigned adapter);

/* The places that have this port, the largest first. How many. */
enum { HOST_PLACES = 3 };
unsigned host_places(const struct fabric *f, uint32_t port, uint32_t place[HOST_PLACES]);

/* What a place is called: the description of its node, or the name of the host. host_is_place(f, place). */
void host_name(const struct fabric *f, uint32_t place, char name[NODE_DESCRIPTION + 1]);

/* Can a program be there? At ports of channel adapters and routers that have a link, or a LID. Any value of port. */
bool host_has_programs(const struct fabric *f, uint32_t port);

/* A packet to this LID is for the port. port < f->ports. */
bool host_has_lid(const struct fabric *f, uint32_t port, uint32_t lid);
/* The GID of this index, below FABRIC_GUIDS, of the port's table. */
void host_write_gid(const struct fabric *f, uint32_t port, unsigned index, uint8_t gid[16]);
/* The GID is the port's prefix and one of the GUIDs of its GUIDInfo (IBA 4.1.1). */
bool host_has_gid(const struct fabric *f, uint32_t port, const uint8_t gid[16]);

/* Hosts have IPv4 addresses: 127.PORT.X.Y is that port of the host X.Y, counted from 1 in the order of the topology, routers
 * among them. They lie in the loop-back network, so programs can use them for their sockets as well. */
enum { HOST_IPV4_BYTES = 4 };
/* False: ports beyond 255, and hosts beyond 65535, have none. port: host_has_programs(). */
bool host_write_ipv4(const struct fabric *f, uint32_t port, uint8_t address[HOST_IPV4_BYTES]);
/* Can a host have it? 127.0.X.Y is whoever asks. */
bool host_is_ipv4(const uint8_t address[HOST_IPV4_BYTES]);
/* The port at which programs can be that has this address, or this GID. PORT_NONE: there is none. */
uint32_t host_find_ipv4(const struct fabric *f, const uint8_t address[HOST_IPV4_BYTES]);
uint32_t host_find_gid(const struct fabric *f, const uint8_t gid[16]);

/* Fills in what the device is at this port; its name, protocol and largest MTU stay. A port that a program has. */
void host_describe(const struct fabric *f, uint32_t port, struct page_device *d);

#endif
