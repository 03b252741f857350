/* The control protocol between weftd and its clients: fixed-size messages over one SOCK_SEQPACKET Unix socket per
 * process (file WEFT_DIR/ctl), descriptors by SCM_RIGHTS. One struct control_msg per datagram, host byte order; both
 * sides check length, type and every range. A request carries `seq` != 0 and its answer repeats it; seq 0 is unasked. */
#ifndef WEFT_CONTROL_PROTOCOL_H
#define WEFT_CONTROL_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { CONTROL_VERSION = 16, CONTROL_TEXT = 60000, CONTROL_FDS = 4, CONTROL_FILES = 8 };

enum { CONTROL_LAST_WORDS = 16000 };	/* bytes: our choice */

#define CONTROL_LINK_NS (24 * 3600 * 1000000000ull)

/* The directory in WEFT_DIR that is weft's alone, and the mark by which WEFT_DIR is known as weft's. */
#define CONTROL_OWN "made-by-weft"

/* weftd's exit status when it was killed before it served: to be started once more. As EX_TEMPFAIL of sysexits(3). */
enum { WEFTD_KILLED = 75 };

enum control_type {
	/* process -> weftd, answered with the same type and `status` 0 or an errno */
	CTL_HELLO = 1,	/* b = CONTROL_VERSION, a = enum control_kind; fd 0: the process's wake eventfd (processes only);
			 * and, or not: 1 its share (direct/share.h), 2 its /proc/self/mem, for processes of the same user.
			 * answer: slot (0 unless a process), c = the least number that no other process has, gid = the
			 * secret by which the process keeps its slots over a restart of weftd, fds: 0 fabric page (read-only),
			 * of a process 1: what ports carry, which it writes (fabric/loads.h), or not; EPROTO another version.
			 * CONTROL_RETURN: slot and gid as they were; ESTALE: the slots are not this
			 * process's, or no more */
	CTL_SLOT,	/* one more slot for QP numbers. answer: slot */
	CTL_CHANNEL,	/* slot: open the packet channel to that slot's process. answer: fds: 0 channel memory (shm_memory_create
			 * of link/shm.h), 1 peer's wake eventfd, and when the peer gave them 2 its share, 3 its memory; of a
			 * peer that may not trace us (CHANNEL_FOREIGN): 1 the timer that wakes it (link/wake.h), 2 the one that
			 * wakes us.
			 * a = which side we are (0, 1), b = channel id, unique among all of this daemon, c = CHANNEL_*,
			 * service = the peer's number in the fabric page (slot_owner).
			 * The peer gets the same, unasked, with slot = the asker's. One channel for a pair of processes: asked
			 * for again (another slot, or both at once) the answer carries the same b, and the fds may be missing;
			 * asked for with a = 1, as it did not arrive, it is a new one for both.
			 * status ENOENT: no such slot alive; EAGAIN: after a restart of weftd its process has not come back
			 * yet, or another user's has got the one that did not arrive less than a second ago; EDQUOT: one of
			 * the two has its share of channels, in all or with the other's user. Answered without waiting for
			 * the peer. */
	CTL_MCAST,	/* device, gid, a = 1 join, 0 leave (counted per process). answer: b = MLID (0 on Ethernet). The page
			 * names the first slot of each member process. service = MCAST_OF_PORT: at a port that has a subnet
			 * manager the port joins, c = the Q_Key of a group that is made so. answer then: b = MLID, and the
			 * service level from bit 16 on, c = the group's Q_Key; status EACCES: refused; ETIMEDOUT.
			 * MCAST_SENDS: as that, but the process only sends, and the page does not name it */
	CTL_LISTEN,	/* service: this process answers CM requests for it, a = device + 1 or 0 any, gid = only for this
			 * address (that a request asks for), control_any of its family, or zero. status EADDRINUSE: the same
			 * triple is taken, somebody else listens where this one would (zero overlaps with everything) or has
			 * reserved the port; EACCES as for CTL_PORT */
	CTL_UNLISTEN,	/* service, a, gid as in CTL_LISTEN. status ENOENT */
	CTL_FRAME,	/* text: a frame of QP1 (mgmt/gmp.h) as that device's link would carry it. weftd passes it on to the
			 * process that it is for, unasked and unchanged, answers it by a frame where no process is, or drops
			 * it: a datagram. No other answer but with seq: status 0 where it was passed on or answered, EINVAL no
			 * such frame, EPERM not the sender's to send, EHOSTUNREACH not a port of this host, EAGAIN dropped as
			 * its receiver is slow or not back yet, ENOENT dropped as it is for nobody */
	CTL_GOODBYE,	/* clean detach: nothing of this process may be left. text: why its QPs have stopped, as a report, or
			 * none */
	CTL_PORT,	/* reserve an rdma_cm port: service = port space prefix | port (port 0: weftd chooses), a = 1 reuse.
			 * answer: service with the port. gid = the bound address (IPv4-mapped), control_any: any of a
			 * family, or zero: any; different addresses and families do not collide. status EADDRINUSE, also
			 * where somebody else listens; EADDRNOTAVAIL: none is free; EACCES: the port is below 1024 and the
			 * process not root's, as the kernel's rdma_cm has it.
			 * Where weftd chooses, b = so many more are wanted, at most 63, of the row of 64 ports that it is in.
			 * answer: control_port_row: those that the process has been given of that row, each a reservation of
			 * its own */
	CTL_UNPORT,	/* service, gid as reserved; control_port_row, not 0: all these of its row in place of it */
	/* weft command -> weftd. Text longer than CONTROL_TEXT comes in fd 0, a memory file, and text_bytes is 0 */
	CTL_STATUS,	/* answer: text JSON */
	CTL_QUERY,	/* text: "qp", "cq", "mr" or "counters"; weftd asks every process and joins the answers. answer: text
			 * JSON */
	CTL_DOWN,	/* a = 1 even with processes attached. status EBUSY */
	/* weftd -> process, unasked */
	CTL_PEER_GONE,	/* slot: that process (all its slots, one message each) is gone; its channel will be silent */
	CTL_REPORT,	/* text: what to report, a: from which row on; the process answers with CTL_REPORT, same seq and a, text
			 * JSON: the rows that fit, b = the row with which the next part begins, 0: there is none */
	CTL_PAGE,	/* the fabric page changed: a = of enum control_page */
	/* weft command -> weftd */
	CTL_UP,		/* stay when idle, until CTL_DOWN */
	/* process -> weftd, answered */
	CTL_MEMORY,	/* fd 0: a memory file in which this process has regions, for processes of the same user. answer: b = its
			 * number, 1..CONTROL_FILES, for as long as the process lives. b = this number or 0: the next. status
			 * EDQUOT: it has given CONTROL_FILES */
	CTL_MAP,	/* slot, b: the memory file of that number of that slot's process. answer: fd 0. status ENOENT, EPERM */
	/* process -> weftd, after CONTROL_RETURN, as MEMORY, PORT, LISTEN and MCAST for what it had */
	CTL_KEPT,	/* slot, b: this channel to that slot is still open; slot 0, last: that was all. status ENOENT, also
			 * unasked: the process of that slot does not have it, as weftd was killed before it was told. Then the
			 * channel leads nowhere, and is asked for anew */
	/* process -> weftd, answered */
	CTL_ROCE_SOCKET,	/* a socket of UDP port 4791 for this process (weftd/roce_port.h), always the same one; who asks
			 * again loses what it received until then. answer: a = the member of the group that it is, b =
			 * how many members there can be, a power of two, c = 0; fd 0: the socket. status EOPNOTSUPP:
			 * this weftd serves several users; EADDRINUSE: somebody else has the port; EAGAIN: a process of
			 * the last weftd, or one that is ending, may have it still; EPERM: one that has a socket does
			 * not trust this process, or it is another user's than weftd; EBUSY: no member is left that the
			 * process's slot leads to; EDQUOT, or as the kernel refuses it */
	/* process -> weftd */
	CTL_CONN,	/* a connection of this process with another host, which weftd ends by a DREQ when the process has ended
			 * without it. a, b = the communication ids, its own and the peer's; slot, c = the QPNs, likewise; device,
			 * gid, dgid = the GIDs, likewise; service = the rest as enum control_conn has it. No answer but of a
			 * refusal: EINVAL no such connection can be; EPERM it is not the process's; EEXIST; ENOBUFS too many */
	CTL_UNCONN,	/* a = its own communication id: it is over. status ENOENT */
	/* a fabric (fabric/fabric.h) */
	CTL_FABRIC,	/* weft command: fd 0: a memory file with a fabric, which weftd copies: it is the network's from now on;
			 * without one: there is none any more. status EPERM; ENOENT: there was none; EBUSY: processes are at its
			 * ports, or programs of leases are to be (a = how many); EINVAL: it is not sound, the log says why;
			 * EOPNOTSUPP: the network has no InfiniBand device, or several; EFBIG, ENOSPC, other errno: it cannot be
			 * kept */
	CTL_NODE,	/* any client: a = 0: answer: fd 0 the fabric, read-only, b = its number; for a process fd 1, which
			 * it writes: what data counts at ports (fabric/traffic.h); status ENOENT: there is none.
			 * a = place + 1 (host_is_place): a process is at this place from now on, for as long as it
			 * lives; for others, programs can be there: a tree of device files of this place is in the runtime
			 * directory (rundir_tree), c = 0: of all devices, else of those of these bits; its counters are written
			 * anew each time. b = the number. status ENOENT, EINVAL: no such port or device, EBUSY: the process is
			 * at another, ESTALE: the fabric has another number by now; EDQUOT: there are trees of so many hosts, or
			 * of so many choices of devices, that there is none for another */
	CTL_LINK,	/* weft command: a = port + 1, b = the fabric's number, or a = 0: the port of `device`, for processes that
			 * are nowhere in a fabric. c = 1: its link comes up, 0: goes down, and with service != 0 comes up again
			 * after so many nanoseconds, at most CONTROL_LINK_NS. status EPERM, ENOENT, EINVAL: no port with a link,
			 * ESTALE; EBUSY: too many links are down for a time */
	CTL_IMPAIR,	/* weft command: text: faults (impair/impair.h), none: ends them. slot = the PID of an attached process,
			 * 0: of each of this user. answer: b = how many. status ENOENT, EPERM.
			 * weftd -> process, unasked: text: the same, from now on in place of what it had */
	CTL_CAPTURE,	/* weft command, once: frames of the process slot, as in CTL_IMPAIR, for as long as the connection of the
			 * command is there; 0: also of those that attach later. answer: b = how many. status ENOENT; EPERM: the
			 * command may not trace it; EBUSY: another command has its frames; EINVAL: said before.
			 * weftd -> that command, unasked: slot = the PID of a process; fd 0: the end of a pipe from which its
			 * frames come, as records (impair/trace.h).
			 * weftd -> process, unasked: fd 0: the other end; without one: no more */
	/* management datagrams of programs: CONTROL_MADS -> weftd (weftd/umad.h) */
	CTL_MAD_PORT,	/* once: this connection is a file of the device's port c, 0: 1, from now on. device: of the page, or
			 * behind those that of a further adapter of the host, by their order; a = 1: for as long
			 * as it is there, the port is a subnet manager's, and there are no datagrams; b = 1: the program says
			 * which datagrams it is done with; text: the host of the fabric, or none. answer: gid = the secret by
			 * which agents are registered for it, c = the LID at which weftd answers as the seed's administration, b
			 * = that of the port's subnet manager; or 0; slot, service: control_port_times. status ENODEV: no such
			 * device, or one without datagrams; ENOENT: no fabric, or no such host in it; EPERM: not the caller's to
			 * be a subnet manager; EINVAL: it has a port; EDQUOT */
	CTL_MAD,	/* text: struct control_mad, then a piece of the datagram. Both ways, no answer: what cannot be sent is
			 * lost, and times out. To weftd: a = so many datagrams of this agent the program is done with, as by
			 * CTL_MAD_DONE */
	/* weft's library as CONTROL_COMMAND, so that the answer does not come among datagrams */
	CTL_MAD_AGENT,	/* gid = such a secret; a = 0: text: struct control_agent, which has service receive buffers (0:
			 * the default). answer: b = the agent's number in that file; a = 1: agent b goes; a = 2: agent b has
			 * service more receive buffers, of 32 bits and signed. status ENOENT: no such file or agent; EPERM: QP0
			 * is the owner's; EINVAL: such an agent cannot be, or has not so many; EBUSY: one of the methods is
			 * another agent's; EDQUOT: the file has CONTROL_AGENTS; ENOSPC: no memory for so many */
	CTL_COUNTS,	/* programs that are nowhere in a fabric can see the devices c, as in CTL_NODE: there is a tree of them,
			 * whose counters are written anew. status EINVAL: no such device; EDQUOT, as in CTL_NODE; ENODEV */
	/* weft command -> weftd */
	CTL_PING,	/* the port of the wire is open from now on, for as long as this connection is there; a = 1: and the weftd
			 * of the host with the GID dgid is asked, from the GID gid, with b bytes of payload, 256 to 4096. The
			 * answer comes when that one's does, or never: service = how many nanoseconds it took, text: its version.
			 * At once only: a = 0; status EPERM; EOPNOTSUPP, EADDRINUSE, EMFILE as for CTL_ROCE_SOCKET; EINVAL: it is
			 * this host's, or not so many bytes; EADDRNOTAVAIL: gid is not; ENETDOWN: the port is down; EAGAIN:
			 * the socket is full; EMSGSIZE: the path is known to be narrower; ENETUNREACH: the kernel does not
			 * send it */
	CTL_LINK_FAULT,	/* weft command: a, b as for CTL_LINK, of a port of the fabric: its link loses c packets of a million, at
			 * most all, and carries slot thousand bits a second (0: all), in both directions; service = the seed.
			 * Both 0: the fault ends. status as for CTL_LINK */
	CTL_BAD_KEY,	/* process at a port of the fabric, no answer: so many packets had a key that a port did not let in. a =
			 * source QPN, 0: unknown; b = destination QPN; slot and service = enum control_bad_key; c = the Q_Key.
			 * device = 0: the process has sent them, and weftd walks their way itself; BAD_KEY_ARRIVED: they came to
			 * its QP b. gid: as enum control_bad_key */
	/* management datagrams again */
	CTL_MAD_DONE,	/* CONTROL_MADS -> weftd, no answer: a = the agent, b = so many datagrams that came to it, and had no
			 * status, the program is done with since it said so last */
	CTL_MADS,	/* weft command -> weftd: answer: text JSON: receive buffers of QP0 and QP1 of ports. text: tunables of
			 * them to be set (mgmt/gsa_tunables.h). status EPERM; ENOENT: no such name; EINVAL: they make no sense */
	CTL_PORT_COUNTS,	/* weft command -> weftd: a = a port of the fabric, b = the fabric's number. answer: text: what it
			 * and those behind it have counted, CONTROL_PORT_COUNTS at most (struct control_port_count). status
			 * ENOENT: there is no fabric; ESTALE: it has another number; EINVAL: no such port */
	/* process -> weftd */
	CTL_PATH_MTU,	/* b = bytes of payload, 256 to 4096, a power of two: how many of them pass to dgid, another host's GID,
			 * from gid, and back? answer, within 50 ms: b = so many; as asked where no weftd answers there. status
			 * EINVAL */
	CTL_PATH,	/* from a process at a port of the fabric: the path from its GID gid to the GID dgid of another port with
			 * the P_Key a, as the port's subnet administration says, which has c ms in all; without a subnet manager,
			 * as the tables have it. answer: enum control_path. status EINVAL: gid is not the port's; EHOSTUNREACH:
			 * there is no such path; ETIMEDOUT: no answer; EAGAIN: too many ask */
	CTL_LINK_ERROR,	/* weft command: a, b as for CTL_LINK, of a port of the fabric, which notices c of enum link_error
			 * (agents/agents.h) so many times, slot, at most 1000. status as for CTL_LINK; ENETDOWN: the link is
			 * down */
	CTL_PATH_CUT,	/* weft command: path a of queue pairs whose first one leads to gid, an address of another host: c = of
			 * enum control_cut. answer: b = those that fail now, one bit each. status EPERM; EINVAL: no such number;
			 * EBUSY: paths to too many hosts fail */
	CTL_PATHS,	/* as CTL_PATH, of port `device` of the process: all paths, b of them at most, 2 to CONTROL_PATHS.
			 * answer: text: struct control_lids of each. status as for CTL_PATH */
};

enum { CONTROL_PATHS = 8 };	/* as of wire/header.h */

struct control_lids {
	uint16_t slid, dlid;
};
enum control_cut { CUT_HEALS, CUT_FAILS, CUT_ASKS };

enum { CONTROL_LINK_ERRORS = 1000 };	/* our choice */

/* Our choice: choices of devices, beside that of all, that there are trees of (CTL_COUNTS, CTL_NODE), and those of one user who
 * is neither root nor weftd's own. Trees stay, as shells of weft env use them. More of them, of many devices each, would cost
 * weftd seconds at each change of an address, and when it ends. */
enum { CONTROL_CHOICES = 24, CONTROL_USER_CHOICES = 8 };

/* The answer of CTL_PATH, from which bit on: in a, b, c and service. */
enum control_path {
	ROUTE_DLID = 0, ROUTE_SLID = 16,
	ROUTE_PKEY = 0, ROUTE_MTU = 16, ROUTE_RATE = 24,	/* enums ibv_mtu, ibv_rate */
	ROUTE_FLOW_LABEL = 0, ROUTE_SL = 20,
	ROUTE_TCLASS = 0, ROUTE_HOP_LIMIT = 8, ROUTE_LIFE = 16,
};

enum { CONTROL_PORT_COUNTS = 1024 };	/* our choice: some 40 KB a message */

/* A port, since weftd began; setting counters by management datagrams changes nothing here. */
struct control_port_count {
	uint64_t words, packets;	/* sent; as PortXmitData: 4 bytes each */
	uint64_t waits, discards;	/* XmitWait, XmitDiscards */
	uint64_t errors;		/* packets that came spoilt: SymbolErrors */
};

enum {
	CONTROL_AGENTS = 32,			/* of a file: as many as the kernel allows */
	CONTROL_MAD_MOST = 1 << 30,		/* our choice: bytes of a datagram with all of its segments (RMPP) */
	CONTROL_MAD_PIECE = 32 << 10,		/* our choice: of which so many come at once */
};

/* A file of datagrams: how it is registered for some of them. */
struct control_agent {
	uint8_t mgmt_class, class_version, rmpp_version;
	uint8_t is_user_rmpp;		/* the program segments by itself */
	uint32_t oui;			/* of vendor's classes that have one */
	uint64_t methods[2];		/* bit n: it answers method n */
};

/* One datagram on its way, as struct ib_user_mad of the kernel has it; numbers in host byte order. */
struct control_mad {
	uint32_t agent, status, timeout_ms, retries;
	uint32_t total, at;		/* bytes in all; where this piece belongs. Pieces come in order */
	uint32_t qpn, qkey, flow_label;
	uint16_t lid, pkey_index;
	uint8_t sl, path_bits, has_grh, gid_index, hop_limit, tclass;
	uint8_t rsvd[2];
	uint8_t gid[16];
};

enum { MCAST_OF_PORT = 1, MCAST_SENDS = 2 };	/* CTL_MCAST, service */

/* CTL_CONN, service: from which bit on. */
enum control_conn { CONN_HOP_LIMIT = 24, CONN_TCLASS = 32, CONN_ACK_TIMEOUT = 40, CONN_PKEY = 48 };

enum { CONN_FLOW_LABEL = 0xfffff };

/* CTL_BAD_KEY. slot: the destination's LID; from which bit on the service level; is it the Q_Key that was bad? service: how many,
 * in 32 bits; from which bit on the P_Key. gid, by byte: the number of the process's port, 0: 1; the source LID, in two bytes. */
enum control_bad_key {
	BAD_KEY_LID = 0xffff, BAD_KEY_SL = 16, BAD_KEY_IS_QKEY = 1 << 20, BAD_KEY_PKEY = 32, BAD_KEY_ARRIVED = 1,
	BAD_KEY_PORT = 0, BAD_KEY_FROM = 2,
};

/* CTL_CHANNEL, c. */
enum {
	CHANNEL_KNOWN = 1,		/* it was there before: there are no descriptors */
	CHANNEL_FOREIGN = 2,		/* the peer may not trace us, or not be traced (weftd/trust.h) */
	CHANNEL_SEES_US = 4,		/* the peer was given our share and memory */
};

enum control_page {
	CONTROL_PAGE_PORTS = 1,		/* addresses and states of ports, paths that fail */
	CONTROL_PAGE_FABRIC = 2,	/* not the page: the fabric in which the process is */
	CONTROL_PAGE_PACKETS = 4,	/* slot_packets */
};

/* What an EDQUOT is about, in c of the answer; 0: not told. control/limits.h has their names. */
enum control_limit {
	LIMIT_CONNECTIONS = 1, LIMIT_DESCRIPTORS, LIMIT_LETTERS, LIMIT_SLOTS, LIMIT_CHANNELS, LIMIT_GROUPS, LIMIT_LISTENERS,
	LIMIT_PORTS, LIMIT_QUESTIONS, LIMIT_NODES, LIMIT_DATAGRAMS, LIMIT_CHOICES, CONTROL_LIMITS
};

enum control_kind {
	CONTROL_PROCESS,	/* attaches a channel adapter */
	CONTROL_COMMAND,	/* asks and leaves */
	CONTROL_LEASE,		/* held open by weft run across exec: weftd stays while the program lives */
	CONTROL_RETURN,		/* a process that was attached to a weftd which is gone */
	CONTROL_MADS,		/* a file of management datagrams, which a program has opened */
};

struct control_msg {
	uint32_t type;		/* enum control_type */
	uint32_t seq;
	int32_t status;		/* 0 or errno */
	uint32_t slot;
	uint32_t device;
	uint32_t a, b, c;
	uint64_t service;
	uint8_t gid[16], dgid[16];
	uint32_t text_bytes;	/* text follows in the same datagram, 0..CONTROL_TEXT */
	uint32_t rsvd;
};

/* Of CTL_MAD_PORT's answer, 4.096 us * 2^n: the port's SubnetTimeOut, and the RespTimeValue of weftd as the seed's
 * administration. */
struct control_times {
	bool is_known;		/* the port is one of the fabric's */
	uint8_t subnet_timeout, response_time;
};

static inline struct control_times control_port_times(const struct control_msg *answer)
{
	return (struct control_times){ answer->slot > 0, (uint8_t)(answer->slot - 1), (uint8_t)answer->service };
}

static inline void control_set_port_times(struct control_msg *answer, uint8_t subnet_timeout, uint8_t response_time)
{
	answer->slot = subnet_timeout + 1u;
	answer->service = response_time;
}

/* CTL_PORT, CTL_LISTEN: whose address a gid is. BOTH: zero, any address. */
enum control_family { FAMILY_BOTH, FAMILY_IPV4, FAMILY_IPV6, CONTROL_FAMILIES };

/* The gid of any address of the family. Neither 0.0.0.0 nor the group ff00::6 is the address of a host. */
static inline const uint8_t *control_any(enum control_family family)
{
	static const uint8_t any[CONTROL_FAMILIES][16] = {
		[FAMILY_IPV4] = { [10] = 0xff, 0xff }, [FAMILY_IPV6] = { 0xff, [15] = 6 },
	};

	return any[family];
}

static inline enum control_family control_family(const uint8_t gid[16])
{
	if (memcmp(gid, control_any(FAMILY_BOTH), 16) == 0)
		return FAMILY_BOTH;
	return memcmp(gid, control_any(FAMILY_IPV4), 12) == 0 ? FAMILY_IPV4 : FAMILY_IPV6;
}

/* Whether an address of the one can be an address of the other. */
static inline bool control_families_overlap(enum control_family a, enum control_family b)
{
	return a == b || a == FAMILY_BOTH || b == FAMILY_BOTH;
}

enum { CONTROL_PORT_ROW = 64 };		/* ports of one row, the first of which is a multiple of it */

/* CTL_PORT, CTL_UNPORT: a bit for each port of a row. */
static inline uint64_t control_port_row(const struct control_msg *msg)
{
	return (uint64_t)msg->c << 32 | msg->b;
}

static inline void control_set_port_row(struct control_msg *msg, uint64_t row)
{
	msg->b = (uint32_t)row;
	msg->c = (uint32_t)(row >> 32);
}

static inline uint64_t control_port_of_row(uint64_t service, uint64_t row)
{
	return service / CONTROL_PORT_ROW * CONTROL_PORT_ROW + (uint64_t)__builtin_ctzll(row);
}

#endif
