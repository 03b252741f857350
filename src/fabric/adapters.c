#include "fabric/adapters.h"

#include "base/natural.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct adapter {
	char text[NODE_DESCRIPTION + 1];	/* copied: it may change in the mapping */
	uint32_t node;
};

size_t adapters_host(const char *description)
{
	const char *space = strchr(description, ' ');

	return space && space != description && space[1] && !strchr(space + 1, ' ') ? (size_t)(space - description) : 0;
}

static size_t copy(const struct fabric *f, uint32_t node, struct adapter *to)
{
	memcpy(to->text, f->node[node].description, NODE_DESCRIPTION);
	to->text[NODE_DESCRIPTION] = '\0';
	to->node = node;
	return f->place[node].type == NODE_CA && f->place[node].ports ? adapters_host(to->text) : 0;
}

/* Adapters of one host are neighbours: a space comes before all that a name has. */
static int by_text(const void *a, const void *b)
{
	const struct adapter *one = a, *other = b;
	size_t host = adapters_host(one->text);
	int order = strncmp(one->text, other->text, host + 1);

	if (!order)
		order = natural_compare(one->text + host, other->text + host);
	return order ? order : one->node < other->node ? -1 : one->node > other->node;
}

static bool is_next(const struct adapter *last, const struct adapter *a)
{
	size_t host = adapters_host(a->text);

	return adapters_host(last->text) == host && !memcmp(last->text, a->text, host) && strcmp(last->text, a->text) != 0;
}

/* Of two with the same description the second is a host of its own. */
static void join(struct fabric *f, const struct adapter *all, size_t n)
{
	const struct adapter *last = all;

	for (size_t i = 1; i < n; i++) {
		if (is_next(last, &all[i])) {
			f->place[last->node].next = all[i].node;
			f->place[all[i].node].host = f->place[last->node].host;
		}
		if (strcmp(last->text, all[i].text) != 0)
			last = &all[i];
	}
}

int adapters_join(struct fabric *f)
{
	struct adapter one, *all;
	size_t n = 0, most;

	for (uint32_t i = 0; i < f->nodes; i++) {
		f->place[i].host = i;
		f->place[i].next = NODE_NONE;
		n += copy(f, i, &one) > 0;
	}
	if (n < 2)
		return 0;
	most = n;
	all = malloc(most * sizeof(*all));
	if (!all)
		return -ENOMEM;
	n = 0;
	for (uint32_t i = 0; i < f->nodes && n < most; i++)
		n += copy(f, i, &all[n]) > 0;
	qsort(all, n, sizeof(*all), by_text);
	join(f, all, n);
	free(all);
	return 0;
}
