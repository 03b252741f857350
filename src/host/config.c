/* The environment and the log's sink: lines go to the standard error, prefixed with the program's name and pid. */
#include "host/config.h"

#include "base/log.h"

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
	const char *profile = getenv("WEFT_PROFILE"), *remap = getenv("WEFT_REMAP");

	log_set_sink(print_line, NULL, level_of(getenv("WEFT_LOG")));
	copy_env(config.dir, sizeof(config.dir), "WEFT_DIR");
	copy_env(config.path, sizeof(config.path), "WEFT_PATH");
	/* a profile is of packets */
	if (profile && !*config.path)
		strcpy(config.path, "packet");
	config.remap_bytes = remap ? strtoull(remap, NULL, 10) : 0;
	copy_env(config.devices, sizeof(config.devices), "WEFT_DEVICES");
	copy_env(config.impair, sizeof(config.impair), "WEFT_IMPAIR");
	copy_env(config.trace, sizeof(config.trace), "WEFT_TRACE");
	/* frames to impair or to trace exist only on the packet path */
	if (*config.impair || *config.trace)
		strcpy(config.path, "packet");
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

bool config_lists(const char *list, const char *name)
{
	size_t length = strlen(name);

	if (!*list)
		return true;
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}
