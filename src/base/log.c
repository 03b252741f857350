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
static void (*bug_sink)(const char *line);

void log_set_sink(log_sink sink, void *arg, enum log_level level)
{
	out.sink = sink;
	out.arg = arg;
	out.level = level;
}

bool log_hears(enum log_level level)
{
	return out.sink && level <= out.level;
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
	char text[1001];

	atomic_fetch_add(&bugs, 1);
	snprintf(text, sizeof(text), "bug: %s at %s:%d", what, file, line);
	log_line(LOG_ERROR, "%s", text);
	if (bug_sink)
		bug_sink(text);
#ifdef WEFT_DEBUG
	abort();
#endif
}

void log_set_bug_sink(void (*sink)(const char *line))
{
	bug_sink = sink;
}

uint64_t log_bugs(void)
{
	return atomic_load(&bugs);
}
