/* What the files of the rdma_cm device share: channels, ids, multicast memberships, events, ports and the one lock.
 * Order of locks: ucm.lock, then the runtime's. runtime_request is never called with either held, because its answer comes in
 * through the runtime's helper thread, which takes ucm.lock for CM messages. An id in use while the lock is given up is
 * kept by id_get/id_put. */
#ifndef WEFT_ABI_UCM_UCM_STATE_H
#define WEFT_ABI_UCM_UCM_STATE_H

#include "abi/ucm/ucm.h"
#include "base/list.h"
#include "base/table.h"
#include "control/protocol.h"
#include "fabric/page.h"
#include "mgmt/cm.h"
#include "runtime/runtime.h"

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <infiniband/ib.h>	/* struct sockaddr_ib; rdma_cma.h itself contradicts rdma_user_cm.h */

enum {
	UCM_MAX_IDS = 65535,		/* librdmacm's index map holds 16-bit handles */
	UCM_MAX_MCASTS_PER_ID = 256,	/* our choice: the fabric page has as many groups */
	UCM_PORT_BUCKETS = 256,
	UCM_MAX_FILES = 1 << 20,	/* the kernel's default fs.nr_open */
	/* Linux's default of net.rdma_ucm.max_backlog (drivers/infiniband/core/ucma.c): more requests do not queue, be it that a
	 * program listens with a larger backlog or with 0, which means as many as there may be. They are asked again. */
	UCM_MAX_BACKLOG = 1024,
	UCM_STRANGERS = 64,		/* our choice: other hosts that have the same place share what is theirs */
	UCM_STRANGERS_FEW = 16,		/* our choice: for hosts that ask listeners of short backlogs */
	UCM_ALL_STRANGERS = 0,		/* no process has slot 0: weftd has */
	UCM_MAX_OPTION = 4096,		/* the longest option is a list of path records */
	UCM_UDP_QKEY = 0x01234567,	/* RDMA_UDP_QKEY, rdma_cma.h */
	UCM_IPOIB_QKEY = 0x0b1b,	/* RFC 4392: the broadcast group's, which RDMA_PS_IPOIB shares */
	UCM_NO_DEVICE = -1,
	UCM_READER_BACK_MS = 50,	/* our choice: far more than a thread needs from one rdma_get_cm_event to the next */
};

/* rdma/rdma_cma.h: enum rdma_cm_event_type */
enum ucm_event_type {
	UCM_EVENT_ADDR_RESOLVED,
	UCM_EVENT_ADDR_ERROR,
	UCM_EVENT_ROUTE_RESOLVED,
	UCM_EVENT_ROUTE_ERROR,
	UCM_EVENT_CONNECT_REQUEST,
	UCM_EVENT_CONNECT_RESPONSE,
	UCM_EVENT_CONNECT_ERROR,
	UCM_EVENT_UNREACHABLE,
	UCM_EVENT_REJECTED,
	UCM_EVENT_ESTABLISHED,
	UCM_EVENT_DISCONNECTED,
	UCM_EVENT_DEVICE_REMOVAL,
	UCM_EVENT_MULTICAST_JOIN,
	UCM_EVENT_MULTICAST_ERROR,
	UCM_EVENT_ADDR_CHANGE,
	UCM_EVENT_TIMEWAIT_EXIT,
};

/* The states of Linux's rdma_cm, as far as commands can see them. */
enum ucm_state {
	UCM_IDLE,
	UCM_ADDR_BOUND,
	UCM_ADDR_RESOLVED,
	UCM_ROUTE_RESOLVED,
	UCM_CONNECT,
	UCM_DISCONNECT,
	UCM_LISTEN,
};

struct ucm_file {
	struct list_node node;		/* in ucm.closed_files, when it is closed */
	int fd;
	uint32_t refs;			/* the table, and every command under way, also one whose thread has left it for good */
	bool closed;
	uint32_t posted;		/* futex word: changes with every event */
	uint32_t waiting;		/* futex word: 1 since a thread began to wait for an event, until the next one */
	uint32_t awaiting;		/* threads that wait for one of those (ucm_await_reader) */
	bool is_told;			/* fd was written since it was read */
	pid_t reader;			/* the thread that took the last event, if that was DISCONNECTED; else 0 */
	wtime reader_left;		/* when */
	struct list events;		/* struct ucm_event.node */
	struct list ids;		/* struct ucm_id.of_file */
};

/* Ports of one row (control/protocol.h) that weftd has chosen, for any address, some before an id needs them. */
struct ucm_port_row {
	struct list_node node;		/* in ucm.port_rows */
	uint64_t service;		/* of its first port */
	uint64_t granted, used;		/* used: by an id */
};

/* A port of a port space which this process has reserved with weftd, for one address or for any. */
struct ucm_port {
	struct list_node node;		/* in ucm.ports */
	uint64_t service;		/* port space << 16 | port */
	uint8_t gid[16];		/* the address, IPv4 mapped, or any (control_any) */
	struct list ids;		/* struct ucm_id.of_port */
	uint32_t listens;
};

struct ucm_id {
	uint32_t number;
	uint32_t refs;			/* the table, and every command that gave up the lock */
	bool destroyed;
	struct ucm_file *file;		/* borrowed; NULL for a request not reported yet */
	struct list_node of_file;
	uint64_t uid;			/* 0: a request not accepted yet, which gets no events */
	uint32_t events_reported;
	uint16_t ps;
	uint8_t qp_type;		/* enum ibv_qp_type; 0: any (RDMA_PS_IB listener) */
	enum ucm_state state;
	struct sockaddr_storage src, dst;
	struct ucm_port *port;		/* borrowed */
	struct list_node of_port;
	bool reuseaddr, has_timeout;
	bool afonly, afonly_is_set;	/* one family alone; the program said so, or that it is not */
	bool is_listening;		/* counted in port->listens */
	uint8_t tos, ack_timeout;
	int device;			/* or UCM_NO_DEVICE */
	uint8_t sgid[16], dgid[16];
	struct cm_path path;
	struct cm_path alternate;	/* where paths is 2: that the REQ offers, or is to offer */
	uint32_t paths;			/* 0 until the route is resolved, then 1 or 2 */
	uint32_t backlog;		/* requests that may still queue */
	struct cm_id *cm;		/* owned once connecting; NULL before */
	psn_t psn;			/* of what the other side sends */
	uint32_t qkey;			/* 0: the port space's */
	struct list mcasts;		/* struct ucm_mcast.node */
	uint32_t mcast_count;
};

struct ucm_mcast {
	uint32_t number;
	uint64_t uid;
	uint32_t events_reported;
	struct ucm_id *id;		/* borrowed */
	struct list_node node;
	int device;
	uint32_t service;		/* of CTL_MCAST: MCAST_OF_PORT or MCAST_SENDS */
	uint8_t mgid[16];
};

struct ucm_event {
	struct list_node node;		/* in its file's list */
	struct ucm_id *id;		/* borrowed: whose event; destroying it takes the event along */
	struct ucm_mcast *mcast;	/* borrowed or NULL */
	struct ucm_id *fresh;		/* CONNECT_REQUEST: the new id, owned until reported */
	struct rdma_ucm_event_resp resp;
};

struct ucm {
	pthread_mutex_t lock;
	struct runtime *rt;		/* borrowed; NULL until the first open */
	struct ucm_file **files;	/* owned: by descriptor */
	uint32_t files_room;
	struct table ids, mcasts;
	uint32_t max_backlog;		/* of each listener; of what a process, or all other hosts, may have queued here */
	struct siphash_key key;		/* of hashes that nobody else can foresee */
	/* requests that are queued, by ucm_requester, and those of all other hosts at UCM_ALL_STRANGERS */
	uint16_t unreported[PAGE_SLOTS + UCM_STRANGERS];
	struct list ports[UCM_PORT_BUCKETS];	/* by port number */
	struct list port_rows;
	uint32_t ports_ahead;		/* how many more than one are asked for the next time */
	struct cm cm;
	wtime cm_deadline;		/* what the runtime was last told */
	struct list closed_files;	/* struct ucm_file.node: those with references */
	struct list posts;		/* struct post.node in ucm_cm.c: for weftd, once the lock is given up */
};

extern struct ucm ucm;

/* One command after its checks: the input copied, the lock not held. */
struct ucm_call {
	struct ucm_file *file;
	const void *in;			/* borrowed: the command's structure, zero beyond what the caller gave */
	uint32_t out_bytes;		/* room at the caller's response pointer */
	int cancel_state;		/* the program's, which holds again where a command waits for an event */
};

/* ---- ucm.c ---- */

void ucm_lock(void);
/* Gives the lock up and then sends what the entry left to send. */
void ucm_unlock_and_send(void);

/* ---- ucm_copy.c ---- */

/* 0, or -EFAULT for memory that is not the caller's. */
int ucm_copy_out(uint64_t to, const void *from, size_t bytes);
int ucm_copy_in(void *to, uint64_t from, size_t bytes);

/* ---- ucm_id.c: all under the lock ---- */

/* -ENOENT no such id, -EINVAL another channel's. */
int ucm_id_find(const struct ucm_file *file, uint32_t number, struct ucm_id **id);
/* In the table, in no channel yet. */
int ucm_id_create(struct ucm_id **id);
void ucm_id_join(struct ucm_id *id, struct ucm_file *file);
/* ucm_lock and ucm_id_find; the lock is held only on success. */
int ucm_id_lock(const struct ucm_file *file, uint32_t number, struct ucm_id **id);
/* Ends its conversation, drops its events. Returns how many events were reported. */
uint32_t ucm_id_destroy(struct ucm_id *id);
void ucm_id_get(struct ucm_id *id);
void ucm_id_put(struct ucm_id *id);
bool ucm_is_ud(const struct ucm_id *id);

/* ---- ucm_event.c: under the lock ---- */

/* Queues an event for id's channel. -ENOMEM. Events of an id whose user has set no uid yet are dropped, as by Linux. */
int ucm_event_post(struct ucm_id *id, enum ucm_event_type type, int status);
/* A fresh event to fill and hand to ucm_event_queue; NULL without memory. */
struct ucm_event *ucm_event_new(struct ucm_id *id, enum ucm_event_type type, int status);
void ucm_event_queue(struct ucm_event *event);
/* A request stands in the queue, or no more. */
void ucm_request_queued(const struct ucm_event *event);
void ucm_events_drop(struct ucm_id *id);
void ucm_events_drop_mcast(struct ucm_mcast *mcast);
void ucm_events_move(struct ucm_id *id, struct ucm_file *to);
/* weft_ucm_await_reader's wait, which gives the lock up meanwhile; the caller has a reference of the file. */
void ucm_await_reader(struct ucm_file *file);

/* ---- ucm_addr.c ---- */

size_t ucm_addr_bytes(const struct sockaddr_storage *addr);	/* 0: a family that rdma_cm does not know */
bool ucm_addr_is_any(const struct sockaddr_storage *addr);
bool ucm_addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);	/* without port */
uint16_t ucm_addr_port(const struct sockaddr_storage *addr);
void ucm_addr_gid(const struct sockaddr_storage *addr, uint8_t gid[16]);	/* the address itself; IPv4 mapped, any is zero */
void ucm_addr_set_port(struct sockaddr_storage *addr, uint16_t port);
uint64_t ucm_addr_service(const struct ucm_id *id, const struct sockaddr_storage *addr);
/* Binds an id in UCM_IDLE. Gives the lock up meanwhile. */
int ucm_addr_bind(struct ucm_id *id, const struct sockaddr_storage *src);

/* ---- ucm_mcast.c ---- */

void ucm_mcast_leave(struct ucm_mcast *mcast);
bool ucm_addr_is_multicast(const struct sockaddr_storage *addr);
void ucm_mgid(const struct ucm_id *id, const struct ca_device *dev, const struct sockaddr_storage *addr, uint8_t mgid[16]);

/* ---- ucm_connect.c, ucm_qp.c ---- */

uint32_t ucm_qkey(const struct ucm_id *id);
/* The address vector to the id's peer. */
void ucm_ah_attr(const struct ucm_id *id, struct ib_uverbs_ah_attr *attr);
/* Is cm->alternate a path that the QP is to load, too? */
bool ucm_has_alternate(const struct cm_id *cm);

/* ---- ucm_lap.c: paths that peers want ---- */

/* The path's own end, which must be an address of ours, as part of ah. What an APR says of it. */
enum cm_apr_status ucm_own_end(const struct ca_device *dev, const struct cm_path *path, struct ibv_ah_attr *ah);

/* Gives the QP of the conversation cm->alternate as its alternate path, under the runtime's lock. What the APR is to say. */
enum cm_apr_status ucm_load_path(struct ca *ca, const struct cm_id *cm, wtime now);
/* CM_EVENT_LAP, under the lock. */
void ucm_answer_lap(struct cm_id *cm);

/* ---- ucm_route.c: which device and GID an address is ---- */

struct ucm_device {
	bool visible;
	struct ca_device dev;		/* a copy */
};
/* A copy of the adapter's devices; takes the runtime's lock. */
void ucm_devices(struct ucm_device devices[CA_DEVICES]);
/* The same of one that there is, for what is done often: all of them are some 50 KB. */
void ucm_device(int device, struct ca_device *dev);
/* Whether its GIDs are addresses of this host, so that it reaches others. */
bool ucm_device_has_addresses(const struct ca_device *dev);
/* The device that owns an address of this host, and the GID that stands for it. -ENODEV */
int ucm_route_local(const struct ucm_device *devices, const struct sockaddr_storage *addr, int *device, uint8_t gid[16]);
/* The device that reaches the port of another host of the fabric, which has this address, the GIDs of both. *device: the one
 * that was chosen before, or UCM_NO_DEVICE. -ENODEV. */
int ucm_route_fabric(const struct ucm_device *devices, const struct sockaddr_storage *addr, int *device, uint8_t sgid[16],
		     uint8_t dgid[16]);
/* The first GID that an RDMA connection of this family can use, or -ENODEV. family 0: any. */
int ucm_route_default(const struct ucm_device *devices, int family, int *device, uint8_t gid[16]);
/* The way to an address of another host, by this device and source: any, where they are UCM_NO_DEVICE and zero. Waits for weftd:
 * not under the lock. -ENETUNREACH. */
struct ucm_way {
	int device;
	uint8_t sgid[16];
	uint8_t mtu;		/* enum ibv_mtu */
};
int ucm_route_remote(const struct ucm_device *devices, const uint8_t dgid[16], struct ucm_way *way);
/* Requests of other hosts may come for a listener at this address. As ucm_route_remote. */
void ucm_route_expect(const struct sockaddr_storage *src);
/* id->path from its device and GIDs. */
void ucm_route_fill(struct ucm_id *id, const struct ca_device *dev);
/* To another host of the fabric the path has no DLID (0) until the port's subnet administration has told it. Waits for that,
 * timeout_ms at most, the lock given up meanwhile. -ETIMEDOUT, -EHOSTUNREACH: it knows none. */
int ucm_route_find(struct ucm_id *id, uint32_t timeout_ms);

/* ---- ucm_port.c: gives the lock up while it asks weftd ---- */

int ucm_port_bind(struct ucm_id *id);		/* id->src; writes the port chosen */
int ucm_port_listen(struct ucm_id *id);
void ucm_port_release(struct ucm_id *id);
/* Ports that no id uses go back to weftd, down to so many rows of them. */
void ucm_port_rows_trim(unsigned rows);

/* ---- ucm_cm.c: the engine's consumer ---- */

int ucm_cm_open(struct runtime *rt);
/* The place in ucm.unreported of who asks: by the slot of a process, by the address of another host. */
uint32_t ucm_requester(const struct cm_id *cm);
/* Sends msg once the lock is given up; no answer wanted. */
void ucm_post(const struct control_msg *msg);

/* ---- the commands, by file ---- */

#define UCM_COMMANDS(C)											\
	C(CREATE_ID,	create_id,	rdma_ucm_create_id)	/* ucm_id.c */				\
	C(DESTROY_ID,	destroy_id,	rdma_ucm_destroy_id)						\
	C(BIND_IP,	bind_ip,	rdma_ucm_bind_ip)	/* ucm_addr.c */			\
	C(RESOLVE_IP,	resolve_ip,	rdma_ucm_resolve_ip)						\
	C(RESOLVE_ROUTE, resolve_route,	rdma_ucm_resolve_route)						\
	C(QUERY_ROUTE,	query_route,	rdma_ucm_query)		/* ucm_query.c */			\
	C(CONNECT,	connect,	rdma_ucm_connect)	/* ucm_connect.c */			\
	C(LISTEN,	listen,		rdma_ucm_listen)						\
	C(ACCEPT,	accept,		rdma_ucm_accept)						\
	C(REJECT,	reject,		rdma_ucm_reject)						\
	C(DISCONNECT,	disconnect,	rdma_ucm_disconnect)						\
	C(INIT_QP_ATTR,	init_qp_attr,	rdma_ucm_init_qp_attr)	/* ucm_qp.c */				\
	C(GET_EVENT,	get_event,	rdma_ucm_get_event)	/* ucm_event.c */			\
	C(GET_OPTION,	get_option,	rdma_ucm_cmd_hdr)	/* ucm_option.c */			\
	C(SET_OPTION,	set_option,	rdma_ucm_set_option)						\
	C(NOTIFY,	notify,		rdma_ucm_notify)	/* ucm_connect.c */			\
	C(JOIN_IP_MCAST, join_ip_mcast,	rdma_ucm_join_ip_mcast)	/* ucm_mcast.c */			\
	C(LEAVE_MCAST,	leave_mcast,	rdma_ucm_destroy_id)						\
	C(MIGRATE_ID,	migrate_id,	rdma_ucm_migrate_id)	/* ucm_event.c */			\
	C(QUERY,	query,		rdma_ucm_query)		/* ucm_query.c */			\
	C(BIND,		bind,		rdma_ucm_bind)		/* ucm_addr.c */			\
	C(RESOLVE_ADDR,	resolve_addr,	rdma_ucm_resolve_addr)						\
	C(JOIN_MCAST,	join_mcast,	rdma_ucm_join_mcast)	/* ucm_mcast.c */

/* Each returns 0 or the kernel's -errno. Called without the lock. */
#define COMMAND(NAME, name, type) int ucm_##name(const struct ucm_call *call);
UCM_COMMANDS(COMMAND)
#undef COMMAND

#endif
