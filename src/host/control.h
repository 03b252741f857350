/* The control protocol between weftd and its clients: fixed-size messages over one SOCK_SEQPACKET Unix socket per
 * process (file WEFT_DIR/ctl), descriptors by SCM_RIGHTS. One struct control_msg per datagram, host byte order; both
 * sides check length, type and every range. A request carries `seq` != 0 and its answer repeats it; seq 0 is unasked. */
#ifndef WEFT_HOST_CONTROL_H
#define WEFT_HOST_CONTROL_H

#include <stdint.h>

enum { CONTROL_VERSION = 2, CONTROL_TEXT = 60000, CONTROL_MAD = 256, CONTROL_FDS = 4, CONTROL_FILES = 8 };

/* weftd's exit status when it was killed before it served: to be started once more. As EX_TEMPFAIL of sysexits(3). */
enum { WEFTD_KILLED = 75 };

enum control_type {
	/* process -> weftd, answered with the same type and `status` 0 or an errno */
	CTL_HELLO = 1,	/* b = CONTROL_VERSION, a = enum control_kind; fd 0: the process's wake eventfd (processes only);
			 * and, or not: 1 its export (direct/export.h), 2 its /proc/self/mem, for processes of the same user.
			 * answer: slot (0 unless a process), c = the least number that no other process has, gid = the
			 * secret by which the process keeps its slots over a restart of weftd, fds: 0 fabric page (read-only);
			 * EPROTO another version. CONTROL_RETURN: slot and gid as they were; ESTALE: the slots are not this
			 * process's, or no more */
	CTL_SLOT,	/* one more slot for QP numbers. answer: slot */
	CTL_CHANNEL,	/* slot: open the packet channel to that slot's process. answer: fds: 0 channel memory (shm_memory_create
			 * of link/shm.h), 1 peer's wake eventfd, and when the peer is of the same user and gave them 2 its
			 * export, 3 its memory; a = which side we are (0, 1), b = channel id, unique among all of this daemon.
			 * The peer gets the same, unasked, with slot = the asker's. One channel for a pair of processes: asked
			 * for again (another slot, or both at once) the answer carries the same b, and the fds may be missing.
			 * status ENOENT: no such slot alive; EAGAIN: after a restart of weftd its process has not come back
			 * yet. Answered without waiting for the peer. */
	CTL_MCAST,	/* device, gid, a = 1 join, 0 leave (counted per process). answer: b = MLID (0 on Ethernet). The page
			 * names the first slot of each member process */
	CTL_LISTEN,	/* service: this process answers CM requests for it, a = device + 1 or 0 any, gid = only for this
			 * destination (a MAD's dgid) or zero. status EADDRINUSE: the same triple is taken, or somebody
			 * else holds the same rdma_cm port */
	CTL_UNLISTEN,	/* service, a, gid as in CTL_LISTEN. status ENOENT */
	CTL_MAD,	/* mad: to dest slot `slot`, or when slot is 0 and service set, to the listener; device, gid/dgid.
			 * delivered unasked as CTL_MAD with slot = sender's (its first). Unroutable: status ENOENT (slot),
			 * ECONNREFUSED (service), EAGAIN (the receiver is slow, or not back yet; dropped), also when seq is 0:
			 * then the message comes back with its mad and service */
	CTL_GOODBYE,	/* clean detach: nothing of this process may be left */
	CTL_PORT,	/* reserve an rdma_cm port: service = port space prefix | port (port 0: weftd chooses), a = 1 reuse.
			 * answer: service with the port. gid = the bound address (IPv4-mapped) or zero: any; different
			 * addresses do not collide. status EADDRINUSE, EADDRNOTAVAIL: no port is free */
	CTL_UNPORT,	/* service, gid as reserved */
	/* weft command -> weftd. Text longer than CONTROL_TEXT comes in fd 0, a memory file, and text_bytes is 0 */
	CTL_STATUS,	/* answer: text JSON */
	CTL_QUERY,	/* text: "qp", "mr", "counters"; weftd asks every process and joins the answers. answer: text JSON */
	CTL_DOWN,	/* a = 1 even with processes attached. status EBUSY */
	/* weftd -> process, unasked */
	CTL_PEER_GONE,	/* slot: that process (all its slots, one message each) is gone; its channel will be silent */
	CTL_REPORT,	/* text: what to report; the process answers with CTL_REPORT, same seq, text JSON */
	CTL_PAGE,	/* the fabric page changed: addresses (a = 1) */
	/* weft command -> weftd */
	CTL_UP,		/* stay when idle, until CTL_DOWN */
	/* process -> weftd, answered */
	CTL_MEMORY,	/* fd 0: a memory file in which this process has regions, for processes of the same user. answer: b = its
			 * number, 1..CONTROL_FILES, for as long as the process lives. b = this number or 0: the next. status
			 * EDQUOT: it has given CONTROL_FILES */
	CTL_MAP,	/* slot, b: the memory file of that number of that slot's process. answer: fd 0. status ENOENT, EPERM */
	/* process -> weftd, after CONTROL_RETURN, as MEMORY, PORT, LISTEN and MCAST for what it had */
	CTL_KEPT,	/* slot, b: this channel to that slot is still open */
};

enum control_kind {
	CONTROL_PROCESS,	/* attaches a channel adapter */
	CONTROL_COMMAND,	/* asks and leaves */
	CONTROL_LEASE,		/* held open by weft run across exec: weftd stays while the program lives */
	CONTROL_RETURN,		/* a process that was attached to a weftd which is gone */
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
	uint8_t mad[CONTROL_MAD];
	uint32_t text_bytes;	/* text follows in the same datagram, 0..CONTROL_TEXT */
	uint32_t rsvd;
};

#endif
