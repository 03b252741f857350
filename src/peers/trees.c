#include "peers/trees.h"

#include <errno.h>
#include <stdlib.h>

static void forget(struct trees *t)
{
	while (t->trees) {
		struct tree *tree = &t->tree[--t->trees];

		free(tree->reached);
		free(tree->out);
		free(tree->drop);
	}
}

void trees_fini(struct trees *t)
{
	forget(t);
	walk_group_fini(&t->walk);
	*t = (struct trees){ 0 };
}

/* The sender's port is reached too: its other processes hear what it sends (IBA 10.5.2.2). */
static void fill(struct tree *tree, const struct fabric *f, const struct walk_packet *p, const struct walk_group *g)
{
	tree->reached[p->from / 64] |= 1ull << p->from % 64;
	for (uint32_t i = 0; i < g->ports; i++) {
		uint32_t port = g->port[i];

		if (fabric_find_pkey(f, port, p->pkey) >= 0)
			tree->reached[port / 64] |= 1ull << port % 64;
	}
	for (uint32_t i = 0; i < g->links; i++)
		tree->out[tree->links++] = g->out[i];
	for (uint32_t i = 0; i < g->dropped; i++) {
		enum traffic_count count = traffic_drop(g->drop[i].why);

		if (count != TRAFFIC_COUNTS)
			tree->drop[tree->drops++] = (struct tree_drop){ g->drop[i].at, count };
	}
}

static int make(struct tree *tree, const struct fabric *f, const struct walk_packet *p, const struct walk_group *g)
{
	*tree = (struct tree){ .dlid = p->dlid, .pkey = p->pkey, .sl = p->sl };
	tree->reached = calloc(f->ports / 64 + 1, sizeof(*tree->reached));
	tree->out = calloc(g->links + 1, sizeof(*tree->out));
	tree->drop = calloc(g->dropped + 1, sizeof(*tree->drop));
	if (!tree->reached || !tree->out || !tree->drop) {
		free(tree->reached);
		free(tree->out);
		free(tree->drop);
		return -ENOMEM;
	}
	fill(tree, f, p, g);
	return 0;
}

const struct tree *trees_find(struct trees *t, uint64_t generation, const struct fabric *f, const struct walk_packet *p)
{
	if (t->generation != generation)
		forget(t);
	t->generation = generation;
	for (uint32_t i = 0; i < t->trees; i++) {
		const struct tree *tree = &t->tree[i];

		if (tree->dlid == p->dlid && tree->sl == p->sl && tree->pkey == p->pkey)
			return tree;
	}
	if (p->from >= f->ports)
		return NULL;
	if (!t->walk.port && walk_group_init(&t->walk, f)) {
		walk_group_fini(&t->walk);
		return NULL;
	}
	if (t->trees == TREES_MOST)
		forget(t);
	fabric_walk_group(f, p, &t->walk);
	return make(&t->tree[t->trees], f, p, &t->walk) ? NULL : &t->tree[t->trees++];
}

void tree_pass(struct traffic_block *all, const struct tree *t, const struct wire_load *load)
{
	for (uint32_t i = 0; i < t->links; i++) {
		struct traffic_block *block = &all[t->out[i]];

		traffic_add(block, TRAFFIC_WORDS, load->words);
		traffic_add(block, TRAFFIC_PACKETS, load->packets);
		traffic_add(block, TRAFFIC_MULTICAST, load->packets);
	}
	for (uint32_t i = 0; i < t->drops; i++)
		traffic_add(&all[t->drop[i].at], t->drop[i].count, load->packets);
}
