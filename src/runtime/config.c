/* The environment and the log's sink: lines go to the standard error, prefixed with the program's name and pid. */
#include "runtime/config.h"

#include "base/log.h"
#include "control/bugs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct config config;

static void print_line(void *arg, enum log_level level, const char *line)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };

	(void)arg;
	fprintf(stderr, "weft: %s[%d]: %s: %s\n", program_invocation_short_name, (int)getpid(), names[level], line);
}

static enum log_level level_of(const char *name)
{
	if (name && strcmp(name, "debug") == 0)
		return LOG_DEBUG;
	if (name && strcmp(name, "info") == 0)
		return LOG_INFO;
	if (name && strcmp(name, "warning") == 0)
		return LOG_WARNING;
	return LOG_ERROR;
}

static void copy_env(char *to, size_t room, const char *name)
{
	const char *value = getenv(name);

	if (value && strlen(value) < room)
		strcpy(to, value);
}

static void read_environment(void)
{
	const char *profile = getenv("WEFT_PROFILE"), *remap = getenv("WEFT_REMAP"), *engine = getenv("WEFT_ENGINE");

	log_set_sink(print_line, NULL, level_of(getenv("WEFT_LOG")));
	bugs_to_file();
	copy_env(config.dir, sizeof(config.dir), "WEFT_DIR");
	copy_env(config.node, sizeof(config.node), "WEFT_NODE");
	copy_env(config.path, sizeof(config.path), "WEFT_PATH");
	/* a profile is of packets */
	if (profile && !*config.path)
		strcpy(config.path, "packet");
	config.remap_bytes = remap ? strtoull(remap, NULL, 10) : 0;
	copy_env(config.devices, sizeof(config.devices), "WEFT_DEVICES");
	copy_env(config.impair, sizeof(config.impair), "WEFT_IMPAIR");
	copy_env(config.stats, sizeof(config.stats), "WEFT_STATS");
	copy_env(config.trace, sizeof(config.trace), "WEFT_TRACE");
	/* frames to impair or to trace exist only where there are packets */
	if ((*config.impair || *config.trace) && strcmp(config.path, "wire") != 0)
		strcpy(config.path, "packet");
	config.engine_apart = engine && strcmp(engine, "thread") == 0;
	if (engine && *engine && !config.engine_apart && strcmp(engine, "caller") != 0)
		log_line(LOG_ERROR, "WEFT_ENGINE=%s is not an engine: thread, caller; see man weft-run", engine);
	config.transport = ib_default_options;
	if (profile && ib_options_parse(profile, &config.transport))
		log_line(LOG_ERROR, "WEFT_PROFILE=%s is not a profile; see man weft-run", profile);
}

const struct config *config_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return &config;
}
