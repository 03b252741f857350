/* The device itself: open, close, and write with the checks that Linux's ucma makes before any command. */
#include "abi/ucm/ucm_state.h"

#include "base/array.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ucm ucm = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Every command's structure, so that its size bounds the copy on our stack. */
union command {
#define COMMAND(NAME, name, type) struct type name;
	UCM_COMMANDS(COMMAND)
#undef COMMAND
	struct rdma_ucm_cmd_hdr hdr;
};

struct command_row {
	int (*run)(const struct ucm_call *call);
	size_t bytes;
};

static const struct command_row rows[] = {
#define COMMAND(NAME, name, type) [RDMA_USER_CM_CMD_##NAME] = { ucm_##name, sizeof(struct type) },
	UCM_COMMANDS(COMMAND)
#undef COMMAND
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

void ucm_lock(void)
{
	pthread_mutex_lock(&ucm.lock);
}

/* A child has none of its parent's conversations: they stay with the parent, whose channels' eventfds it shares. */
static void forked(void)
{
	ucm = (struct ucm){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

static void unlock(void)
{
	pthread_mutex_unlock(&ucm.lock);
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void watch_forks(void)
{
	pthread_atfork(ucm_lock, unlock, forked);
}

/* The sysctl's, where the kernel has it. */
static uint32_t read_max_backlog(void)
{
	int fd = open("/proc/sys/net/rdma_ucm/max_backlog", O_RDONLY | O_CLOEXEC);
	char text[16] = "";
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	long value = n > 0 ? strtol(text, NULL, 10) : UCM_MAX_BACKLOG;

	if (fd >= 0)
		close(fd);
	return value > 0 && value < UCM_MAX_IDS ? (uint32_t)value : UCM_MAX_BACKLOG;
}

/* Under the lock: the first open. Tables are set up before the runtime may call in. */
static int start(struct runtime *rt)
{
	int error;

	if (ucm.rt)
		return 0;
	table_init(&ucm.ids, 16, 0, UCM_MAX_IDS, NULL);
	table_init(&ucm.mcasts, 16, 0, UCM_MAX_IDS, NULL);
	list_init(&ucm.closed_files);
	list_init(&ucm.posts);
	list_init(&ucm.port_rows);
	ucm.max_backlog = read_max_backlog();
	for (int i = 0; i < UCM_PORT_BUCKETS; i++)
		list_init(&ucm.ports[i]);
	error = ucm_cm_open(rt);
	if (!error)
		ucm.rt = rt;
	return error;
}

static int file_insert(struct ucm_file *file)
{
	if (file->fd >= UCM_MAX_FILES)
		return -EMFILE;
	if (array_reserve(&ucm.files, &ucm.files_room, (uint32_t)file->fd + 1, sizeof(*ucm.files)))
		return -ENOMEM;
	ucm.files[file->fd] = file;
	return 0;
}

static struct ucm_file *file_at(int fd)
{
	return fd >= 0 && (uint32_t)fd < ucm.files_room ? ucm.files[fd] : NULL;
}

/* Takes a reference that file_put returns. */
static struct ucm_file *file_get(int fd)
{
	struct ucm_file *file = file_at(fd);

	if (file)
		file->refs++;
	return file;
}

static void file_put(struct ucm_file *file)
{
	if (--file->refs)
		return;
	list_remove(&file->node);
	free(file);
}

static int file_open(int flags)
{
	struct ucm_file *file;
	struct runtime *rt;
	int error;

	rt = runtime_get();
	if (!rt)
		return -errno;
	/* after the runtime's own handlers, so that a fork takes our lock first: the order of locks */
	pthread_once(&fork_once, watch_forks);
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->refs = 1;
	list_init(&file->events);
	list_init(&file->ids);
	file->fd = eventfd(0, (flags & O_CLOEXEC ? EFD_CLOEXEC : 0) | (flags & O_NONBLOCK ? EFD_NONBLOCK : 0));
	if (file->fd < 0) {
		error = -errno;
		goto free_file;
	}
	ucm_lock();
	error = start(rt);
	if (!error)
		error = file_insert(file);
	ucm_unlock_and_send();
	if (error)
		goto close_fd;
	return file->fd;

close_fd:
	close(file->fd);
free_file:
	free(file);
	return error;
}

/* In all of these a thread that is cancelled goes on to the end, but for its sleep in GET_EVENT: it would take the lock along. */
int weft_ucm_open(int flags)
{
	int cancel_state, fd;

	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	fd = file_open(flags);
	pthread_setcancelstate(cancel_state, NULL);
	if (fd >= 0)
		return fd;
	errno = -fd;
	return -1;
}

void weft_ucm_await_reader(int fd)
{
	struct ucm_file *file;
	int cancel_state;

	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	ucm_lock();
	file = file_get(fd);
	if (file) {
		ucm_await_reader(file);
		file_put(file);
	}
	ucm_unlock_and_send();
	pthread_setcancelstate(cancel_state, NULL);
}

static bool is_any_open(void)
{
	for (uint32_t fd = 0; fd < ucm.files_room; fd++)
		if (ucm.files[fd])
			return true;
	return false;
}

static void file_close(int fd)
{
	struct ucm_file *file = file_at(fd);
	struct ucm_id *id;

	if (!file)
		return;
	ucm.files[fd] = NULL;
	file->closed = true;
	list_append(&ucm.closed_files, &file->node);
	while ((id = list_first_entry(&file->ids, struct ucm_id, of_file)))
		ucm_id_destroy(id);
	file_put(file);
	if (!is_any_open()) {
		ucm_port_rows_trim(0);
		ucm.ports_ahead = 0;
	}
}

void weft_ucm_close(int fd)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	ucm_lock();
	file_close(fd);
	ucm_unlock_and_send();
	pthread_setcancelstate(cancel_state, NULL);
}

static int run(struct ucm_file *file, const void *bytes_in, size_t bytes, int cancel_state)
{
	uint8_t raw[sizeof(struct rdma_ucm_cmd_hdr) + sizeof(union command)] = { 0 };
	size_t copied = bytes < sizeof(raw) ? bytes : sizeof(raw), in;
	struct rdma_ucm_cmd_hdr hdr;
	union command command = { 0 };

	if (bytes < sizeof(hdr))
		return -EINVAL;
	if (ucm_copy_in(raw, (uintptr_t)bytes_in, copied))
		return -EFAULT;
	memcpy(&hdr, raw, sizeof(hdr));
	if (hdr.cmd >= ROWS || hdr.in + sizeof(hdr) > bytes)
		return -EINVAL;
	/* a caller built for an older, shorter structure: what it does not know is zero */
	in = hdr.in < rows[hdr.cmd].bytes ? hdr.in : rows[hdr.cmd].bytes;
	memcpy(&command, raw + sizeof(hdr), in);
	return rows[hdr.cmd].run(&(struct ucm_call){ .file = file, .in = &command, .out_bytes = hdr.out,
						     .cancel_state = cancel_state });
}

static int file_write(int fd, const void *cmd, size_t bytes, int cancel_state)
{
	struct ucm_file *file;
	int error;

	ucm_lock();
	file = file_get(fd);
	ucm_unlock_and_send();
	if (!file)
		return -EBADF;
	error = run(file, cmd, bytes, cancel_state);
	ucm_lock();
	file_put(file);
	ucm_unlock_and_send();
	return error;
}

ssize_t weft_ucm_write(int fd, const void *cmd, size_t bytes)
{
	int cancel_state, error;

	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	error = file_write(fd, cmd, bytes, cancel_state);
	pthread_setcancelstate(cancel_state, NULL);
	if (!error)
		return (ssize_t)bytes;
	errno = -error;
	return -1;
}
