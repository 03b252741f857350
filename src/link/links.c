#include "link/links.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 16 };

void links_init(struct links *ls)
{
	*ls = (struct links){ .event_fd = -1 };
	list_init(&ls->watched);
	list_init(&ls->dirty);
	list_init(&ls->acks_owed);
}

void links_fini(struct links *ls)
{
	if (ls->event_fd >= 0)
		close(ls->event_fd);
}

void links_forget(struct links *ls)
{
	links_fini(ls);
	links_init(ls);
}

static int listen_to(struct links *ls, struct link *l)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = l };

	if (ls->event_fd < 0)
		atomic_store(&ls->event_fd, epoll_create1(EPOLL_CLOEXEC));
	return ls->event_fd < 0 || epoll_ctl(ls->event_fd, EPOLL_CTL_ADD, l->event_fd, &e) < 0 ? -errno : 0;
}

int links_add(struct links *ls, struct link *l)
{
	int err = l->event_fd >= 0 ? listen_to(ls, l) : 0;

	if (err)
		return err;
	l->number = ++ls->numbers;
	links_watch(ls, l);
	return 0;
}

/* The other end may hold event_fd too, so to close it would not take it out of the epoll. */
void links_remove(struct links *ls, struct link *l)
{
	links_rest(ls, l);
	list_remove(&l->dirty);
	list_remove(&l->acks_owed);
	ls->waiting -= l->waiting;
	l->waiting = false;
	if (l->event_fd >= 0 && ls->event_fd >= 0)
		epoll_ctl(ls->event_fd, EPOLL_CTL_DEL, l->event_fd, NULL);
}

struct link *links_find(const struct links *ls, uint32_t number)
{
	list_for_each(l, &ls->watched, struct link, watched)
		if (l->number == number)
			return l;
	return NULL;
}

void links_watch(struct links *ls, struct link *l)
{
	if (list_linked(&l->watched))
		return;
	l->idle = 0;
	list_append(&ls->watched, &l->watched);
	ls->watched_count++;
	ls->looked_at += !!l->ops->look;
	l->ops->awake(l);
}

void links_rest(struct links *ls, struct link *l)
{
	if (!list_linked(&l->watched))
		return;
	list_remove(&l->watched);
	ls->watched_count--;
	ls->looked_at -= !!l->ops->look;
}

void links_ask(struct links *ls)
{
	list_for_each(l, &ls->watched, struct link, watched)
		if (l->ops->look)
			l->ops->look(l);
}

/* Taken before the link is looked at: what comes after that makes the descriptor readable again. */
void links_take_events(struct links *ls)
{
	struct epoll_event e[EVENTS];
	int n = epoll_wait(ls->event_fd, e, EVENTS, 0);

	for (int i = 0; i < n; i++) {
		struct link *l = e[i].data.ptr;

		l->ops->take_event(l);
		links_watch(ls, l);
	}
}
