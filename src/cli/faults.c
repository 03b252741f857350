#include "cli/faults.h"

#include "link/impair.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { FAULTS_PATH = 512 };	/* what host/config.h has room for */

int faults_check(const struct cli_options *o, const struct ib_options *profile)
{
	struct impair_spec spec;
	char why[256];

	if (!o->impair)
		return EXIT_OK;
	if (impair_parse(o->impair, &spec, why, sizeof(why))) {
		cli_fail("man weft-run tells the faults", "--impair %s: %s", o->impair, why);
		return EXIT_USAGE;
	}
	if (profile->ack_mode != IB_ACK_COALESCED || (!impair_reorders(&spec, PACKET_IB) && !impair_reorders(&spec, PACKET_ROCE)))
		return EXIT_OK;
	cli_fail("ack=packet goes with it", "one ACK for several packets (--profile %s) needs a network that keeps their order",
		 o->profile);
	return EXIT_USAGE;
}

static int set_impair(const char *text)
{
	char seeded[IMPAIR_TEXT], why[256];
	struct impair_spec spec;
	uint32_t seed;

	if (impair_parse(text, &spec, why, sizeof(why)))
		return cli_fail(NULL, "%s", why);
	if (spec.has_seed)
		return setenv("WEFT_IMPAIR", text, 1) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return cli_fail(NULL, "no random number: %s", strerror(errno));
	if (snprintf(seeded, sizeof(seeded), "%s,seed=%u", text, seed) >= (int)sizeof(seeded))
		return cli_fail("give it a seed", "--impair is too long");
	fprintf(stderr, "weft: impaired with seed=%u\n", seed);
	return setenv("WEFT_IMPAIR", seeded, 1) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}

static int set_trace(const char *path)
{
	char absolute[PATH_MAX];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0)
		return cli_fail(NULL, "--trace %s: %s", path, strerror(errno));
	close(fd);
	if (!realpath(path, absolute) || strlen(absolute) >= FAULTS_PATH)
		return cli_fail("take a shorter path", "--trace %s cannot be used", path);
	return setenv("WEFT_TRACE", absolute, 1) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}

int faults_set(const struct cli_options *o)
{
	int status = o->impair ? set_impair(o->impair) : EXIT_OK;

	return status == EXIT_OK && o->trace ? set_trace(o->trace) : status;
}
