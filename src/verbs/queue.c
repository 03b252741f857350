/* Work queues, IPS-19..35: pages of slots chained by their last slots into a circle. Cumulative counts tell who owns a
 * WQE; all wrap together at 2^32, so only differences of them mean something. */
#include "verbs/queue.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The last slot of a page, IPS-19. The doorbell is in the first page's. */
struct page_link {
	uint64_t next;			/* arena offset of the page after this one */
	_Atomic uint32_t doorbell;	/* first page: WQEs announced, cumulative */
};

enum {
	SLOT_ALIGN = 64,	/* a cache line, so that a CQE never straddles two */
	SLOTS_MIN = 4,		/* our choice: at most a quarter of a page is spent on its link */
	PAGES_MOST = 64,	/* our choice: in so many pieces a queue may lie where the arena is in pieces */
};

static struct page_link *link_of(const struct wq *wq, uint32_t page)
{
	return (struct page_link *)(wq->page[page] + (uint64_t)(wq->slots_per_page - 1) * wq->stride);
}

static void free_pages(struct wq *wq, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		arena_free(wq->arena, (uint64_t)(wq->page[i] - wq->arena->base));
	free(wq->page);
	*wq = (struct wq){ 0 };
}

static void chain_pages(struct wq *wq)
{
	for (uint32_t i = 0; i < wq->pages; i++)
		link_of(wq, i)->next = (uint64_t)(wq->page[(i + 1) % wq->pages] - wq->arena->base);
	atomic_init(&link_of(wq, 0)->doorbell, 0);
	wq->first = wq->page[0];
	wq->ring = (uint64_t)(wq->page[0] - wq->arena->base);
	wq->doorbell = (uint64_t)((uint8_t *)&link_of(wq, 0)->doorbell - wq->arena->base);
}

int wq_init_pages(struct wq *wq, struct arena *a, uint32_t pages, uint32_t slots_per_page, uint32_t stride)
{
	if (pages == 0 || slots_per_page < 2 || stride < sizeof(struct page_link) || stride % 8)
		return -EINVAL;
	*wq = (struct wq){ .arena = a, .pages = pages, .slots_per_page = slots_per_page, .stride = stride,
			   .capacity = pages * (slots_per_page - 1) };
	wq->page = calloc(pages, sizeof(*wq->page));
	if (!wq->page)
		return -ENOMEM;
	for (uint32_t i = 0; i < pages; i++) {
		uint64_t offset;

		if (arena_alloc(a, (uint64_t)slots_per_page * stride, &offset) < 0) {
			free_pages(wq, i);
			return -ENOMEM;
		}
		wq->page[i] = a->base + offset;
	}
	chain_pages(wq);
	wq->credits = wq->capacity;
	return 0;
}

/* As many as a page of that queue needs, and as fit into the units that those take. */
static uint32_t slots_of_page(uint32_t max_wr, uint32_t pages, uint32_t slot)
{
	uint64_t slots = (max_wr + pages - 1) / pages + 1;

	if (slots < SLOTS_MIN)
		slots = SLOTS_MIN;
	return (uint32_t)((slots * slot + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT / slot);
}

int wq_init(struct wq *wq, struct arena *a, uint32_t max_wr, uint32_t stride)
{
	uint32_t slot = (stride + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
	int err = -ENOMEM;

	if (stride == 0 || stride > 1u << 20 || max_wr > 1u << 30)
		return -EINVAL;
	if (max_wr == 0) {
		*wq = (struct wq){ .arena = a, .stride = slot };
		return 0;
	}
	for (uint32_t pages = 1; err == -ENOMEM && pages <= PAGES_MOST; pages *= 2)
		err = wq_init_pages(wq, a, pages, slots_of_page(max_wr, pages, slot), slot);
	return err;
}

void wq_fini(struct wq *wq)
{
	free_pages(wq, wq->pages);
}

void wq_reset(struct wq *wq)
{
	wq->written = wq->announced = wq->started = wq->completed = wq->reaped = wq->lap = 0;
	wq->credits = wq->capacity;
	wq->after = wq->after_lkey = 0;
	if (wq->capacity)
		atomic_store_explicit(wq_doorbell(wq), 0, memory_order_relaxed);
}

int wq_resize(struct wq *wq, uint32_t max_wr)
{
	uint32_t outstanding = wq->written - wq->reaped;
	struct wq next;
	int err;

	if (max_wr < outstanding || max_wr == 0)
		return -EINVAL;
	err = wq_init(&next, wq->arena, max_wr, wq->stride);
	if (err < 0)
		return err;
	next.written = wq->written;
	next.announced = wq->announced;
	next.started = wq->started;
	next.completed = wq->completed;
	next.reaped = next.lap = wq->reaped;
	next.credits = next.capacity - outstanding;
	next.cq = wq->cq;
	next.after = wq->after;
	next.after_lkey = wq->after_lkey;
	for (uint32_t i = wq->reaped; i != wq->written; i++)
		memcpy(wq_at(&next, i), wq_at(wq, i), wq->stride);
	if (wq->capacity)
		atomic_store_explicit(wq_doorbell(&next), atomic_load_explicit(wq_doorbell(wq), memory_order_relaxed),
				      memory_order_relaxed);
	wq_fini(wq);
	*wq = next;
	return 0;
}

void wq_unwrite(struct wq *wq, uint32_t n)
{
	wq->written -= n;
	wq->credits += n;
}

void wq_check(const struct wq *wq)
{
	uint32_t unannounced = wq->written - wq->announced, done = wq->completed - wq->reaped;

	weft_bug_on(wq->credits + unannounced + wq_pending(wq) + done != wq->capacity);
	weft_bug_on(unannounced > wq->capacity || wq_pending(wq) > wq->capacity || done > wq->capacity);
	weft_bug_on(wq->capacity && wq->reaped - wq->lap >= wq->capacity);
}
