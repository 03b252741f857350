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
#include "peers/loads.h"
#include "runtime/cm.h"
#include "runtime/device_faults.h"
#include "runtime/entry.h"
#include "runtime/faults.h"
#include "runtime/gsi.h"
#include "runtime/pump.h"
#include "runtime/report.h"
#include "runtime/state.h"
#include "runtime/turns.h"
#include "verbs/doorbells.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	STACK_BYTES = 256 << 10,
	LINGER_LUCK = 8,	/* so many lingers in vain end lingering */
	LINGER_RETRY = 64,	/* wakes until it is tried again */
};

/* Our choices: what a wake costs at least, on either side of it; and what it costs where the other CPU sleeps deeper, of which
 * there is hope while frames come from another host, as those of a host come without a system call. */
static const wtime LINGER = 5 * WTIME_US, LINGER_FAR = 30 * WTIME_US;

void helper_kick(struct runtime *rt)
{
	call_wake(rt->wake_fd);
}

static struct runtime_cm cm_of(struct runtime *rt)
{
	struct runtime_cm cm;

	lock_enter(&rt->lock);
	cm = rt->cm;
	lock_leave(&rt->lock);
	return cm;
}

/* Those that have passed the stage, or none stands before them. */
static void take_mads(struct runtime *rt)
{
	struct runtime_cm cm = cm_of(rt);
	struct gmp gmp;

	while (gsi_take(rt, &gmp))
		if (cm.mad)
			cm.mad(cm.cm, clock_now(), &gmp);
}

static void open_wire(struct runtime *rt, struct mail *mail)
{
	bool is_told;

	runtime_enter(rt);
	is_told = roce_socket_answered(&rt->peers, mail);
	runtime_leave(rt);
	if (!is_told)
		return;
	roce_socket_tell(mail->msg.status);
	runtime_enter(rt);
	roce_socket_told(&rt->peers.roce);
	runtime_leave(rt);
}

static void open_mail(struct runtime *rt, struct mail *mail)
{
	const struct control_msg *msg = &mail->msg;
	struct runtime_cm cm = cm_of(rt);

	switch (msg->type) {
	case CTL_FRAME:
		gsi_receive(rt, (int)msg->device, mail->text, msg->text_bytes);
		take_mads(rt);
		break;
	case CTL_PEER_GONE:
		if (cm.peer_gone)
			cm.peer_gone(cm.cm, clock_now(), msg->slot);
		break;
	case CTL_ROCE_SOCKET:
		open_wire(rt, mail);
		break;
	case CTL_REPORT:
		report_answer(rt, msg, mail->text);
		break;
	case CTL_PATHS:
		runtime_enter(rt);
		if (sa_paths_take(&rt->peers, msg, mail->text, msg->text_bytes))
			devices_forget_routes(&rt->ca);
		runtime_leave(rt);
		break;
	case CTL_PAGE:
		runtime_enter(rt);
		devices_refresh(rt->peers.page, &rt->peers.node, &rt->ca);
		if (msg->a == CONTROL_PAGE_PACKETS)
			devices_forget_routes(&rt->ca);
		faults_look_at_links(rt);
		runtime_leave(rt);
		break;
	case CTL_IMPAIR:
		runtime_enter(rt);
		faults_change(rt, mail->text);
		runtime_leave(rt);
		/* what a thread of the program has let through meanwhile: without faults nobody looks */
		take_mads(rt);
		break;
	case CTL_CAPTURE:
		runtime_enter(rt);
		faults_capture(rt, mail->fds ? mail->fd[--mail->fds] : -1);
		runtime_leave(rt);
		take_mads(rt);
		break;
	default:
		log_line(LOG_DEBUG, "weftd sent a message of type %u that nobody waits for", msg->type);
	}
}

static void read_mail(struct runtime *rt)
{
	struct mail *mail;

	session_read(&rt->session);
	runtime_enter(rt);
	channels_collect(&rt->peers);
	runtime_leave(rt);
	while ((mail = session_take(&rt->session))) {
		open_mail(rt, mail);
		mail_free(mail);
	}
}

static void run_cm(struct runtime *rt, wtime now)
{
	struct runtime_cm cm;

	if (!atomic_exchange(&rt->cm_kicked, false) && now < rt->cm_deadline)
		return;
	cm = cm_of(rt);
	rt->cm_deadline = cm.expire ? cm.expire(cm.cm, now) : WTIME_NEVER;
}

/* As runtime_enter, to run the engine whoever runs it else. Ends with runtime_leave_helper. */
static wtime enter_engine(struct runtime *rt)
{
	wtime now = runtime_enter(rt);

	rt->leaving = LEAVE_HERE;
	rt->ca.memory_may_go = true;
	rt->helper_rests = false;
	if (ca_is_apart(&rt->ca))
		ca_read_doorbells(&rt->ca, now);
	return now;
}

/* Does a program that polls take in what arrived, while the helper sleeps a little? The engine is entered, before and after.
 * sched_yield does not do where both share a CPU: the poller's share is used up, so the scheduler chooses the helper again. */
static bool leave_to_program(struct runtime *rt, wtime now)
{
	static const struct timespec nap = { .tv_nsec = 10 * WTIME_US };	/* our choice; a poll takes less */

	if (!pump_look(rt) || !progress_leaves(&rt->progress, now))
		return false;
	runtime_leave_helper(rt);
	nanosleep(&nap, NULL);
	enter_engine(rt);
	return progress_left(&rt->progress, pump_look(rt));
}

/* True: more may be there. */
static bool take_in(struct runtime *rt)
{
	uint64_t frames = rt->frames;
	bool more = pump_all(rt, rt->ca.now);

	if (rt->frames != frames)
		progress_helped(&rt->progress);
	return more;
}

/* Takes in what arrived, unless the program does. True: more may be there. */
static bool drain(struct runtime *rt)
{
	wtime now = enter_engine(rt);
	bool more = false;

	if (rt->faults)
		device_faults_expire(rt, now);
	if (rt->polls - rt->ticked >= TURNS_IDLE)
		progress_seen(&rt->progress, now);
	rt->ticked = rt->polls;
	if (progress_ticked(&rt->progress, now, pump_look(rt)))
		log_line(LOG_DEBUG, "the program does not poll: the helper takes over");
	if (!progress_is_polled(&rt->progress) && !leave_to_program(rt, now))
		more = take_in(rt);
	if (!list_empty(&rt->peers.links.acks_owed))
		pump_flush(rt);
	runtime_leave_helper(rt);
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
static bool linger(struct runtime *rt)
{
	wtime now = clock_now(), until;
	bool any, stop, shares_cpu;

	if (rt->linger_luck == 0 && ++rt->linger_tries % LINGER_RETRY)
		return false;
	shares_cpu = has_one_cpu();
	do {
		if (shares_cpu)		/* whoever was woken runs first; on an idle CPU this returns at once */
			sched_yield();
		lock_enter(&rt->lock);
		any = pump_look(rt) || (rt->ca.doorbells && doorbells_any(rt->ca.doorbells));
		stop = progress_is_polled(&rt->progress) || progress_is_recent(&rt->progress, now);
		until = now + (rt->peers.links.looked_at ? LINGER_FAR : LINGER);
		lock_leave(&rt->lock);
	} while (!any && !stop && clock_now() < until);
	if (stop)
		return false;
	if (any && rt->linger_luck < LINGER_LUCK)
		rt->linger_luck++;
	else if (!any && rt->linger_luck > 0)
		rt->linger_luck--;
	return any;
}

/* Before sleep: peers shall wake us, unless the program polls. Until when. */
static wtime settle(struct runtime *rt)
{
	wtime now = enter_engine(rt), until = now, regain;

	regain = wtime_min(channels_regain(&rt->peers, now), roce_socket_ask_again(&rt->peers, now));
	regain = wtime_min(regain, sa_paths_ask_again(&rt->peers, now));
	if (progress_is_polled(&rt->progress))
		until = now + PROGRESS_TICK;
	else if (pump_may_sleep(rt))
		until = wtime_min(pump_deadline(rt), regain);
	if (rt->faults)
		faults_flush(rt);
	/* runtime_leave kicks when its work brings the deadline before this */
	rt->helper_until = until;
	rt->helper_rests = true;
	runtime_leave_helper(rt);
	return until;
}

/* A weftd that was killed is followed by another. When to look for it; at once when there is something to settle anew. */
static wtime follow_weftd(struct runtime *rt)
{
	wtime next = session_return(&rt->session);
	uint32_t losses = atomic_load(&rt->session.losses);
	bool is_lost = rt->losses != losses, is_back = (rt->is_away || is_lost) && next == WTIME_NEVER;

	if (is_lost) {
		rt->losses = losses;
		runtime_enter(rt);
		channels_unasked(&rt->peers);
		roce_socket_lost(&rt->peers);
		runtime_leave(rt);
	}
	if (is_back) {
		runtime_enter(rt);
		devices_refresh(rt->peers.page, &rt->peers.node, &rt->ca);
		loads_take(&rt->peers, session_take_loads(&rt->session));
		runtime_leave(rt);
	}
	rt->is_away = next != WTIME_NEVER;
	return is_lost || is_back ? 0 : next;
}

static void take_events(struct runtime *rt)
{
	lock_enter(&rt->lock);
	links_take_events(&rt->peers.links);
	lock_leave(&rt->lock);
}

/* For which its socket is looked at. */
static short session_events(struct session *s)
{
	short events = session_flush(s) ? 0 : POLLOUT;

	if (atomic_load(&s->state) != SESSION_ATTACHED)
		return 0;
	return session_needs_reader(s) ? events | POLLIN : events;
}

/* True when there is mail. */
static bool sleep_until(struct runtime *rt, wtime until)
{
	wtime look_for_weftd = follow_weftd(rt);
	short weftd = session_events(&rt->session);
	struct pollfd p[3] = {
		{ .fd = rt->wake_fd, .events = POLLIN },
		{ .fd = weftd ? rt->session.socket : -1, .events = weftd },
		{ .fd = atomic_load(&rt->peers.links.event_fd), .events = POLLIN },
	};
	struct timespec timeout, *limit = NULL;
	wtime now = clock_now();
	uint64_t count;

	until = wtime_min(wtime_min(until, rt->cm_deadline), look_for_weftd);
	if (until != WTIME_NEVER) {
		wtime left = until > now ? until - now : 0;

		timeout = (struct timespec){ .tv_sec = (time_t)(left / WTIME_S), .tv_nsec = (long)(left % WTIME_S) };
		limit = &timeout;
	}
	if (ppoll(p, 3, limit, NULL) <= 0)
		p[0].revents = p[1].revents = p[2].revents = 0;
	if (p[0].revents)
		eventfd_read(rt->wake_fd, &count);
	if (p[2].revents)
		take_events(rt);
	return p[1].revents & ~POLLOUT || atomic_load(&rt->session.has_mail);
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
	struct runtime *rt = arg;
	bool is_mail = true;

	ask_for_short_slices();
	prctl(PR_SET_TIMERSLACK, (unsigned long)WTIME_US, 0, 0, 0);		/* a nap would take 50 us more */
	publish_life(&rt->peers.published);
	while (!atomic_load(&rt->is_closing)) {
		wtime until = 0;

		if (is_mail)
			read_mail(rt);
		if (rt->faults)
			take_mads(rt);
		run_cm(rt, clock_now());
		if (!drain(rt) && !linger(rt))
			until = settle(rt);
		is_mail = sleep_until(rt, until);
	}
	return NULL;
}

void helper_stop(struct runtime *rt)
{
	atomic_store(&rt->is_closing, true);
	helper_kick(rt);
	pthread_join(rt->thread, NULL);
}

int helper_start(struct runtime *rt)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	rt->cm_deadline = WTIME_NEVER;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* signals are the program's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&rt->thread, &attr, helper_main, rt);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err == 0)
		pthread_setname_np(rt->thread, "weft");
	return err;
}
