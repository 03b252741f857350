/* The adapter's counters, made from counters.def: a member each, and a name and a description by position. Plain words:
 * the owner's lock guards them. */
#ifndef WEFT_BASE_COUNTERS_H
#define WEFT_BASE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

struct counters {
#define COUNTER(name, text) uint64_t name;
#include "base/counters.def"
#undef COUNTER
};

enum { COUNTERS = sizeof(struct counters) / sizeof(uint64_t) };

/* The position of one of them. */
#define COUNTER_INDEX(name) ((unsigned)(offsetof(struct counters, name) / sizeof(uint64_t)))

/* i < COUNTERS, in the order of the struct. */
const char *counters_name(unsigned i);
const char *counters_text(unsigned i);
uint64_t counters_value(const struct counters *c, unsigned i);

#endif
