/* What the figures depend on: the processor, the kernel, the versions of all that is measured, and other load. */
#ifndef WEFT_BENCH_MACHINE_H
#define WEFT_BENCH_MACHINE_H

#include "bench/trial.h"

enum { MACHINE_FACTS = 24, MACHINE_TEXT = 400 };

struct machine {
	struct {
		const char *name;
		char text[MACHINE_TEXT];
	} fact[MACHINE_FACTS];
	int facts;
	bool is_busy;	/* with something else, when the run began, or its CPUs were taken away */
	unsigned long long stolen, ticks;	/* of /proc/stat, when the run began */
};

void machine_describe(struct machine *m, const struct trial *t);

/* After the run: what of the CPUs' time went to other virtual machines. */
void machine_conclude(struct machine *m);

/* Two CPUs that we may use, of different cores where there are such. False when there is only one. */
bool machine_choose_cpus(int cpu[2]);

#endif
