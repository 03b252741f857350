/* Two processes meet while a limit leaves no room for their channel: once there is room they have one.
 * `refused weftd`: weftd is out of descriptors; `refused own`: the one that asks; `refused peer`: the one that is asked.
 * Needs WEFT_DIR of a running weftd of this user. Exit 0: all of it. */
#include "../weftd_pid.h"
#include "attach.h"
#include "channel.h"

#include "runtime/entry.h"
#include "runtime/pump.h"
#include "runtime/state.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { PATIENCE_S = 20 };

/* Shared. */
static struct board {
	_Atomic uint32_t slot;
	_Atomic uint32_t frames, asker;
	_Atomic bool lost;
} *board;

/* No descriptor beyond those that it has. */
static rlim_t limit(pid_t pid, rlim_t most)
{
	struct rlimit now, old;

	check(prlimit(pid, RLIMIT_NOFILE, NULL, &old), "prlimit");
	now = (struct rlimit){ most, old.rlim_max };
	check(prlimit(pid, RLIMIT_NOFILE, &now, NULL), "prlimit");
	return old.rlim_cur;
}

/* Counts what comes. */
static void be_peer(void)
{
	struct runtime *rt;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rt = attach();
	for (;;) {
		runtime_enter_poll(rt);
		atomic_store(&board->frames, (uint32_t)rt->frames);
		atomic_store(&board->lost,
			     rt->peers.channels.refused[atomic_load(&board->asker)].why == REFUSED_LOST);
		runtime_leave(rt);
		atomic_store(&board->slot, rt->peers.slot);
		sched_yield();
	}
}

static bool send_to(struct runtime *rt, uint32_t slot)
{
	static const uint8_t rubbish[64];
	const struct channel *ch;

	runtime_enter(rt);
	ch = channel_await(rt, slot);
	if (ch)
		pump_send_frame(rt, ch->link, link_kind(0, PACKET_IB), CA_PORT, rubbish, sizeof(rubbish));
	runtime_leave(rt);
	return ch;
}

static bool is_lost(struct runtime *rt, uint32_t slot)
{
	(void)rt, (void)slot;
	return atomic_load(&board->lost);
}

static bool has_come(struct runtime *rt, uint32_t slot)
{
	return atomic_load(&board->frames) > 0 || (send_to(rt, slot), false);
}

static void await(bool (*holds)(struct runtime *rt, uint32_t slot), struct runtime *rt, uint32_t slot, const char *what)
{
	time_t deadline = time(NULL) + PATIENCE_S;

	while (!holds(rt, slot)) {
		if (time(NULL) > deadline)
			die(what);
		sched_yield();
	}
}

int main(int argc, char **argv)
{
	const char *who = argc == 2 ? argv[1] : "";
	pid_t peer, limited;
	struct runtime *rt;
	rlim_t before;
	uint32_t slot;

	board = share_with_children(sizeof(*board));
	peer = fork();
	if (peer == 0)
		be_peer();
	rt = attach();
	atomic_store(&board->asker, rt->peers.slot);
	while (!(slot = atomic_load(&board->slot)))
		sched_yield();
	limited = strcmp(who, "weftd") == 0 ? weftd_pid() : strcmp(who, "peer") == 0 ? peer : getpid();
	if (!limited)
		die("no weftd");
	before = limit(limited, 3);
	if (send_to(rt, slot) != (limited == peer))
		die(limited == peer ? "who asks is at no limit" : "there is room for a channel where there is none");
	if (limited == peer)
		await(is_lost, rt, slot, "who is asked does not notice");
	limit(limited, before);
	await(has_come, rt, slot, "no channel, though there is room");
	kill(peer, SIGKILL);
	return 0;
}
