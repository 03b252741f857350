/* A report is one question under way: who asked, who has still to answer, and the JSON so far. */
#include "weftd/report.h"

#include "weftd/status.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_LIMIT WTIME_S	/* our choice: long for a process that runs, short for who waits */

struct pending {
	struct client *client;		/* borrowed; NULL: has answered or gone */
	json_t *entry;			/* borrowed from report.processes */
};

struct report {
	struct list_node node;		/* hub.reports */
	struct client *asker;		/* borrowed */
	struct control_msg question;
	uint32_t seq;
	wtime deadline;
	json_t *processes;		/* owned */
	uint32_t waiting, count;
	struct pending pending[];
};

/* Takes the report off and frees it. */
static void finish(struct hub *h, struct report *r, bool is_wanted)
{
	list_remove(&r->node);
	h->report_count--;
	if (is_wanted) {
		json_t *all = json_pack("{s:O}", "processes", r->processes);

		status_send(h, r->asker, &r->question, all);
		json_decref(all);
	}
	json_decref(r->processes);
	free(r);
}

static void note_error(struct pending *p, const char *error)
{
	json_object_set_new(p->entry, "error", json_string(error));
	p->client = NULL;
}

static void ask(struct hub *h, struct report *r, struct client *c, const struct control_msg *msg, const char *text)
{
	struct control_msg out = { .type = CTL_REPORT, .seq = r->seq, .text_bytes = msg->text_bytes };
	struct pending *p = &r->pending[r->count++];

	p->client = c;
	p->entry = status_process(c);
	json_array_append_new(r->processes, p->entry);
	if (h->ops->send(h, c, &out, text, NULL, 0))
		r->waiting++;
	else
		note_error(p, "it is gone or does not read its messages");
}

static bool is_known(const char *text, size_t bytes)
{
	static const char *const what[] = { "qp", "mr", "counters" };

	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		if (bytes == strlen(what[i]) && memcmp(text, what[i], bytes) == 0)
			return true;
	}
	return false;
}

void report_query(struct hub *h, struct client *c, const struct control_msg *msg, const char *text)
{
	struct report *r;

	if (!is_known(text, msg->text_bytes)) {
		hub_answer(h, c, msg, EINVAL);
		return;
	}
	r = h->report_count < REPORT_MAX ? calloc(1, sizeof(*r) + h->process_count * sizeof(r->pending[0])) : NULL;
	if (!r) {
		hub_answer(h, c, msg, EAGAIN);
		return;
	}
	r->asker = c;
	r->question = *msg;
	r->processes = json_array();
	/* 0 would mean unasked */
	r->seq = ++h->report_seq ? h->report_seq : ++h->report_seq;
	r->deadline = h->now + REPORT_LIMIT;
	list_append(&h->reports, &r->node);
	h->report_count++;
	list_for_each(p, &h->clients, struct client, node) {
		if (p->kind == CLIENT_PROCESS && (hub_is_owner(h, c) || p->uid == c->uid))
			ask(h, r, p, msg, text);
	}
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

static void take_answer(struct pending *p, const struct control_msg *msg, const char *text)
{
	json_t *said = json_loadb(text, msg->text_bytes, 0, NULL);

	if (!said) {
		note_error(p, "its answer is not JSON");
		return;
	}
	json_object_set_new(p->entry, "report", said);
	p->client = NULL;
}

void report_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text)
{
	list_for_each(r, &h->reports, struct report, node) {
		struct pending *p = r->seq == msg->seq ? find_pending(r, c) : NULL;

		if (!p)
			continue;
		take_answer(p, msg, text);
		if (--r->waiting == 0)
			finish(h, r, true);
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

void report_expire(struct hub *h)
{
	list_for_each_safe(r, &h->reports, struct report, node) {
		if (r->deadline > h->now)
			continue;
		for (uint32_t i = 0; i < r->count; i++) {
			if (r->pending[i].client)
				note_error(&r->pending[i], "no answer within 1 s: it may be stopped");
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
