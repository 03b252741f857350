/* Subnet administration (IBA chapter 15): queries of records, by component masks and within partitions; multicast groups;
 * services; subscriptions to notices, and their reports. It answers from what the manager of the same engine knows, while that is
 * the master. A request that is longer than a MAD, and an answer, is one letter: whoever carries them cuts them into segments.
 *
 * Trust (15.4.1): who asks sees ports of its partitions; P_KeyTables, M_Keys, SM_Keys, members of groups and others'
 * subscriptions only with the SM_Key. A port enters and leaves groups, services and subscriptions for itself. */
#ifndef WEFT_SM_SA_H
#define WEFT_SM_SA_H

#include "base/list.h"
#include "sm/sm.h"

enum {
	SA_SERVICES = 4096, SA_SUBSCRIPTIONS = 4096,	/* our choices: that are kept */
	SA_OF_ONE = 512,		/* our choice: of these, of one port that has no key */
	SA_ANSWER_MOST = MAD_LONGEST,	/* of one that is made at once */
	/* Our choice: with so much a table pauses, and the rest is made while it is sent: a port's records, at most 1 MB, fit
	 * behind it. */
	SA_ANSWER_AT_ONCE = 400 << 10,
	/* Our choices: records, and of paths ways from a port to a LID, that a search may look at, before and behind its pause.
	 * There are fewer LIDs; so one that nothing fits takes a part of a second at once, and milliseconds at a time. A Get,
	 * which cannot pause, may look at each port once, where there are more of them. */
	SA_STEPS_AT_ONCE = 1 << 16, SA_STEPS_EACH = 1 << 12,
};

struct sa_service {
	uint8_t record[176];
	wtime ends;			/* of its lease, or WTIME_NEVER */
};

struct sa_subscription {
	uint8_t record[64];		/* InformInfoRecord */
	struct mad_remote remote;
	bool is_trusted;		/* who subscribed named the SM_Key */
};

/* A notice on its way to who has subscribed. */
struct sa_report {
	uint32_t subscription;
	uint8_t tries;
	uint64_t tid;
	wtime deadline;
	uint8_t notice[80];
};

struct sa {
	struct sa_service *service;	/* owned */
	struct sa_subscription *subscription;	/* owned */
	struct sa_report *report;	/* owned */
	uint32_t services, services_room, subscriptions, subscriptions_room, reports, reports_room;
	uint32_t last_tid;
	uint8_t *was_here;		/* owned: by port, as subscribers were told last */
	uint32_t ports;
	bool has_groups;		/* those that there are from the beginning: a sweep of this master has decided */
	struct list long_answers;	/* sa_long.h */
};

int sa_init(struct sm *s);
void sa_fini(struct sm *s);
/* A datagram of its class: a request, or the response to a report. */
void sa_input(struct sm *s, wtime now, const struct mad_letter *letter);
/* This one is not looked at now: it is answered with the status `busy`, or what is wrong with any of its kind. */
void sa_put_off(struct sm *s, wtime now, const struct mad_letter *letter);
void sa_expire(struct sm *s, wtime now);
wtime sa_deadline(const struct sm *s);
/* All records of an attribute that the port with this LID may see without a key, of PathRecord those from it: the caller's to
 * free. Of more than `most` bytes, less than UINT32_MAX, these are more than that, and need not be all. NULL: this manager is not
 * the master or has not found all, or there is no memory, or no such record. */
uint8_t *sa_gather(struct sm *s, wtime now, uint16_t lid, uint16_t attribute, uint32_t most, uint32_t *bytes);
/* Another manager was the master, whom ports told that they left: groups have no members but those that enter from now on, and
 * those that have ended are reported. Subscriptions and services stay. All as OpenSM's. */
void sa_groups_begin_anew(struct sm *s, wtime now);
/* A trap of a port: its subscribers hear of it. */
void sa_notice(struct sm *s, wtime now, const uint8_t notice[SMP_DATA_BYTES]);
/* Ports have come or gone: traps 64 and 65, and groups without those. */
void sa_net_changed(struct sm *s, wtime now);

#endif
