/* Every single and double fault of an exchange over a path of the simulator. */
#ifndef WEFT_TESTS_FAULT_SWEEP_H
#define WEFT_TESTS_FAULT_SWEEP_H

#include "mad_path.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fault_sweep {
	int kind, kinds;		/* of exchanges: the first one, and how many */
	int from, datagrams;		/* of an exchange, that have a fault: the first one; how many, beyond its end */
	wtime hold_ns;			/* longer than a timer that sends again */
	wtime late_ns[2];		/* longer than a round trip; longer than such a timer */
	void (*run)(const struct mad_path_config *path, int kind);
};

static inline bool sweep_is_late(enum mad_fault fault)
{
	return fault == MAD_DELAYED || fault == MAD_REPEATED_LATE;
}

/* As late as each of late_ns, where something is late. */
static inline void sweep_run(const struct fault_sweep *s, int a, enum mad_fault fa, int b, enum mad_fault fb)
{
	struct mad_path_config path = { .delay_ns = WTIME_MS, .each_ns = 1000, .hold_ns = s->hold_ns, .fault_at = { a, b },
					.fault = { fa, fb } };

	for (int i = 0; i < 1 + (sweep_is_late(fa) || sweep_is_late(fb)); i++) {
		path.late_ns = s->late_ns[i];
		for (int k = 0; k < s->kinds; k++)
			s->run(&path, s->kind + k);
	}
}

static inline void sweep_faults(const struct fault_sweep *s)
{
	int end = s->from + s->datagrams;

	for (int a = s->from; a < end; a++)
		for (enum mad_fault fa = MAD_DROPPED; fa < MAD_FAULTS; fa++) {
			sweep_run(s, a, fa, -1, MAD_PASSES);
			for (int b = a + 1; b < end; b++)
				for (enum mad_fault fb = MAD_DROPPED; fb < MAD_FAULTS; fb++)
					sweep_run(s, a, fa, b, fb);
		}
}

/* Nothing is wrong but that one comes twice. */
static inline bool sweep_is_copy_alone(const struct mad_path_config *c)
{
	return c->fault[0] >= MAD_REPEATED && c->fault[1] == MAD_PASSES;
}

/* One that is swapped alone is overtaken, be it the last one, or an ACK that another one follows after a round trip. */
static inline void sweep_check(const struct mad_path *p)
{
	const struct mad_path_config *c = &p->config;

	if (c->fault[0] == MAD_SWAPPED && c->fault[1] == MAD_PASSES && (uint64_t)c->fault_at[0] < p->sent[0] + p->sent[1])
		assert_int_equal(p->overtaken[0] + p->overtaken[1], 1);
}

#endif
