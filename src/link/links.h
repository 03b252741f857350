/* The links of a host, as the pump drives them: which of them a poll looks at, which were sent to, and the one descriptor that
 * the helper thread sleeps on for all that have one. The owner of a link adds it once and removes it before it closes it. What
 * takes a link is told by its route (peers/route.h). Under the runtime's lock. */
#ifndef WEFT_LINK_LINKS_H
#define WEFT_LINK_LINKS_H

#include "link/link.h"

enum {
	LINKS_WATCHED = 8,	/* our choice: looking at so many costs less than anything else of a poll */
	LINKS_IDLE = 64,	/* looks; our choice: in vain they cost as much as a bell */
};

struct links {
	struct list watched;	/* struct link.watched */
	uint32_t watched_count;
	uint32_t looked_at;	/* links of these that have link_ops.look */
	uint32_t waiting;	/* links with waiting set */
	uint32_t numbers;	/* given until now */
	struct list dirty, acks_owed;	/* struct link.dirty, .acks_owed */
	_Atomic int event_fd;	/* owned: epoll of the event_fd of all; -1: none has one. Read unlocked by the helper */
};

void links_init(struct links *ls);
/* Every link was removed. */
void links_fini(struct links *ls);
/* In a forked child, where no link is used any more. */
void links_forget(struct links *ls);

/* Watches the link, and listens to its event_fd; a helper thread that sleeps meanwhile listens after it was woken once. The
 * loop of a process needs neither and is not added. -errno. */
int links_add(struct links *ls, struct link *l);
/* Also of a link that was not added, but sent to. */
void links_remove(struct links *ls, struct link *l);

/* The watched one with this number, or NULL. */
struct link *links_find(const struct links *ls, uint32_t number);

/* From now on polls look at it. */
void links_watch(struct links *ls, struct link *l);
/* They do not, until links_watch or its event_fd. */
void links_rest(struct links *ls, struct link *l);
/* A look in vain. True: it should rest if it can, as nothing came for long and there are many. */
static inline bool links_looked_in_vain(struct links *ls, struct link *l)
{
	return ++l->idle >= LINKS_IDLE && ls->watched_count > LINKS_WATCHED;
}

/* Asks those watched links that must be asked whether something arrived. */
void links_ask(struct links *ls);
static inline void links_look(struct links *ls)
{
	if (ls->looked_at)
		links_ask(ls);
}
/* Is there anything to receive, as far as arrival tells? */
static inline bool links_pending(const struct links *ls)
{
	list_for_each(l, &ls->watched, struct link, watched)
		if (link_pending(l))
			return true;
	return false;
}
/* links.event_fd was readable: its links are watched. Does not wait. */
void links_take_events(struct links *ls);

static inline void links_note_sent(struct links *ls, struct link *l)
{
	if (!list_linked(&l->dirty))
		list_append(&ls->dirty, &l->dirty);
}

#endif
