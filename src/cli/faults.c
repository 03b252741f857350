#include "cli/faults.h"

#include "cli/daemon.h"
#include "control/protocol.h"
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

int faults_check(const struct cli_options *o, const struct ib_options *profile)
{
	struct impair_spec spec;
	char why[256];

	if (!o->impair)
		return EXIT_OK;
	if (impair_parse(o->impair, &spec, why, sizeof(why))) {
		cli_fail("weft-run(1) lists the faults", "--impair %s: %s", o->impair, why);
		return EXIT_USAGE;
	}
	if (spec.named >> CONTROL_DEVICES) {
		cli_fail("weft devices lists the devices", "--impair %s names another", o->impair);
		return EXIT_USAGE;
	}
	if (!profile || profile->ack_mode != IB_ACK_COALESCED || !any_reorders(&spec))
		return EXIT_OK;
	cli_fail("ack=packet goes with it", "one ACK for several packets (--profile %s) needs a network that keeps their order",
		 o->profile);
	return EXIT_USAGE;
}

int faults_seed(const char *text, char to[IMPAIR_TEXT])
{
	struct impair_spec spec;
	char why[256];
	uint32_t seed;

	if (impair_parse(text, &spec, why, sizeof(why)))
		return cli_fail(NULL, "%s", why);
	if (spec.has_seed)
		return snprintf(to, IMPAIR_TEXT, "%s", text), EXIT_OK;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return cli_fail(NULL, "no random number: %s", strerror(errno));
	if (impair_set_seed(text, seed, to, IMPAIR_TEXT))
		return cli_fail("give it a seed", "--impair is too long");
	fprintf(stderr, "weft: impaired with seed=%u\n", seed);
	return EXIT_OK;
}

static int set_impair(const char *text)
{
	char seeded[IMPAIR_TEXT];
	int status = faults_seed(text, seeded);

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
	int status = o->impair ? set_impair(o->impair) : EXIT_OK;

	return status == EXIT_OK && o->trace ? set_trace(o->trace) : status;
}
