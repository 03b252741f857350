/* What an administrator may choose of the seed's subnet administration, as text: NAME=VALUE (RMP-12, RMP-31, RMP-61). */
#ifndef WEFT_MGMT_SA_TUNABLES_H
#define WEFT_MGMT_SA_TUNABLES_H

#include "mgmt/sa_server.h"

#include <stddef.h>

enum { SA_TUNABLE_LSB_FIRST, SA_TUNABLE_HEEDS_WINDOW, SA_TUNABLE_TRUSTED_KEY, SA_TUNABLE_LONGEST_KB, SA_TUNABLES };

struct sa_tunables {
	uint64_t value[SA_TUNABLES];	/* trusted key: 0: by the seed's rule none is */
};

/* The seed's own rules. */
extern const struct sa_tunables sa_defaults;

/* i < SA_TUNABLES. */
const char *sa_tunable_name(unsigned i);

/* Changes what one NAME=VALUE of any bytes names. 0; -ENOENT: no such name; -EINVAL: no text of this form, or no such value: *t
 * is as it was. */
int sa_tunables_parse(struct sa_tunables *t, const char *text, size_t bytes);

/* Of transactions that begin and answers that are gathered from now on, and of all keys. */
void sa_tunables_apply(const struct sa_tunables *t, struct sa_server *s);

#endif
