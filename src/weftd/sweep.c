/* The lock is held meanwhile, so that a weftd that starts now waits and then begins anew. */
#include "weftd/sweep.h"

#include "weftd/entry.h"
#include "weftd/lock.h"
#include "weftd/logfile.h"
#include "weftd/state.h"
#include "weftd/tree.h"

#include <sys/stat.h>

static void remove_all(const struct rundir *d)
{
	bool is_whole;

	entry_remove(d->fd, "ctl", S_IFSOCK);
	entry_remove(d->fd, "ctl.new", S_IFSOCK);
	is_whole = tree_remove(d);
	state_remove(d);
	if (is_whole && !rundir_has_others(d))
		logfile_remove(d);
}

int sweep_left(const struct rundir *dir, bool force)
{
	struct rundir d = *dir;
	const char *why;
	int lock;

	d.fd = d.own = -1;
	lock = rundir_visit(&d, &why);
	if (lock == 0)
		lock = lock_try(&d);
	if (lock >= 0 && state_is_over(&d, force))
		remove_all(&d);
	if (lock >= 0)
		lock_release(&d, lock);
	rundir_close(&d);
	return lock < 0 ? lock : 0;
}
