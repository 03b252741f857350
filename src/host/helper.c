/* The helper thread. It sleeps in poll on the wake eventfd (peers, other threads) and on weftd's socket, until the next
 * timer. While the program polls it only looks in once a tick; while a thread of it watches (watch.c), peers wake that one;
 * otherwise it takes in whatever wakes it, and sets the sleeper words again before it sleeps. It spins for some microseconds at
 * most, and only where frames keep coming. */
#include "host/internal.h"

#include "base/log.h"
#include "host/faults.h"
#include "link/calls.h"

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

static void impair_mad(struct host *h, const struct control_msg *msg)
{
	host_enter(h);
	faults_receive_mad(h, msg);
	host_leave(h);
}

/* CM messages that have passed the stage. */
static void take_mads(struct host *h)
{
	struct host_cm cm = cm_of(h);
	struct control_msg msg;
	bool any;

	do {
		host_enter(h);
		any = faults_next_mad(h, &msg);
		host_leave(h);
		if (any && cm.mad)
			cm.mad(cm.cm, host_now(), &msg);
	} while (any);
}

static void open_mail(struct host *h, struct mail *mail)
{
	const struct control_msg *msg = &mail->msg;
	struct host_cm cm = cm_of(h);

	switch (msg->type) {
	case CTL_MAD:
		if (h->faults && !msg->status)
			impair_mad(h, msg);
		else if (cm.mad)
			cm.mad(cm.cm, host_now(), msg);
		break;
	case CTL_PEER_GONE:
		if (cm.peer_gone)
			cm.peer_gone(cm.cm, host_now(), msg->slot);
		break;
	case CTL_REPORT:
		report_answer(h, msg, mail->text);
		break;
	case CTL_PAGE:
		host_enter(h);
		devices_refresh(h);
		host_leave(h);
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
	channels_collect(h);
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

/* Takes in what arrived, unless the program does. True: more may be there. */
static bool drain(struct host *h)
{
	wtime now = host_enter(h);
	uint64_t frames = h->frames;
	bool more = false;

	if (h->attention.program_polls && attention_tick(&h->attention, now, pump_pending(h)))
		log_line(LOG_DEBUG, "the program does not poll: the helper takes over");
	if (!h->attention.program_polls)
		more = pump_all(h, now);
	if (!list_empty(&h->channels.told))
		pump_flush(h);
	if (h->frames != frames)
		attention_helped(&h->attention);
	host_leave(h);
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
	wtime now = host_now(), until = now + LINGER;
	bool any, stop;

	if (h->linger_luck == 0 && (++h->linger_tries % LINGER_RETRY || has_one_cpu()))
		return false;
	do {
		lock_enter(&h->lock);
		any = pump_pending(h);
		stop = h->attention.program_polls || attention_is_recent(&h->attention, now);
		lock_leave(&h->lock);
	} while (!any && !stop && host_now() < until);
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
	wtime now = host_enter(h), until = now;

	if (h->attention.program_polls)
		until = now + ATTENTION_TICK;
	else if (pump_may_sleep(h))
		until = pump_deadline(h);
	if (h->faults)
		faults_flush(h);
	/* host_leave kicks when its work brings the deadline before this */
	h->helper_until = until;
	host_leave(h);
	return until;
}

/* A weftd that was killed is followed by another. When to look for it. */
static wtime follow_weftd(struct host *h)
{
	wtime next = session_return(&h->session);

	if (h->is_away && next == WTIME_NEVER) {
		host_enter(h);
		devices_refresh(h);
		host_leave(h);
	}
	h->is_away = next != WTIME_NEVER;
	return next;
}

/* True when there is mail. */
static bool sleep_until(struct host *h, wtime until)
{
	wtime look_for_weftd = follow_weftd(h);
	struct pollfd p[2] = {
		{ .fd = h->wake_fd, .events = POLLIN },
		{ .fd = atomic_load(&h->session.state) == SESSION_ATTACHED ? h->session.socket : -1, .events = POLLIN },
	};
	struct timespec timeout, *limit = NULL;
	wtime now = host_now();
	uint64_t count;

	until = wtime_min(wtime_min(until, h->cm_deadline), look_for_weftd);
	if (until != WTIME_NEVER) {
		wtime left = until > now ? until - now : 0;

		timeout = (struct timespec){ .tv_sec = (time_t)(left / WTIME_S), .tv_nsec = (long)(left % WTIME_S) };
		limit = &timeout;
	}
	if (ppoll(p, 2, limit, NULL) <= 0)
		p[0].revents = p[1].revents = 0;
	if (p[0].revents)
		eventfd_read(h->wake_fd, &count);
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
	direct_live(h);
	for (;;) {
		wtime until = 0;

		if (is_mail)
			read_mail(h);
		if (h->faults)
			take_mads(h);
		run_cm(h, host_now());
		if (!drain(h) && !linger(h))
			until = settle(h);
		is_mail = sleep_until(h, until);
	}
	return NULL;
}

int helper_start(struct host *h)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	h->cm_deadline = WTIME_NEVER;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
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
