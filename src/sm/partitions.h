/* Partitions (IBA 10.9, 14.4.2): a master has the P_KeyTables of end ports as its policy says. A P_Key that is no part of the
 * policy is taken away; others stay at their places, by which QPs have chosen them, in the first block of 32. Blocks behind it
 * are emptied, the first NET_PKEY_BLOCKS of a port. One with fewer entries has as many of the policy's P_Keys. */
#ifndef WEFT_SM_PARTITIONS_H
#define WEFT_SM_PARTITIONS_H

#include "sm/net.h"

struct fabric;
struct sm;

struct partitions {
	struct guid_map by_port;	/* an index into pkeys by the GUID of an end port */
	uint16_t (*pkeys)[NET_PKEYS];	/* owned */
	uint32_t ports, room;
};

/* As sm_config.partitions has them. 0 or -ENOMEM; in both cases partitions_fini() releases them. */
int partitions_init(struct sm *s, const struct fabric *f);
void partitions_fini(struct sm *s);

/* Has the end port another table than it is to have? One that nobody has read has not. */
bool partitions_differ(const struct sm *s, uint32_t port);
/* A master writes tables that are to be others. request.h has the functions for its SMPs. */
void partitions_configure(struct sm *s);

#endif
