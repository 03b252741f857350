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

static uint8_t *page_at(const struct queue_ring *r, uint32_t page)
{
	return r->pages > 1 ? r->page[page] : r->first;
}

static struct page_link *link_of(const struct queue_ring *r, uint32_t page)
{
	return (struct page_link *)(page_at(r, page) + (uint64_t)(r->slots_per_page - 1) * r->stride);
}

static void free_pages(struct queue_ring *r, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		arena_free(r->arena, (uint64_t)(page_at(r, i) - r->arena->base));
	queue_ring_unmap(r);
}

static void chain_pages(struct queue_ring *r)
{
	for (uint32_t i = 0; i < r->pages; i++)
		link_of(r, i)->next = (uint64_t)(page_at(r, (i + 1) % r->pages) - r->arena->base);
	r->offset = (uint64_t)(r->first - r->arena->base);
	r->doorbell = &link_of(r, 0)->doorbell;
	atomic_init(r->doorbell, 0);
}

static int make_book(struct queue_ring *r)
{
	r->page = r->pages > 1 ? calloc(r->pages, sizeof(*r->page)) : NULL;
	return r->pages > 1 && !r->page ? -ENOMEM : 0;
}

int queue_ring_init_pages(struct queue_ring *r, struct arena *a, uint32_t pages, uint32_t slots_per_page, uint32_t stride)
{
	if (pages == 0 || slots_per_page < 2 || stride < sizeof(struct page_link) || stride % 8)
		return -EINVAL;
	*r = (struct queue_ring){ .arena = a, .pages = pages, .slots_per_page = slots_per_page, .stride = stride,
				  .capacity = pages * (slots_per_page - 1) };
	if (make_book(r) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < pages; i++) {
		uint64_t offset;

		if (arena_alloc(a, (uint64_t)slots_per_page * stride, &offset) < 0) {
			free_pages(r, i);
			return -ENOMEM;
		}
		if (i == 0)
			r->first = a->base + offset;
		if (r->page)
			r->page[i] = a->base + offset;
	}
	chain_pages(r);
	return 0;
}

/* As many as a page of that ring needs, and as fit into the units that those take. */
static uint32_t slots_of_page(uint32_t most, uint32_t pages, uint32_t slot)
{
	uint64_t slots = (most + pages - 1) / pages + 1;

	if (slots < SLOTS_MIN)
		slots = SLOTS_MIN;
	return (uint32_t)((slots * slot + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT / slot);
}

int queue_ring_init(struct queue_ring *r, struct arena *a, uint32_t most, uint32_t stride)
{
	uint32_t slot = (stride + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
	int err = -ENOMEM;

	if (stride == 0 || stride > 1u << 20 || most > 1u << 30)
		return -EINVAL;
	if (most == 0) {
		*r = (struct queue_ring){ .arena = a, .stride = slot };
		return 0;
	}
	for (uint32_t pages = 1; err == -ENOMEM && pages <= PAGES_MOST; pages *= 2)
		err = queue_ring_init_pages(r, a, pages, slots_of_page(most, pages, slot), slot);
	return err;
}

int queue_ring_map(struct queue_ring *r, const struct queue_ring *other)
{
	*r = *other;
	if (make_book(r) < 0)
		return -ENOMEM;
	if (r->page)
		memcpy(r->page, other->page, r->pages * sizeof(*r->page));
	return 0;
}

void queue_ring_unmap(struct queue_ring *r)
{
	free(r->page);
	*r = (struct queue_ring){ 0 };
}

void queue_ring_fini(struct queue_ring *r)
{
	free_pages(r, r->pages);
}

/* Both sides, of a ring that was made for the consumer. */
static int open_sides(struct wq *wq, const struct queue_ring *ring)
{
	*wq = (struct wq){ .ulp = { .ring = *ring, .credits = ring->capacity } };
	if (queue_ring_map(&wq->engine.ring, ring) == 0)
		return 0;
	queue_ring_fini(&wq->ulp.ring);
	return -ENOMEM;
}

int wq_init(struct wq *wq, struct arena *a, uint32_t max_wr, uint32_t stride)
{
	struct queue_ring ring;
	int err = queue_ring_init(&ring, a, max_wr, stride);

	return err < 0 ? err : open_sides(wq, &ring);
}

int wq_init_pages(struct wq *wq, struct arena *a, uint32_t pages, uint32_t slots_per_page, uint32_t stride)
{
	struct queue_ring ring;
	int err = queue_ring_init_pages(&ring, a, pages, slots_per_page, stride);

	return err < 0 ? err : open_sides(wq, &ring);
}

int wq_init_copies(struct wq_engine *e)
{
	if (!e->ring.capacity)
		return 0;
	e->copies = malloc((size_t)e->ring.capacity * e->ring.stride);
	return e->copies ? 0 : -ENOMEM;
}

void wq_fini(struct wq *wq)
{
	free(wq->engine.copies);
	queue_ring_unmap(&wq->engine.ring);
	queue_ring_fini(&wq->ulp.ring);
	*wq = (struct wq){ 0 };
}

void wq_reset(struct wq *wq)
{
	struct wq_engine *e = &wq->engine;
	struct wq_ulp *u = &wq->ulp;

	u->written = u->rung = u->reaped = u->lap = 0;
	u->credits = u->ring.capacity;
	e->announced = e->fetched = e->started = e->completed = e->lap = 0;
	e->after = e->after_lkey = 0;
	if (u->ring.capacity)
		atomic_store_explicit(u->ring.doorbell, 0, memory_order_relaxed);
}

int wq_resize(struct wq *wq, uint32_t max_wr)
{
	struct wq_ulp *u = &wq->ulp;
	uint32_t outstanding = u->written - u->reaped;
	struct wq next;
	int err;

	if (max_wr < outstanding || max_wr == 0)
		return -EINVAL;
	err = wq_init(&next, u->ring.arena, max_wr, u->ring.stride);
	if (err < 0)
		return err;
	next.ulp.written = u->written;
	next.ulp.rung = u->rung;
	next.ulp.reaped = next.ulp.lap = u->reaped;
	next.ulp.credits = next.ulp.ring.capacity - outstanding;
	next.engine.announced = wq->engine.announced;
	next.engine.started = wq->engine.started;
	next.engine.completed = wq->engine.completed;
	next.engine.lap = wq->engine.completed - u->reaped < next.ulp.ring.capacity ? u->reaped : wq->engine.completed;
	next.engine.cq = wq->engine.cq;
	next.engine.after = wq->engine.after;
	next.engine.after_lkey = wq->engine.after_lkey;
	for (uint32_t i = u->reaped; i != u->written; i++)
		memcpy(wq_ulp_at(&next.ulp, i), wq_ulp_at(u, i), u->ring.stride);
	atomic_store_explicit(next.ulp.ring.doorbell, u->rung, memory_order_relaxed);
	wq_fini(wq);
	*wq = next;
	return 0;
}

void wq_unwrite(struct wq_ulp *u, uint32_t n)
{
	u->written -= n;
	u->credits += n;
}

void wq_check(const struct wq *wq)
{
	const struct wq_engine *e = &wq->engine;
	const struct wq_ulp *u = &wq->ulp;
	uint32_t capacity = u->ring.capacity, unannounced = u->written - e->announced, done = e->completed - u->reaped;

	weft_bug_on(u->credits + unannounced + wq_pending(e) + done != capacity);
	weft_bug_on(unannounced > capacity || wq_pending(e) > capacity || done > capacity);
	weft_bug_on(u->written - u->rung > capacity || u->rung - e->announced > capacity);
	weft_bug_on(capacity && (u->reaped - u->lap >= capacity || e->completed - e->lap >= capacity));
}
