/* The recursions are as deep as the treap, which for random weights is some multiple of log n whatever the ranges are. */
#include "base/ranges.h"

#include "base/log.h"

void ranges_init(struct ranges *s)
{
	*s = (struct ranges){ 0 };
	rand_seed(&s->rand, 0);
}

/* Ranges that start together are told apart by where their nodes are. */
static bool is_before(const struct range_node *a, const struct range_node *b)
{
	return a->range.start != b->range.start ? a->range.start < b->range.start : (uintptr_t)a < (uintptr_t)b;
}

static uint64_t reach_of(const struct range_node *n)
{
	return n ? n->reach : 0;
}

static void sum_up(struct range_node *n)
{
	uint64_t left = reach_of(n->left), right = reach_of(n->right), below = left > right ? left : right;

	n->reach = below > n->range.end ? below : n->range.end;
}

/* What is before n, and what is behind it. */
static void split(struct range_node *tree, const struct range_node *n, struct range_node **before, struct range_node **behind)
{
	if (!tree) {
		*before = *behind = NULL;
		return;
	}
	if (is_before(tree, n)) {
		*before = tree;
		split(tree->right, n, &tree->right, behind);
	} else {
		*behind = tree;
		split(tree->left, n, before, &tree->left);
	}
	sum_up(tree);
}

static struct range_node *join(struct range_node *before, struct range_node *behind)
{
	if (!before || !behind)
		return before ? before : behind;
	if (before->weight > behind->weight) {
		before->right = join(before->right, behind);
		sum_up(before);
		return before;
	}
	behind->left = join(before, behind->left);
	sum_up(behind);
	return behind;
}

static struct range_node *put(struct range_node *tree, struct range_node *n)
{
	if (!tree || n->weight > tree->weight) {
		split(tree, n, &n->left, &n->right);
		tree = n;
	} else if (is_before(n, tree)) {
		tree->left = put(tree->left, n);
	} else {
		tree->right = put(tree->right, n);
	}
	sum_up(tree);
	return tree;
}

static struct range_node *take(struct range_node *tree, const struct range_node *n)
{
	weft_bug_on(!tree);
	if (!tree)
		return NULL;
	if (tree == n)
		return join(tree->left, tree->right);
	if (is_before(n, tree))
		tree->left = take(tree->left, n);
	else
		tree->right = take(tree->right, n);
	sum_up(tree);
	return tree;
}

void ranges_insert(struct ranges *s, struct range_node *n, struct range r)
{
	if (weft_bug_on(n->set || r.start >= r.end))
		return;
	*n = (struct range_node){ .range = r, .set = s, .reach = r.end, .weight = rand_u64(&s->rand) };
	s->root = put(s->root, n);
}

void ranges_remove(struct range_node *n)
{
	if (!n->set)
		return;
	n->set->root = take(n->set->root, n);
	*n = (struct range_node){ 0 };
}

uint64_t ranges_reach(const struct ranges *s, uint64_t at)
{
	const struct range_node *n = s->root;
	uint64_t reach = 0;

	while (n) {
		if (n->range.start > at) {
			n = n->left;
			continue;
		}
		if (reach_of(n->left) > reach)
			reach = n->left->reach;
		if (n->range.end > reach)
			reach = n->range.end;
		n = n->right;
	}
	return reach;
}

uint64_t ranges_next(const struct ranges *s, uint64_t at)
{
	uint64_t next = UINT64_MAX;

	for (const struct range_node *n = s->root; n;) {
		if (n->range.start > at) {
			next = n->range.start;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return next;
}
