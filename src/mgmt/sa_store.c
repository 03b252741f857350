#include "mgmt/sa_store.h"

#include "wire/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of a record of its own. */
#define RECORD_ID 0, 0, 64
#define RECORD_KEY 8, 0, 64

enum { RECORD_TEXT = 16, EDIT_RECORD = 8 };

int sa_store_init(struct sa_store *s, enum sa_policy policy, uint64_t trusted)
{
	*s = (struct sa_store){ .policy = policy, .trusted = trusted, .kept = calloc(SA_KEPT_MOST, sizeof(*s->kept)) };
	return s->kept ? 0 : -ENOMEM;
}

void sa_store_fini(struct sa_store *s)
{
	free(s->kept);
	s->kept = NULL;
	s->count = 0;
}

static bool is_trusted(const struct sa_store *s, uint64_t key)
{
	return s->policy == SA_KEY_IS_TRUSTED ? key == s->trusted : !key;
}

static bool leads_to(const struct sa_store *s, uint64_t key, const struct sa_kept *k)
{
	if (is_trusted(s, key) || k->key == key)
		return true;
	return s->policy == SA_KEY_IS_TRUSTED && !k->key;
}

bool sa_store_give(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record)
{
	const struct sa_store *s = arg;

	while (*at < s->count) {
		const struct sa_kept *k = &s->kept[(*at)++];

		if (!leads_to(s, q->key, k))
			continue;
		wire_put(record, k->id, RECORD_ID);
		/* a key is for who has it */
		wire_put(record, q->key == k->key ? k->key : 0, RECORD_KEY);
		memcpy(record + RECORD_TEXT, k->text, SA_KEPT_TEXT);
		return true;
	}
	return false;
}

/* Where the record of this id is, or would be. */
static uint32_t place_of(const struct sa_store *s, uint64_t id)
{
	uint32_t low = 0, high = s->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (s->kept[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void make_room(struct sa_store *s, uint32_t at)
{
	memmove(&s->kept[at + 1], &s->kept[at], (s->count - at) * sizeof(*s->kept));
	s->count++;
}

static void take_out(struct sa_store *s, uint32_t at)
{
	s->count--;
	memmove(&s->kept[at], &s->kept[at + 1], (s->count - at) * sizeof(*s->kept));
}

/* RMP-62: who changes a record has its key, or is trusted with all. */
static enum sa_edit_status edit_one(struct sa_store *s, uint64_t key, const uint8_t *edit)
{
	struct sa_kept k = { .id = wire_get(edit + EDIT_RECORD, RECORD_ID), .key = wire_get(edit + EDIT_RECORD, RECORD_KEY) };
	uint32_t at = place_of(s, k.id);
	bool is_there = at < s->count && s->kept[at].id == k.id;

	memcpy(k.text, edit + EDIT_RECORD + RECORD_TEXT, SA_KEPT_TEXT);
	if (edit[0] < SA_ADD || edit[0] > SA_EDIT_ONE)
		return SA_NO_SUCH_EDIT;
	if (edit[0] == SA_ADD && is_there)
		return SA_IS_THERE;
	if (edit[0] != SA_ADD && !is_there)
		return SA_IS_NOT_THERE;
	if (is_there && s->kept[at].key && s->kept[at].key != key && !(s->policy == SA_KEY_IS_TRUSTED && key == s->trusted))
		return SA_NOT_YOURS;
	if (edit[0] == SA_DELETE_ONE) {
		take_out(s, at);
		return SA_DONE;
	}
	if (!is_there && s->count == SA_KEPT_MOST)
		return SA_NO_PLACE;
	if (!is_there)
		make_room(s, at);
	s->kept[at] = k;
	return SA_DONE;
}

/* In turn, so that a later edit meets what the earlier ones have done. How many could not be done. */
static uint32_t edit_all(struct sa_store *s, uint64_t key, const uint8_t *edits, uint32_t count, uint8_t *answer)
{
	uint32_t failed = 0;

	for (uint32_t i = 0; i < count; i++) {
		enum sa_edit_status status = edit_one(s, key, edits + (size_t)i * SA_EDIT_BYTES);

		failed += status != SA_DONE;
		wire_put(answer + 2 * (size_t)i, status, 0, 0, 16);
	}
	return failed;
}

/* Nothing was done: who could have been says so. */
static void take_back(uint8_t *answer, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (wire_get(answer + 2 * (size_t)i, 0, 0, 16) == SA_DONE)
			wire_put(answer + 2 * (size_t)i, SA_NOT_DONE, 0, 0, 16);
	}
}

uint8_t *sa_store_edit(struct sa_store *s, uint64_t key, const uint8_t *edits, uint32_t bytes, uint32_t *answer_bytes)
{
	uint32_t count = bytes % SA_EDIT_BYTES ? 0 : bytes / SA_EDIT_BYTES;
	uint8_t *answer = calloc(count + 1, 2);
	struct sa_store changed = *s;

	changed.kept = answer ? malloc(SA_KEPT_MOST * sizeof(*s->kept)) : NULL;
	if (!changed.kept) {
		free(answer);
		return NULL;
	}
	memcpy(changed.kept, s->kept, s->count * sizeof(*s->kept));
	*answer_bytes = 2 * count;
	if (!count || edit_all(&changed, key, edits, count, answer)) {
		take_back(answer, count);
		free(changed.kept);
		return answer;
	}
	free(s->kept);
	*s = changed;
	s->changes++;
	return answer;
}
