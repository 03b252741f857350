#include "sm/sa_long.h"

#include <stdlib.h>
#include <string.h>

struct sa_long {
	struct mad_source source;	/* first */
	struct list_node node;		/* sa.long_answers, while q.s is not NULL */
	struct sa_query q;
	sa_handler *find;
	uint64_t version;
	uint32_t given;			/* of q.out */
};

/* What records are made of. Trees of groups, GUIDs and lanes change with what is written alone. */
static uint64_t version_of(const struct sa_query *q)
{
	const struct net *net = &q->s->net;

	switch (q->head.attr_id) {
	case SA_NODE_RECORD_ID:
	case SA_PORT_INFO_RECORD_ID:
	case SA_SWITCH_INFO_RECORD_ID:
	case SA_LFT_RECORD_ID:
	case SA_LINK_RECORD_ID:
	case SA_PKEY_RECORD_ID:
	case SA_PATH_RECORD_ID:
		return net->changes;
	}
	return net->changes + net->writes;
}

static uint32_t take(struct sa_long *l, uint8_t *to, uint32_t room)
{
	uint32_t bytes = l->q.bytes - l->given;

	bytes = bytes < room ? bytes : room;
	if (bytes)
		memcpy(to, l->q.out + l->given, bytes);
	l->given += bytes;
	return bytes;
}

static enum mad_given give(struct mad_source *source, uint8_t *to, uint32_t room, uint32_t *bytes)
{
	struct sa_long *l = (struct sa_long *)(void *)source;
	struct sa_query *q = &l->q;

	if (!q->s)
		return MAD_GIVES_UP;
	if (q->s->state != SM_MASTER || version_of(q) != l->version) {
		q->s->counters.cut_short++;
		return MAD_GIVES_UP;
	}
	*bytes = take(l, to, room);
	if (*bytes < room && q->is_paused) {
		q->bytes = l->given = q->steps = 0;
		q->enough = room - *bytes;
		q->is_paused = false;
		l->find(q);
		*bytes += take(l, to + *bytes, room - *bytes);
	}
	if (q->status)
		return MAD_GIVES_UP;
	return q->is_paused || l->given < q->bytes ? MAD_GIVES_MORE : MAD_GAVE_ALL;
}

static void leave(struct sa_long *l)
{
	if (l->q.s)
		list_remove(&l->node);
	l->q.s = NULL;
}

static void end(struct mad_source *source)
{
	struct sa_long *l = (struct sa_long *)(void *)source;

	leave(l);
	free(l->q.out);
	free(l);
}

struct mad_source *sa_long_begin(const struct sa_query *q, sa_handler *find)
{
	struct sa_long *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->source = (struct mad_source){ give, end };
	l->q = *q;
	l->q.letter = NULL;
	l->q.out = NULL;
	l->q.bytes = l->q.room = 0;
	l->q.most = UINT32_MAX;
	l->q.steps_most = SA_STEPS_EACH;
	l->find = find;
	l->version = version_of(q);
	list_append(&q->s->sa->long_answers, &l->node);
	q->s->counters.long_answers++;
	return &l->source;
}

void sa_long_leave(struct sm *s)
{
	list_for_each_safe(l, &s->sa->long_answers, struct sa_long, node)
		leave(l);
}
