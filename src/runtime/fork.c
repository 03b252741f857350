/* Fork. The parent notices nothing. The child forgets: it has no helper thread, closes what it inherited and attaches
 * anew when it needs a device; the parent's objects stay readable in it as private copies, so that a program that
 * destroys them there harms nobody. */
#include "peers/loads.h"
#include "runtime/faults.h"
#include "runtime/process.h"
#include "runtime/state.h"

#include <time.h>
#include <unistd.h>

struct process process = { .attaching = PTHREAD_MUTEX_INITIALIZER, .watched = PTHREAD_ONCE_INIT };

/* With patience: a signal handler that forks inside one of our calls would wait for itself. */
static bool hold_attaching(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	return pthread_mutex_timedlock(&process.attaching, &limit) == 0;
}

/* This thread holds the lock over the fork. A thread that did not get it must not answer for another. */
static bool is_ours(const _Atomic uintptr_t *forking)
{
	return atomic_load(forking) == lock_self();
}

static void before_fork(void)
{
	if (hold_attaching())
		atomic_store(&process.forking, lock_self());
	for (struct runtime *rt = atomic_load(&process.runtimes); rt; rt = atomic_load(&rt->next)) {
		if (!lock_soon(&rt->lock))
			continue;
		atomic_store(&rt->forking, lock_self());
		publish_before_fork(&rt->peers);
	}
}

static void in_parent(void)
{
	for (struct runtime *rt = atomic_load(&process.runtimes); rt; rt = atomic_load(&rt->next)) {
		if (!is_ours(&rt->forking))
			continue;
		publish_after_fork(&rt->peers);
		atomic_store(&rt->forking, 0);
		lock_leave(&rt->lock);
	}
	if (is_ours(&process.forking)) {
		atomic_store(&process.forking, 0);
		pthread_mutex_unlock(&process.attaching);
	}
}

static void forget(struct runtime *rt, bool consistent)
{
	rt->peers.in_forked_child = true;
	routes_change(&rt->ca.routes);
	progress_forked(&rt->progress);
	lock_init(&rt->lock);
	session_forget(&rt->session);
	close(rt->wake_fd);
	arena_memory_privatise(&rt->arena);
	copy_file_forget(&rt->copy_file);
	remap_forget(&rt->peers.published.remap);
	rt->ca.direct = NULL;
	publish_forget(&rt->peers.published);
	/* a list that another thread was changing is better left alone: it costs a descriptor */
	if (consistent)
		faults_destroy(rt);
	channels_forget(&rt->peers.channels, consistent);
	roce_socket_forget(&rt->peers.roce, consistent);
	links_forget(&rt->peers.links);
	loads_end(&rt->peers);
	loads_point(&rt->peers);
}

static void in_child(void)
{
	pthread_mutex_init(&process.attaching, NULL);
	atomic_store(&process.forking, 0);
	for (struct runtime *rt = atomic_load(&process.runtimes); rt; rt = atomic_load(&rt->next))
		forget(rt, is_ours(&rt->forking));
	atomic_store(&process.runtimes, NULL);
	atomic_store(&process.own, NULL);
}

static void watch(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

void fork_watch(void)
{
	pthread_once(&process.watched, watch);
}
