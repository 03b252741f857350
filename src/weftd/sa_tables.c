#include "weftd/sa_tables.h"

#include "weftd/fabric_records.h"
#include "weftd/manager.h"
#include "weftd/subnet.h"

#include <stdlib.h>
#include <string.h>

/* What names a record is its RID (IBA 15.2.5, table 188), and the GUIDs of a node, as its LID may be another one's. */
enum {
	LID_ID = 4, NODE_ID = 32, PATH_ID = 44, LINK_ID = 8, MEMBER_ID = 32, SUBSCRIPTION_ID = 60,
};

/* Forwarding tables are many: in no GetBulk. */
static const struct row {
	const char *name;
	uint16_t attribute, id_bytes;
	bool is_apart;
	bool (*else_give)(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record);
} rows[SA_LIVE_TABLES] = {
	{ "nodes", SA_NODE_RECORD_ID, NODE_ID, false, fabric_records_give_node },
	{ "paths", SA_PATH_RECORD_ID, PATH_ID, false, fabric_records_give_path },
	{ "ports", SA_PORT_INFO_RECORD_ID, LID_ID, false, NULL },
	{ "switches", SA_SWITCH_INFO_RECORD_ID, LID_ID, false, NULL },
	{ "links", SA_LINK_RECORD_ID, LINK_ID, false, NULL },
	{ "managers", SA_SM_INFO_RECORD_ID, LID_ID, false, NULL },
	{ "members", SA_MCMEMBER_RECORD_ID, MEMBER_ID, false, NULL },
	{ "subscriptions", SA_INFORM_RECORD_ID, SUBSCRIPTION_ID, false, NULL },
	{ "lfts", SA_LFT_RECORD_ID, LID_ID, true, NULL },
	{ "mfts", SA_MFT_RECORD_ID, LID_ID, true, NULL },
};

uint64_t sa_tables_version(const struct hub *h)
{
	return h->subnet->agents.changes + manager_changes(h);
}

static bool is_fresh(const struct sa_tables *t, uint16_t attribute, uint16_t lid)
{
	return t->records && t->attribute == attribute && t->lid == lid && t->version == sa_tables_version(t->hub) &&
	       t->longest_kb == t->server->longest_kb;
}

/* What is there is one answer of the administration. False: there is none. */
static bool refresh(struct sa_tables *t, uint16_t attribute, uint16_t lid)
{
	if (is_fresh(t, attribute, lid))
		return true;
	free(t->records);
	t->records = manager_gather(t->hub, lid, attribute, t->server->longest_kb << 10, &t->bytes);
	t->attribute = attribute;
	t->lid = lid;
	t->longest_kb = t->server->longest_kb;
	t->version = sa_tables_version(t->hub);
	return t->records;
}

static const struct row *row_of(const struct sa_live_table *table)
{
	return &rows[table - table->all->table];
}

/* Where another manager is the master, it alone knows but for what the fabric's tables have. */
static bool is_known(void *arg, const struct sa_question *q)
{
	const struct sa_live_table *table = arg;
	const struct row *row = row_of(table);

	return row->else_give || refresh(table->all, row->attribute, q->lid);
}

static bool give(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record)
{
	const struct sa_live_table *table = arg;
	const struct row *row = row_of(table);
	uint32_t bytes = sa_record_find(row->attribute)->bytes;

	if (!refresh(table->all, row->attribute, q->lid))
		return row->else_give && row->else_give(&table->all->hub->subnet->fabric, q, at, record);
	if (*at >= table->all->bytes / bytes)
		return false;
	memcpy(record, table->all->records + *at * bytes, bytes);
	++*at;
	return true;
}

void sa_tables_add(struct sa_tables *t, struct hub *h, struct sa_server *server)
{
	*t = (struct sa_tables){ .hub = h, .server = server };
	for (unsigned i = 0; i < SA_LIVE_TABLES; i++) {
		t->table[i] = (struct sa_live_table){ t, rows[i].attribute };
		server->table[server->tables++] = (struct sa_table){
			.name = rows[i].name, .attribute = rows[i].attribute, .is_apart = rows[i].is_apart, .give = give,
			.record_bytes = sa_record_find(rows[i].attribute)->bytes, .arg = &t->table[i],
			.id_bytes = rows[i].id_bytes, .is_known = is_known,
		};
	}
}

void sa_tables_fini(struct sa_tables *t)
{
	free(t->records);
	t->records = NULL;
}
