#include "weftd/last_words.h"

#include "weftd/report_form.h"
#include "weftd/status.h"

#include <stdlib.h>
#include <string.h>

static void drop(struct last_word *w)
{
	json_decref(w->entry);
	free(w->text);
	*w = (struct last_word){ 0 };
}

/* A free one; of a user who has his share, his oldest; or the oldest of all. */
static struct last_word *find_place(struct last_words *all, uint32_t user)
{
	struct last_word *oldest = &all->word[0], *own = NULL;
	unsigned count = 0;

	for (int i = 0; i < LAST_WORDS; i++) {
		struct last_word *w = &all->word[i];

		if (w->number < oldest->number)
			oldest = w;
		if (!w->entry || w->user != user)
			continue;
		count++;
		if (!own || w->number < own->number)
			own = w;
	}
	return count >= LAST_WORDS_USER ? own : oldest;
}

void last_words_add(struct hub *h, const struct client *c, const char *text, size_t bytes)
{
	struct report_form form;
	struct last_word *w;
	char *copy;

	if (!report_form_parse(text, bytes, &form) || !form.is_array || !form.rows)
		return;
	if (!h->last_words)
		h->last_words = calloc(1, sizeof(*h->last_words));
	copy = h->last_words ? malloc(form.inner_bytes + 1) : NULL;
	if (!copy)
		return;
	copy[0] = '[';
	memcpy(copy + 1, form.inner, form.inner_bytes);
	w = find_place(h->last_words, c->account->user);
	drop(w);
	*w = (struct last_word){ .entry = status_process(c), .user = c->account->user, .number = ++h->last_words->number,
				 .text = copy, .bytes = form.inner_bytes + 1 };
	json_object_set_new(w->entry, "has_left", json_true());
}

const struct last_word *last_words_next(const struct hub *h, const struct client *asker, uint64_t *at)
{
	const struct last_word *next = NULL;

	for (int i = 0; h->last_words && i < LAST_WORDS; i++) {
		const struct last_word *w = &h->last_words->word[i];

		if (!w->entry || w->number <= *at || (next && w->number > next->number))
			continue;
		if (hub_is_owner(h, asker) || w->user == asker->account->user)
			next = w;
	}
	*at = next ? next->number : *at;
	return next;
}

void last_words_free(struct hub *h)
{
	for (int i = 0; h->last_words && i < LAST_WORDS; i++)
		drop(&h->last_words->word[i]);
	free(h->last_words);
	h->last_words = NULL;
}
