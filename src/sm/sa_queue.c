#include "sm/sa_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sa_queue_init(struct sa_queue *q)
{
	memset(q, 0, sizeof(*q));
	list_init(&q->waiting);
}

static bool any(void *arg, uint16_t lid)
{
	return true;
}

void sa_queue_fini(struct sa_queue *q)
{
	struct sa_waiting *w;

	while ((w = sa_queue_take(q, any, NULL)))
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

int sa_queue_put(struct sa_queue *q, const struct mad_letter *letter)
{
	struct sa_waiting *w, *older = q->of_lid[letter->remote.lid].newest;
	bool is_full = q->count == SA_WAITING || q->of_lid[letter->remote.lid].count == SA_WAITING_OF_ONE;

	if (letter->bytes < MAD_HEADER_BYTES)
		return -EINVAL;
	if (letter->bytes > MAD_BYTES)
		return -EMSGSIZE;
	if (waits(q, letter))
		return -EALREADY;
	w = is_full ? NULL : calloc(1, sizeof(*w));
	if (!w)
		return -EDQUOT;
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
	return 0;
}

static struct sa_waiting *find(struct sa_queue *q, sa_queue_may *may, void *arg)
{
	q->search++;
	list_for_each(w, &q->waiting, struct sa_waiting, node) {
		uint16_t lid = w->letter.remote.lid;

		if (q->of_lid[lid].in_vain == q->search)
			continue;
		if (may(arg, lid))
			return w;
		q->of_lid[lid].in_vain = q->search;
	}
	return NULL;
}

bool sa_queue_has(struct sa_queue *q, sa_queue_may *may, void *arg)
{
	return find(q, may, arg);
}

struct sa_waiting *sa_queue_take(struct sa_queue *q, sa_queue_may *may, void *arg)
{
	struct sa_waiting *w = find(q, may, arg);

	if (!w)
		return NULL;
	list_remove(&w->node);
	/* of its sender it is the oldest */
	if (w->newer)
		w->newer->older = NULL;
	else
		q->of_lid[w->letter.remote.lid].newest = NULL;
	q->of_lid[w->letter.remote.lid].count--;
	q->count--;
	return w;
}
