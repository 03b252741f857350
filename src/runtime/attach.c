/* Attaching to weftd: HELLO, the fabric page, memory for queues, the adapter, the helper thread; and leaving at exit. */
#include "runtime/attach.h"

#include "base/log.h"
#include "control/clock.h"
#include "control/message.h"
#include "control/starter.h"
#include "ib/ib.h"
#include "peers/devices.h"
#include "peers/direct_target.h"
#include "peers/loads.h"
#include "runtime/config.h"
#include "runtime/faults.h"
#include "runtime/helper.h"
#include "runtime/process.h"
#include "runtime/pump.h"
#include "runtime/report.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "runtime/stats.h"
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

static int map_page(struct runtime *rt, int fd)
{
	struct stat st;
	void *page;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*rt->peers.page))
		return -EPROTO;
	page = mmap(NULL, sizeof(*rt->peers.page), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	rt->peers.page = page;
	return rt->peers.page->magic == PAGE_MAGIC && rt->peers.page->version == PAGE_VERSION ? 0 : -EPROTO;
}

static void unmap_page(struct runtime *rt)
{
	sa_paths_fini(&rt->peers.sa_paths);
	node_leave(&rt->peers.node);
	loads_end(&rt->peers);
	if (rt->peers.page)
		munmap((void *)(uintptr_t)rt->peers.page, sizeof(*rt->peers.page));
}

static int open_session(struct runtime *rt)
{
	int own[] = { rt->wake_fd, rt->peers.published.fd[0], rt->peers.published.fd[1] };
	int page_fd, err;

	err = session_open(&rt->session, rt->config->dir, own, publish_is_on(&rt->peers.published) ? 3 : 1, &page_fd);
	if (err)
		return err;
	err = map_page(rt, page_fd);
	close(page_fd);
	rt->peers.slot = rt->session.slot;
	if (!err)
		loads_take(&rt->peers, session_take_loads(&rt->session));
	if (!err && *rt->config->node)
		err = node_join(&rt->peers.node, &rt->session, rt->config->node);
	if (err)
		session_close(&rt->session);
	return err;
}

static int make_adapter(struct runtime *rt)
{
	struct ca_device dev[CA_DEVICES];
	struct ca_config config = { .ops = &runtime_ca_ops, .owner = rt,
				    .direct = publish_is_on(&rt->peers.published) ? &peers_direct_ops : NULL,
				    .direct_arg = &rt->peers, .arena = rt->arena.base, .arena_bytes = rt->arena.bytes,
				    .dev = dev };
	struct siphash_key key[2];
	int err;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	config.key = &key[0];
	rand_key(&rt->rand, &key[1]);
	config.devices = devices_read(rt->peers.page, &rt->peers.node, dev);
	if (config.devices == 0)
		return -ENODEV;
	for (int i = 0; i < config.devices; i++)
		dev[i].transport = &ib_transport;
	err = ca_init(&rt->ca, &config);
	if (err)
		return err;
	loads_point(&rt->peers);
	rt->ca.engine_options = &rt->config->transport;
	rt->ca.seed_cq_profile = rt->config->transport.profile == IB_SEED;
	if (!rt->config->engine_apart)
		return 0;
	err = ca_open_doorbells(&rt->ca);
	if (err)
		ca_fini(&rt->ca);
	return err;
}

static int own_first_slot(struct runtime *rt)
{
	int err = qpn_pool_add_slot(&rt->qpns, &rt->rand, rt->peers.slot);

	if (err)
		return err;
	rt->peers.channels.loop->link->origin = atomic_load(&rt->peers.page->slot_owner[rt->peers.slot]);
	channels_own(&rt->peers, rt->peers.slot);
	return 0;
}

static void init_peers(struct runtime *rt)
{
	struct published *pub = &rt->peers.published;

	rt->peers.ca = &rt->ca;
	rt->peers.session = &rt->session;
	remap_init(&pub->remap, &rt->ca, rt->config->remap_bytes);
	roce_socket_init(&rt->peers.roce, strcmp(rt->config->path, "wire") == 0);
	if (rt->peers.roce.takes_all || strcmp(rt->config->path, "packet") == 0)
		unpublish_all(pub);
	else
		publish_init(pub);
}

/* What is built, in this order. */
enum stage { PUBLISHED, SESSION, ARENA, ADAPTER, CHANNELS, FAULTS, WHOLE };

static int build_peers(struct runtime *rt)
{
	int err;

	links_init(&rt->peers.links);
	err = channels_init(&rt->peers.channels, &rt->peers.links, publish_bells(&rt->peers.published));
	if (err)
		return err;
	qpn_pool_init(&rt->qpns);
	return 0;
}

/* *stage: what there is of it when it fails. */
static int build(struct runtime *rt, enum stage *stage)
{
	int err;

	*stage = PUBLISHED;
	init_peers(rt);
	err = open_session(rt);
	if (err)
		return err;
	*stage = SESSION;
	err = arena_memory_create(&rt->arena);
	if (err)
		return err;
	copy_file_create(&rt->copy_file);
	*stage = ARENA;
	err = make_adapter(rt);
	if (err)
		return err;
	*stage = ADAPTER;
	err = build_peers(rt);
	if (err)
		return err;
	*stage = CHANNELS;
	err = own_first_slot(rt);
	if (err == 0)
		err = faults_create(rt);
	if (err)
		return err;
	devices_take_cuts(rt->peers.page, &rt->ca);
	faults_look_at_links(rt);
	*stage = FAULTS;
	progress_init(&rt->progress);
	err = helper_start(rt);
	if (err == 0)
		*stage = WHOLE;
	return err;
}

static void take_apart(struct runtime *rt, enum stage stage)
{
	switch (stage) {
	case WHOLE:
		helper_stop(rt);
		/* fall through */
	case FAULTS:
		faults_destroy(rt);
		/* fall through */
	case CHANNELS:
		qpn_pool_fini(&rt->qpns);
		roce_socket_fini(&rt->peers);
		channels_fini(&rt->peers.channels);
		links_fini(&rt->peers.links);
		/* fall through */
	case ADAPTER:
		ca_fini(&rt->ca);
		/* fall through */
	case ARENA:
		copy_file_destroy(&rt->copy_file);
		arena_memory_destroy(&rt->arena);
		/* fall through */
	case SESSION:
		session_close(&rt->session);
		/* fall through */
	case PUBLISHED:
		unmap_page(rt);
		remap_forget(&rt->peers.published.remap);
		publish_fini(&rt->peers.published);
	}
}

static int init(struct runtime *rt, const struct config *config)
{
	int err;

	memset(rt, 0, sizeof(*rt));
	rt->config = config;
	err = wait_init(rt);
	if (err)
		return err;
	rt->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rt->wake_fd < 0) {
		err = -errno;
		wait_fini(rt);
		return err;
	}
	lock_init(&rt->lock);
	pthread_mutex_init(&rt->asking, NULL);
	return 0;
}

static void fini(struct runtime *rt)
{
	pthread_mutex_destroy(&rt->asking);
	lock_fini(&rt->lock);
	close(rt->wake_fd);
	wait_fini(rt);
}

struct runtime *runtime_attach(const struct config *config, int *err)
{
	struct runtime *rt = aligned_alloc(_Alignof(struct runtime), sizeof(*rt));
	enum stage stage;

	*err = -ENOMEM;
	if (!rt)
		return NULL;
	*err = init(rt, config);
	if (*err)
		goto memory;
	*err = build(rt, &stage);
	if (*err == 0)
		return rt;
	take_apart(rt, stage);
	fini(rt);
memory:
	free(rt);
	return NULL;
}

/* The adapter's counters that are not zero, for who has no time to ask with weft counters. A line of the log is short. */
static void log_counters(struct runtime *rt)
{
	char line[900] = "";
	struct counters now;
	size_t length = 0;

	/* who is inside may not come back */
	if (!log_hears(LOG_INFO) || !lock_soon(&rt->lock))
		return;
	now = runtime_counters(rt);
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
	lock_leave(&rt->lock);
	if (length)
		log_line(LOG_INFO, "counters:%s", line);
}

/* With an engine apart: what was posted last, and the helper has not yet seen; else ACKs that waited for an answer. */
static void let_posts_out(struct runtime *rt)
{
	if (rt->peers.in_forked_child || !lock_soon(&rt->lock))
		return;
	if (rt->ca.doorbells)
		ca_read_doorbells(&rt->ca, clock_now());
	if (ca_release_acks(&rt->ca) || rt->ca.doorbells)
		pump(rt, rt->ca.now);
	lock_leave(&rt->lock);
}

/* Who is inside may not come back. */
static char *history(struct runtime *rt)
{
	char *text;

	if (rt->peers.in_forked_child || !lock_soon(&rt->lock))
		return NULL;
	text = report_at_end(rt);
	lock_leave(&rt->lock);
	return text;
}

/* What was posted or held back goes out, and weftd is told. */
static void leave(struct runtime *rt)
{
	struct control_msg msg = { .type = CTL_GOODBYE };
	char *text = history(rt);
	int err = 0;

	msg.text_bytes = text ? (uint32_t)strlen(text) : 0;

	let_posts_out(rt);
	faults_leave(rt);
	if (!rt->peers.in_forked_child) {
		log_counters(rt);
		stats_leave(rt);
	}
	if (atomic_load(&rt->session.state) == SESSION_ATTACHED)
		err = message_send(rt->session.socket, &msg, text, NULL, 0, MSG_DONTWAIT);
	free(text);
	if (err == -EPIPE || err == -ENOTCONN || atomic_load(&rt->session.state) == SESSION_AWAY)
		starter_sweep(rt->session.dir);
}

void runtime_detach(struct runtime *rt)
{
	leave(rt);
	take_apart(rt, WHOLE);
	fini(rt);
	free(rt);
}

/* At exit other threads may still be inside, so nothing is taken apart: the kernel does the rest. */
__attribute__((destructor)) static void leave_at_exit(void)
{
	for (struct runtime *rt = atomic_load(&process.runtimes); rt; rt = atomic_load(&rt->next))
		leave(rt);
}
