/* A report is one question under way: who asked, who has still to answer, and what was said so far. */
#include "weftd/report.h"

#include "weftd/history.h"
#include "weftd/report_form.h"
#include "weftd/status.h"
#include "weftd/trust.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Our choices: without an answer, long for a process that runs, short for who waits; more for each process that is asked, as
 * programs that poll without end keep the processors busy and take turns; and for all parts, as a process may give one row at a
 * time. */
#define REPORT_LIMIT WTIME_S
#define REPORT_EACH (20 * WTIME_MS)
#define REPORT_TOTAL (10 * WTIME_S)

enum {
	REPORT_ROWS = 65536,		/* of one process. Our choice: those of 65,536 QPs are 60 MB */
	REPORT_BYTES = 128 << 20,	/* of one process of root or weftd's own user */
	REPORT_USER_BYTES = 4 << 20,	/* of all processes of another user */
};

struct pending {
	struct client *client;		/* borrowed; NULL: has answered or gone */
	json_t *entry;			/* owned: who it is */
	uint32_t user;			/* its account */
	uint32_t rows;
	char *text;			/* owned: what it said, without the bracket that ends an array; NULL: nothing */
	size_t bytes, room;
	bool is_array;
};

struct report {
	struct list_node node;		/* hub.reports */
	struct client *asker;		/* borrowed */
	struct control_msg question;
	uint32_t seq;
	wtime asked, deadline, last;	/* when; until when for the next answer, and for all */
	const char *what;		/* a string of `known` */
	uint32_t waiting, count;
	struct pending pending[];
};

/* {"pid":1,...} with its report before the end. What processes said is as they said it: it has been looked at. */
static void print_process(FILE *out, const struct pending *p)
{
	char *entry = json_dumps(p->entry, JSON_COMPACT);

	if (!entry)
		return;
	fwrite(entry, 1, strlen(entry) - 1, out);
	free(entry);
	if (p->text) {
		fputs(",\"report\":", out);
		fwrite(p->text, 1, p->bytes, out);
		if (p->is_array)
			fputc(']', out);
	}
	fputc('}', out);
}

static void answer(struct hub *h, const struct report *r)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (out) {
		fputs("{\"processes\":[", out);
		for (uint32_t i = 0; i < r->count; i++) {
			if (i)
				fputc(',', out);
			print_process(out, &r->pending[i]);
		}
		fputs("]}", out);
	}
	if (!out || fclose(out))
		hub_answer(h, r->asker, &r->question, ENOMEM);
	else
		status_send_text(h, r->asker, &r->question, text);
	free(text);
}

/* Takes the report off and frees it. */
static void finish(struct hub *h, struct report *r, bool is_wanted)
{
	list_remove(&r->node);
	h->report_count--;
	r->asker->account->questions--;
	if (is_wanted)
		answer(h, r);
	for (uint32_t i = 0; i < r->count; i++) {
		json_decref(r->pending[i].entry);
		free(r->pending[i].text);
	}
	free(r);
}

static void note_error(struct pending *p, const char *error)
{
	json_object_set_new(p->entry, "error", json_string(error));
	p->client = NULL;
}

/* Asks for the rows from `from` on. False: the process is noted as one that does not answer. */
static bool ask_part(struct hub *h, struct report *r, struct pending *p, uint32_t from)
{
	struct control_msg out = { .type = CTL_REPORT, .seq = r->seq, .a = from, .text_bytes = (uint32_t)strlen(r->what) };

	if (h->ops->send(h, p->client, &out, r->what, NULL, 0))
		return true;
	note_error(p, "it is gone or does not read its messages");
	return false;
}

static void ask(struct hub *h, struct report *r, struct client *c)
{
	struct pending *p = &r->pending[r->count++];

	p->client = c;
	p->user = c->account->user;
	p->entry = status_process(c);
	r->waiting += ask_part(h, r, p, 0);
}

/* For the next answer, of whomever. */
static void wait_on(const struct hub *h, struct report *r)
{
	r->deadline = wtime_min(h->now + REPORT_LIMIT + r->waiting * REPORT_EACH, r->last);
}

static uint32_t count_history(const struct hub *h, const struct client *asker, const char *what)
{
	uint32_t n = 0;

	if (strcmp(what, "history") == 0)
		for (uint64_t at = 0; history_next(h, asker, &at);)
			n++;
	return n;
}

/* Of processes that have left, as answers that are there already. */
static void add_history(const struct hub *h, struct report *r, uint32_t most)
{
	const struct history_entry *w;

	for (uint64_t at = 0; most-- && (w = history_next(h, r->asker, &at));) {
		struct pending *p = &r->pending[r->count++];

		p->entry = json_incref(w->entry);
		p->user = w->user;
		p->is_array = true;
		p->text = malloc(w->bytes);
		if (!p->text)
			continue;
		memcpy(p->text, w->text, w->bytes);
		p->bytes = p->room = w->bytes;
	}
}

/* The report of that name, or NULL. */
static const char *find_known(const char *text, size_t bytes)
{
	static const char *const known[] = { "qp", "cq", "mr", "counters", "impair", "history" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (bytes == strlen(known[i]) && memcmp(text, known[i], bytes) == 0)
			return known[i];
	}
	return NULL;
}

void report_query(struct hub *h, struct client *c, const struct control_msg *msg, const char *text)
{
	const char *what = find_known(text, msg->text_bytes);
	enum control_limit limit;
	uint32_t left;
	struct report *r;

	if (!what) {
		hub_answer(h, c, msg, EINVAL);
		return;
	}
	limit = account_check(h, c, LIMIT_QUESTIONS, 1);
	if (limit) {
		hub_refuse(h, c, msg, limit);
		return;
	}
	left = count_history(h, c, what);
	r = h->report_count < QUOTA_QUESTIONS ? calloc(1, sizeof(*r) + (h->process_count + left) * sizeof(r->pending[0])) : NULL;
	if (!r) {
		hub_answer(h, c, msg, EAGAIN);
		return;
	}
	r->asker = c;
	r->what = what;
	r->question = *msg;
	/* 0 would mean unasked */
	r->seq = ++h->report_seq ? h->report_seq : ++h->report_seq;
	r->asked = h->now;
	list_append(&h->reports, &r->node);
	h->report_count++;
	c->account->questions++;
	add_history(h, r, left);
	list_for_each(p, &h->clients, struct client, node) {
		if (p->kind == CLIENT_PROCESS && (hub_is_owner(h, c) || trust_same_user(p, c)))
			ask(h, r, p);
	}
	r->last = h->now + REPORT_TOTAL + r->waiting * REPORT_EACH;
	wait_on(h, r);
	if (!r->waiting)
		finish(h, r, true);
}

static struct pending *find_pending(struct report *r, const struct client *c)
{
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->pending[i].client == c)
			return &r->pending[i];
	}
	return NULL;
}

/* May the process say so much more? Its user's share is that of one question. */
static bool has_room(const struct hub *h, const struct report *r, const struct pending *p, size_t bytes)
{
	bool is_owners = p->user == 0 || p->user == h->uid;
	size_t said = 0;

	for (uint32_t i = 0; i < r->count; i++)
		said += is_owners ? &r->pending[i] == p ? p->bytes : 0 : r->pending[i].user == p->user ? r->pending[i].bytes : 0;
	return said + bytes <= (is_owners ? REPORT_BYTES : REPORT_USER_BYTES);
}

static bool append(struct pending *p, const char *text, size_t bytes)
{
	if (!p->text || p->bytes + bytes > p->room) {
		size_t room = 2 * (p->bytes + bytes);
		char *more = realloc(p->text, room);

		if (!more)
			return false;
		p->text = more;
		p->room = room;
	}
	memcpy(p->text + p->bytes, text, bytes);
	p->bytes += bytes;
	return true;
}

/* The rows of one more part, or the first part of any kind. False: there is no memory. */
static bool add_part(struct pending *p, const struct report_form *part, const char *text, size_t bytes)
{
	bool is_first = !p->text;

	if (!part->is_array)
		return append(p, text, bytes);
	p->is_array = true;
	if (is_first && !append(p, "[", 1))
		return false;
	if (!part->rows)
		return true;
	if (p->rows && !append(p, ",", 1))
		return false;
	p->rows += part->rows;
	return append(p, part->inner, part->inner_bytes);
}

/* Has the process more to say? It was asked for it then. */
static bool take_answer(struct hub *h, struct report *r, struct pending *p, const struct control_msg *msg, const char *text)
{
	struct report_form part;
	bool is_whole;

	if (!report_form_parse(text, msg->text_bytes, &part) || (p->text && !part.is_array)) {
		note_error(p, "its answer is not a report");
		return false;
	}
	is_whole = has_room(h, r, p, msg->text_bytes) && add_part(p, &part, text, msg->text_bytes);
	if (is_whole && msg->b && msg->b == p->rows && msg->b > msg->a && p->rows < REPORT_ROWS && h->now < r->last &&
	    ask_part(h, r, p, msg->b))
		return true;
	if (msg->b || !is_whole)
		json_object_set_new(p->entry, "is_cut", json_true());
	p->client = NULL;
	return false;
}

void report_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text)
{
	list_for_each(r, &h->reports, struct report, node) {
		struct pending *p = r->seq == msg->seq ? find_pending(r, c) : NULL;

		if (!p)
			continue;
		if (!take_answer(h, r, p, msg, text) && --r->waiting == 0)
			finish(h, r, true);
		else
			wait_on(h, r);
		return;
	}
	/* too late: the question is answered */
}

void report_leave(struct hub *h, struct client *c)
{
	list_for_each_safe(r, &h->reports, struct report, node) {
		struct pending *p = find_pending(r, c);

		if (r->asker == c) {
			finish(h, r, false);
			continue;
		}
		if (!p)
			continue;
		note_error(p, "it left before it answered");
		if (--r->waiting == 0)
			finish(h, r, true);
	}
}

/* What it said before counts. */
static void note_late(struct pending *p, wtime waited)
{
	char error[64];

	snprintf(error, sizeof(error), "no answer within %llu s: it may be stopped", (unsigned long long)(waited / WTIME_S));
	if (p->text)
		json_object_set_new(p->entry, "is_cut", json_true());
	else
		note_error(p, error);
	p->client = NULL;
}

void report_expire(struct hub *h)
{
	list_for_each_safe(r, &h->reports, struct report, node) {
		if (r->deadline > h->now)
			continue;
		for (uint32_t i = 0; i < r->count; i++) {
			if (r->pending[i].client)
				note_late(&r->pending[i], h->now - r->asked);
		}
		finish(h, r, true);
	}
}

wtime report_deadline(const struct hub *h)
{
	wtime at = WTIME_NEVER;

	list_for_each(r, &h->reports, struct report, node)
		at = wtime_min(at, r->deadline);
	return at;
}
