#include "runtime/tracer.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 256 << 10 };	/* our choice: one system call for 60 full frames */

struct tracer {
	int fd;			/* owned */
	uint32_t pid;
	size_t used;
	bool failed;		/* the file takes no more: nothing is traced since */
	uint8_t buffer[BUFFER];
};

int tracer_create(const char *path, const struct trace_process *process, wtime now, struct tracer **tracer)
{
	struct trace_record r = { .kind = TRACE_PROCESS, .time = now };
	uint8_t text[sizeof(*process)];
	struct tracer *t = malloc(sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (t->fd < 0) {
		err = -errno;
		log_line(LOG_ERROR, "WEFT_TRACE: %s: %s", path, strerror(-err));
		free(t);
		return err;
	}
	t->pid = (uint32_t)getpid();
	t->used = 0;
	t->failed = false;
	r.bytes = trace_put_process(process, text);
	r.data = text;
	tracer_add(t, &r);
	*tracer = t;
	return 0;
}

void tracer_destroy(struct tracer *t)
{
	if (!t)
		return;
	close(t->fd);
	free(t);
}

void tracer_flush(struct tracer *t)
{
	ssize_t n;

	if (t->used == 0 || t->failed)
		return;
	do
		n = write(t->fd, t->buffer, t->used);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)t->used) {
		/* the rest would come after somebody else's records */
		t->failed = true;
		log_line(LOG_ERROR, "the trace ends here: %s", n < 0 ? strerror(errno) : "the file takes no more");
	}
	t->used = 0;
}

void tracer_add(struct tracer *t, struct trace_record *r)
{
	if (t->failed)
		return;
	if (t->used + TRACE_HEAD + r->bytes > sizeof(t->buffer))
		tracer_flush(t);
	r->pid = t->pid;
	t->used += trace_put(r, t->buffer + t->used);
}
