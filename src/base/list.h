/* Intrusive doubly linked list. The node is embedded in its object; a zeroed node is in no list, so an object made by
 * calloc is ready. The list owns nothing. */
#ifndef WEFT_BASE_LIST_H
#define WEFT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#endif

struct list_node {
	struct list_node *next, *prev;	/* NULL when in no list */
};

struct list {
	struct list_node head;
};

static inline void list_init(struct list *l)
{
	l->head.next = l->head.prev = &l->head;
}

static inline bool list_empty(const struct list *l)
{
	return l->head.next == &l->head;
}

/* Is this node in some list? */
static inline bool list_linked(const struct list_node *n)
{
	return n->next != NULL;
}

/* n must be in no list. */
static inline void list_insert_before(struct list_node *at, struct list_node *n)
{
	n->next = at;
	n->prev = at->prev;
	at->prev->next = n;
	at->prev = n;
}

static inline void list_append(struct list *l, struct list_node *n)
{
	list_insert_before(&l->head, n);
}

static inline void list_prepend(struct list *l, struct list_node *n)
{
	list_insert_before(l->head.next, n);
}

/* Takes n out of whichever list it is in; nothing happens when it is in none. */
static inline void list_remove(struct list_node *n)
{
	if (!list_linked(n))
		return;
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->next = n->prev = NULL;
}

/* The first or last node, or NULL. */
static inline struct list_node *list_first(const struct list *l)
{
	return list_empty(l) ? NULL : l->head.next;
}

static inline struct list_node *list_last(const struct list *l)
{
	return list_empty(l) ? NULL : l->head.prev;
}

/* The node after n, or NULL at the end. */
static inline struct list_node *list_next(const struct list *l, const struct list_node *n)
{
	return n->next == &l->head ? NULL : n->next;
}

/* Removes and returns the first node, or NULL. */
static inline struct list_node *list_pop(struct list *l)
{
	struct list_node *n = list_first(l);

	if (n)
		list_remove(n);
	return n;
}

/* All of `from` goes to the end of `to`; from is empty afterwards. */
static inline void list_splice(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->head.next->prev = to->head.prev;
	to->head.prev->next = from->head.next;
	from->head.prev->next = &to->head;
	to->head.prev = from->head.prev;
	list_init(from);
}

/* The object around list_first, or NULL. */
#define list_first_entry(l, type, member) (list_empty(l) ? NULL : container_of((l)->head.next, type, member))

/* Visits every object; the body must not remove the current one. */
#define list_for_each(entry, l, type, member)							\
	for (type *entry = container_of((l)->head.next, type, member); &entry->member != &(l)->head;	\
	     entry = container_of(entry->member.next, type, member))

/* As list_for_each, and the body may remove (and free) the current object, but no other. */
#define list_for_each_safe(entry, l, type, member)						\
	for (type *entry = container_of((l)->head.next, type, member),				\
		  *entry##_next = container_of(entry->member.next, type, member);		\
	     &entry->member != &(l)->head;							\
	     entry = entry##_next, entry##_next = container_of(entry->member.next, type, member))

#endif
