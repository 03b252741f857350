#include "cli/partition.h"

#include "cli/daemon.h"
#include "cli/faults.h"
#include "cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char setting[] = "partition=", pid_word[] = "pid:";

struct text {
	char *at;
	size_t room;
};

/* False: there is no room. */
static bool put(struct text *t, const char *from, size_t bytes)
{
	if (bytes >= t->room)
		return false;
	memcpy(t->at, from, bytes);
	t->at += bytes;
	t->room -= bytes;
	*t->at = '\0';
	return true;
}

/* Every slot that is the process's, and its number. */
static bool put_process(struct text *t, const json_t *process)
{
	const json_t *slot;
	char word[64];
	size_t i;

	json_array_foreach(json_object_get(process, "owned_slots"), i, slot) {
		snprintf(word, sizeof(word), "slot:%lld+", (long long)json_integer_value(slot));
		if (!put(t, word, strlen(word)))
			return false;
	}
	snprintf(word, sizeof(word), "process:%lld", output_number(process, "number"));
	return put(t, word, strlen(word));
}

static const json_t *find(const json_t *status, const char *word)
{
	char *end;
	long long pid = strtoll(word, &end, 10);
	const json_t *p;
	size_t i;

	json_array_foreach(json_object_get(status, "processes"), i, p)
		if (end != word && !*end && output_number(p, "pid") == pid)
			return p;
	return NULL;
}

/* "pid:7+lid:4", up to `end`. An exit status. */
static int put_peers(struct text *t, const json_t *status, const char *peers, const char *end)
{
	for (const char *next; peers < end; peers = next) {
		size_t bytes = strcspn(peers, "+,");
		bool is_pid = strncmp(peers, pid_word, strlen(pid_word)) == 0;
		char word[32];
		const json_t *p;

		next = peers + bytes + (peers[bytes] == '+');
		snprintf(word, sizeof(word), "%.*s", (int)bytes, peers);
		p = is_pid ? find(status, word + strlen(pid_word)) : NULL;
		if (is_pid && !p)
			return cli_fail("weft status lists the processes that are", "process %s is not attached",
					word + strlen(pid_word));
		if (!(is_pid ? put_process(t, p) : put(t, peers, bytes)) || (next > peers + bytes && !put(t, "+", 1)))
			return faults_too_long();
	}
	return EXIT_OK;
}

static int resolve(const json_t *status, const char *faults, struct text *t)
{
	int err = EXIT_OK;

	while (*faults && err == EXIT_OK) {
		const char *end = faults + strcspn(faults, ","), *value = strstr(faults, setting);

		if (value && value < end) {
			value += strlen(setting);
			if (!put(t, faults, (size_t)(value - faults)))
				return faults_too_long();
			err = put_peers(t, status, value, end);
		} else if (!put(t, faults, (size_t)(end - faults))) {
			return faults_too_long();
		}
		faults = end;
		if (*faults && !put(t, faults++, 1))
			return faults_too_long();
	}
	return err;
}

static json_t *ask(const struct cli_options *o)
{
	struct rundir d;
	int fd;

	if (daemon_directory(o->system, &d))
		return NULL;
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT)
		return json_object();
	return fd < 0 ? NULL : daemon_status(fd);
}

int partition_resolve(const struct cli_options *o, const char *faults, char *to, size_t room)
{
	struct text t = { to, room };
	json_t *status;
	int err;

	*to = '\0';
	if (!strstr(faults, pid_word))
		return put(&t, faults, strlen(faults)) ? EXIT_OK : faults_too_long();
	status = ask(o);
	if (!status)
		return EXIT_FAILED;
	err = resolve(status, faults, &t);
	json_decref(status);
	return err;
}
