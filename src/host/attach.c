/* Attaching to weftd: HELLO, the fabric page, memory for queues, the adapter, the helper thread; and leaving at exit. */
#include "host/internal.h"

#include "base/log.h"
#include "host/config.h"
#include "host/faults.h"
#include "host/message.h"
#include "ib/ib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_page(struct host *h, int fd)
{
	struct stat st;
	void *page;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*h->page))
		return -EPROTO;
	page = mmap(NULL, sizeof(*h->page), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	h->page = page;
	return h->page->magic == PAGE_MAGIC && h->page->version == PAGE_VERSION ? 0 : -EPROTO;
}

static void unmap_page(struct host *h)
{
	if (h->page)
		munmap((void *)(uintptr_t)h->page, sizeof(*h->page));
}

static int open_session(struct host *h)
{
	int own[] = { h->wake_fd, h->direct.fd[0], h->direct.fd[1] };
	int page_fd, err;

	err = session_open(&h->session, config_get()->dir, own, direct_is_on(h) ? 3 : 1, &page_fd);
	if (err)
		return err;
	err = map_page(h, page_fd);
	close(page_fd);
	h->slot = h->session.slot;
	if (err)
		session_close(&h->session);
	return err;
}

static int make_adapter(struct host *h)
{
	struct ca_device dev[CA_DEVICES];
	struct ca_config config = { .host_ops = &host_ca_ops, .host = h, .transport = &ib_transport,
				    .direct = direct_is_on(h) ? &host_direct_ops : NULL, .arena = h->arena.base,
				    .arena_bytes = h->arena.bytes, .dev = dev };
	uint64_t seed;
	int err;

	if (getrandom(&config.seed, sizeof(config.seed), 0) != sizeof(config.seed) ||
	    getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	rand_seed(&h->rand, seed);
	config.devices = devices_read(h->page, dev);
	if (config.devices == 0)
		return -ENODEV;
	err = ca_init(&h->ca, &config);
	if (err)
		return err;
	h->ca.transport_options = &config_get()->transport;
	h->ca.seed_cq_profile = config_get()->transport.profile == IB_SEED;
	return 0;
}

static int own_first_slot(struct host *h)
{
	int err = numbers_add_slot(&h->numbers, &h->rand, h->slot);

	if (err == 0)
		h->channels.by_slot[h->slot] = h->channels.loop;
	return err;
}

static int build(struct host *h)
{
	int err;

	direct_init(h);
	err = open_session(h);
	if (err)
		goto direct;
	err = arena_memory_create(&h->arena);
	if (err)
		goto session;
	err = make_adapter(h);
	if (err)
		goto arena;
	err = channels_init(&h->channels, direct_news(h));
	if (err)
		goto adapter;
	numbers_init(&h->numbers);
	err = own_first_slot(h);
	if (err)
		goto channels;
	err = faults_create(h);
	if (err)
		goto channels;
	attention_init(&h->attention);
	err = helper_start(h);
	if (err == 0)
		return 0;
	faults_destroy(h);
channels:
	numbers_fini(&h->numbers);
	channels_fini(&h->channels);
adapter:
	ca_fini(&h->ca);
arena:
	arena_memory_destroy(&h->arena);
session:
	session_close(&h->session);
direct:
	unmap_page(h);
	direct_fini(h);
	return err;
}

struct host *host_attach(int *err)
{
	struct host *h = aligned_alloc(_Alignof(struct host), sizeof(*h));

	*err = -ENOMEM;
	if (!h)
		return NULL;
	memset(h, 0, sizeof(*h));
	lock_init(&h->lock);
	h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->wake_fd < 0) {
		*err = -errno;
		goto lock;
	}
	*err = build(h);
	if (*err == 0)
		return h;
	close(h->wake_fd);
lock:
	lock_fini(&h->lock);
	free(h);
	return NULL;
}

/* At exit other threads may still be inside, so nothing is taken apart: weftd is told, the kernel does the rest. */
__attribute__((destructor)) static void leave_at_exit(void)
{
	struct host *h = atomic_load(&host_current);
	struct control_msg msg = { .type = CTL_GOODBYE };

	if (h)
		faults_leave(h);
	if (h && atomic_load(&h->session.state) == SESSION_ATTACHED)
		message_send(h->session.socket, &msg, NULL, NULL, 0, MSG_DONTWAIT);
}
