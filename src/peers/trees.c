#include "peers/trees.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void release(struct tree *tree)
{
	free(tree->reached);
	free(tree->out);
	free(tree->drop);
	free(tree->parent);
	free(tree->is_lost);
	free(tree->passed);
	free(tree->got);
}

static void forget(struct trees *t)
{
	while (t->trees) {
		struct tree *tree = &t->tree[--t->trees];

		release(tree);
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
		enum traffic_count count = traffic_drop(f, g->drop[i].at, g->drop[i].why);

		if (count != TRAFFIC_COUNTS)
			tree->drop[tree->drops++] = (struct tree_drop){ g->drop[i].at, count };
	}
}

static bool has_faults(const struct tree *tree, const struct fabric *f)
{
	bool any = false;

	for (uint32_t i = 0; i < tree->links; i++)
		any |= FABRIC_READ(f->port[tree->out[i]].loss_ppm) || fabric_rate(f, tree->out[i]);
	return any;
}

/* The link by which copies come to the node that this one leaves; a walk finds it before. */
static uint32_t find_parent(const struct tree *tree, const struct fabric *f, uint32_t link)
{
	uint32_t node = f->owner[tree->out[link]];

	for (uint32_t i = 0; i < link; i++) {
		uint32_t peer = fabric_peer(f, tree->out[i]);

		if (peer != PORT_NONE && f->owner[peer] == node)
			return i;
	}
	return TREE_ROOT;
}

static int prepare_draws(struct tree *tree, const struct fabric *f)
{
	tree->parent = calloc(tree->links, sizeof(*tree->parent));
	tree->is_lost = calloc(tree->links, sizeof(*tree->is_lost));
	tree->passed = calloc(tree->links, sizeof(*tree->passed));
	tree->got = calloc(f->ports / 64 + 1, sizeof(*tree->got));
	if (!tree->parent || !tree->is_lost || !tree->passed || !tree->got)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->links; i++)
		tree->parent[i] = find_parent(tree, f, i);
	return 0;
}

static int make(struct tree *tree, const struct fabric *f, const struct walk_packet *p, const struct walk_group *g)
{
	*tree = (struct tree){ .from = p->from, .dlid = p->dlid, .pkey = p->pkey, .sl = p->sl };
	tree->reached = calloc(f->ports / 64 + 1, sizeof(*tree->reached));
	tree->out = calloc(g->links + 1, sizeof(*tree->out));
	tree->drop = calloc(g->dropped + 1, sizeof(*tree->drop));
	if (!tree->reached || !tree->out || !tree->drop) {
		release(tree);
		return -ENOMEM;
	}
	fill(tree, f, p, g);
	if (!has_faults(tree, f) || !prepare_draws(tree, f))
		return 0;
	release(tree);
	return -ENOMEM;
}

const struct tree *trees_find(struct trees *t, uint64_t generation, const struct fabric *f, const struct walk_packet *p)
{
	if (t->generation != generation)
		forget(t);
	t->generation = generation;
	for (uint32_t i = 0; i < t->trees; i++) {
		const struct tree *tree = &t->tree[i];

		if (tree->dlid == p->dlid && tree->sl == p->sl && tree->pkey == p->pkey && tree->from == p->from)
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

static void count_link(struct traffic_block *block, uint64_t words)
{
	traffic_add(block, TRAFFIC_WORDS, words);
	traffic_add(block, TRAFFIC_PACKETS, 1);
	traffic_add(block, TRAFFIC_MULTICAST, 1);
}

/* False: it is lost before the link, or at it. */
static bool pass_link(struct trees *t, const struct tree *tree, const struct fabric *f, struct traffic_block *all,
		      uint32_t process, uint64_t words, uint32_t link)
{
	uint32_t out = tree->out[link], before = tree->parent[link];
	uint32_t in = before == TREE_ROOT ? tree->from : fabric_peer(f, tree->out[before]);

	if (!passage_occupy(f, all, out, traffic_lane(f, in, out, tree->sl), words, &tree->passed[link])) {
		traffic_add(&all[out], TRAFFIC_TOO_SLOW, 1);
		return false;
	}
	count_link(&all[out], words);
	if (!passage_loses(&t->passage, f, out, process))
		return true;
	passage_count_error(f, all, out, words, true);
	return false;
}

void tree_draw(struct trees *t, const struct tree *tree, const struct fabric *f, struct traffic_block *all, uint32_t process,
	       wtime now, uint64_t words)
{
	memcpy(tree->got, tree->reached, (f->ports / 64 + 1) * sizeof(*tree->got));
	for (uint32_t i = 0; i < tree->links; i++) {
		uint32_t peer = fabric_peer(f, tree->out[i]), before = tree->parent[i];

		tree->passed[i] = before == TREE_ROOT ? now : tree->passed[before];
		tree->is_lost[i] = (before != TREE_ROOT && tree->is_lost[before]) ||
				   !pass_link(t, tree, f, all, process, words, i);
		if (tree->is_lost[i] && peer != PORT_NONE)
			tree->got[peer / 64] &= ~(1ull << peer % 64);
	}
	for (uint32_t i = 0; i < tree->drops; i++)
		traffic_add(&all[tree->drop[i].at], tree->drop[i].count, 1);
}

wtime tree_arrival(const struct tree *t, const struct fabric *f, uint32_t port, wtime now)
{
	for (uint32_t i = 0; i < t->links; i++)
		if (fabric_peer(f, t->out[i]) == port)
			return t->passed[i];
	return now;
}
