/* The helper thread. It sleeps in poll on the wake eventfd (peers, other threads), on the descriptors of links that have one
 * (timers that foreign peers set, UDP sockets) and on weftd's socket, until the next timer. While the program polls it only
 * looks in once a tick; while a thread of it is the sleeper (wait.c), peers wake that one; otherwise it takes in whatever wakes
 * it, and sets the sleeper words again before it sleeps. It spins for some microseconds at most, and only where frames keep
 * coming. */
#include "runtime/helper.h"

#include "base/log.h"
#include "control/clock.h"
#include "link/calls.h"
#include "peers/devices.h"
#include "runtime/faults.h"
#include "runtime/gsi.h"
#include "runtime/pump.h"
#include "runtime/report.h"
#include "runtime/runtime.h"
#include "verbs/doorbells.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	STACK_BYTES = 256 << 10,
	LINGER_LUCK = 8,	/* so many lingers in vain end lingering */
	LINGER_RETRY = 64,	/* wakes until it is tried again */
};

static const wtime LINGER = 5 * WTIME_US;	/* our choice: what a wake costs at least, on either side of it */

void helper_kick(struct host *h)
{
	call_wake(h->wake_fd);
}

static struct host_cm cm_of(struct host *h)
{
	struct host_cm cm;

	lock_enter(&h->lock);
	cm = h->cm;
	lock_leave(&h->lock);
	return cm;
}

/* Those that have passed the stage, or none stands before them. */
static void take_mads(struct host *h)
{
	struct host_cm cm = cm_of(h);
	struct gmp gmp;

	while (gsi_take(h, &gmp))
		if (cm.mad)
			cm.mad(cm.cm, clock_now(), &gmp);
}

static void open_wire(struct host *h, struct mail *mail)
{
	bool is_told;

	host_enter(h);
	is_told = wire_answered(&h->peers, mail);
	host_leave(h);
	if (is_told)
		wire_tell(mail->msg.status);
}

static void open_mail(struct host *h, struct mail *mail)
{
	const struct control_msg *msg = &mail->msg;
	struct host_cm cm = cm_of(h);

	switch (msg->type) {
	case CTL_FRAME:
		gsi_receive(h, (int)msg->device, mail->text, msg->text_bytes);
		take_mads(h);
		break;
	case CTL_PEER_GONE:
		if (cm.peer_gone)
			cm.peer_gone(cm.cm, clock_now(), msg->slot);
		break;
	case CTL_WIRE:
		open_wire(h, mail);
		break;
	case CTL_REPORT:
		report_answer(h, msg, mail->text);
		break;
	case CTL_PAGE:
		host_enter(h);
		devices_refresh(h->peers.page, &h->peers.node, &h->ca);
		if (msg->a == 4)
			devices_forget_routes(&h->ca);
		host_leave(h);
		break;
	case CTL_IMPAIR:
		host_enter(h);
		faults_change(h, mail->text);
		host_leave(h);
		/* what a thread of the program has let through meanwhile: without faults nobody looks */
		take_mads(h);
		break;
	default:
		log_line(LOG_DEBUG, "weftd sent a message of type %u that nobody waits for", msg->type);
	}
}

static void read_mail(struct host *h)
{
	struct mail *mail;

	session_read(&h->session);
	host_enter(h);
	channels_collect(&h->peers);
	host_leave(h);
	while ((mail = session_take(&h->session))) {
		open_mail(h, mail);
		mail_free(mail);
	}
}

static void run_cm(struct host *h, wtime now)
{
	struct host_cm cm;

	if (!atomic_exchange(&h->cm_kicked, false) && now < h->cm_deadline)
		return;
	cm = cm_of(h);
	h->cm_deadline = cm.expire ? cm.expire(cm.cm, now) : WTIME_NEVER;
}

/* As host_enter, to run the engine whoever runs it else. Ends with host_leave_apart. */
static wtime enter_engine(struct host *h)
{
	wtime now = host_enter(h);

	h->leaving = LEAVE_FULLY;
	h->ca.runs_apart = true;
	h->helper_rests = false;
	if (h->ca.doorbells)
		ca_read_doorbells(&h->ca, now);
	return now;
}

/* Takes in what arrived, unless the program does. True: more may be there. */
static bool drain(struct host *h)
{
	wtime now = enter_engine(h);
	uint64_t frames = h->frames;
	bool more = false;

	if (progress_ticked(&h->progress, now, pump_look(h)))
		log_line(LOG_DEBUG, "the program does not poll: the helper takes over");
	if (!progress_is_polled(&h->progress))
		more = pump_all(h, now);
	if (!list_empty(&h->peers.links.acks_owed))
		pump_flush(h);
	if (h->frames != frames)
		progress_helped(&h->progress);
	host_leave_apart(h);
	if (more)
		sched_yield();	/* let the program in between */
	return more;
}

static bool has_one_cpu(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1;
}

/* A wake costs many times a frame, so where frames keep coming the next is waited for, as long as that goes well. */
static bool linger(struct host *h)
{
	wtime now = clock_now(), until = now + LINGER;
	bool any, stop;

	if (h->linger_luck == 0 && (++h->linger_tries % LINGER_RETRY || has_one_cpu()))
		return false;
	do {
		lock_enter(&h->lock);
		any = pump_look(h) || (h->ca.doorbells && doorbells_any(h->ca.doorbells));
		stop = progress_is_polled(&h->progress) || progress_is_recent(&h->progress, now);
		lock_leave(&h->lock);
	} while (!any && !stop && clock_now() < until);
	if (stop)
		return false;
	if (any && h->linger_luck < LINGER_LUCK)
		h->linger_luck++;
	else if (!any && h->linger_luck > 0)
		h->linger_luck--;
	return any;
}

/* Before sleep: peers shall wake us, unless the program polls. Until when. */
static wtime settle(struct host *h)
{
	wtime now = enter_engine(h), until = now, regain;

	regain = wtime_min(channels_regain(&h->peers, now), wire_ask_again(&h->peers, now));
	if (progress_is_polled(&h->progress))
		until = now + PROGRESS_TICK;
	else if (pump_may_sleep(h))
		until = wtime_min(pump_deadline(h), regain);
	if (h->faults)
		faults_flush(h);
	/* host_leave kicks when its work brings the deadline before this */
	h->helper_until = until;
	h->helper_rests = true;
	host_leave_apart(h);
	return until;
}

/* A weftd that was killed is followed by another. When to look for it; at once when there is something to settle anew. */
static wtime follow_weftd(struct host *h)
{
	wtime next = session_return(&h->session);
	uint32_t losses = atomic_load(&h->session.losses);
	bool is_lost = h->losses != losses, is_back = h->is_away && next == WTIME_NEVER;

	if (is_lost) {
		h->losses = losses;
		host_enter(h);
		channels_unasked(&h->peers);
		wire_lost(&h->peers);
		host_leave(h);
	}
	if (is_back) {
		host_enter(h);
		devices_refresh(h->peers.page, &h->peers.node, &h->ca);
		host_leave(h);
	}
	h->is_away = next != WTIME_NEVER;
	return is_lost || is_back ? 0 : next;
}

static void take_events(struct host *h)
{
	lock_enter(&h->lock);
	links_take_events(&h->peers.links);
	lock_leave(&h->lock);
}

/* True when there is mail. */
static bool sleep_until(struct host *h, wtime until)
{
	wtime look_for_weftd = follow_weftd(h);
	struct pollfd p[3] = {
		{ .fd = h->wake_fd, .events = POLLIN },
		{ .fd = atomic_load(&h->session.state) == SESSION_ATTACHED ? h->session.socket : -1, .events = POLLIN },
		{ .fd = atomic_load(&h->peers.links.event_fd), .events = POLLIN },
	};
	struct timespec timeout, *limit = NULL;
	wtime now = clock_now();
	uint64_t count;

	until = wtime_min(wtime_min(until, h->cm_deadline), look_for_weftd);
	if (until != WTIME_NEVER) {
		wtime left = until > now ? until - now : 0;

		timeout = (struct timespec){ .tv_sec = (time_t)(left / WTIME_S), .tv_nsec = (long)(left % WTIME_S) };
		limit = &timeout;
	}
	if (ppoll(p, 3, limit, NULL) <= 0)
		p[0].revents = p[1].revents = p[2].revents = 0;
	if (p[0].revents)
		eventfd_read(h->wake_fd, &count);
	if (p[2].revents)
		take_events(h);
	return p[1].revents || atomic_load(&h->session.has_mail);
}

/* A short time slice, so that the scheduler lets us in at once where the program's threads spin on every CPU: otherwise
 * a frame waits for the end of theirs, some 4 ms (Linux 6.12 and later; earlier ones do not look at it). */
static void ask_for_short_slices(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { 0 };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) == 0 && attr.policy == SCHED_OTHER) {
		attr.runtime = 100 * WTIME_US;	/* the kernel's least */
		syscall(SYS_sched_setattr, 0, &attr, 0);
	}
}

static void *helper_main(void *arg)
{
	struct host *h = arg;
	bool is_mail = true;

	ask_for_short_slices();
	publish_life(&h->peers.published);
	while (!atomic_load(&h->is_closing)) {
		wtime until = 0;

		if (is_mail)
			read_mail(h);
		if (h->faults)
			take_mads(h);
		run_cm(h, clock_now());
		if (!drain(h) && !linger(h))
			until = settle(h);
		is_mail = sleep_until(h, until);
	}
	return NULL;
}

void helper_stop(struct host *h)
{
	atomic_store(&h->is_closing, true);
	helper_kick(h);
	pthread_join(h->thread, NULL);
}

int helper_start(struct host *h)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	h->cm_deadline = WTIME_NEVER;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* signals are the program's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&h->thread, &attr, helper_main, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err == 0)
		pthread_setname_np(h->thread, "weft");
	return err;
}
