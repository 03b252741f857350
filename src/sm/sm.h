/* A subnet manager (IBA chapter 14) and its subnet administration (sa.h) as one engine: datagrams in, datagrams out, a deadline;
 * time is injected. It knows of the subnet what agents have answered, and nothing else.
 *
 * A sweep asks (discover.h), then, in the master, reads the tables that it does not know, decides on LIDs (lids.h) and tables
 * (routing.h), writes them (configure.h) and P_Keys (partitions.h), and brings links to ARMED and, when all are, to ACTIVE. A
 * heavy sweep asks everybody; a light one asks switches whether a link of theirs has changed. Each step begins when the last one
 * has no SMP under way.
 *
 * Timers: an SMP has one, set when it is sent, by how long agents have taken (request.h). `next_sweep` is set at a sweep's end,
 * and earlier by what calls for one; a master that is handed another subnet takes it at `handed_at`. A standby asks its master at
 * `next_poll` (election.h). Reports of the SA have one each (sa.h). */
#ifndef WEFT_SM_SM_H
#define WEFT_SM_SM_H

#include "base/time.h"
#include "fabric/qos.h"
#include "fabric/route.h"
#include "mgmt/mad_clients.h"
#include "sm/groups.h"
#include "sm/net.h"
#include "sm/partitions.h"

#include <stdbool.h>
#include <stdint.h>

/* How datagrams are registered for: letters say by which of these they come or go. */
enum sm_agent { SM_AGENT_DIRECTED, SM_AGENT_LID, SM_AGENT_SA, SM_AGENTS };
extern const struct mad_registration sm_registrations[SM_AGENTS];

enum { SM_WINDOW_MOST = 256, SM_OTHERS = 16 };	/* our choices: SMPs under way; other managers that are kept in mind */

/* A member that is 0 means the value in brackets. */
struct sm_config {
	uint64_t prefix;		/* of the subnet [PREFIX_DEFAULT] */
	uint64_t key;			/* SM_Key [1, as OpenSM's] */
	uint8_t priority;		/* 0 to 15 */
	uint8_t lmc;
	uint64_t m_key;			/* of all ports; 0: they have none */
	uint8_t m_key_protect;		/* M_KeyProtectBits: 0 to 3 */
	uint16_t m_key_lease;		/* seconds [it never ends] */
	uint8_t subnet_timeout;		/* of all ports: 1 to 31 [18, as OpenSM's] */
	const struct fabric_qos *qos;	/* borrowed until sm_init() has ended [OpenSM's] */
	const struct fabric *partitions;	/* fabric_partitions() of its end ports: borrowed until sm_init() has ended [all
						 * ports are full members of the default one alone] */
	enum route_choice routing;
	uint32_t window;		/* SMPs under way [64: our choice] */
	wtime response_ns;		/* how long an answer is awaited at first [100 ms: our choice] */
	wtime sweep_ns;			/* between light sweeps [10 s, as OpenSM] */
	wtime poll_ns;			/* between a standby's questions [1 s: our choice] */
	uint32_t at_once;		/* bytes of records with which a table pauses [SA_ANSWER_AT_ONCE]; tests have fewer */
};

enum sm_state { SM_NOT_ACTIVE, SM_DISCOVERING, SM_STANDBY, SM_MASTER };		/* SMInfo.SMState (14.2.5.13) */
/* SM_WRITES_TREES: of groups that have changed, between sweeps. The others are a sweep's. */
enum sm_phase { SM_IDLE, SM_WRITES_TREES, SM_LOOKS, SM_READS_TABLES, SM_WRITES_TABLES, SM_ARMS, SM_ACTIVATES };

/* One SMP to be sent: what its kind (request.h) and these numbers say. */
struct sm_work {
	uint8_t kind, number, tries;
	uint32_t node, modifier;
};

struct sm_request {
	struct sm_work work;
	uint32_t tid;			/* 0: the place is free */
	wtime sent, deadline;
};

/* Another manager. */
struct sm_other {
	uint64_t guid;
	uint32_t port, act_count;
	uint8_t priority, state;
};

/* A datagram on its way out that answers something. */
struct sm_reply {
	struct list_node node;
	struct mad_letter letter;
	struct mad_source *source;	/* owned, until the letter's receiver takes it; NULL: there is none */
	uint8_t data[];
};

struct sm_counters {
	uint64_t sent, answered, repeated, given_up;	/* SMPs */
	uint64_t heavy, light, traps, routings;
	uint64_t queries, refused, sets;		/* of the SA; sets: what may have changed something */
	uint64_t wrong_keys;				/* queries that were not answered: their SM_Key is another one */
	uint64_t info_refused;				/* SMInfo: other managers' keys, and controls that were not obeyed */
	uint64_t long_answers, cut_short;		/* made while they are sent; the subnet changed meanwhile */
};

struct sm {
	struct sm_config config;
	struct fabric_qos qos;
	uint16_t levels;		/* service levels that have a lane, as bits */
	struct partitions partitions;
	struct net net;
	enum sm_state state;
	enum sm_phase phase;
	bool is_heavy;			/* the sweep under way */
	bool has_changed;		/* it has found something that is to be written */
	bool is_due;			/* another sweep is to follow it; heavy: */
	bool heavy_is_due;
	bool has_failed;		/* something was not answered, or there was no memory */
	bool settles;			/* all have answered but those behind disputed links */
	bool has_refused, had_refused;	/* a node, in this sweep or the one before */
	bool is_poll_due;		/* another manager is to be looked at again soon */
	bool was_silent;		/* an SMP ends as nobody answered it, not as it was refused */
	wtime trees_at;			/* when trees of multicast groups are to be written, or WTIME_NEVER */
	wtime now;			/* of the event at hand */
	bool is_up;			/* the tables are as they are to be: all that is here reaches all */
	bool has_tables;		/* this master has decided on tables: trees follow their groups from then on */
	uint32_t rounds;		/* of a light sweep that asks the silent again */
	uint32_t failures;		/* sweeps in sequence with has_failed */
	wtime next_sweep, next_poll;
	wtime next_look;		/* a stranger that asks makes a sweep no earlier */
	wtime handed_at;		/* a sweep is due that takes what another master has handed over, or WTIME_NEVER */
	wtime next_handover;		/* the next such sweep begins no earlier */
	struct sm_work *queue;		/* owned */
	uint32_t queue_head, queue_tail, queue_room;
	struct sm_request request[SM_WINDOW_MOST];
	uint32_t under_way, last_tid;
	wtime next_timeout;
	uint32_t recent_sent, recent_answered;	/* SMPs: how many are lost */
	wtime answer_ns, spread_ns;	/* how long agents take, and how unlike: smoothed; answer_ns 0: nobody knows yet */
	struct sm_other other[SM_OTHERS];
	uint32_t others;
	uint32_t master;		/* whom a standby asks: its port, or PORT_NONE */
	uint32_t unanswered;		/* polls */
	uint32_t act_count;		/* SMInfo.ActCount */
	enum route_engine engine;
	uint32_t without_lids;		/* ports, at the last sweep that gave LIDs */
	bool can_deadlock;		/* by shortest paths that ROUTE_ALWAYS_MIN_HOP asked for */
	struct groups groups;		/* groups and trees: groups.h */
	struct fabric routed;		/* owned: routing.h */
	uint64_t routed_at;		/* what net.changes was when that was computed */
	uint32_t last_guid;		/* that it has given to a port: sa_guids.c */
	bool has_stood_by;		/* since it last gave LIDs after all had answered: LIDs are another's */
	bool is_reregister_due;		/* of all clients: it has just become master */
	struct list smp_replies, sa_replies;
	uint32_t replies;		/* in both */
	struct sm_reply *given;		/* owned: the letter that the last sm_output() gave */
	uint8_t mad[MAD_BYTES];		/* or this one */
	struct sm_counters counters;
	struct sa *sa;			/* owned */
};

/* 0 or -ENOMEM. */
int sm_init(struct sm *s, const struct sm_config *config);
void sm_fini(struct sm *s);

/* The port with this GUID had this LID in an earlier life, the first one of its LMC's, and gets it again if it can. Before
 * sm_start(). 0, -EINVAL or -ENOMEM. */
int sm_keep_lid(struct sm *s, uint64_t guid, uint16_t lid);
/* LIDs to be kept: begin with *cursor 0; false: no more. They are others when net.lids_changed is. */
bool sm_kept_lid(const struct sm *s, uint32_t *cursor, uint64_t *guid, uint16_t *lid);

/* The first sweep begins. */
void sm_start(struct sm *s, wtime now);
/* A sweep as soon as none is under way. */
void sm_sweep(struct sm *s, wtime now, bool heavy);

/* A datagram has come, by letter->agent: any bytes. One that was not answered has a status. */
void sm_input(struct sm *s, wtime now, const struct mad_letter *letter);
/* The next datagram to be sent; its bytes are valid until the next call. timeout_ms 0: no answer is awaited. False: none now. */
bool sm_output(struct sm *s, wtime now, struct mad_letter *letter);
wtime sm_deadline(const struct sm *s);

/* Nothing is under way or due: the subnet is as it is to be, or this is a standby. */
bool sm_is_quiet(const struct sm *s);
/* What the manager says of itself, and has heard of another one. */
void sm_write_info(const struct sm *s, uint8_t info[SMP_DATA_BYTES]);
void sm_write_other(const struct sm *s, const struct sm_other *o, uint8_t info[SMP_DATA_BYTES]);

#endif
