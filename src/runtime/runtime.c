/* Entering and leaving the adapter, and what the adapter asks of its runtime. */
#include "runtime/runtime.h"

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
#include "runtime/state.h"
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
enum { LET_OUT_LOOK = 50 * 1000, WIRE_PATIENCE = 5, WAY_PATIENCE = 20 };

static const wtime LET_OUT = 200 * WTIME_MS;

struct runtime *runtime_peek(void)
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
static struct runtime *add(const struct config *config, int *err)
{
	struct runtime *rt = runtime_attach(config, err);

	if (!rt)
		return NULL;
	atomic_store(&rt->next, atomic_load(&process.runtimes));
	atomic_store(&process.runtimes, rt);
	return rt;
}

static void drop(struct runtime *rt)
{
	struct runtime *_Atomic *at = &process.runtimes;
	struct runtime *other;

	while ((other = atomic_load(at)) && other != rt)
		at = &other->next;
	if (other)
		atomic_store(at, atomic_load(&rt->next));
}

struct runtime *runtime_get(void)
{
	struct runtime *rt = runtime_peek();
	int err = 0;

	if (rt)
		return rt;
	fork_watch();
	pthread_mutex_lock(&process.attaching);
	rt = runtime_peek();
	if (!rt) {
		rt = add(config_get(), &err);
		atomic_store_explicit(&process.own, rt, memory_order_release);
		if (!rt)
			complain(err);
	}
	pthread_mutex_unlock(&process.attaching);
	if (!rt)
		errno = -err;
	return rt;
}

struct runtime *runtime_open(const struct config *config)
{
	struct runtime *rt;
	int err;

	fork_watch();
	pthread_mutex_lock(&process.attaching);
	rt = add(config, &err);
	pthread_mutex_unlock(&process.attaching);
	if (!rt)
		errno = -err;
	return rt;
}

void runtime_close(struct runtime *rt)
{
	pthread_mutex_lock(&process.attaching);
	drop(rt);
	if (runtime_peek() == rt)
		atomic_store(&process.own, NULL);
	pthread_mutex_unlock(&process.attaching);
	runtime_detach(rt);
}

struct ca *runtime_ca(struct runtime *rt)
{
	return &rt->ca;
}

struct counters runtime_counters(struct runtime *rt)
{
	struct counters now = ca_counters(&rt->ca);

	roce_socket_count(&rt->peers, &now);
	return now;
}

bool runtime_device_visible(const struct runtime *rt, int device)
{
	unsigned named;

	control_devices_listed(rt->config->devices, &named);
	return device >= 0 && device < rt->ca.devices && named >> device & 1;
}

wtime runtime_read_clock(struct runtime *rt)
{
	wtime now = clock_now();

	if (now > rt->ca.now)
		rt->ca.now = now;
	rt->now_is_old = false;
	return rt->ca.now;
}

void runtime_yield_lock(struct runtime *rt)
{
	lock_give_way(&rt->lock);
	/* others came and went */
	rt->leaving = LEAVE_FULLY;
	runtime_read_clock(rt);
}

wtime runtime_enter(struct runtime *rt)
{
	lock_enter(&rt->lock);
	rt->leaving = rt->full;
	return runtime_read_clock(rt);
}

static wtime enter_without_clock(struct runtime *rt, enum runtime_leaving leaving)
{
	lock_enter(&rt->lock);
	rt->leaving = leaving;
	rt->now_is_old = true;
	return rt->ca.stamps ? runtime_read_clock(rt) : rt->ca.now;
}

wtime runtime_enter_post(struct runtime *rt)
{
	return enter_without_clock(rt, rt->full);
}

wtime runtime_enter_receive(struct runtime *rt)
{
	return enter_without_clock(rt, rt->full == LEAVE_FULLY ? LEAVE_IF_READY : rt->full);
}

void runtime_enter_briefly(struct runtime *rt)
{
	lock_enter(&rt->lock);
	rt->leaving = LEAVE_AT_ONCE;
}

/* The helper sleeps until the first timer that it knows of, unless it looks in anyway. */
static void watch_timers(struct runtime *rt)
{
	wtime deadline;

	if (progress_is_polled(&rt->progress))
		return;
	if (!list_empty(&rt->ca.acks.untimed)) {
		if (rt->now_is_old)
			runtime_read_clock(rt);
		ca_reap_untimed(&rt->ca, rt->ca.now);
	}
	deadline = pump_deadline(rt);
	if (deadline < rt->helper_until) {
		rt->helper_until = deadline;
		helper_kick(rt);
	} else if (pump_has_output(rt)) {
		helper_kick(rt);		/* what was seen lets QPs send; where we are the peer, nobody else wakes us */
	}
}

/* The engine runs apart. The helper wakes by itself for what it knew of when it went to sleep. */
static void leave_to_helper(struct runtime *rt)
{
	bool news = doorbells_any(rt->ca.doorbells) || pump_has_output(rt) || !list_empty(&rt->peers.links.dirty) ||
		    pump_deadline(rt) < rt->helper_until;

	if (!rt->helper_rests || !news)
		return;
	rt->helper_rests = false;
	helper_kick(rt);
}

/* Sends what became ready, and wakes who waits for it. */
static void finish(struct runtime *rt)
{
	const struct links *ls = &rt->peers.links;

	if (rt->full != LEAVE_FULLY && rt->leaving != LEAVE_FULLY) {
		leave_to_helper(rt);
		return;
	}
	if (pump_has_output(rt))
		pump_out(rt);
	/* a program that polls comes back soon, and what it sends then tells of what it executed */
	if (!list_empty(&ls->dirty) || (!list_empty(&ls->acks_owed) && !progress_is_polled(&rt->progress)))
		pump_flush(rt);
	watch_timers(rt);
}

void runtime_leave(struct runtime *rt)
{
	bool nothing = rt->leaving == LEAVE_AT_ONCE || (rt->leaving == LEAVE_IF_READY && list_empty(&rt->ca.ready));

	if (!nothing && !rt->peers.forgotten)
		finish(rt);
	lock_leave(&rt->lock);
}

void runtime_leave_helper(struct runtime *rt)
{
	if (!rt->peers.forgotten)
		finish(rt);
	rt->ca.memory_may_go = false;
	lock_leave(&rt->lock);
}

/* Messages need no clock, packets see to it themselves (pump.c). */
static wtime poll_time(struct runtime *rt, bool idle)
{
	rt->now_is_old = !idle && progress_is_polled(&rt->progress) && !rt->ca.stamps && !rt->faults && rt->polls % IDLE_POLLS;
	return rt->now_is_old ? rt->ca.now : runtime_read_clock(rt);
}

/* How many QPs had something executed. */
static unsigned collect(struct runtime *rt, wtime now)
{
	if (!ca_awaits_acks(&rt->ca) ||
	    (progress_is_polled(&rt->progress) && !rt->ca.acks.starved && rt->polls - rt->collected < COLLECT_POLLS))
		return 0;
	rt->collected = rt->polls;
	return ca_read_acks(&rt->ca, now, COLLECT_QPS);
}

static void poll(struct runtime *rt, bool idle)
{
	wtime now = poll_time(rt, idle);
	uint64_t frames = rt->frames;
	unsigned collected;

	if (!list_empty(&rt->peers.links.acks_owed))
		pump_flush(rt);
	ca_ack_deferred(&rt->ca, now);
	collected = collect(rt, now);
	rt->ca.acks.defers = progress_is_polled(&rt->progress);
	pump(rt, now);
	if (progress_polled(&rt->progress, rt->ca.now, collected || rt->frames != frames)) {
		pump_awake(rt);
		helper_kick(rt);		/* it begins to tick */
	}
}

/* This thread's polls in a row for which nothing came and that found nothing. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned in_vain;

bool runtime_enter_reap(struct runtime *rt)
{
	if (in_vain > YIELD_AFTER && in_vain % YIELD_EVERY == 0)
		sched_yield();
	lock_enter(&rt->lock);
	rt->polls++;
	rt->leaving = LEAVE_IF_READY;
	rt->now_is_old = true;
	return rt->polls % IDLE_POLLS && !rt->ca.stamps;	/* what has come is stamped now */
}

wtime runtime_take_in(struct runtime *rt)
{
	bool idle = !pump_pending(rt), quiet;

	in_vain = idle ? in_vain + 1 : 0;
	/* most polls find nothing: then the clock is read, and timers and senders looked after, only now and then */
	quiet = rt->peers.forgotten || (idle && list_empty(&rt->ca.ready) && rt->polls % IDLE_POLLS) || rt->ca.doorbells;
	if (quiet)
		return rt->ca.now;
	rt->leaving = LEAVE_FULLY;	/* an ACK may wait for what is reaped */
	poll(rt, idle);
	return rt->ca.now;
}

wtime runtime_enter_poll(struct runtime *rt)
{
	runtime_enter_reap(rt);
	return runtime_take_in(rt);
}

bool runtime_look_again(struct runtime *rt)
{
	return !rt->peers.forgotten && !list_empty(&rt->ca.acks.deferred) &&
	       ca_ack_deferred(&rt->ca, rt->ca.stamps ? runtime_read_clock(rt) : rt->ca.now);
}

void runtime_poll_found(void)
{
	in_vain = 0;
}

void runtime_will_sleep(struct runtime *rt)
{
	if (rt->peers.forgotten)
		return;
	ca_ack_deferred(&rt->ca, rt->ca.now);
	if (!progress_is_polled(&rt->progress))
		return;
	progress_armed(&rt->progress);
	rt->leaving = LEAVE_FULLY;
	pump_all(rt, rt->ca.now);
	if (!pump_may_sleep(rt) || pump_deadline(rt) < rt->helper_until)
		helper_kick(rt);
}

void runtime_set_events(struct runtime *rt, const struct runtime_events *events)
{
	runtime_enter_briefly(rt);
	rt->events = events;
	runtime_leave(rt);
}

void runtime_join_begin(struct runtime *rt)
{
	pthread_mutex_lock(&rt->asking);
}

bool runtime_join(struct runtime *rt, int *err)
{
	struct control_msg msg;

	if (*err != -EINPROGRESS)
		return false;
	runtime_enter_briefly(rt);
	msg = rt->join;
	runtime_leave(rt);
	*err = runtime_request(rt, &msg);
	if (*err)
		return false;
	runtime_enter_briefly(rt);
	rt->join_state = JOIN_GRANTED;
	runtime_leave(rt);
	return true;
}

/* What was granted and not used is given back. */
void runtime_join_end(struct runtime *rt)
{
	struct control_msg msg;
	bool unused;

	runtime_enter_briefly(rt);
	unused = rt->join_state == JOIN_GRANTED;
	rt->join_state = JOIN_NONE;
	msg = rt->join;
	runtime_leave(rt);
	msg.a = 0;
	if (unused)
		session_post(&rt->session, &msg, NULL);
	pthread_mutex_unlock(&rt->asking);
}

/* Waits as long as `waits` says so of the process and `qp`, and no longer than LET_OUT. */
static void wait_while(struct runtime *rt, bool (*waits)(struct runtime *rt, const struct qp *qp), const struct qp *qp)
{
	wtime give_up = clock_now() + LET_OUT;
	bool still;

	do {
		runtime_enter(rt);
		still = !rt->peers.forgotten && waits(rt, qp);
		runtime_leave(rt);
		if (still)
			nanosleep(&(struct timespec){ .tv_nsec = LET_OUT_LOOK }, NULL);
	} while (still && clock_now() < give_up);
}

static bool is_held_back(struct runtime *rt, const struct qp *qp)
{
	if (qp->sq.ulp.rung != qp->sq.engine.announced)
		return true;
	return list_linked(&qp->ready) && qp->sq.engine.started != qp->sq.engine.announced && channels_come(&rt->peers);
}

void runtime_flush_qp(struct runtime *rt, struct qp *qp)
{
	wait_while(rt, is_held_back, qp);
}

static bool awaits_wire(struct runtime *rt, const struct qp *qp)
{
	(void)qp;
	return rt->peers.roce.state == ROCE_SOCKET_ASKED;
}

void runtime_await_wire(struct runtime *rt, const struct ca_device *dev)
{
	bool asked;

	runtime_enter_briefly(rt);
	if (dev)
		roce_socket_expect(&rt->peers, dev);
	asked = awaits_wire(rt, NULL);
	runtime_leave(rt);
	/* a peer that sends without retries does so once */
	for (int i = 0; asked && i < WIRE_PATIENCE; i++)
		wait_while(rt, awaits_wire, NULL);
}

/* A port that is another's is asked for several times in a second (peers/roce_socket.c) before that is certain, and who ends
 * when he hears of it has been told why. */
static bool is_undecided(struct runtime *rt, const struct qp *qp)
{
	(void)qp;
	return roce_socket_is_undecided(&rt->peers.roce);
}

static bool wire_is_refused(struct runtime *rt)
{
	bool refused;

	runtime_enter_briefly(rt);
	roce_socket_need(&rt->peers);
	runtime_leave(rt);
	for (int i = 0; i < WAY_PATIENCE; i++)
		wait_while(rt, is_undecided, NULL);
	runtime_enter_briefly(rt);
	refused = rt->peers.roce.state == ROCE_SOCKET_REFUSED;
	runtime_leave(rt);
	return refused;
}

int runtime_way_to(struct runtime *rt, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu)
{
	static const uint8_t none[16];
	struct packet_path path = { .has_grh = true };
	int found;

	memcpy(path.dgid, dgid, sizeof(path.dgid));
	memcpy(path.sgid, sgid, sizeof(path.sgid));
	if (memcmp(sgid, none, sizeof(none)) == 0 && roce_socket_source(dgid, path.sgid))
		return -ENETUNREACH;
	found = roce_socket_path_mtu(&path);
	if (!found || wire_is_refused(rt))
		return -ENETUNREACH;
	memcpy(sgid, path.sgid, sizeof(path.sgid));
	*mtu = (uint8_t)found;
	return 0;
}

static bool has_doorbells(struct runtime *rt, const struct qp *qp)
{
	return doorbells_any(rt->ca.doorbells);
}

void runtime_run_engine(struct runtime *rt)
{
	if (rt->ca.doorbells)
		wait_while(rt, has_doorbells, NULL);
}

static bool numbers_are_low(struct runtime *rt)
{
	bool low;

	runtime_enter_briefly(rt);
	low = qpn_pool_low(&rt->qpns);
	runtime_leave(rt);
	return low;
}

void runtime_reserve_numbers(struct runtime *rt)
{
	struct control_msg msg = { .type = CTL_SLOT };

	if (!numbers_are_low(rt))
		return;
	pthread_mutex_lock(&rt->asking);
	if (numbers_are_low(rt) && session_try(&rt->session, &msg, NULL, 0, NULL, NULL) == 0 && msg.slot > 0 &&
	    msg.slot < PAGE_SLOTS) {
		runtime_enter_briefly(rt);
		if (qpn_pool_add_slot(&rt->qpns, &rt->rand, msg.slot) == 0)
			channels_own(&rt->peers, msg.slot);
		runtime_leave(rt);
	}
	pthread_mutex_unlock(&rt->asking);
}

int runtime_request(struct runtime *rt, struct control_msg *msg)
{
	return session_call(&rt->session, msg, NULL, 0, NULL, NULL);
}

int runtime_post(struct runtime *rt, const struct control_msg *msg)
{
	return session_post(&rt->session, msg, NULL);
}

void runtime_send_gmp(struct runtime *rt, const struct gmp *gmp)
{
	gsi_send(rt, gmp);
}

void runtime_tell_missing(struct runtime *rt)
{
	if (!atomic_exchange(&rt->told_missing, true))
		networks_tell_missing(rt->session.dir, "a listener at that address and port");
}

void runtime_set_cm(struct runtime *rt, const struct runtime_cm *cm)
{
	runtime_enter(rt);
	rt->cm = *cm;
	runtime_leave(rt);
	runtime_cm_kick(rt);
}

void runtime_cm_kick(struct runtime *rt)
{
	atomic_store(&rt->cm_kicked, true);
	helper_kick(rt);
}

int runtime_group_mlid(struct runtime *rt, int device, const uint8_t gid[16], uint16_t *mlid)
{
	return group_mlid(rt->peers.page, device, gid, mlid);
}

uint32_t runtime_slot(const struct runtime *rt)
{
	return rt->peers.slot;
}

/* ---- what the adapter asks ---- */

static void cq_event(void *host, struct cq *cq)
{
	const struct runtime *rt = host;

	if (rt->events)
		rt->events->cq_event(cq);
}

static void async_event(void *host, enum ibv_event_type type, void *object)
{
	const struct runtime *rt = host;

	if (rt->events)
		rt->events->async_event(type, object);
}

static void route(void *host, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	struct runtime *rt = host;

	route_find(&rt->peers, dev, path, r);
}

static int path_mtu(void *host, const struct route *r, const struct packet_path *path)
{
	(void)host;
	return r->kind == ROUTE_LINK || r->kind == ROUTE_NO_LINK ? roce_socket_path_mtu(path) : 0;
}

static unsigned room(void *host, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	struct runtime *rt = host;
	unsigned space = space_for(&rt->peers, dev, r, av);

	if (!space && r->way && route_has_channel(r->kind))
		node_count_wait(&rt->peers.node, r->way);
	return space;
}

static bool origin_matches(void *host, origin_t origin, const struct route *back)
{
	const struct runtime *rt = host;

	return route_leads_to(&rt->peers, back, origin);
}

/* weftd tells when a process ends; while there is none, its own word does, of those whose word we can see. */
static bool lives(const struct runtime *rt, const struct channel *ch)
{
	if (ch->peer)
		return !peer_has_left(ch->peer);
	return atomic_load(&rt->session.state) == SESSION_ATTACHED;
}

/* Frames that are spoilt or recorded on their way have a wire's timeouts. What we send to ourselves is taken at once. */
static bool undelivered(void *host, const struct route *r, uint64_t *mark)
{
	struct runtime *rt = host;
	struct channel *ch = r->kind == ROUTE_CHANNEL ? r->place : NULL;

	if (faults_meet_all(rt) || !ch || ch->gone || ch->link->broken)
		return false;
	if (!shm_undelivered(ch->shm, mark) || !lives(rt, ch))
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
	struct runtime *rt = host;

	return memory_write_safely(&rt->copy_file, to, from, bytes);
}

/* To leave is told and not waited for; to join was granted, or is to be. */
static int mcast(void *host, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	struct runtime *rt = host;
	struct control_msg msg = { .type = CTL_MCAST, .device = dev->index, .a = joined };
	bool granted;

	memcpy(msg.gid, gid, sizeof(msg.gid));
	if (!joined)
		return session_post(&rt->session, &msg, NULL);
	granted = rt->join_state == JOIN_GRANTED && rt->join.device == msg.device && !memcmp(rt->join.gid, gid, sizeof(msg.gid));
	rt->join = msg;
	rt->join_state = granted ? JOIN_NONE : JOIN_WANTED;
	return granted ? 0 : -EINPROGRESS;
}

static int qpn_alloc(void *host, uint32_t *qpn)
{
	struct runtime *rt = host;

	return qpn_pool_take(&rt->qpns, qpn);
}

static void qpn_free(void *host, uint32_t qpn)
{
	struct runtime *rt = host;

	qpn_pool_give(&rt->qpns, qpn);
}

static void carried(void *host, const struct route *r, const struct wire_load *there, const struct wire_load *back)
{
	const struct runtime *rt = host;
	const struct way *way = ways_at(&rt->peers.node.ways, r->way);

	node_count(&rt->peers.node, &way->there, there);
	if (back->packets)
		node_count(&rt->peers.node, &way->back, back);
}

const struct ca_ops runtime_ca_ops = {
	.cq_event = cq_event,
	.async_event = async_event,
	.route = route,
	.space = room,
	.path_mtu = path_mtu,
	.origin_matches = origin_matches,
	.undelivered = undelivered,
	.carried = carried,
	.read_program = read_program,
	.write_program = write_program,
	.mcast = mcast,
	.qpn_alloc = qpn_alloc,
	.qpn_free = qpn_free,
};
