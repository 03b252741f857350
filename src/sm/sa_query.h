/* One request to subnet administration. Of this room alone. */
#ifndef WEFT_SM_SA_QUERY_H
#define WEFT_SM_SA_QUERY_H

#include "sm/sa.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

struct sa_query {
	struct sm *s;
	wtime now;
	const struct mad_letter *letter;
	struct mad_header head;
	const struct sa_record *record;	/* what is asked for */
	uint64_t mask;
	uint8_t wanted[MAD_BYTES];	/* what is behind the MAD's head, then zeros */
	uint32_t from;			/* the end port that asks */
	bool is_trusted;
	uint8_t *out;			/* owned: the records that answer it, each of `each` bytes */
	uint32_t bytes, room, each, count, most;	/* most: bytes that it may have */
	/* A search that pauses goes on where it was (sa_long.h): at which port, of paths also to which one. */
	uint32_t at, at_to;
	uint32_t enough;		/* bytes with which it pauses */
	uint32_t steps, steps_most;	/* what it has looked at, fitting or not, and with how much it pauses */
	bool is_paused;
	uint16_t status;		/* enum sa_status or mad_status; not 0: it is refused */
};

/* Adds a record to the answer, if its components are those that are wanted. */
void sa_emit(struct sa_query *q, const uint8_t *record);
/* Adds a record of so many bytes, whatever is wanted. */
void sa_answer(struct sa_query *q, const uint8_t *record, uint32_t bytes);

/* Has it done enough for one time? A handler asks between ports, and counts what it looks at for one of them. */
static inline bool sa_pauses(struct sa_query *q)
{
	q->is_paused = q->bytes >= q->enough || q->steps >= q->steps_most;
	return q->is_paused;
}

static inline bool sa_wants(const struct sa_query *q, unsigned component)
{
	return q->mask >> component & 1;
}

/* Are both members of a partition, at least one of them a full one (9.6.1.1)? PORT_NONE shares nothing. */
bool sa_shares(const struct sm *s, uint32_t a, uint32_t b);
/* A P_Key by which two ports reach each other, or 0. */
uint16_t sa_common_pkey(const struct sm *s, uint32_t a, uint32_t b);
/* And by which a port reaches itself: one as a full member, or else its first; 0: it has none. */
uint16_t sa_own_pkey(const struct sm *s, uint32_t port);
/* Do two ports reach each other by this one? A port reaches itself as a limited member too. */
bool sa_shares_pkey(const struct sm *s, uint32_t a, uint32_t b, uint16_t pkey);
bool sa_has_pkey(const struct sm *s, uint32_t port, uint16_t pkey);

/* The GID of an end port, by its first GUID. */
void sa_write_gid(const struct sm *s, uint32_t port, uint8_t gid[16]);
/* The end port that is here and has this GID, by any of its GUIDs, or PORT_NONE. */
uint32_t sa_port_of_gid(const struct sm *s, const uint8_t gid[16]);

/* The next end port, from q->at on, that is here, has the LID that is wanted and shares a partition with who asks. PORT_NONE:
 * there is none, or the search pauses or has failed. */
uint32_t sa_next_end(struct sa_query *q);

/* Rates of PathRecords (15.2.5.16, table 207) */
uint32_t sa_rate_mbps(uint8_t rate);
/* The next one below; 0: there is none. */
uint8_t sa_slower(uint8_t rate);
uint8_t sa_port_rate(const uint8_t info[SMP_DATA_BYTES]);

/* What is done for each attribute. Those of nodes, ports, links, tables and paths pause, and go on when they are called again. */
typedef void sa_handler(struct sa_query *q);
sa_handler sa_find_nodes, sa_find_ports, sa_find_switches, sa_find_lfts, sa_find_mfts, sa_find_managers, sa_find_links,
	sa_find_guids, sa_find_sl2vls, sa_find_vlarbs, sa_find_pkeys, sa_find_paths, sa_find_multi_paths, sa_find_members,
	sa_find_services, sa_find_subscriptions;
sa_handler sa_set_member, sa_delete_member, sa_set_service, sa_delete_service, sa_set_guids, sa_delete_guids, sa_subscribe;

/* Members and groups that are there from the beginning, and of ports that are gone. */
void sa_groups_begin(struct sm *s);
void sa_groups_end_of(struct sm *s, wtime now, uint32_t port);
/* Subscribers hear of a group that was made, or of its end. */
void sa_group_changed(struct sm *s, wtime now, const uint8_t mgid[16], bool is_made);
/* What time alone changes. */
void sa_services_expire(struct sm *s, wtime now);
wtime sa_services_deadline(const struct sm *s);
void sa_reports_expire(struct sm *s, wtime now);
wtime sa_reports_deadline(const struct sm *s);
void sa_report_answered(struct sm *s, const struct mad_letter *letter);

#endif
