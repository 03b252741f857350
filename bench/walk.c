/* What a walk through a fabric costs: the whole way anew, and again when nothing changed.
 * usage: walk KIND [NAME=VALUE]... as weft fabric make takes them; ROUNDS=N in front for fewer or more than a million. */
#include "fabric/generate.h"
#include "fabric/route.h"
#include "fabric/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static bool make(struct fabric *f, int argc, char **argv)
{
	struct topology t;
	char why[300] = "no memory";
	void *mapping;

	topology_init(&t);
	if (argc < 1 || generate(&t, argv[0], (unsigned)(argc - 1), argv + 1, why, sizeof(why)))
		return fprintf(stderr, "walk: %s\n", argc < 1 ? "no KIND" : why), false;
	mapping = calloc(1, fabric_bytes(&t));
	if (!mapping)
		return false;
	fabric_format(mapping, &t);
	if (fabric_open(f, mapping, fabric_bytes(&t), why, sizeof(why)) || fabric_route(f, ROUTE_MIN_HOP))
		return fprintf(stderr, "walk: %s\n", why), false;
	topology_fini(&t);
	fabric_activate(f);
	return true;
}

/* The ports of the first and of the last host. */
static bool find_ends(const struct fabric *f, uint32_t *first, uint32_t *last)
{
	*first = PORT_NONE;
	for (uint32_t p = 0; p < f->ports; p++) {
		if (fabric_is_switch(f, f->owner[p]) || !f->port[p].lid)
			continue;
		*first = *first == PORT_NONE ? p : *first;
		*last = p;
	}
	return *first != PORT_NONE;
}

static void report(const char *what, double ns, long rounds)
{
	printf("%-32s %6.1f ns\n", what, ns / (double)rounds);
}

int main(int argc, char **argv)
{
	struct walk_packet p = { .pkey = PKEY_DEFAULT, .switches = SWITCHES_MOST };
	struct walk_route r = { 0 };
	unsigned reached = 0;
	long rounds = 1000000;
	struct fabric f;
	uint32_t last = PORT_NONE;
	double start;

	if (argc > 1 && !strncmp(argv[1], "ROUNDS=", 7)) {
		rounds = strtol(argv[1] + 7, NULL, 10);
		argc--;
		argv++;
	}
	if (!make(&f, argc - 1, argv + 1) || !find_ends(&f, &p.from, &last))
		return 1;
	p.dlid = f.port[last].lid;
	start = now_ns();
	for (long i = 0; i < rounds; i++)
		reached += fabric_walk(&f, &p, &r) == WALK_DELIVERED;
	report("a walk", now_ns() - start, rounds);
	start = now_ns();
	for (long i = 0; i < rounds; i++)
		reached += fabric_walk_again(&f, &r) == WALK_DELIVERED;
	report("the same, nothing changed", now_ns() - start, rounds);
	printf("%u links; %s\n", r.links, reached == 2 * rounds ? "delivered" : "not delivered");
	return 0;
}
