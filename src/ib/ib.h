/* The InfiniBand packet transport: RC, UC, UD and XRC as a pure engine behind verbs' table of operations (IBA vol. 1,
 * chapter 9). Packets go in and out and time is told; random numbers come from ca.rand, which is seeded. Nothing here sleeps.
 *
 * The link delivers a multicast packet once to every process with a member, the sender's own included; the sending QP
 * itself does not get it back. */
#ifndef WEFT_IB_IB_H
#define WEFT_IB_IB_H

#include "verbs/transport.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct transport_ops ib_transport;

/* What the MSN in an AETH means, and who a NAK names: docs/spec-map.md, MSN-47 and after. Both ends of a connection use the
 * same. */
enum ib_profile {
	IB_STANDARD,	/* completed requests, from 0 (MSN-47); completion by PSN; a NAK names the expected PSN */
	IB_SEED,	/* identity of the last complete message, start_msn - 1 before the first; completion by its change;
			 * a NAK names the last good PSN (MSN-08 to MSN-29) */
	IB_MULTIPATH,	/* RC: ordered and unordered packets over several paths (MPT-01 to MPT-40), multi.h; others: standard */
};

/* When the responder acknowledges without being asked. AckReq always forces, and ACKs still unsent merge into one. */
enum ib_ack_mode {
	IB_ACK_ON_REQUEST,
	IB_ACK_PER_PACKET,	/* MSN-20 */
	IB_ACK_COALESCED,	/* every ack_every packets, MSN-21 */
	IB_ACK_MESSAGE_END,	/* MSN-22 */
};

/* What tells a message complete from the ACKs. */
enum ib_completion {
	IB_COMPLETE_AS_PROFILE,	/* seed: by MSN; standard: by PSN */
	IB_COMPLETE_BY_MSN,	/* the payload's change (MSN-16) */
	IB_COMPLETE_BY_PSN,	/* the last packet's PSN, whatever the payload says: the dialect "printed" */
	IB_COMPLETE_BY_WQE,	/* the same, from the WQE read at each ACK: what MSN-18 is compared with */
};

enum { IB_WINDOW = 64, IB_WINDOW_MAX = 4096 };	/* our choice: 64 packets of 4 KB are 256 KB, more than any link here holds */

struct ib_options {
	enum ib_profile profile;
	enum ib_ack_mode ack_mode;
	uint16_t window_pkts;	/* packets in flight: a power of two, 1 (stop and wait, MSN-34) to IB_WINDOW_MAX */
	uint16_t ack_every;	/* IB_ACK_COALESCED */
	uint32_t start_msn;	/* seed profile: identity of the first message, given or fixed (MSN-42) */
	enum ib_completion completion;
	bool report_last_only;	/* an ACK that completes several messages reports the newest alone (MSN-32) */
	bool exchange_start;	/* seed profile: each requester draws its first MSN and tells its peer (msn_exchange.h) */
	bool timeout_as_standard;	/* the ACK timer counts also while the peer has not taken what the link keeps */
	bool selective_repeat;	/* standard profile: loss.h, reorder.h; with peers that know it */
	bool congestion_control;	/* standard profile, reliable QPs: congestion.h, where the peer is on another host */
	uint8_t paths;		/* of a QP to a peer of weft on another host, 1 to 8: spread.h; multipath profile: to any */
	bool refuses_silently;	/* multipath profile: what is ahead is not refused by a NAK (MPT-19, strict mode) */
	bool renumbers;		/* multipath profile: what has failed gets a new number, and no path is filtered (MPT-37) */
	uint8_t spread_by;	/* multipath profile: enum mp_spread */
	bool ack_when_consumed;	/* nothing is acknowledged while the consumer has not polled the receives (SAN-31) */
};

extern const struct ib_options ib_default_options;

/* What the QPs of an adapter start with. */
static inline const struct ib_options *ib_options_of(const struct ca *ca)
{
	return ca->engine_options ? ca->engine_options : &ib_default_options;
}

/* -EINVAL: out of range. -EOPNOTSUPP: coalesced ACKs on a device whose link may change the order (MSN-23). */
int ib_options_check(const struct ib_options *options, const struct ca_device *dev);
/* In RESET or INIT, where nothing is in flight. -EINVAL: another state, or as ib_options_check; -ENOMEM. */
int ib_set_options(struct qp *qp, const struct ib_options *options);

/* Asserts what must be so of a QP's flight and responder between any two entries (weft_bug_on). Debug builds do so after each
 * entry, the simulator in every build. */
void ib_check(const struct qp *qp);

/* Reads "standard", "seed" or "printed" (seed, completed by PSN), followed by any of ",ack=request|packet|message|N",
 * ",ack-level=endpoint|process", ",complete=msn|psn|wqe", ",window=N", ",report=all|last", ",start-msn=N|exchange",
 * ",timeout=taken|standard", ",repeat=selective|all", ",congestion=on|off" and ",paths=N"; or "multipath", followed by any of
 * ",window=N", ",paths=N", ",refuse=told|silent", ",after-failure=filter|renumber" and ",spread=turn|least|random". -EINVAL
 * leaves *options as it was. */
int ib_options_parse(const char *text, struct ib_options *options);

#endif
