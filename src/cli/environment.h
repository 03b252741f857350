/* What a program needs in its environment to see weft's devices: our library before the distribution's, the shim, and
 * where weftd is. */
#ifndef WEFT_CLI_ENVIRONMENT_H
#define WEFT_CLI_ENVIRONMENT_H

#include "cli/cli.h"
#include "cli/daemon.h"

/* Are our libraries there, and can they be named in LD_PRELOAD? EXIT_OK, or EXIT_FAILED with a message. */
int environment_check(const struct places *p);

/* The argument of --shared-heap and --remap: 4096 or more, with k, m or g; empty: otherwise. 0: it is neither. */
unsigned long long environment_bytes(const char *text, unsigned long long otherwise);

/* The host at which programs are to be, of --node or of who started us; NULL: none. */
const char *environment_node(const struct cli_options *o);
/* The devices that --device or the environment names, by bits; 0: all. */
uint32_t environment_devices(const struct cli_options *o);

/* weftd makes no device files of one more choice of devices: says so. An exit status. */
int environment_refused_choice(void);

/* Connects to weftd, as daemon_keep does or for a lease, and has it make the device files of programs at the hosts that the
 * options name, or of those that are nowhere in a fabric. A weftd that is killed while it is asked is followed by the next one.
 * *socket: the caller's; *at: for environment_set. An exit status; what went wrong is told. */
int environment_place(const struct cli_options *o, const struct rundir *d, bool keep, int *socket, uint32_t *at);

/* Sets the variables of this process as the options of weft run say. at: of environment_node's host in the fabric (fabric_net.h),
 * or 0: none. 0 or -errno. */
int environment_set(const struct cli_options *o, const struct places *p, const struct rundir *d, uint32_t at);

#endif
