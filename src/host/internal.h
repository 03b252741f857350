/* The host's inside, shared by its files. Everything here is guarded by `lock` unless it says otherwise. */
#ifndef WEFT_HOST_INTERNAL_H
#define WEFT_HOST_INTERNAL_H

#include "direct/export.h"
#include "fabric/page.h"
#include "host/attention.h"
#include "host/host.h"
#include "host/lock.h"
#include "host/numbers.h"
#include "host/remap.h"
#include "host/session.h"
#include "link/link.h"

#include <pthread.h>
#include <sys/types.h>

struct direct_message;
struct peer;

/* One open channel: to another process, or the loop to ourselves. */
struct channel {
	struct link *link;	/* owned */
	struct peer *peer;	/* owned: the direct path to it, or NULL */
	uint32_t id;		/* weftd's; the loop has none */
	bool is_loop;
	uint32_t bell;		/* its place in channels.open */
	struct list_node dirty;	/* in channels.dirty: sent since the last flush */
	struct list_node told;	/* in channels.told: its messages were executed since the last flush */
	struct list_node watched;	/* in channels.watched, or it rests until its bell rings; not the loop */
	unsigned idle;		/* looks in vain */
	bool waiting;		/* a QP found no room */
	bool gone;		/* no slot leads to it: closed by the next sweep */
};

struct channels {
	struct channel **open;	/* owned, elements too */
	uint32_t count, room;
	struct channel *by_slot[PAGE_SLOTS];	/* borrowed from open */
	uint32_t refused[PAGE_SLOTS];	/* slot generation for which weftd had no channel, or 0 */
	struct channel *loop;	/* borrowed from open */
	struct list dirty, told;	/* struct channel.dirty, .told */
	struct list watched;	/* struct channel.watched */
	uint32_t watched_count;
	struct news *news;	/* borrowed from the export; NULL: all are watched */
	uint32_t waiting;	/* channels with waiting set */
	bool sweep;		/* some channel is gone or broken */
};

struct arena_memory {
	void *base;
	size_t bytes;
	int fd;			/* owned */
};

/* A memory file of ours that others may map. */
struct shown_file {
	dev_t device;
	ino_t inode;
	uint32_t number;	/* weftd's; it keeps the file, so that the inode is not used again */
};

/* Memory files of one peer, by number, as we mapped them. */
struct mapped_files {
	struct mapped_file {
		uint8_t *base;	/* owned mapping, or NULL */
		uint64_t bytes;
		bool is_known;	/* asked for */
	} file[CONTROL_FILES];
};

/* What we give others for their direct path to us. */
struct direct {
	struct export export;
	struct shown_file file[CONTROL_FILES];
	uint32_t files;
	struct remap remap;
	uint32_t era;		/* of our QPs as others see them */
	int fd[2];		/* owned: the export's memory, and our own; -1: there is no direct path */
	int pagemap;		/* owned, or -1 */
};

/* The thread in host_watch, if any. */
struct watch {
	uintptr_t thread;	/* lock_self(), or 0: nobody watches */
	const struct list *events;	/* borrowed: what it waits for; NULL: it is gone */
	bool listens;		/* peers shall wake it, not the helper */
	bool looks;		/* it is awake, and looks at its events before it sleeps or leaves */
};

struct host {
	struct host_lock lock;
	bool forgotten;		/* the parent's, seen in a forked child: nothing moves any more */
	struct ca ca;
	struct session session;	/* has its own lock */
	const struct fabric_page *page;	/* mapped read-only; own rules */
	struct arena_memory arena;
	struct direct direct;
	struct rand rand;
	struct numbers numbers;
	struct channels channels;
	uint32_t slot;		/* the first of our slots; constant */
	wtime now;
	bool now_is_old;	/* not told in this entry */
	bool quiet;		/* this poll found nothing, so there is nothing to do on leaving */
	unsigned polls, collected;	/* and as it was when awaiting QPs were looked at */
	uint64_t frames;	/* taken in */
	bool copies;		/* a thread is in copy_on: pump.c */

	/* helper thread */
	pthread_t thread;
	int wake_fd;		/* owned: eventfd, known to all peers; constant */
	struct attention attention;
	struct watch watch;
	wtime helper_until;	/* when the helper wakes by itself */
	struct host_cm cm;
	wtime cm_deadline;	/* the helper's own */
	_Atomic bool cm_kicked;
	bool is_away;		/* weftd is; the helper's own */
	unsigned linger_luck, linger_tries;	/* the helper's own */

	struct faults *faults;	/* owned: faults.h, or NULL */
	struct packet_out out;	/* the pump's; too large for a stack */
};

extern struct host_events host_events;
extern const struct ca_host host_ca_ops;

/* ---- attach.c ---- */
struct host *host_attach(int *err);

/* ---- host.c ---- */
/* Reads the clock: h->now is that from now on. */
wtime host_tell_time(struct host *h);
/* Between two parts of long work: lets those in who wait for the lock. Tells the time. */
void host_give_way(struct host *h);

/* ---- direct.c ---- */
extern const struct direct_ops host_direct_ops;
/* Before HELLO. Without memory for it, or with packets forced, there is no direct path, which is no error. */
void direct_init(struct host *h);
void direct_fini(struct host *h);
/* In a forked child: its objects are copies, which nobody sees. */
void direct_forget(struct host *h);
static inline bool direct_is_on(const struct host *h)
{
	return h->direct.fd[0] >= 0;
}
/* Our bells, if others can ring them. */
static inline struct news *direct_news(struct host *h)
{
	return direct_is_on(h) ? &h->direct.export.memory->news : NULL;
}
/* The calling thread, which lives as long as the process, says so to our peers: direct/export.h, `life`. */
void direct_live(struct host *h);
/* Shows others the region where it lies now, if it is one for them. */
void direct_show_placed(struct host *h, struct mr *mr);
/* Others no longer use the region, which can be shown again. False: one that stands still does. */
bool direct_hide_region(struct host *h, struct mr *mr);
/* How this QP's requests go: for people. */
const char *direct_path_name(struct host *h, struct qp *qp);

/* The channel to the process of the QP's peer, if it is open. */
struct channel *direct_channel(const struct host *h, const struct qp *qp);

/* ---- lane.c ---- */
/* The way of whole messages: what host_direct_ops has of it. */
bool lane_connect(void *host, struct qp *qp);
bool lane_send(void *host, struct qp *qp, const struct direct_message *m);
bool lane_send_plain(void *host, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes);
bool lane_pull(void *host, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to, unsigned tos);
void lane_publish(void *host, struct qp *qp);
bool lane_received(void *host, struct qp *qp, psn_t *psn);
/* A message arrived on the channel. As how many frames it counts. */
unsigned lane_deliver(struct host *h, struct channel *ch, const void *record, size_t bytes);
/* The channel is going. */
void lane_forget(struct host *h, const struct channel *ch);

/* ---- peer.c ---- */
/* The direct path to the process behind a channel, from the descriptors that weftd gave (borrowed). NULL: none. */
struct peer *peer_open(struct host *h, struct link *link, uint32_t slot, int export_fd, int memory_fd);
void peer_close(struct peer *p);
const struct direct_peer *peer_direct(const struct peer *p);
/* Is its address space still there? */
bool peer_is_alive(const struct peer *p);
/* How its memory is reached: for people. */
const char *peer_tier(const struct peer *p);
/* For locks that processes share. */
extern const struct atomic_lock_ops peer_lock_ops;
uint32_t peer_self(const struct host *h);

/* Is it known that the process has ended, or runs another program now? Costs a load. */
bool peer_has_left(const struct peer *p);

/* ---- calibrate.c ---- */
enum { PEER_TAIL = 64 };	/* programs poll the last byte: its line is written when all else is there */

/* From so many bytes on process_vm is used; UINT32_MAX: never. */
struct crossover {
	uint32_t write_bytes, read_bytes;
};
/* Measured at the first call, with the peer's memory file, pid and scratch. Under the lock. */
struct crossover calibrate(int memory_fd, pid_t pid, uint64_t address);
/* Where others may read and write to measure. */
uint64_t calibrate_scratch(void);

/* ---- mapped.c ---- */
/* Does memory that others can map hold the whole range? 0: no, or the number of its file, and where in it. */
uint32_t mapped_find(struct host *h, const void *memory, uint64_t bytes, uint64_t *offset);
/* That range of a file of the slot's process, mapped at the first use of the file; NULL: no. */
void *mapped_reach(struct host *h, struct mapped_files *m, uint32_t slot, uint32_t file, uint64_t offset, uint64_t bytes);
bool mapped_any(const struct mapped_files *m);
void mapped_close(struct mapped_files *m);

/* ---- memory.c ---- */
int arena_memory_create(struct arena_memory *m);
void arena_memory_destroy(struct arena_memory *m);
/* In a forked child: the parent's queues as they were, private. */
void arena_memory_privatise(struct arena_memory *m);
/* memcpy that answers -EFAULT instead of a signal. */
int memory_copy_safely(void *to, const void *from, size_t bytes);

/* ---- devices.c ---- */
/* The devices' addresses as the page has them now. Returns how many devices there are. */
int devices_read(const struct fabric_page *page, struct ca_device dev[CA_DEVICES]);
/* Takes over changed addresses and tells the program. */
void devices_refresh(struct host *h);
/* The members of the group that dgid (or, without one, the MLID) names on this device; false: no such group. */
bool group_members(const struct fabric_page *page, int device, const uint8_t *dgid, uint16_t mlid,
		   uint64_t members[PAGE_SLOTS / 64]);
/* The next member after this slot, or 0. */
uint32_t group_next(const uint64_t members[PAGE_SLOTS / 64], uint32_t slot);

/* ---- channel.c ---- */
int channels_init(struct channels *cs, struct news *news);
/* Closes everything. */
void channels_fini(struct channels *cs);
/* The channel to a slot's process, opened through weftd at the first use; NULL: nobody there. */
struct channel *channel_to(struct host *h, uint32_t slot);
/* Watches the channels whose bells rang; there are bells. */
void channels_listen(struct channels *cs);
/* Gives up watching a channel in which nothing came for long, when there are many. */
void channel_rest(struct channels *cs, struct channel *ch);
/* In a forked child, where nothing of them can be used. */
void channels_forget(struct channels *cs);
/* Acts on weftd's mail about channels: peers open them and go. */
void channels_collect(struct host *h);
/* Closes channels whose peer broke the rules, or is gone: then what it left is taken in. */
void channels_sweep(struct host *h);

/* ---- pump.c ---- */
enum { PUMP_FRAMES = 1024 };	/* at most per entry, so that the lock is free again within a millisecond */
/* Sends what is ready, and takes in what comes back through the loop. */
void pump_out(struct host *h, wtime now);
/* Would it find anything to do? */
static inline bool pump_has_output(const struct host *h)
{
	return !list_empty(&h->ca.ready) || link_pending(h->channels.loop->link);
}
/* Takes in what arrived on all channels and runs timers, then as pump_out. True: more may be there. */
bool pump(struct host *h, wtime now);
/* As pump, and sees what peers have executed. */
bool pump_all(struct host *h, wtime now);
/* Takes in at most `budget` frames of one channel. How many. */
unsigned pump_channel(struct host *h, struct channel *ch, unsigned budget);
/* When pump has something to do even if nothing arrives. */
wtime pump_deadline(const struct host *h);
bool pump_pending(const struct host *h);
/* From now on peers wake whoever listens. False: something arrived, pump first. */
bool pump_may_sleep(struct host *h);
void pump_awake(struct host *h);

/* A built frame goes to the process that owns the slot; a received one to the parser and the engine. */
void pump_send_frame(struct host *h, uint32_t slot, enum packet_form form, const void *frame, size_t bytes);
void pump_deliver(struct host *h, enum packet_form form, const void *frame, size_t bytes);
/* Wakes the processes to which something was sent, or that may wait for what we executed. */
void pump_flush(struct host *h);

/* ---- helper.c ---- */
int helper_start(struct host *h);
/* Has the helper look now. */
void helper_kick(struct host *h);

/* ---- report.c ---- */
void report_answer(struct host *h, const struct control_msg *request, const char *what);

/* ---- fork.c ---- */
/* The lock around attaching, also held over fork. */
extern pthread_mutex_t host_attaching;
extern struct host *_Atomic host_current;
void fork_prepare_once(void);

#endif
