/* Any text as a topology: what is accepted becomes a sound fabric that can be routed, and is printed to a text that is read as
 * the same fabric. */
#include "fuzz.h"

#include "fabric/route.h"
#include "fabric/survey.h"
#include "fabric/topology_file.h"

#include <string.h>

struct printed {
	char *at;
	size_t length, room;
};

static void put(void *to, const char *text)
{
	struct printed *p = to;
	size_t more = strlen(text);

	if (p->length + more > p->room) {
		p->room = 2 * (p->length + more);
		p->at = realloc(p->at, p->room);
		REQUIRE(p->at);
	}
	memcpy(p->at + p->length, text, more);
	p->length += more;
}

/* The mapping, or NULL: refused. Large ones are left out, as routing them takes long. */
static void *load(const char *text, size_t size, struct fabric *f, size_t *bytes)
{
	struct topology_fault fault = { 0 };
	struct topology t;
	char why[256];
	void *mapping = NULL;

	topology_init(&t);
	if (topology_parse(&t, text, size, &fault)) {
		REQUIRE(*fault.text);
	} else if (t.nodes < 50) {
		*bytes = fabric_bytes(&t);
		mapping = calloc(1, *bytes);
		REQUIRE(mapping);
		fabric_format(mapping, &t);
		REQUIRE(!fabric_open(f, mapping, *bytes, why, sizeof(why)));
	}
	topology_fini(&t);
	return mapping;
}

static void route(struct fabric *f)
{
	for (int e = 0; e < ROUTE_ENGINES; e++) {
		struct survey s;

		REQUIRE(!fabric_route(f, (enum route_engine)e) && !survey(&s, f));
		REQUIRE(s.paths == s.reached + s.lost && !s.looping);
		REQUIRE(e != ROUTE_UP_DOWN || !s.has_credit_loop);
		survey_fini(&s);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct printed once = { 0 }, twice = { 0 };
	struct fabric f, again;
	size_t bytes, bytes_again;
	void *mapping = load((const char *)data, size, &f, &bytes), *mapping_again;

	if (!mapping)
		return 0;
	topology_print(&f, put, &once);
	mapping_again = load(once.at, once.length, &again, &bytes_again);
	REQUIRE(mapping_again && bytes == bytes_again && !memcmp(mapping, mapping_again, bytes));
	topology_print(&again, put, &twice);
	REQUIRE(once.length == twice.length && !memcmp(once.at, twice.at, once.length));
	route(&f);
	fabric_close(&f);
	fabric_close(&again);
	free(mapping);
	free(mapping_again);
	free(once.at);
	free(twice.at);
	return 0;
}
