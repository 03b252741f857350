/* Events: queued per channel, told by the channel's eventfd (written with each, so that who waits for edges sees one, and read
 * with the last, so that it is readable exactly while events are queued), waited for on a futex, which restarts after signals
 * as a read of the kernel's device would. An event for which threads sleep in a read is one of those threads': the eventfd says
 * nothing of it, and threads that were woken are not woken again before one of them waits once more. A thread may leave its
 * sleep for good, cancelled or by a jump out of a signal's handler: then a wake finds nobody, and the eventfd tells the event.
 * If it leaves in the very moment in which it is woken, the next event makes up for that. */
#include "abi/ucm/ucm_state.h"
#include "control/clock.h"
#include "link/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a caller that knows neither the ECE fields nor the word before them has room for. */
#define EVENT_OLD_BYTES offsetof(struct rdma_ucm_event_resp, reserved)

/* Under the lock: who is about to wait has said so. True: there was somebody asleep. */
static bool wake(struct ucm_file *file)
{
	__atomic_fetch_add(&file->posted, 1, __ATOMIC_RELEASE);
	if (!file->waiting)
		return false;
	file->waiting = 0;
	return syscall(SYS_futex, &file->posted, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0) > 0;
}

/* The eventfd and the list change together, under the lock: so neither call can block. Not through write(), which the path
 * shim would take for a command. */
static void fd_add(struct ucm_file *file)
{
	call_wake(file->fd);
	file->is_told = true;
}

/* After one has left the list. */
static void fd_take(struct ucm_file *file)
{
	uint64_t count;
	long done;

	if (file->closed || !file->is_told || !list_empty(&file->events))
		return;
	file->is_told = false;
	done = syscall(SYS_read, file->fd, &count, sizeof(count));
	(void)done;
}

struct ucm_event *ucm_event_new(struct ucm_id *id, enum ucm_event_type type, int status)
{
	struct ucm_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->id = id;
	event->resp.uid = id->uid;
	event->resp.id = id->number;
	event->resp.event = type;
	event->resp.status = (uint32_t)status;
	return event;
}

static void count(const struct ucm_event *event, int requests)
{
	const struct cm_id *cm = event->fresh->cm;
	uint16_t *own = &ucm.unreported[ucm_requester(cm)], *all = &ucm.unreported[UCM_ALL_STRANGERS];

	*own = (uint16_t)(*own + requests);
	if (!cm->peer_is_here)
		*all = (uint16_t)(*all + requests);
}

void ucm_request_queued(const struct ucm_event *event)
{
	event->id->backlog--;
	count(event, 1);
}

static void request_settled(const struct ucm_event *event)
{
	event->id->backlog++;
	count(event, -1);
}

/* With the id of a request, which nobody will hear of. */
static void discard(struct ucm_event *event)
{
	struct ucm_id *fresh = event->fresh;

	if (fresh)
		request_settled(event);
	free(event);
	if (fresh)
		ucm_id_destroy(fresh);
}

static void append(struct ucm_file *file, struct ucm_event *event)
{
	list_append(&file->events, &event->node);
	if (!wake(file))
		fd_add(file);
}

void ucm_event_queue(struct ucm_event *event)
{
	struct ucm_file *file = event->id->file;

	/* Linux too: nobody could tell whose event it is. An accept comes too late then and fails. */
	if (!event->id->uid || !file || file->closed) {
		discard(event);
		return;
	}
	append(file, event);
}

int ucm_event_post(struct ucm_id *id, enum ucm_event_type type, int status)
{
	struct ucm_event *event = ucm_event_new(id, type, status);

	if (!event)
		return -ENOMEM;
	ucm_event_queue(event);
	return 0;
}

static void take_out(struct ucm_event *event)
{
	list_remove(&event->node);
	fd_take(event->id->file);
}

void ucm_events_drop(struct ucm_id *id)
{
	if (!id->file)
		return;
	list_for_each_safe(event, &id->file->events, struct ucm_event, node) {
		if (event->id != id)
			continue;
		take_out(event);
		discard(event);
	}
}

void ucm_events_drop_mcast(struct ucm_mcast *mcast)
{
	list_for_each_safe(event, &mcast->id->file->events, struct ucm_event, node)
		if (event->mcast == mcast) {
			take_out(event);
			discard(event);
		}
}

void ucm_events_move(struct ucm_id *id, struct ucm_file *to)
{
	list_for_each_safe(event, &id->file->events, struct ucm_event, node) {
		if (event->id != id)
			continue;
		list_remove(&event->node);
		fd_take(id->file);
		append(to, event);
	}
}

/* Waits under the lock, giving it up meanwhile. 0 when there is an event. */
static int wait_for_event(struct ucm_file *file, int cancel_state)
{
	while (list_empty(&file->events)) {
		uint32_t seen = __atomic_load_n(&file->posted, __ATOMIC_ACQUIRE);
		int flags = file->closed ? 0 : fcntl(file->fd, F_GETFL);
		int error;

		/* who waits while another thread closes goes on waiting, as in a read of the kernel's device: programs end so */
		if (flags >= 0 && (flags & O_NONBLOCK))
			return -EAGAIN;
		file->waiting = 1;
		if (file->awaiting)
			syscall(SYS_futex, &file->waiting, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
		ucm_unlock_and_send();
		error = call_wait(&file->posted, FUTEX_WAIT_PRIVATE, seen, cancel_state);
		ucm_lock();
		if (error && list_empty(&file->events))
			return error;
	}
	return 0;
}

/* Under the lock. */
static bool reader_is_away(const struct ucm_file *file)
{
	return file->reader && !file->waiting && file->reader != gettid() && !file->closed &&
	       clock_now() < file->reader_left + UCM_READER_BACK_MS * WTIME_MS &&
	       tgkill(getpid(), file->reader, 0) == 0 && !(fcntl(file->fd, F_GETFL) & O_NONBLOCK);
}

void ucm_await_reader(struct ucm_file *file)
{
	struct timespec pause = { .tv_nsec = 1000 * 1000 };

	file->awaiting++;
	while (reader_is_away(file)) {
		ucm_unlock_and_send();
		syscall(SYS_futex, &file->waiting, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
		ucm_lock();
	}
	file->awaiting--;
}

/* A reported request's id is the user's from now on; its listener has room for one more. */
static void report(struct ucm_event *event)
{
	event->id->file->reader = event->resp.event == UCM_EVENT_DISCONNECTED ? gettid() : 0;
	event->id->file->reader_left = clock_now();
	event->id->events_reported++;
	if (event->mcast)
		event->mcast->events_reported++;
	if (event->fresh) {
		request_settled(event);
		ucm_id_join(event->fresh, event->id->file);
	}
	take_out(event);
	free(event);
}

int ucm_get_event(const struct ucm_call *call)
{
	const struct rdma_ucm_get_event *in = call->in;
	size_t bytes = sizeof(struct rdma_ucm_event_resp);
	struct ucm_event *event;
	int error;

	if (call->out_bytes < EVENT_OLD_BYTES)
		return -ENOSPC;
	if (bytes > call->out_bytes)
		bytes = call->out_bytes;
	ucm_lock();
	error = wait_for_event(call->file, call->cancel_state);
	if (error)
		goto unlock;
	event = list_first_entry(&call->file->events, struct ucm_event, node);
	if (event->fresh)
		event->resp.id = event->fresh->number;
	error = ucm_copy_out(in->response, &event->resp, bytes);
	if (!error)
		report(event);
unlock:
	ucm_unlock_and_send();
	return error;
}

int ucm_migrate_id(const struct ucm_call *call)
{
	const struct rdma_ucm_migrate_id *in = call->in;
	struct rdma_ucm_migrate_resp resp = { 0 };
	struct ucm_file *from;
	struct ucm_id *id;
	int error = -ENOENT;

	if (call->out_bytes < sizeof(resp))
		return -ENOSPC;
	ucm_lock();
	from = in->fd < ucm.files_room ? ucm.files[in->fd] : NULL;
	if (!from)
		goto unlock;
	error = ucm_id_find(from, in->id, &id);
	if (error)
		goto unlock;
	if (from != call->file) {
		ucm_events_move(id, call->file);
		list_remove(&id->of_file);
		id->file = call->file;
		list_append(&call->file->ids, &id->of_file);
	}
	resp.events_reported = id->events_reported;
	error = ucm_copy_out(in->response, &resp, sizeof(resp));
unlock:
	ucm_unlock_and_send();
	return error;
}
