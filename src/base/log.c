/* The process's one log sink and the count of our own faults. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
	log_sink sink;
	void *arg;
	enum log_level level;
} out;

static _Atomic uint64_t bugs;

void log_set_sink(log_sink sink, void *arg, enum log_level level)
{
	out.sink = sink;
	out.arg = arg;
	out.level = level;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[1001];
	va_list args;

	if (!out.sink || level > out.level)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	out.sink(out.arg, level, line);
}

void log_bug(const char *what, const char *file, int line)
{
	atomic_fetch_add(&bugs, 1);
	log_line(LOG_ERROR, "bug: %s at %s:%d", what, file, line);
#ifdef WEFT_DEBUG
	abort();
#endif
}

uint64_t log_bugs(void)
{
	return atomic_load(&bugs);
}
