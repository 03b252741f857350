/* Attaching to weftd: HELLO, the fabric page, memory for queues, the adapter, the helper thread; and leaving at exit. */
#include "runtime/attach.h"

#include "base/log.h"
#include "control/clock.h"
#include "control/message.h"
#include "control/starter.h"
#include "ib/ib.h"
#include "peers/devices.h"
#include "peers/direct_target.h"
#include "runtime/config.h"
#include "runtime/stats.h"
#include "runtime/faults.h"
#include "runtime/helper.h"
#include "runtime/process.h"
#include "runtime/pump.h"
#include "runtime/report.h"
#include "runtime/runtime.h"
#include "runtime/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*h->peers.page))
		return -EPROTO;
	page = mmap(NULL, sizeof(*h->peers.page), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	h->peers.page = page;
	return h->peers.page->magic == PAGE_MAGIC && h->peers.page->version == PAGE_VERSION ? 0 : -EPROTO;
}

static void unmap_page(struct host *h)
{
	node_leave(&h->peers.node);
	if (h->peers.page)
		munmap((void *)(uintptr_t)h->peers.page, sizeof(*h->peers.page));
}

static int open_session(struct host *h)
{
	int own[] = { h->wake_fd, h->peers.published.fd[0], h->peers.published.fd[1] };
	int page_fd, err;

	err = session_open(&h->session, h->config->dir, own, publish_is_on(&h->peers.published) ? 3 : 1, &page_fd);
	if (err)
		return err;
	err = map_page(h, page_fd);
	close(page_fd);
	h->peers.slot = h->session.slot;
	if (!err && *h->config->node)
		err = node_join(&h->peers.node, &h->session, h->config->node);
	if (err)
		session_close(&h->session);
	return err;
}

static int make_adapter(struct host *h)
{
	struct ca_device dev[CA_DEVICES];
	struct ca_config config = { .host_ops = &host_ca_ops, .host = h,
				    .direct = publish_is_on(&h->peers.published) ? &peers_direct_ops : NULL,
				    .direct_arg = &h->peers, .arena = h->arena.base, .arena_bytes = h->arena.bytes, .dev = dev };
	struct siphash_key key[2];
	int err;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	config.key = &key[0];
	rand_key(&h->rand, &key[1]);
	config.devices = devices_read(h->peers.page, &h->peers.node, dev);
	if (config.devices == 0)
		return -ENODEV;
	for (int i = 0; i < config.devices; i++)
		dev[i].transport = &ib_transport;
	err = ca_init(&h->ca, &config);
	if (err)
		return err;
	h->ca.transport_options = &h->config->transport;
	h->ca.seed_cq_profile = h->config->transport.profile == IB_SEED;
	if (!h->config->engine_apart)
		return 0;
	h->full = LEAVE_TO_HELPER;
	err = ca_run_apart(&h->ca);
	if (err)
		ca_fini(&h->ca);
	return err;
}

static int own_first_slot(struct host *h)
{
	int err = qpn_pool_add_slot(&h->qpns, &h->rand, h->peers.slot);

	if (err)
		return err;
	h->peers.channels.loop->link->origin = atomic_load(&h->peers.page->slot_owner[h->peers.slot]);
	channels_own(&h->peers, h->peers.slot);
	return 0;
}

static void init_peers(struct host *h)
{
	struct published *pub = &h->peers.published;

	h->peers.ca = &h->ca;
	h->peers.session = &h->session;
	remap_init(&pub->remap, &h->ca, h->config->remap_bytes);
	wire_init(&h->peers.wire, strcmp(h->config->path, "wire") == 0);
	if (h->peers.wire.takes_all || strcmp(h->config->path, "packet") == 0)
		unpublish_all(pub);
	else
		publish_init(pub);
}

/* What is built, in this order. */
enum stage { PUBLISHED, SESSION, ARENA, ADAPTER, CHANNELS, FAULTS, WHOLE };

static int build_peers(struct host *h)
{
	int err;

	links_init(&h->peers.links);
	err = channels_init(&h->peers.channels, &h->peers.links, publish_bells(&h->peers.published));
	if (err)
		return err;
	qpn_pool_init(&h->qpns);
	return 0;
}

/* *stage: what there is of it when it fails. */
static int build(struct host *h, enum stage *stage)
{
	int err;

	*stage = PUBLISHED;
	init_peers(h);
	err = open_session(h);
	if (err)
		return err;
	*stage = SESSION;
	err = arena_memory_create(&h->arena);
	if (err)
		return err;
	copy_file_create(&h->copy_file);
	*stage = ARENA;
	err = make_adapter(h);
	if (err)
		return err;
	*stage = ADAPTER;
	err = build_peers(h);
	if (err)
		return err;
	*stage = CHANNELS;
	err = own_first_slot(h);
	if (err == 0)
		err = faults_create(h);
	if (err)
		return err;
	*stage = FAULTS;
	progress_init(&h->progress);
	err = helper_start(h);
	if (err == 0)
		*stage = WHOLE;
	return err;
}

static void take_apart(struct host *h, enum stage stage)
{
	switch (stage) {
	case WHOLE:
		helper_stop(h);
		/* fall through */
	case FAULTS:
		faults_destroy(h);
		/* fall through */
	case CHANNELS:
		qpn_pool_fini(&h->qpns);
		wire_fini(&h->peers);
		channels_fini(&h->peers.channels);
		links_fini(&h->peers.links);
		/* fall through */
	case ADAPTER:
		ca_fini(&h->ca);
		/* fall through */
	case ARENA:
		copy_file_destroy(&h->copy_file);
		arena_memory_destroy(&h->arena);
		/* fall through */
	case SESSION:
		session_close(&h->session);
		/* fall through */
	case PUBLISHED:
		unmap_page(h);
		remap_forget(&h->peers.published.remap);
		publish_fini(&h->peers.published);
	}
}

static int init(struct host *h, const struct config *config)
{
	int err;

	memset(h, 0, sizeof(*h));
	h->config = config;
	err = wait_init(h);
	if (err)
		return err;
	h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->wake_fd < 0) {
		err = -errno;
		wait_fini(h);
		return err;
	}
	lock_init(&h->lock);
	pthread_mutex_init(&h->asking, NULL);
	return 0;
}

static void fini(struct host *h)
{
	pthread_mutex_destroy(&h->asking);
	lock_fini(&h->lock);
	close(h->wake_fd);
	wait_fini(h);
}

struct host *host_attach(const struct config *config, int *err)
{
	struct host *h = aligned_alloc(_Alignof(struct host), sizeof(*h));
	enum stage stage;

	*err = -ENOMEM;
	if (!h)
		return NULL;
	*err = init(h, config);
	if (*err)
		goto memory;
	*err = build(h, &stage);
	if (*err == 0)
		return h;
	take_apart(h, stage);
	fini(h);
memory:
	free(h);
	return NULL;
}

/* The adapter's counters that are not zero, for who has no time to ask with weft counters. A line of the log is short. */
static void log_counters(struct host *h)
{
	char line[900] = "";
	struct counters now;
	size_t length = 0;

	/* who is inside may not come back */
	if (!log_hears(LOG_INFO) || !lock_soon(&h->lock))
		return;
	now = host_counters(h);
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t value = counters_value(&now, i);

		if (!value)
			continue;
		if (length > sizeof(line) - 100) {
			log_line(LOG_INFO, "counters:%s", line);
			length = 0;
		}
		length += (size_t)snprintf(line + length, sizeof(line) - length, " %s=%" PRIu64, counters_name(i), value);
	}
	lock_leave(&h->lock);
	if (length)
		log_line(LOG_INFO, "counters:%s", line);
}

/* With an engine apart: what was posted last, and the helper has not yet seen. */
static void let_posts_out(struct host *h)
{
	if (!h->ca.doorbells || h->peers.forgotten || !lock_soon(&h->lock))
		return;
	ca_read_doorbells(&h->ca, clock_now());
	pump(h, h->ca.now);
	lock_leave(&h->lock);
}

/* Who is inside may not come back. */
static char *last_words(struct host *h)
{
	char *text;

	if (h->peers.forgotten || !lock_soon(&h->lock))
		return NULL;
	text = report_last_words(h);
	lock_leave(&h->lock);
	return text;
}

/* What was posted or held back goes out, and weftd is told. */
static void leave(struct host *h)
{
	struct control_msg msg = { .type = CTL_GOODBYE };
	char *text = last_words(h);
	int err = 0;

	msg.text_bytes = text ? (uint32_t)strlen(text) : 0;

	let_posts_out(h);
	faults_leave(h);
	if (!h->peers.forgotten) {
		log_counters(h);
		stats_leave(h);
	}
	if (atomic_load(&h->session.state) == SESSION_ATTACHED)
		err = message_send(h->session.socket, &msg, text, NULL, 0, MSG_DONTWAIT);
	free(text);
	if (err == -EPIPE || err == -ENOTCONN || atomic_load(&h->session.state) == SESSION_AWAY)
		starter_sweep(h->session.dir);
}

void host_detach(struct host *h)
{
	leave(h);
	take_apart(h, WHOLE);
	fini(h);
	free(h);
}

/* At exit other threads may still be inside, so nothing is taken apart: the kernel does the rest. */
__attribute__((destructor)) static void leave_at_exit(void)
{
	for (struct host *h = atomic_load(&process.hosts); h; h = atomic_load(&h->next))
		leave(h);
}
