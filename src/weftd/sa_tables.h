/* Tables of the seed's subnet administration (mgmt/sa_store.h): those of the subnet manager's administration (sm/sa.h) while
 * weftd's own manager is the master; else nodes and paths of the fabric as it stands. */
#ifndef WEFT_WEFTD_SA_TABLES_H
#define WEFT_WEFTD_SA_TABLES_H

#include "mgmt/sa_server.h"
#include "weftd/hub.h"

enum { SA_LIVE_TABLES = 10 };

struct sa_tables {
	struct hub *hub;		/* borrowed, as the next one */
	const struct sa_server *server;	/* how long its answers may be */
	struct sa_live_table {
		struct sa_tables *all;
		uint16_t attribute;
	} table[SA_LIVE_TABLES];
	/* what was gathered last, of whom and when; it may be cut behind the longest answer that there could be then */
	uint8_t *records;		/* owned */
	uint32_t bytes, longest_kb;
	uint16_t attribute, lid;
	uint64_t version;
};

/* Adds its tables to a server, whose arg is the hub. The server lives no longer. */
void sa_tables_add(struct sa_tables *t, struct hub *h, struct sa_server *server);
void sa_tables_fini(struct sa_tables *t);
/* Grows with each change of what they give. */
uint64_t sa_tables_version(const struct hub *h);

#endif
