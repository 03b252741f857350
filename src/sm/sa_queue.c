#include "sm/sa_queue.h"

#include <stdlib.h>
#include <string.h>

void sa_queue_init(struct sa_queue *q)
{
	memset(q, 0, sizeof(*q));
	list_init(&q->waiting);
}

void sa_queue_fini(struct sa_queue *q)
{
	struct sa_waiting *w;

	while ((w = sa_queue_take(q)))
		free(w);
}

/* By transaction, as the sender has it. */
static bool waits(const struct sa_queue *q, const struct mad_letter *letter)
{
	const struct sa_waiting *w = q->of_lid[letter->remote.lid].newest;

	while (w && (w->letter.remote.qpn != letter->remote.qpn || memcmp(w->data, letter->data, MAD_HEADER_BYTES) != 0))
		w = w->older;
	return w;
}

bool sa_queue_put(struct sa_queue *q, const struct mad_letter *letter)
{
	struct sa_waiting *w, *older = q->of_lid[letter->remote.lid].newest;

	if (letter->bytes < MAD_HEADER_BYTES || letter->bytes > MAD_BYTES || q->count == SA_WAITING ||
	    q->of_lid[letter->remote.lid].count == SA_WAITING_OF_ONE || waits(q, letter))
		return false;
	w = calloc(1, sizeof(*w));
	if (!w)
		return false;
	w->letter = *letter;
	w->letter.data = w->data;
	memcpy(w->data, letter->data, letter->bytes);
	list_append(&q->waiting, &w->node);
	w->older = older;
	if (older)
		older->newer = w;
	q->of_lid[letter->remote.lid].newest = w;
	q->of_lid[letter->remote.lid].count++;
	q->count++;
	return true;
}

struct sa_waiting *sa_queue_take(struct sa_queue *q)
{
	struct list_node *node = list_pop(&q->waiting);
	struct sa_waiting *w = node ? container_of(node, struct sa_waiting, node) : NULL;

	if (!w)
		return NULL;
	/* of its sender it is the oldest */
	if (w->newer)
		w->newer->older = NULL;
	else
		q->of_lid[w->letter.remote.lid].newest = NULL;
	q->of_lid[w->letter.remote.lid].count--;
	q->count--;
	return w;
}
