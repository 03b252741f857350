/* Entering and leaving the adapter, and what the adapter asks of its host. */
#include "host/host.h"

#include "base/log.h"
#include "host/config.h"
#include "host/faults.h"
#include "host/internal.h"
#include "host/limits.h"

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

struct host_events host_events;

wtime host_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (wtime)t.tv_sec * WTIME_S + (wtime)t.tv_nsec;
}

struct host *host_peek(void)
{
	return atomic_load_explicit(&host_current, memory_order_acquire);
}

/* Once: programs look for devices again and again. */
static void complain(int err)
{
	static bool done;

	if (!done && !*config_get()->dir)
		log_line(LOG_ERROR, "no devices: WEFT_DIR is not set; start the program with weft run");
	else if (!done)
		log_line(LOG_ERROR, "no devices: cannot attach to weftd in %s: %s%s; see weft doctor", config_get()->dir,
			 strerror(-err), limits_advice(-err));
	done = true;
}

struct host *host_get(void)
{
	struct host *h = host_peek();
	int err = 0;

	if (h)
		return h;
	fork_prepare_once();
	pthread_mutex_lock(&host_attaching);
	h = host_peek();
	if (!h) {
		h = host_attach(&err);
		atomic_store_explicit(&host_current, h, memory_order_release);
		if (!h)
			complain(err);
	}
	pthread_mutex_unlock(&host_attaching);
	if (!h)
		errno = -err;
	return h;
}

struct ca *host_ca(struct host *h)
{
	return &h->ca;
}

bool host_device_visible(const struct host *h, int device)
{
	return device >= 0 && device < h->ca.devices && config_lists(config_get()->devices, h->ca.dev[device].name);
}

wtime host_tell_time(struct host *h)
{
	wtime now = host_now();

	if (now > h->now)
		h->now = now;
	h->ca.now = h->now;
	h->now_is_old = false;
	return h->now;
}

void host_give_way(struct host *h)
{
	lock_give_way(&h->lock);
	/* others came and went */
	h->quiet = false;
	host_tell_time(h);
}

wtime host_enter(struct host *h)
{
	lock_enter(&h->lock);
	return host_tell_time(h);
}

wtime host_enter_post(struct host *h)
{
	lock_enter(&h->lock);
	h->now_is_old = true;
	return h->ca.stamps ? host_tell_time(h) : h->now;
}

void host_enter_briefly(struct host *h)
{
	lock_enter(&h->lock);
}

void host_leave_briefly(struct host *h)
{
	lock_leave(&h->lock);
}

/* The helper sleeps until the first timer that it knows of, unless it looks in anyway. */
static void watch_timers(struct host *h)
{
	wtime deadline;

	if (h->attention.program_polls)
		return;
	if (!list_empty(&h->ca.unseen)) {
		if (h->now_is_old)
			host_tell_time(h);
		ca_collect_unseen(&h->ca, h->now);
	}
	deadline = pump_deadline(h);
	if (deadline < h->helper_until) {
		h->helper_until = deadline;
		helper_kick(h);
	} else if (pump_has_output(h)) {
		helper_kick(h);		/* what was seen lets QPs send; where we are the peer, nobody else wakes us */
	}
}

void host_leave(struct host *h)
{
	if (!h->forgotten) {
		if (pump_has_output(h))
			pump_out(h, h->now);
		/* a program that polls comes back soon, and what it sends then tells of what it executed */
		if (!list_empty(&h->channels.dirty) || (!list_empty(&h->channels.told) && !h->attention.program_polls))
			pump_flush(h);
		watch_timers(h);
	}
	lock_leave(&h->lock);
}

void host_leave_receives(struct host *h)
{
	if (list_empty(&h->ca.ready))
		lock_leave(&h->lock);
	else
		host_leave(h);
}

/* Messages need no clock, packets see to it themselves (pump.c). */
static wtime poll_time(struct host *h, bool idle)
{
	h->now_is_old = !idle && h->attention.program_polls && !h->ca.stamps && !h->faults && h->polls % IDLE_POLLS;
	return h->now_is_old ? h->now : host_tell_time(h);
}

/* How many QPs had something executed. */
static unsigned collect(struct host *h, wtime now)
{
	if (!ca_awaits(&h->ca) ||
	    (h->attention.program_polls && !h->ca.starved && h->polls - h->collected < COLLECT_POLLS))
		return 0;
	h->collected = h->polls;
	return ca_collect(&h->ca, now, COLLECT_QPS);
}

static void poll(struct host *h, bool idle)
{
	wtime now = poll_time(h, idle);
	uint64_t frames = h->frames;
	unsigned collected;

	if (!list_empty(&h->channels.told))
		pump_flush(h);
	ca_settle(&h->ca, now);
	collected = collect(h, now);
	h->ca.defers = h->attention.program_polls;
	pump(h, now);
	if (attention_poll(&h->attention, h->now, collected || h->frames != frames)) {
		pump_awake(h);
		helper_kick(h);		/* it begins to tick */
	}
}

/* This thread's polls in a row for which nothing came and that found nothing. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned in_vain;

wtime host_enter_poll(struct host *h)
{
	bool idle;

	if (in_vain > YIELD_AFTER && in_vain % YIELD_EVERY == 0)
		sched_yield();
	lock_enter(&h->lock);
	h->polls++;
	idle = !pump_pending(h);
	in_vain = idle ? in_vain + 1 : 0;
	/* most polls find nothing: then the clock is read, and timers and senders looked after, only now and then */
	h->quiet = h->forgotten || (idle && list_empty(&h->ca.ready) && h->polls % IDLE_POLLS);
	if (h->quiet)
		h->now_is_old = true;
	else
		poll(h, idle);
	return h->now;
}

bool host_look_again(struct host *h)
{
	return !h->forgotten && !list_empty(&h->ca.unsettled) && ca_settle(&h->ca, h->ca.stamps ? host_tell_time(h) : h->now);
}

void host_leave_poll(struct host *h, bool found)
{
	if (found)
		in_vain = 0;
	/* an ACK may have waited for what was reaped */
	if (h->quiet && list_empty(&h->ca.ready))
		lock_leave(&h->lock);
	else
		host_leave(h);
}

void host_will_sleep(struct host *h)
{
	if (h->forgotten)
		return;
	ca_settle(&h->ca, h->now);
	if (!h->attention.program_polls)
		return;
	attention_sleep(&h->attention);
	pump_all(h, h->now);
	if (!pump_may_sleep(h) || pump_deadline(h) < h->helper_until)
		helper_kick(h);
}

void host_set_events(const struct host_events *events)
{
	host_events = *events;
}

int host_request(struct host *h, struct control_msg *msg)
{
	return session_call(&h->session, msg, NULL, 0, NULL, NULL);
}

int host_post(struct host *h, const struct control_msg *msg)
{
	if (h->faults && msg->type == CTL_MAD) {
		host_enter(h);
		faults_send_mad(h, msg);
		host_leave(h);
		return 0;
	}
	return session_post(&h->session, msg, NULL);
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

uint32_t host_slot(const struct host *h)
{
	return h->slot;
}

/* ---- what the adapter asks ---- */

static void cq_event(void *host, struct cq *cq)
{
	(void)host;
	if (host_events.cq_event)
		host_events.cq_event(cq);
}

static void async_event(void *host, enum ibv_event_type type, void *object)
{
	(void)host;
	if (host_events.async_event)
		host_events.async_event(type, object);
}

enum { MULTICAST_QPN = 0xffffff };	/* IBA 9.2.2 */

/* Without, the QPs that want it are told when there is some. */
static bool channel_room(struct host *h, struct channel *ch)
{
	if (ch->link->broken || ch->link->ops->room(ch->link))
		return true;
	if (!ch->waiting) {
		ch->waiting = true;
		h->channels.waiting++;
	}
	return false;
}

/* A group waits for whichever of its members is full. */
static bool group_room(struct host *h, const struct ca_device *dev, const struct av *av)
{
	uint64_t members[PAGE_SLOTS / 64];

	if (!group_members(h->page, (int)(dev - h->ca.dev), av->is_global ? av->dgid : NULL, av->dlid, members))
		return true;
	for (uint32_t slot = 0; (slot = group_next(members, slot));) {
		struct channel *ch = h->channels.by_slot[slot];

		if (ch && !channel_room(h, ch))
			return false;
	}
	return true;
}

/* A destination that nobody owns has room: the packet is dropped on its way, as a fabric would. */
static bool room(void *host, const struct ca_device *dev, uint32_t dest_qpn, const struct av *av)
{
	struct host *h = host;
	struct channel *ch;

	if (h->forgotten)
		return false;
	if (dest_qpn == MULTICAST_QPN && av)
		return group_room(h, dev, av);
	ch = channel_to(h, QPN_SLOT(dest_qpn));
	return !ch || channel_room(h, ch);
}

static int copy_safely(void *host, void *to, const void *from, size_t bytes)
{
	(void)host;
	return memory_copy_safely(to, from, bytes);
}

static int mcast(void *host, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	struct host *h = host;
	struct control_msg msg = { .type = CTL_MCAST, .device = (uint32_t)(dev - h->ca.dev), .a = joined };

	memcpy(msg.gid, gid, sizeof(msg.gid));
	return session_call(&h->session, &msg, NULL, 0, NULL, NULL);
}

static int qpn_alloc(void *host, uint32_t *qpn)
{
	struct host *h = host;
	struct control_msg msg = { .type = CTL_SLOT };

	if (numbers_low(&h->numbers) && session_try(&h->session, &msg, NULL, 0, NULL, NULL) == 0 && msg.slot > 0 &&
	    msg.slot < PAGE_SLOTS && numbers_add_slot(&h->numbers, &h->rand, msg.slot) == 0)
		h->channels.by_slot[msg.slot] = h->channels.loop;
	return numbers_take(&h->numbers, qpn);
}

static void qpn_free(void *host, uint32_t qpn)
{
	struct host *h = host;

	numbers_give(&h->numbers, qpn);
}

const struct ca_host host_ca_ops = {
	.cq_event = cq_event,
	.async_event = async_event,
	.room = room,
	.copy_safely = copy_safely,
	.mcast = mcast,
	.qpn_alloc = qpn_alloc,
	.qpn_free = qpn_free,
};
