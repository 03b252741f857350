/* The tunables of receive buffers as text: NAME=VALUE, with commas between them (GSA-07, GSA-39). */
#ifndef WEFT_MGMT_GSA_TUNABLES_H
#define WEFT_MGMT_GSA_TUNABLES_H

#include "mgmt/gsa.h"

#include <stddef.h>

enum {
#define TUNABLE(member, name) GSA_TUNABLE_##member,
#include "mgmt/gsa_tunable.def"
#undef TUNABLE
	GSA_TUNABLE_PERIOD,		/* in ms */
	GSA_TUNABLES,
};

/* i < GSA_TUNABLES. */
const char *gsa_tunable_name(unsigned i);
uint64_t gsa_tunable_get(const struct gsa_tunables *t, unsigned i);

/* Changes what the text names, of any bytes, and leaves the rest. 0; -ENOENT: no such name; -EINVAL: no text of this form, or a
 * value that is no number of 32 bits: *t is as it was. Whether the numbers make sense together, gsa_set says. */
int gsa_tunables_parse(struct gsa_tunables *t, const char *text, size_t bytes);

/* A number in decimal digits, of so much at most, which is less than 2^63. 0 or -EINVAL: it is none. */
int gsa_tunables_number(const char *text, size_t bytes, uint64_t most, uint64_t *number);

#endif
