#include "cli/faults.h"

#include "cli/daemon.h"
#include "cli/network.h"
#include "impair/impair.h"
#include "impair/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FAULTS_PATH = 512 };	/* what runtime/config.h has room for */

static bool any_reorders(const struct impair_spec *spec)
{
	for (unsigned device = 0; device < IMPAIR_DEVICES; device++)
		if (impair_reorders(spec, device))
			return true;
	return false;
}

static bool put(char to[IMPAIR_TEXT], size_t *at, const char *text, size_t bytes)
{
	if (bytes >= IMPAIR_TEXT - *at)
		return false;
	memcpy(to + *at, text, bytes);
	to[*at += bytes] = '\0';
	return true;
}

/* "mlx5_1.in.loss=5%" with the device's name as programs know it, weft1: by its index. False: it is too long. */
static bool name_by_index(const struct control_table *t, const char *text, char to[IMPAIR_TEXT])
{
	size_t at = 0;

	to[0] = '\0';
	while (*text) {
		size_t length = strcspn(text, ".,="), part = strcspn(text, ",");
		uint32_t device = text[length] == '.' ? control_table_find(t, text, length) : t->devices;
		char name[16];

		if (device < t->devices) {
			snprintf(name, sizeof(name), "weft%u.", device);
			if (!put(to, &at, name, strlen(name)))
				return false;
			text += length + 1;
			continue;
		}
		/* of a part in.mlx5_1.loss=5% the device comes second */
		length = text[length] == '.' ? length + 1 : part + (text[part] == ',');
		if (!put(to, &at, text, length))
			return false;
		text += length;
	}
	return true;
}

int faults_too_long(void)
{
	return cli_fail("give fewer faults at once", "the faults are too long: with their seed they have at most %d characters",
			IMPAIR_TEXT - 1);
}

/* EXIT_OK, or EXIT_USAGE with a message. */
static int read_faults(const struct cli_options *o, struct impair_spec *spec, char named[IMPAIR_TEXT])
{
	struct control_table t;
	char why[256];

	network_names(o, &t);
	if (!name_by_index(&t, o->impair, named)) {
		faults_too_long();
		return EXIT_USAGE;
	}
	if (impair_parse(named, spec, why, sizeof(why))) {
		cli_fail("weft-run(1) lists the faults", "--impair %s: %s", o->impair, why);
		return EXIT_USAGE;
	}
	if (!(spec->named >> t.devices))
		return EXIT_OK;
	cli_fail("weft devices lists the devices", "--impair %s names another", o->impair);
	return EXIT_USAGE;
}

int faults_by_index(const struct cli_options *o, char to[IMPAIR_TEXT])
{
	struct impair_spec spec;

	return read_faults(o, &spec, to);
}

int faults_check(const struct cli_options *o, const struct ib_options *profile)
{
	struct impair_spec spec;
	char named[IMPAIR_TEXT];

	if (!o->impair)
		return EXIT_OK;
	if (read_faults(o, &spec, named))
		return EXIT_USAGE;
	if (!profile || profile->ack_mode != IB_ACK_COALESCED || !any_reorders(&spec))
		return EXIT_OK;
	cli_fail("ack=packet goes with it", "one ACK for several packets (--profile %s) needs a network that keeps their order",
		 o->profile);
	return EXIT_USAGE;
}

int faults_seed(const struct cli_options *o, char to[IMPAIR_TEXT])
{
	struct impair_spec spec;
	char text[IMPAIR_TEXT];
	uint32_t seed;

	if (read_faults(o, &spec, text))
		return EXIT_FAILED;
	if (spec.has_seed)
		return strcpy(to, text), EXIT_OK;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return cli_fail(NULL, "no random number: %s", strerror(errno));
	if (impair_set_seed(text, seed, to, IMPAIR_TEXT))
		return cli_fail("give it a seed", "--impair is too long");
	fprintf(stderr, "weft: impaired with seed=%u\n", seed);
	return EXIT_OK;
}

static int set_impair(const struct cli_options *o)
{
	char seeded[IMPAIR_TEXT];
	int status = faults_seed(o, seeded);

	if (status != EXIT_OK)
		return status;
	return setenv("WEFT_IMPAIR", seeded, 1) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}

/* False when the file has content which --trace would destroy and that is no trace of an earlier run. */
static bool is_trace_or_new(const char *path)
{
	static uint8_t begin[TRACE_RECORD_MOST];
	struct trace_record record;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size == 0;
	n = fstat(fd, &st) || !S_ISREG(st.st_mode) ? 0 : read(fd, begin, sizeof(begin));
	close(fd);
	return n == 0 || (n > 0 && trace_get(&record, begin, (size_t)n) > 0 && record.kind == TRACE_PROCESS);
}

/* Empties the file, unless programs of another weft run are writing to it: they hold the lock, as ours will, by the descriptor
 * that they inherit. */
static int begin_trace(int fd, const char *path)
{
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			fprintf(stderr, "weft: another weft run is writing to %s: what is recorded now is added to it\n", path);
	} else if (ftruncate(fd, 0) && errno != EINVAL) {	/* EINVAL: a pipe or a device */
		return cli_fail(NULL, "--trace %s: %s", path, strerror(errno));
	}
	flock(fd, LOCK_SH);
	return fd_park(fd) < 0 ? cli_fail(NULL, "--trace %s: %s", path, strerror(errno)) : EXIT_OK;
}

static int set_trace(const char *path)
{
	char absolute[PATH_MAX];
	int fd = is_trace_or_new(path) ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -EEXIST;

	if (fd == -EEXIST)
		return cli_fail("take another name, or remove the file", "--trace %s: the file is there and is no trace", path);
	if (fd < 0)
		return cli_fail(NULL, "--trace %s: %s", path, strerror(errno));
	if (begin_trace(fd, path))
		return EXIT_FAILED;
	if (!realpath(path, absolute) || strlen(absolute) >= FAULTS_PATH)
		return cli_fail("take a shorter path", "--trace %s cannot be used", path);
	return setenv("WEFT_TRACE", absolute, 1) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}

int faults_set(const struct cli_options *o)
{
	int status = o->impair ? set_impair(o) : EXIT_OK;

	return status == EXIT_OK && o->trace ? set_trace(o->trace) : status;
}
