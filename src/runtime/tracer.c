#include "runtime/tracer.h"

#include "base/log.h"
#include "control/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Our choices: one system call for 60 full frames; of a pipe, whose reader shall see them soon, for 15; how long whoever is
 * captured waits for the reader; and as many bytes in the pipe, as far as the kernel allows. */
enum { BUFFER = 256 << 10, PIPE_BUFFER = 64 << 10, PATIENCE_MS = 100, PIPE_BYTES = 1 << 20 };

struct tracer {
	int fd;			/* owned */
	uint32_t pid;
	size_t used, room;
	bool is_pipe;
	bool failed;		/* the file takes no more, or nobody reads: nothing is traced since */
	bool is_behind;		/* the reader was waited for in vain, and has not taken all since */
	wtime wait_at;		/* no reader is waited for before: one was lately */
	dev_t device;		/* of the pipe: the program may have closed it and opened something else */
	ino_t inode;
	uint32_t lost, told;	/* records; as the reader has been told */
	uint8_t buffer[BUFFER];
};

static int make(int fd, bool is_pipe, const struct trace_process *process, wtime now, struct tracer **tracer)
{
	struct trace_record r = { .kind = TRACE_PROCESS, .time = now };
	uint8_t text[sizeof(*process)];
	struct tracer *t = malloc(sizeof(*t));
	struct stat st;

	if (!t) {
		close(fd);
		return -ENOMEM;
	}
	t->fd = fd;
	t->pid = (uint32_t)getpid();
	t->used = 0;
	t->room = is_pipe ? PIPE_BUFFER : BUFFER;
	t->is_pipe = is_pipe;
	t->failed = t->is_behind = false;
	t->wait_at = 0;
	t->device = fstat(fd, &st) == 0 ? st.st_dev : 0;
	t->inode = t->device ? st.st_ino : 0;
	t->lost = t->told = 0;
	r.bytes = trace_put_process(process, text);
	r.data = text;
	tracer_add(t, &r);
	*tracer = t;
	return 0;
}

int tracer_create(const char *path, const struct trace_process *process, wtime now, struct tracer **tracer)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC), err = -errno;

	if (fd >= 0)
		return make(fd, false, process, now, tracer);
	log_line(LOG_ERROR, "WEFT_TRACE: %s: %s", path, strerror(-err));
	return err;
}

int tracer_pipe(int fd, const struct trace_process *process, wtime now, struct tracer **tracer)
{
	fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
	return make(fd, true, process, now, tracer);
}

/* Is the descriptor still what it was? */
static bool is_ours(const struct tracer *t)
{
	struct stat st;

	return fstat(t->fd, &st) == 0 && st.st_dev == t->device && st.st_ino == t->inode;
}

bool tracer_is_over(const struct tracer *t)
{
	return t->failed;
}

void tracer_destroy(struct tracer *t)
{
	if (!t)
		return;
	if (t->fd >= 0 && is_ours(t))
		close(t->fd);
	free(t);
}

static void write_file(struct tracer *t)
{
	ssize_t n;

	do
		n = write(t->fd, t->buffer, t->used);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)t->used) {
		t->used = 0;
		return;
	}
	/* the rest would come after somebody else's records */
	t->failed = true;
	log_line(LOG_ERROR, "the trace ends here: %s", n < 0 ? strerror(errno) : "the file takes no more");
}

/* What the pipe takes. */
static void write_some(struct tracer *t)
{
	ssize_t n;

	do
		n = write(t->fd, t->buffer, t->used);
	while (n < 0 && errno == EINTR);
	t->failed = n < 0 && errno != EAGAIN;
	if (n <= 0)
		return;
	t->used -= (size_t)n;
	memmove(t->buffer, t->buffer + n, t->used);
}

/* A pipe without a reader is not the program's business, nor is the signal of it. */
static void write_pipe(struct tracer *t)
{
	struct pollfd p = { .fd = t->fd, .events = POLLOUT };
	sigset_t ours, old, pending;
	int left, patience;
	bool was_pending;

	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &ours, &old);
	write_some(t);
	left = patience = t->is_behind || clock_now() < t->wait_at ? 0 : PATIENCE_MS;
	for (; t->used && !t->failed && left > 0; left--) {
		if (poll(&p, 1, 1) > 0)
			write_some(t);
	}
	if (left < patience)
		t->wait_at = clock_now() + WTIME_S;
	t->is_behind = t->used;
	if (t->failed && !was_pending)
		sigtimedwait(&ours, NULL, &(struct timespec){ 0 });
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void tracer_flush(struct tracer *t)
{
	if (t->used == 0 || t->failed)
		return;
	if (!is_ours(t)) {
		t->failed = true;
		t->fd = -1;
		return;
	}
	if (t->is_pipe)
		write_pipe(t);
	else
		write_file(t);
}

static void put(struct tracer *t, struct trace_record *r)
{
	r->pid = t->pid;
	t->used += trace_put(r, t->buffer + t->used);
}

static bool has_room(struct tracer *t, uint32_t bytes)
{
	return t->used + TRACE_HEAD + bytes <= t->room;
}

void tracer_add(struct tracer *t, struct trace_record *r)
{
	struct trace_record lost = { .kind = TRACE_LOST, .time = r->time };

	if (!t->failed && !has_room(t, r->bytes + TRACE_HEAD))
		tracer_flush(t);
	if (t->failed)
		return;
	if (!has_room(t, r->bytes + TRACE_HEAD)) {
		t->lost++;
		return;
	}
	if (t->told != t->lost) {
		lost.to = t->told = t->lost;
		put(t, &lost);
	}
	put(t, r);
}
