/* Another process's memory, when that process changes what it shows in the midst of it: this process is its own peer, and what is
 * asked of the kernel passes through here. */
#include "peers/peer.h"

#include "peers/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SLOT = 3, ANOTHER = 1 /* init's pid */ };

static struct share_memory *shown;	/* whose pid becomes another as soon as it is proved; NULL: it stays */
static unsigned uses, misuses;

static void note(pid_t pid)
{
	uses++;
	misuses += pid != getpid();
}

/* Between two lists of this process. */
static ssize_t copy(const struct iovec *to, unsigned long tos, const struct iovec *from, unsigned long froms)
{
	size_t t = 0, f = 0, at = 0, off = 0;
	ssize_t done = 0;

	while (t < tos && f < froms) {
		size_t room = to[t].iov_len - at, left = from[f].iov_len - off, n = room < left ? room : left;

		memmove((uint8_t *)to[t].iov_base + at, (const uint8_t *)from[f].iov_base + off, n);
		done += (ssize_t)n;
		at += n;
		off += n;
		if (at == to[t].iov_len)
			t++, at = 0;
		if (off == from[f].iov_len)
			f++, off = 0;
	}
	return done;
}

/* Instead of the kernel's, which not every container allows. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
			 unsigned long remotes, unsigned long flags)
{
	ssize_t n = pid == getpid() ? copy(local, locals, remote, remotes) : -1;

	note(pid);
	if (shown)
		shown->pid = ANOTHER;
	return n;
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
			  unsigned long remotes, unsigned long flags)
{
	note(pid);
	return pid == getpid() ? copy(remote, remotes, local, locals) : -1;
}

struct world {
	struct peers peers;
	struct fabric_page page;
	struct share_memory *own;	/* what this process shows of itself */
	struct shm *shm;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->peers.page = &w->page;
	w->peers.slot = SLOT;
	publish_init(&w->peers.published);
	assert_true(publish_is_on(&w->peers.published));
	w->own = w->peers.published.share.memory;
	assert_int_equal(shm_open_loop(&w->shm), 0);
	uses = misuses = 0;
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	shown = NULL;
	w->shm->link.ops->close(&w->shm->link);
	publish_fini(&w->peers.published);
	free(w);
	return 0;
}

static struct peer *open_own(struct world *w)
{
	struct peer *p = peer_open(&w->peers, w->shm, SLOT, w->peers.published.fd[0], w->peers.published.fd[1]);

	assert_non_null(p);
	return p;
}

static void the_pid_that_is_proved_is_used(void **state)
{
	struct world *w = *state;
	struct peer *p;

	shown = w->own;
	p = open_own(w);
	assert_int_equal(w->own->pid, ANOTHER);
	/* the proof, and what was measured by it */
	assert_true(uses > 1);
	assert_int_equal(misuses, 0);
	peer_close(p);
}

static void a_pid_that_is_not_proved_is_not_used(void **state)
{
	struct world *w = *state;
	struct peer *p;

	w->own->pid = ANOTHER;
	p = open_own(w);
	assert_int_equal(uses, 1);
	assert_string_equal(peer_tier(p), "direct (mem fd)");
	peer_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_pid_that_is_proved_is_used, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_pid_that_is_not_proved_is_not_used, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
