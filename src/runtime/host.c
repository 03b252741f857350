/* Entering and leaving the adapter, and what the adapter asks of its host. */
#include "runtime/host.h"

#include "base/log.h"
#include "control/clock.h"
#include "control/devices.h"
#include "control/limits.h"
#include "control/networks.h"
#include "peers/devices.h"
#include "peers/peer.h"
#include "peers/space.h"
#include "peers/route.h"
#include "runtime/attach.h"
#include "runtime/config.h"
#include "runtime/faults.h"
#include "runtime/gsi.h"
#include "runtime/helper.h"
#include "runtime/process.h"
#include "runtime/pump.h"
#include "runtime/runtime.h"
#include "verbs/qp.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* Our choices: the clock costs as much as the rest of an idle poll; and who has polled in vain for some microseconds is most
 * likely waiting for somebody who wants this CPU. */
enum { IDLE_POLLS = 8, YIELD_AFTER = 128, YIELD_EVERY = 32 };

/* Our choice: what a peer executed is seen from its next message, if one comes soon. Reading its word takes the line from
 * it, which it must fetch back, so that is not done at each poll. */
enum { COLLECT_POLLS = 64, COLLECT_QPS = 32 };

/* Our choices: weftd answers in microseconds, and a stopped one is not waited for. */
enum { LET_OUT_LOOK = 50 * 1000, WIRE_PATIENCE = 5 };

static const wtime LET_OUT = 200 * WTIME_MS;

struct host *host_peek(void)
{
	return atomic_load_explicit(&process.own, memory_order_acquire);
}

/* Once: programs look for devices again and again. */
static void complain(int err)
{
	bool done = process.has_complained;

	process.has_complained = true;
	if (!done && !*config_get()->dir)
		log_line(LOG_ERROR, "no devices: WEFT_DIR is not set; start the program with weft run");
	else if (!done)
		log_line(LOG_ERROR, "no devices: cannot attach to weftd in %s: %s%s; see weft doctor", config_get()->dir,
			 strerror(-err), limits_advice(-err));
}

/* With process.attaching. NULL with *err = -errno. */
static struct host *add(const struct config *config, int *err)
{
	struct host *h = host_attach(config, err);

	if (!h)
		return NULL;
	atomic_store(&h->next, atomic_load(&process.hosts));
	atomic_store(&process.hosts, h);
	return h;
}

static void drop(struct host *h)
{
	struct host *_Atomic *at = &process.hosts;
	struct host *other;

	while ((other = atomic_load(at)) && other != h)
		at = &other->next;
	if (other)
		atomic_store(at, atomic_load(&h->next));
}

struct host *host_get(void)
{
	struct host *h = host_peek();
	int err = 0;

	if (h)
		return h;
	fork_watch();
	pthread_mutex_lock(&process.attaching);
	h = host_peek();
	if (!h) {
		h = add(config_get(), &err);
		atomic_store_explicit(&process.own, h, memory_order_release);
		if (!h)
			complain(err);
	}
	pthread_mutex_unlock(&process.attaching);
	if (!h)
		errno = -err;
	return h;
}

struct host *host_open(const struct config *config)
{
	struct host *h;
	int err;

	fork_watch();
	pthread_mutex_lock(&process.attaching);
	h = add(config, &err);
	pthread_mutex_unlock(&process.attaching);
	if (!h)
		errno = -err;
	return h;
}

void host_close(struct host *h)
{
	pthread_mutex_lock(&process.attaching);
	drop(h);
	if (host_peek() == h)
		atomic_store(&process.own, NULL);
	pthread_mutex_unlock(&process.attaching);
	host_detach(h);
}

struct ca *host_ca(struct host *h)
{
	return &h->ca;
}

struct counters host_counters(struct host *h)
{
	struct counters now = ca_counters(&h->ca);

	wire_count(&h->peers, &now);
	return now;
}

bool host_device_visible(const struct host *h, int device)
{
	unsigned named;

	control_devices_listed(h->config->devices, &named);
	return device >= 0 && device < h->ca.devices && named >> device & 1;
}

wtime host_read_clock(struct host *h)
{
	wtime now = clock_now();

	if (now > h->ca.now)
		h->ca.now = now;
	h->now_is_old = false;
	return h->ca.now;
}

void host_yield_lock(struct host *h)
{
	lock_give_way(&h->lock);
	/* others came and went */
	h->leaving = LEAVE_FULLY;
	host_read_clock(h);
}

wtime host_enter(struct host *h)
{
	lock_enter(&h->lock);
	h->leaving = h->full;
	return host_read_clock(h);
}

static wtime enter_without_clock(struct host *h, enum host_leaving leaving)
{
	lock_enter(&h->lock);
	h->leaving = leaving;
	h->now_is_old = true;
	return h->ca.stamps ? host_read_clock(h) : h->ca.now;
}

wtime host_enter_post(struct host *h)
{
	return enter_without_clock(h, h->full);
}

wtime host_enter_receive(struct host *h)
{
	return enter_without_clock(h, h->full == LEAVE_FULLY ? LEAVE_IF_READY : h->full);
}

void host_enter_briefly(struct host *h)
{
	lock_enter(&h->lock);
	h->leaving = LEAVE_AT_ONCE;
}

/* The helper sleeps until the first timer that it knows of, unless it looks in anyway. */
static void watch_timers(struct host *h)
{
	wtime deadline;

	if (progress_is_polled(&h->progress))
		return;
	if (!list_empty(&h->ca.acks.untimed)) {
		if (h->now_is_old)
			host_read_clock(h);
		ca_reap_untimed(&h->ca, h->ca.now);
	}
	deadline = pump_deadline(h);
	if (deadline < h->helper_until) {
		h->helper_until = deadline;
		helper_kick(h);
	} else if (pump_has_output(h)) {
		helper_kick(h);		/* what was seen lets QPs send; where we are the peer, nobody else wakes us */
	}
}

/* The engine runs apart. The helper wakes by itself for what it knew of when it went to sleep. */
static void leave_to_helper(struct host *h)
{
	bool news = doorbells_any(h->ca.doorbells) || pump_has_output(h) || !list_empty(&h->peers.links.dirty) ||
		    pump_deadline(h) < h->helper_until;

	if (!h->helper_rests || !news)
		return;
	h->helper_rests = false;
	helper_kick(h);
}

/* Sends what became ready, and wakes who waits for it. */
static void finish(struct host *h)
{
	const struct links *ls = &h->peers.links;

	if (h->full != LEAVE_FULLY && h->leaving != LEAVE_FULLY) {
		leave_to_helper(h);
		return;
	}
	if (pump_has_output(h))
		pump_out(h);
	/* a program that polls comes back soon, and what it sends then tells of what it executed */
	if (!list_empty(&ls->dirty) || (!list_empty(&ls->acks_owed) && !progress_is_polled(&h->progress)))
		pump_flush(h);
	watch_timers(h);
}

void host_leave(struct host *h)
{
	bool nothing = h->leaving == LEAVE_AT_ONCE || (h->leaving == LEAVE_IF_READY && list_empty(&h->ca.ready));

	if (!nothing && !h->peers.forgotten)
		finish(h);
	lock_leave(&h->lock);
}

void host_leave_apart(struct host *h)
{
	if (!h->peers.forgotten)
		finish(h);
	h->ca.runs_apart = false;
	lock_leave(&h->lock);
}

/* Messages need no clock, packets see to it themselves (pump.c). */
static wtime poll_time(struct host *h, bool idle)
{
	h->now_is_old = !idle && progress_is_polled(&h->progress) && !h->ca.stamps && !h->faults && h->polls % IDLE_POLLS;
	return h->now_is_old ? h->ca.now : host_read_clock(h);
}

/* How many QPs had something executed. */
static unsigned collect(struct host *h, wtime now)
{
	if (!ca_awaits_acks(&h->ca) ||
	    (progress_is_polled(&h->progress) && !h->ca.acks.starved && h->polls - h->collected < COLLECT_POLLS))
		return 0;
	h->collected = h->polls;
	return ca_read_acks(&h->ca, now, COLLECT_QPS);
}

static void poll(struct host *h, bool idle)
{
	wtime now = poll_time(h, idle);
	uint64_t frames = h->frames;
	unsigned collected;

	if (!list_empty(&h->peers.links.acks_owed))
		pump_flush(h);
	ca_ack_deferred(&h->ca, now);
	collected = collect(h, now);
	h->ca.acks.defers = progress_is_polled(&h->progress);
	pump(h, now);
	if (progress_polled(&h->progress, h->ca.now, collected || h->frames != frames)) {
		pump_awake(h);
		helper_kick(h);		/* it begins to tick */
	}
}

/* This thread's polls in a row for which nothing came and that found nothing. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned in_vain;

wtime host_enter_poll(struct host *h)
{
	bool idle, quiet;

	if (in_vain > YIELD_AFTER && in_vain % YIELD_EVERY == 0)
		sched_yield();
	lock_enter(&h->lock);
	h->polls++;
	idle = !pump_pending(h);
	in_vain = idle ? in_vain + 1 : 0;
	/* most polls find nothing: then the clock is read, and timers and senders looked after, only now and then */
	quiet = h->peers.forgotten || (idle && list_empty(&h->ca.ready) && h->polls % IDLE_POLLS) || h->ca.doorbells;
	h->leaving = quiet ? LEAVE_IF_READY : LEAVE_FULLY;	/* an ACK may wait for what is reaped */
	if (quiet)
		h->now_is_old = true;
	else
		poll(h, idle);
	return h->ca.now;
}

bool host_look_again(struct host *h)
{
	return !h->peers.forgotten && !list_empty(&h->ca.acks.deferred) &&
	       ca_ack_deferred(&h->ca, h->ca.stamps ? host_read_clock(h) : h->ca.now);
}

void host_poll_found(void)
{
	in_vain = 0;
}

void host_will_sleep(struct host *h)
{
	if (h->peers.forgotten)
		return;
	ca_ack_deferred(&h->ca, h->ca.now);
	if (!progress_is_polled(&h->progress))
		return;
	progress_armed(&h->progress);
	h->leaving = LEAVE_FULLY;
	pump_all(h, h->ca.now);
	if (!pump_may_sleep(h) || pump_deadline(h) < h->helper_until)
		helper_kick(h);
}

void host_set_events(struct host *h, const struct host_events *events)
{
	host_enter_briefly(h);
	h->events = events;
	host_leave(h);
}

void host_join_begin(struct host *h)
{
	pthread_mutex_lock(&h->asking);
}

bool host_join(struct host *h, int *err)
{
	struct control_msg msg;

	if (*err != -EINPROGRESS)
		return false;
	host_enter_briefly(h);
	msg = h->join;
	host_leave(h);
	*err = host_request(h, &msg);
	if (*err)
		return false;
	host_enter_briefly(h);
	h->join_state = JOIN_GRANTED;
	host_leave(h);
	return true;
}

/* What was granted and not used is given back. */
void host_join_end(struct host *h)
{
	struct control_msg msg;
	bool unused;

	host_enter_briefly(h);
	unused = h->join_state == JOIN_GRANTED;
	h->join_state = JOIN_NONE;
	msg = h->join;
	host_leave(h);
	msg.a = 0;
	if (unused)
		session_post(&h->session, &msg, NULL);
	pthread_mutex_unlock(&h->asking);
}

/* Waits as long as `waits` says so of the process and `qp`, and no longer than LET_OUT. */
static void wait_while(struct host *h, bool (*waits)(struct host *h, const struct qp *qp), const struct qp *qp)
{
	wtime give_up = clock_now() + LET_OUT;
	bool still;

	do {
		host_enter(h);
		still = !h->peers.forgotten && waits(h, qp);
		host_leave(h);
		if (still)
			nanosleep(&(struct timespec){ .tv_nsec = LET_OUT_LOOK }, NULL);
	} while (still && clock_now() < give_up);
}

static bool is_held_back(struct host *h, const struct qp *qp)
{
	if (qp->sq.ulp.rung != qp->sq.engine.announced)
		return true;
	return list_linked(&qp->ready) && qp->sq.engine.started != qp->sq.engine.announced && channels_come(&h->peers);
}

void host_flush_qp(struct host *h, struct qp *qp)
{
	wait_while(h, is_held_back, qp);
}

static bool awaits_wire(struct host *h, const struct qp *qp)
{
	(void)qp;
	return h->peers.wire.state == WIRE_ASKED;
}

void host_await_wire(struct host *h, const struct ca_device *dev)
{
	bool asked;

	host_enter_briefly(h);
	if (dev)
		wire_expect(&h->peers, dev);
	asked = awaits_wire(h, NULL);
	host_leave(h);
	/* a peer that sends without retries does so once */
	for (int i = 0; asked && i < WIRE_PATIENCE; i++)
		wait_while(h, awaits_wire, NULL);
}

static bool wire_is_refused(struct host *h)
{
	bool refused;

	host_enter_briefly(h);
	wire_need(&h->peers);
	host_leave(h);
	host_await_wire(h, NULL);
	host_enter_briefly(h);
	refused = h->peers.wire.state == WIRE_REFUSED;
	host_leave(h);
	return refused;
}

int host_way_to(struct host *h, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu)
{
	static const uint8_t none[16];
	struct packet_path path = { .has_grh = true };
	int found;

	memcpy(path.dgid, dgid, sizeof(path.dgid));
	memcpy(path.sgid, sgid, sizeof(path.sgid));
	if (memcmp(sgid, none, sizeof(none)) == 0 && wire_source(dgid, path.sgid))
		return -ENETUNREACH;
	found = wire_path_mtu(&path);
	if (!found || wire_is_refused(h))
		return -ENETUNREACH;
	memcpy(sgid, path.sgid, sizeof(path.sgid));
	*mtu = (uint8_t)found;
	return 0;
}

static bool has_doorbells(struct host *h, const struct qp *qp)
{
	return doorbells_any(h->ca.doorbells);
}

void host_run_engine(struct host *h)
{
	if (h->ca.doorbells)
		wait_while(h, has_doorbells, NULL);
}

static bool numbers_are_low(struct host *h)
{
	bool low;

	host_enter_briefly(h);
	low = qpn_pool_low(&h->qpns);
	host_leave(h);
	return low;
}

void host_reserve_numbers(struct host *h)
{
	struct control_msg msg = { .type = CTL_SLOT };

	if (!numbers_are_low(h))
		return;
	pthread_mutex_lock(&h->asking);
	if (numbers_are_low(h) && session_try(&h->session, &msg, NULL, 0, NULL, NULL) == 0 && msg.slot > 0 &&
	    msg.slot < PAGE_SLOTS) {
		host_enter_briefly(h);
		if (qpn_pool_add_slot(&h->qpns, &h->rand, msg.slot) == 0)
			channels_own(&h->peers, msg.slot);
		host_leave(h);
	}
	pthread_mutex_unlock(&h->asking);
}

int host_request(struct host *h, struct control_msg *msg)
{
	return session_call(&h->session, msg, NULL, 0, NULL, NULL);
}

int host_post(struct host *h, const struct control_msg *msg)
{
	return session_post(&h->session, msg, NULL);
}

void host_send_gmp(struct host *h, const struct gmp *gmp)
{
	gsi_send(h, gmp);
}

void host_tell_missing(struct host *h)
{
	if (!atomic_exchange(&h->told_missing, true))
		networks_tell_missing(h->session.dir, "a listener at that address and port");
}

void host_set_cm(struct host *h, const struct host_cm *cm)
{
	host_enter(h);
	h->cm = *cm;
	host_leave(h);
	host_cm_kick(h);
}

void host_cm_kick(struct host *h)
{
	atomic_store(&h->cm_kicked, true);
	helper_kick(h);
}

int host_group_mlid(struct host *h, int device, const uint8_t gid[16], uint16_t *mlid)
{
	return group_mlid(h->peers.page, device, gid, mlid);
}

uint32_t host_slot(const struct host *h)
{
	return h->peers.slot;
}

/* ---- what the adapter asks ---- */

static void cq_event(void *host, struct cq *cq)
{
	const struct host *h = host;

	if (h->events)
		h->events->cq_event(cq);
}

static void async_event(void *host, enum ibv_event_type type, void *object)
{
	const struct host *h = host;

	if (h->events)
		h->events->async_event(type, object);
}

static void route(void *host, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	struct host *h = host;

	route_find(&h->peers, dev, path, r);
}

static int path_mtu(void *host, const struct route *r, const struct packet_path *path)
{
	(void)host;
	return r->kind == ROUTE_LINK || r->kind == ROUTE_NO_LINK ? wire_path_mtu(path) : 0;
}

static unsigned room(void *host, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	struct host *h = host;

	return space_for(&h->peers, dev, r, av);
}

static bool origin_matches(void *host, origin_t origin, const struct route *back)
{
	const struct host *h = host;

	return route_leads_to(&h->peers, back, origin);
}

/* weftd tells when a process ends; while there is none, its own word does, of those whose word we can see. */
static bool lives(const struct host *h, const struct channel *ch)
{
	if (ch->peer)
		return !peer_has_left(ch->peer);
	return atomic_load(&h->session.state) == SESSION_ATTACHED;
}

/* Frames that are spoilt or recorded on their way have a wire's timeouts. What we send to ourselves is taken at once. */
static bool undelivered(void *host, const struct route *r, uint64_t *mark)
{
	struct host *h = host;
	struct channel *ch = r->kind == ROUTE_CHANNEL ? r->place : NULL;

	if (h->faults || !ch || ch->gone || ch->link->broken)
		return false;
	if (!shm_undelivered(ch->shm, mark) || !lives(h, ch))
		return false;
	ch->link->ops->flush(ch->link);		/* nothing is sent that would wake it once more */
	return true;
}

static int read_program(void *host, void *to, const void *from, size_t bytes)
{
	(void)host;
	return memory_read_safely(to, from, bytes);
}

static int write_program(void *host, void *to, const void *from, size_t bytes)
{
	struct host *h = host;

	return memory_write_safely(&h->copy_file, to, from, bytes);
}

/* To leave is told and not waited for; to join was granted, or is to be. */
static int mcast(void *host, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	struct host *h = host;
	struct control_msg msg = { .type = CTL_MCAST, .device = dev->index, .a = joined };
	bool granted;

	memcpy(msg.gid, gid, sizeof(msg.gid));
	if (!joined)
		return session_post(&h->session, &msg, NULL);
	granted = h->join_state == JOIN_GRANTED && h->join.device == msg.device && !memcmp(h->join.gid, gid, sizeof(msg.gid));
	h->join = msg;
	h->join_state = granted ? JOIN_NONE : JOIN_WANTED;
	return granted ? 0 : -EINPROGRESS;
}

static int qpn_alloc(void *host, uint32_t *qpn)
{
	struct host *h = host;

	return qpn_pool_take(&h->qpns, qpn);
}

static void qpn_free(void *host, uint32_t qpn)
{
	struct host *h = host;

	qpn_pool_give(&h->qpns, qpn);
}

const struct ca_host host_ca_ops = {
	.cq_event = cq_event,
	.async_event = async_event,
	.route = route,
	.space = room,
	.path_mtu = path_mtu,
	.origin_matches = origin_matches,
	.undelivered = undelivered,
	.read_program = read_program,
	.write_program = write_program,
	.mcast = mcast,
	.qpn_alloc = qpn_alloc,
	.qpn_free = qpn_free,
};
