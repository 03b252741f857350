/* Fabrics for tests: from a text or a kind, in memory that ends where the mapping ends. */
#ifndef WEFT_TESTS_UNIT_FABRIC_H
#define WEFT_TESTS_UNIT_FABRIC_H

#include "fabric/fabric.h"
#include "fabric/generate.h"
#include "fabric/topology_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct test_fabric {
	struct fabric f;
	void *mapping;
	size_t bytes;
};

static inline void map_topology(struct test_fabric *t, struct topology *topology)
{
	char why[256] = "";

	t->bytes = fabric_bytes(topology);
	t->mapping = calloc(1, t->bytes);
	assert_non_null(t->mapping);
	fabric_format(t->mapping, topology);
	topology_fini(topology);
	if (fabric_open(&t->f, t->mapping, t->bytes, why, sizeof(why)))
		fail_msg("%s", why);
}

static inline void parse_fabric(struct test_fabric *t, const char *text)
{
	struct topology_fault fault;
	struct topology topology;

	topology_init(&topology);
	if (topology_parse(&topology, text, strlen(text), &fault))
		fail_msg("%u: %s", fault.line, fault.text);
	map_topology(t, &topology);
}

/* `settings` ends with a NULL. */
static inline void make_fabric(struct test_fabric *t, const char *kind, char *const settings[])
{
	struct topology topology;
	char why[300] = "";
	unsigned n = 0;

	while (settings[n])
		n++;
	topology_init(&topology);
	if (generate(&topology, kind, n, settings, why, sizeof(why)))
		fail_msg("%s: %s", kind, why);
	map_topology(t, &topology);
}

#define MAKE(t, kind, ...) make_fabric(t, kind, (char *const[]){ __VA_ARGS__, NULL })

static inline void end_fabric(struct test_fabric *t)
{
	fabric_close(&t->f);
	free(t->mapping);
}

/* The node with this description. */
static inline uint32_t node_named(const struct fabric *f, const char *name)
{
	for (uint32_t n = 0; n < f->nodes; n++) {
		if (!strcmp(f->node[n].description, name))
			return n;
	}
	fail_msg("there is no node %s", name);
	return 0;
}

static inline uint32_t port_named(const struct fabric *f, const char *name, unsigned number)
{
	return fabric_port_index(f, node_named(f, name), number);
}

/* Each switch of a ring sends the LID to the next one. */
static inline void send_round(struct fabric *f, unsigned switches, uint32_t lid)
{
	for (unsigned i = 1; i <= switches; i++) {
		char name[2][16];

		snprintf(name[0], sizeof(name[0]), "s%u", i);
		snprintf(name[1], sizeof(name[1]), "s%u", i % switches + 1);
		for (unsigned port = 1; port <= f->place[node_named(f, name[0])].ports; port++) {
			uint32_t peer = fabric_peer(f, port_named(f, name[0], port));

			if (peer != PORT_NONE && f->owner[peer] == node_named(f, name[1]))
				fabric_lft(f, node_named(f, name[0]))[lid] = (uint8_t)port;
		}
	}
}

/* A fabric as text, to be freed. */
struct test_text {
	char *at;
	size_t length;
};

static inline void put_text(void *to, const char *text)
{
	struct test_text *all = to;
	size_t more = strlen(text);

	all->at = realloc(all->at, all->length + more + 1);
	assert_non_null(all->at);
	memcpy(all->at + all->length, text, more + 1);
	all->length += more;
}

static inline char *print_fabric(const struct fabric *f)
{
	struct test_text all = { 0 };

	topology_print(f, put_text, &all);
	return all.at;
}

#endif
