/* What the code says about itself: lines for a log, and weft_bug_on for our own faults. The sink is injected by whoever
 * owns the process; without one, lines go nowhere. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

typedef void (*log_sink)(void *arg, enum log_level level, const char *line);

/* Lines up to `level` go to the sink, one call a line, without newline. NULL turns the log off. Not thread-safe: set it once. */
void log_set_sink(log_sink sink, void *arg, enum log_level level);

/* Does anybody hear lines of this level? */
bool log_hears(enum log_level level);
/* Lines are cut at 1000 bytes. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True when cond holds, which only a fault of ours can bring about. Debug builds (WEFT_DEBUG) log and abort; release
 * builds log, count and return true, so that the caller can put the object concerned into its error state. */
#define weft_bug_on(cond) log_bug_if(!!(cond), #cond, __FILE__, __LINE__)

void log_bug(const char *what, const char *file, int line) __attribute__((cold));

static inline bool log_bug_if(bool is_bug, const char *what, const char *file, int line)
{
	if (__builtin_expect(is_bug, 0))
		log_bug(what, file, line);
	return is_bug;
}

/* Where each failed check is told besides the sink, in one line without newline; NULL: nowhere. Set it once. */
void log_set_bug_sink(void (*sink)(const char *line));

/* How many times weft_bug_on held. */
uint64_t log_bugs(void);

#endif
