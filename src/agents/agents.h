/* The agents of a subnet: what answers at QP0 and QP1 of every port, and how a MAD gets there and back through the fabric as it
 * stands. Pure: a MAD in, and what became of it out; what agents send by themselves is pulled; time is injected. The owner of the
 * fabric calls; what agents change in the fabric changes under its nodes' sequence words.
 *
 * A MAD goes its whole way in one call, and an agent's response the whole way back: an agent acts when the request is sent, and
 * what comes of it says when it is there (mad_arrival.due).
 *
 * A MAD is answered by an agent of weft, or it has arrived where a client may be registered for it, or it is lost. Which client
 * that is, TIDs and timeouts are the caller's. */
#ifndef WEFT_AGENTS_AGENTS_H
#define WEFT_AGENTS_AGENTS_H

#include "agents/port_counters.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/passage.h"
#include "mgmt/mad_buffers.h"
#include "wire/mad.h"
#include "wire/packet.h"
#include "wire/smp.h"

/* Where a MAD goes. Of the path: dlid, sl, and the GRH; slid: one of the sending port's LIDs, any other value: its first. dlid
 * LID_PERMISSIVE: the way is in the directed-route SMP. */
struct mad_address {
	struct packet_path path;
	uint16_t pkey;			/* value; QP1 only */
	uint32_t src_qpn, dest_qpn;	/* 0 and 0 for SMPs, 1 and 1 for all others; what has other numbers is lost */
	uint32_t qkey;			/* QP1 only: GSI_QKEY */
};

/* What came back, or what arrived: at which port, and from whom. The path is as on the wire: slid and sgid are the sender's. */
struct mad_arrival {
	uint32_t port;			/* index in the fabric: its node is fabric.owner[port] */
	struct mad_address address;
	uint16_t pkey_index;		/* of the port that has it; QP1 only */
	wtime due;			/* it is there then: later than it was sent, where its way has slow links */
};

enum mad_outcome {
	MAD_ANSWERED,		/* by an agent: `mad` is the response as it came back to the sender */
	MAD_ARRIVED,		/* `mad` is as it came to out->port: a client's, or nobody's (agents_refuse). An agent's response
				 * too, if the request's directed route led it to another port than the sender's */
	MAD_TAKEN,		/* by an agent, which answers nothing: a TrapRepress */
	MAD_LOST,		/* nobody hears it: the sender's time runs out; agents.lost says why */
};

enum mad_loss {
#define LOSS(name, text) LOSS_##name,
#include "agents/loss.def"
#undef LOSS
	LOSSES,
};

const char *mad_loss_text(enum mad_loss loss);

/* Our choice: traps under way, those of bad keys among them, those of P_Keys and Q_Keys among these, and how many of these
 * packets from one port may cause; more are not told. */
enum { AGENT_TRAPS = 1024, AGENT_ALARMS = 512, AGENT_DATA_ALARMS = 448, AGENT_SHARE = 32 };
/* Our choice: packets with a bad key that are counted of one call: about as many as a process sends until it tells again. */
enum { AGENT_BAD_KEYS = 8192 };

/* A trap that is sent until its TrapRepress comes. */
struct trap {
	uint32_t port;			/* end port that sends it */
	uint32_t cause;			/* port that has sent the packet of P_Keys and Q_Keys, or PORT_NONE */
	uint8_t sends;			/* still to come; 0: the place is free */
	wtime next;
	uint64_t tid;
	struct smp_notice notice;
};

/* Our choice: nodes whose ports are sampled at a time (agents/samples.h). */
enum { AGENT_SAMPLES = 256, SAMPLE_COUNTERS = 15 };

struct sample {
	bool is_used;			/* false: the place is free */
	uint8_t status;			/* enum sample_status */
	uint16_t tag, select[SAMPLE_COUNTERS];
	uint32_t port, start, interval;	/* in ticks */
	wtime due;			/* when it begins, or ends; when it has ended */
	uint64_t count[SAMPLE_COUNTERS];	/* while it runs: where it began; then what was counted */
};

/* SampleStatus (16.1.3.2) */
enum sample_status { SAMPLE_DONE, SAMPLE_WAITING, SAMPLE_RUNNING };

struct agents {
	struct fabric *fabric;			/* borrowed */
	enum mad_loss lost;			/* why the last MAD was */
	uint64_t losses[LOSSES];
	uint64_t answered, arrived;
	struct port_counters *counters;		/* by port; borrowed after agents_count_in(), owned else */
	bool borrows_counters;
	struct traffic_block *traffic;		/* borrowed: what programs' data counted, and how long slow links are busy; NULL:
						 * none counts, and no link is slow */
	struct mad_buffers *buffers;		/* borrowed: of ports where others receive too; NULL: nobody counts them */
	struct passage passage;			/* of MADs, over links with faults */
	wtime at;				/* when the MAD that is under way has passed the links so far */
	uint64_t changes;			/* of states, addresses and tables: who keeps routes or trees looks again */
	wtime *lease;				/* owned: by end port: when its M_Key lease ends; 0: none runs */
	wtime lease_end;			/* none ends earlier */
	struct trap *trap;			/* owned: AGENT_TRAPS */
	uint32_t traps;				/* of them under way */
	uint64_t last_trap;			/* TID */
	struct sample *sample;			/* owned: AGENT_SAMPLES */
	wtime sample_due;			/* none begins or ends earlier */
};

/* Of a fabric that the caller may write and keeps open longer. 0 or -ENOMEM. */
int agents_init(struct agents *a, struct fabric *f);
void agents_fini(struct agents *a);
/* Ports count here from now on, from what is there: memory for one more than there are, borrowed until agents_fini(). */
void agents_count_in(struct agents *a, struct port_counters *counters);

/* One MAD that the port `from` sends. `from`: an end port, that is a port of a channel adapter or router, or port 0 of a switch;
 * any value. *out is set but for MAD_LOST. */
enum mad_outcome agents_mad(struct agents *a, wtime now, uint32_t from, const struct mad_address *to, uint8_t mad[MAD_BYTES],
			    struct mad_arrival *out);

/* A MAD has arrived, and no client is registered for it. A Get or Set is answered as IBA 13.4.7 says (MAD_ANSWERED: `mad` is the
 * response, out->port the port that had sent the request); all others are dropped (MAD_LOST). at and out may be the same. */
enum mad_outcome agents_refuse(struct agents *a, wtime now, const struct mad_arrival *at, uint8_t mad[MAD_BYTES],
			       struct mad_arrival *out);

/* Packets of programs, of which a port does not let a key in: the P_Key, or the Q_Key where is_qkey. Their way from `from` is
 * walked: the port that stops them counts, at most AGENT_BAD_KEYS of a call, and the manager is told. claimed: PORT_NONE, where
 * `from` has sent them: with a P_Key of its own, or nothing is done. Else the port whose own word it is that it did not let them
 * in (10.2.4, 10.9.4): packets that do not get there change nothing. Any values. */
void agents_bad_key(struct agents *a, wtime now, uint32_t from, const struct mad_address *to, bool is_qkey, uint64_t packets,
		    uint32_t claimed);
/* The same, but that the manager is not told. */
void agents_count_bad_key(struct agents *a, wtime now, uint32_t from, const struct mad_address *to, bool is_qkey,
			  uint64_t packets, uint32_t claimed);

/* When agents want to be called again (agents_output), or WTIME_NEVER. It may become earlier by any call. */
wtime agents_deadline(const struct agents *a);
/* What an agent sends by itself: true: `mad` has arrived at out->port, as MAD_ARRIVED. To be called until it is false. */
bool agents_output(struct agents *a, wtime now, uint8_t mad[MAD_BYTES], struct mad_arrival *out);
/* What time alone changes; agents_mad and agents_output call it. */
void agents_expire(struct agents *a, wtime now);

/* Takes the link of a port down, or up as fabric_set_link() does; but a subnet that has a manager finds it initialised, and the
 * manager is told. Switches note the change for a manager that is to come. The port has a link. */
void agents_set_link(struct agents *a, wtime now, uint32_t port, bool is_up);
/* As fabric_set_fault(). Which MADs the link loses is drawn from the begin of the seed. */
void agents_set_fault(struct agents *a, uint32_t port, uint32_t loss_ppm, uint32_t rate_kbps, uint64_t seed);
/* What a port notices of its link (IBA 7.12.2), so many times one after the other: packets with physical errors; periods of flow
 * control in each of which a packet found no buffer; the watchdog of flow control ran out. */
enum link_error { LINK_SPOILS, LINK_OVERRUNS, LINK_IS_SILENT, LINK_ERRORS };
/* At a port with a link. As often as the threshold is passed that PortInfo has (LocalPhyErrors, OverrunErrors), the link
 * recovers, which the port counts, and the manager is told: traps 129 to 131. */
void agents_link_error(struct agents *a, wtime now, uint32_t port, enum link_error e, uint32_t times);
/* A subnet manager runs at this end port, or no longer: CapabilityMask.IsSM. Any value of port. */
void agents_set_sm(struct agents *a, wtime now, uint32_t port, bool is_sm);

#endif
