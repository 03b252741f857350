/* Writes impair/trace.h's records into the file that all traced processes append to: whole blocks of whole records, so that
 * they do not mix. A process that is killed loses what it had not written, at most a buffer of it. Or into the pipe of
 * a capture: a reader that is slow is waited for up to a tenth of a second, and then what comes is lost and counted (TRACE_LOST)
 * until it reads again. */
#ifndef WEFT_RUNTIME_TRACER_H
#define WEFT_RUNTIME_TRACER_H

#include "impair/trace.h"

struct tracer;

/* Appends to an existing file and begins with the process's record. 0 or -errno, then the reason was logged. */
int tracer_create(const char *path, const struct trace_process *process, wtime now, struct tracer **tracer);
/* As tracer_create, into this pipe, which does not block and is the tracer's from now on, also on failure. */
int tracer_pipe(int fd, const struct trace_process *process, wtime now, struct tracer **tracer);
/* The file takes no more, or the reader is gone. */
bool tracer_is_over(const struct tracer *t);
/* Writes nothing any more. NULL is allowed. */
void tracer_destroy(struct tracer *t);

/* Fills in the pid. Blocks on the file now and then. */
void tracer_add(struct tracer *t, struct trace_record *r);
void tracer_flush(struct tracer *t);

#endif
