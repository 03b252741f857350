#include "weftd/history.h"

#include "weftd/report_form.h"
#include "weftd/status.h"

#include <stdlib.h>
#include <string.h>

static void drop(struct history_entry *w)
{
	json_decref(w->entry);
	free(w->text);
	*w = (struct history_entry){ 0 };
}

/* A free one; of a user who has his share, his oldest; or the oldest of all. */
static struct history_entry *find_place(struct history *all, uint32_t user)
{
	struct history_entry *oldest = &all->word[0], *own = NULL;
	unsigned count = 0;

	for (int i = 0; i < HISTORY_ENTRIES; i++) {
		struct history_entry *w = &all->word[i];

		if (w->number < oldest->number)
			oldest = w;
		if (!w->entry || w->user != user)
			continue;
		count++;
		if (!own || w->number < own->number)
			own = w;
	}
	return count >= HISTORY_USER ? own : oldest;
}

void history_add(struct hub *h, const struct client *c, const char *text, size_t bytes)
{
	struct report_form form;
	struct history_entry *w;
	char *copy;

	if (!report_form_parse(text, bytes, &form) || !form.is_array || !form.rows)
		return;
	if (!h->history)
		h->history = calloc(1, sizeof(*h->history));
	copy = h->history ? malloc(form.inner_bytes + 1) : NULL;
	if (!copy)
		return;
	copy[0] = '[';
	memcpy(copy + 1, form.inner, form.inner_bytes);
	w = find_place(h->history, c->account->user);
	drop(w);
	*w = (struct history_entry){ .entry = status_process(c), .uid = c->uid, .user = c->account->user,
				     .number = ++h->history->number, .text = copy, .bytes = form.inner_bytes + 1 };
	json_object_set_new(w->entry, "has_left", json_true());
}

const struct history_entry *history_next(const struct hub *h, const struct client *asker, uint64_t *at)
{
	const struct history_entry *next = NULL;

	for (int i = 0; h->history && i < HISTORY_ENTRIES; i++) {
		const struct history_entry *w = &h->history->word[i];

		if (!w->entry || w->number <= *at || (next && w->number > next->number))
			continue;
		if (hub_is_owner(h, asker) || w->uid == asker->uid)
			next = w;
	}
	*at = next ? next->number : *at;
	return next;
}

void history_free(struct hub *h)
{
	for (int i = 0; h->history && i < HISTORY_ENTRIES; i++)
		drop(&h->history->word[i]);
	free(h->history);
	h->history = NULL;
}
