/* Fork. The parent notices nothing. The child forgets: it has no helper thread, closes what it inherited and attaches
 * anew when it needs a device; the parent's objects stay readable in it as private copies, so that a program that
 * destroys them there harms nobody. */
#include "host/faults.h"
#include "host/internal.h"

#include <time.h>
#include <unistd.h>

pthread_mutex_t host_attaching = PTHREAD_MUTEX_INITIALIZER;
struct host *_Atomic host_current;

/* Held over the fork, when they could be had. Of the thread that forks: one that did not get them must not say so for another. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct host *locked_host;
static _Thread_local __attribute__((tls_model("initial-exec"))) bool locked_attaching;

/* With patience: a signal handler that forks inside one of our calls would wait for itself. */
static bool hold_attaching(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	return pthread_mutex_timedlock(&host_attaching, &limit) == 0;
}

static void before_fork(void)
{
	struct host *h;

	locked_attaching = hold_attaching();
	h = atomic_load(&host_current);
	locked_host = h && lock_soon(&h->lock) ? h : NULL;
	if (locked_host)
		remap_before_fork(locked_host);
}

static void in_parent(void)
{
	if (locked_host) {
		remap_after_fork(locked_host);
		lock_leave(&locked_host->lock);
	}
	if (locked_attaching)
		pthread_mutex_unlock(&host_attaching);
}

static void forget(struct host *h, bool consistent)
{
	h->forgotten = true;
	h->watch = (struct watch){ 0 };
	lock_init(&h->lock);
	session_forget(&h->session);
	close(h->wake_fd);
	arena_memory_privatise(&h->arena);
	remap_forget(h);
	direct_forget(h);
	/* a list that another thread was changing is better left alone: it costs a descriptor */
	if (consistent) {
		channels_fini(&h->channels);
		faults_destroy(h);
	}
	channels_forget(&h->channels);
}

static void in_child(void)
{
	struct host *h = atomic_load(&host_current);

	pthread_mutex_init(&host_attaching, NULL);
	if (h)
		forget(h, locked_host == h);
	atomic_store(&host_current, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

void fork_prepare_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
}
