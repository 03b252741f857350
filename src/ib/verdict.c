/* The rows of verdict.def. */
#include "ib/verdict.h"

#include "base/counters.h"

#include <stddef.h>

enum counter_index {
#define COUNTER(name, text) AT_##name,
#include "base/counters.def"
#undef COUNTER
	AT_NOT_COUNTED = -1,
};

#define NAK(code) (AETH_NAK << 5 | NAK_##code)

const struct verdict_row verdict_rows[VERDICTS] = {
#define VERDICT(name, counter, reply, syndrome, status, event, clause) \
	[VERDICT_##name] = { #name, clause, AT_##counter, reply, syndrome, status, event },
#include "ib/verdict.def"
#undef VERDICT
};
