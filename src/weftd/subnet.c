/* A fabric that a command gives is copied before it is judged, so that nobody changes it in between. The file has its name once
 * it is whole; who maps an older one keeps that. A port's state changes under its node's sequence word, and then processes are
 * told to look at it again. */
#include "weftd/subnet.h"

#include "base/log.h"
#include "control/devices.h"
#include "control/fabric_file.h"
#include "fabric/host.h"
#include "fabric/route.h"
#include "link/memfile.h"
#include "weftd/entry.h"
#include "weftd/joins.h"
#include "weftd/seed_sa.h"
#include "weftd/leases.h"
#include "weftd/lid_store.h"
#include "weftd/manager.h"
#include "weftd/page.h"
#include "weftd/paths.h"
#include "weftd/port_counts.h"
#include "weftd/tree.h"
#include "weftd/umad.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "fabric"
#define FRESH "fabric.new"
#define COUNTS "counts"
#define COUNTS_FRESH "counts.new"

#define NO_SUBNET(its_dir) (struct subnet){ .dir = (its_dir), .fd = -1, .traffic_fd = -1 }

/* ---- the file ---- */

static void forget(struct subnet *s)
{
	agents_fini(&s->agents);
	kept_counts_close(&s->counts);
	if (s->traffic)
		munmap(s->traffic, traffic_bytes(&s->fabric));
	if (s->traffic_fd >= 0)
		close(s->traffic_fd);
	fabric_file_unmap(&s->fabric);
	if (s->fd >= 0)
		close(s->fd);
	*s = NO_SUBNET(s->dir);
}

static void end_manager(struct fabric *f, uint32_t port)
{
	uint32_t capabilities = f->port[port].capabilities;

	if (!(capabilities & CAPABLE_SM))
		return;
	fabric_write(f, f->owner[port]);
	FABRIC_SET(f->port[port].capabilities, capabilities & ~(uint32_t)CAPABLE_SM);
	fabric_written(f, f->owner[port]);
}

/* A weftd that was killed in the middle of a change leaves a node whose word says so for ever, or a link that is down at one
 * end; and ports of subnet managers, whose connections ended with it. */
static void end_changes(struct fabric *f)
{
	for (uint32_t n = 0; n < f->nodes; n++) {
		if (atomic_load(&f->node[n].sequence) & 1)
			fabric_written(f, n);
	}
	for (uint32_t port = 0; port < f->ports; port++) {
		uint32_t peer = fabric_peer(f, port);

		end_manager(f, port);
		if (peer != PORT_NONE && FABRIC_READ(f->port[port].state) == PORT_DOWN &&
		    FABRIC_READ(f->port[peer].state) != PORT_DOWN)
			fabric_set_link(f, port, false);
	}
}

/* Where data counts from now on, from what the last weftd saved. Its size is fixed, as those who map it would end by a signal
 * where it is shorter. */
static int make_traffic(struct subnet *s)
{
	size_t bytes = traffic_bytes(&s->fabric);
	void *at;

	s->traffic_fd = memfile_create_fixed("weft-traffic", bytes);
	if (s->traffic_fd < 0)
		return s->traffic_fd;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->traffic_fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	s->agents.traffic = s->traffic = at;
	kept_counts_restore(&s->counts, &s->fabric, s->traffic);
	return 0;
}

/* Without room for the file ports count all the same, and the next weftd begins at zero. */
static int make_counts(struct subnet *s, bool is_new)
{
	int err = kept_counts_open(&s->counts, s->dir, is_new ? COUNTS_FRESH : COUNTS, s->fabric.ports, is_new);

	if (err)
		log_line(LOG_WARNING, "what ports of the fabric count is not kept for the next weftd: %s", strerror(-err));
	else
		agents_count_in(&s->agents, s->counts.counters);
	return make_traffic(s);
}

static void save_counts(struct subnet *s)
{
	if (s->counts.at && s->traffic)
		kept_counts_save(&s->counts, s->traffic);
}

/* Our choices: who reads many ports, or sets them one after the other, costs no more than this. A weftd that is killed before
 * what was set is saved has it settled by the next (kept_counts.c). */
static const wtime SAVE_HOLD = 100 * WTIME_MS, SET_HOLD = 10 * WTIME_MS;

static void save_now(struct hub *h)
{
	h->subnet->counts_saved = h->now;
	h->subnet->counts_due = 0;
	save_counts(h->subnet);
}

void subnet_counts_read(struct hub *h, bool is_set)
{
	struct subnet *s = h->subnet;

	if (is_set && !s->counts_due)
		s->counts_due = h->now + SET_HOLD;
	if (!is_set && h->now - s->counts_saved >= SAVE_HOLD)
		save_now(h);
}

void subnet_expire(struct hub *h)
{
	if (subnet_deadline(h) <= h->now)
		save_now(h);
}

wtime subnet_deadline(const struct hub *h)
{
	return h->subnet && h->subnet->counts_due ? h->subnet->counts_due : WTIME_NEVER;
}

static int map_file(struct subnet *s, const char *name, int fd)
{
	char why[200];
	int err = fabric_file_map(&s->fabric, fd, true, why, sizeof(why));

	if (err) {
		log_line(LOG_ERROR, "the fabric is refused: %s", err == -EINVAL ? why : strerror(-err));
		return err;
	}
	end_changes(&s->fabric);
	err = agents_init(&s->agents, &s->fabric);
	if (!err)
		err = make_counts(s, !strcmp(name, FRESH));
	if (err)
		return err;
	s->fd = entry_open(s->dir->own, name, O_RDONLY, 0);
	return s->fd < 0 ? s->fd : 0;
}

void subnet_remove(const struct rundir *dir)
{
	static const char *const names[] = { NAME, FRESH, COUNTS, COUNTS_FRESH, LID_STORE_FILES };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (entry_remove(dir->own, names[i], S_IFREG) == -EEXIST)
			log_line(LOG_WARNING, "%s/" CONTROL_OWN "/%s was not made by weft: it stays", dir->path, names[i]);
	}
}

static int take_over(struct subnet *s)
{
	int fd = entry_open(s->dir->own, NAME, O_RDWR, 0), err;

	if (fd < 0)
		return fd;
	err = map_file(s, NAME, fd);
	close(fd);
	return err;
}

static uint32_t find_tree(const struct subnet *s, uint32_t place)
{
	uint32_t i = 0;

	while (i < s->trees && s->tree[i].place != place)
		i++;
	return i;
}

static uint32_t find_choice(const struct subnet *s, uint32_t which)
{
	uint32_t i = 0;

	while (i < s->choices && s->choice[i].which != which)
		i++;
	return i;
}

/* The bit of tree.written of a choice of devices, 0: all; or 0: there are too many. user: who asks. */
static uint32_t choose(struct subnet *s, uint32_t which, uint32_t user)
{
	uint32_t i = find_choice(s, which);

	if (!which)
		return 1;
	if (i == CONTROL_CHOICES)
		return 0;
	if (i == s->choices) {
		s->choice[i].which = which;
		s->choice[i].user = user;
		s->choices++;
	}
	return 2u << i;
}

static bool may_choose(struct hub *h, const struct client *c, uint32_t which)
{
	uint32_t i = find_choice(h->subnet, which);

	return !which || i < h->subnet->choices || (i < CONTROL_CHOICES && !account_check(h, c, LIMIT_CHOICES, 1));
}

/* A tree that the last weftd wrote may tell old addresses, and is written anew when somebody asks for it. */
static void count_tree(void *arg, uint32_t place, uint32_t which)
{
	struct subnet *s = arg;
	uint32_t i = find_tree(s, place);

	choose(s, which, SUBNET_NOBODY);
	if (i < s->trees || i == SUBNET_TREES)
		return;
	s->tree[i].place = place;
	s->tree[i].user = SUBNET_NOBODY;
	s->trees++;
}

void subnet_open(struct subnet *s, const struct rundir *dir, struct fabric_page *page)
{
	int err = -ENOENT;

	*s = NO_SUBNET(dir);
	if (atomic_load(&page->fabric))
		err = take_over(s);
	if (!err) {
		s->is_taken_over = true;
		tree_visit_places(dir, count_tree, s);
		return;
	}
	forget(s);
	tree_remove_places(dir);
	subnet_remove(dir);
	if (atomic_load(&page->fabric))
		log_line(LOG_ERROR, "the network's fabric is lost: %s; next: weft fabric load FILE", strerror(-err));
	atomic_store(&page->fabric, 0);
}

void subnet_close(struct subnet *s)
{
	save_counts(s);
	forget(s);
}

/* ---- loading ---- */

/* From a file that may change or shrink meanwhile. */
static int copy(int from, void *to, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = pread(from, (uint8_t *)to + at, bytes - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EINVAL;
		at += (size_t)n;
	}
	return 0;
}

/* A file with a copy of what is in `from`, whole. Its descriptor, or -errno. */
static int make_copy(const struct rundir *dir, int from, size_t bytes)
{
	int fd = entry_open(dir->own, FRESH, O_RDWR | O_CREAT | O_EXCL, 0600), err;
	void *to;

	if (fd < 0)
		return fd;
	err = -posix_fallocate(fd, 0, (off_t)bytes);
	to = err ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!err && to == MAP_FAILED)
		err = -errno;
	if (!err)
		err = copy(from, to, bytes);
	if (to != MAP_FAILED)
		munmap(to, bytes);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* What a subnet manager writes later may have LIDs that two ports have. */
static int check_lids(const struct fabric *f)
{
	char why[200];
	int err = fabric_check_lids(f, why, sizeof(why));

	if (err)
		log_line(LOG_ERROR, "the fabric is refused: %s", err == -EINVAL ? why : strerror(-err));
	return err;
}

static int load(struct subnet *fresh, const struct rundir *dir, int from)
{
	struct stat st;
	int fd, err;

	*fresh = NO_SUBNET(dir);
	if (fstat(from, &st))
		return -errno;
	if (st.st_size <= 0)
		return -EINVAL;
	if (st.st_size > FABRIC_BYTES_MOST)
		return -EFBIG;
	entry_remove(dir->own, FRESH, S_IFREG);
	fd = make_copy(dir, from, (size_t)st.st_size);
	if (fd < 0)
		return fd;
	err = map_file(fresh, FRESH, fd);
	close(fd);
	return err ? err : check_lids(&fresh->fabric);
}

/* Processes at ports, those too that have not come back yet, and programs of weft run that are to be there. */
static uint32_t count_placed(const struct hub *h)
{
	uint32_t n = leases_count_placed(h);

	for (uint32_t i = 1; i < PAGE_SLOTS; i++)
		n += h->claims->slot[i].first == i && atomic_load(&h->page->slot_port[i]);
	return n;
}

/* The next number, which no fabric has had; 0 is none. */
static void number(struct hub *h, bool any)
{
	uint32_t last = h->last_fabric;

	h->last_fabric = last == UINT32_MAX ? 1 : last + 1;
	atomic_store(&h->page->fabric, any ? h->last_fabric : 0);
}

/* The number is set first: a weftd that is killed in between leaves the last fabric with a new number, and never a new fabric
 * with the number of the last. */
static int give_name(struct hub *h)
{
	uint32_t last = atomic_load(&h->page->fabric);
	int err = 0, dir = h->subnet->dir->own;

	number(h, true);
	if (renameat(dir, COUNTS_FRESH, dir, COUNTS) && errno != ENOENT)
		log_line(LOG_WARNING, "what ports of the fabric count is not kept for the next weftd: %s", strerror(errno));
	if (renameat(dir, FRESH, dir, NAME)) {
		err = -errno;
		atomic_store(&h->page->fabric, last);
	}
	return err;
}

/* A process is at one port of a fabric. */
static bool has_one_port(const struct fabric_page *p)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < p->devices; i++)
		n += control_device_has(&p->device[i], DEVICE_LIDS);
	return n == 1;
}

static int replace(struct hub *h, const int *fds, int nfds)
{
	struct subnet fresh = NO_SUBNET(h->subnet->dir);
	int err = nfds && !has_one_port(h->page) ? -EOPNOTSUPP : nfds ? load(&fresh, h->subnet->dir, fds[0]) : 0;

	if (nfds && !err)
		err = give_name(h);
	if (err) {
		entry_remove(h->subnet->dir->own, FRESH, S_IFREG);
		entry_remove(h->subnet->dir->own, COUNTS_FRESH, S_IFREG);
		forget(&fresh);
		return err;
	}
	if (!nfds)
		number(h, false);
	for (uint32_t i = 0; i < PAGE_SLOTS; i++)
		atomic_store(&h->page->slot_port[i], 0);
	joins_end(h);
	paths_end(h);
	seed_sa_end(h);
	manager_end(h);
	forget(h->subnet);
	tree_remove_places(h->subnet->dir);
	if (nfds) {
		*h->subnet = fresh;
		h->subnet->agents.fabric = &h->subnet->fabric;
	} else {
		subnet_remove(h->subnet->dir);
	}
	log_line(LOG_INFO, nfds ? "a fabric of %u nodes is loaded" : "there is no fabric any more", h->subnet->fabric.nodes);
	return 0;
}

static bool has_fabric(const struct hub *h)
{
	return h->subnet && h->subnet->fabric.head;
}

void subnet_load(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct control_msg answer = *msg;
	int err;

	(void)text;
	answer.a = count_placed(h);
	if (!answer.a)
		answer.a = umad_count_placed(h);
	if (!h->subnet)
		err = -ENODEV;
	else if (!hub_is_owner(h, c))
		err = -EPERM;
	else if (!nfds && !has_fabric(h))
		err = -ENOENT;
	else
		err = answer.a ? -EBUSY : replace(h, fds, nfds);
	hub_answer(h, c, &answer, -err);
}

/* ---- who is where ---- */

/* 0, or why it is no number of a fabric that there is. */
static int check_number(const struct hub *h, uint32_t number)
{
	if (!has_fabric(h))
		return -ENOENT;
	return number == atomic_load(&h->page->fabric) ? 0 : -ESTALE;
}

static void give(struct hub *h, struct client *c, const struct control_msg *msg)
{
	const int fds[] = { h->subnet->fd, h->subnet->traffic_fd };
	struct control_msg answer = *msg;

	answer.status = 0;
	answer.text_bytes = 0;
	answer.b = atomic_load(&h->page->fabric);
	h->ops->send(h, c, &answer, NULL, fds, c->kind == CLIENT_PROCESS ? 2 : 1);
}

static void put(struct hub *h, const struct client *c, uint32_t place)
{
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (h->slot_owner[i] == c)
			atomic_store(&h->page->slot_port[i], place + 1);
	}
}

void subnet_addresses_changed(struct subnet *s)
{
	s->era++;
}

/* Of the nodes of this place: it tells whether a tree is still true. */
static uint32_t sequence_at(const struct subnet *s, uint32_t place)
{
	struct host_adapter a;
	uint32_t sum = 0;

	for (unsigned i = 0; (a = host_adapter(&s->fabric, place, i)).ports; i++)
		sum += atomic_load(&s->fabric.node[s->fabric.owner[host_port(&s->fabric, place, a.first)]].sequence);
	return sum;
}

/* A tree that is there is not written again, whoever asks for it how often. -EDQUOT: *limit says what there is too much of. */
static int write_tree(struct hub *h, const struct client *c, uint32_t place, uint32_t which, enum control_limit *limit)
{
	struct subnet *s = h->subnet;
	uint32_t i = find_tree(s, place), bit;
	int err;

	if (which >> tree_devices(h->page, &s->fabric, place))
		return -EINVAL;
	if (i == SUBNET_TREES || (i == s->trees && account_check(h, c, LIMIT_NODES, 1)))
		*limit = LIMIT_NODES;
	else if (!may_choose(h, c, which))
		*limit = LIMIT_CHOICES;
	if (*limit)
		return -EDQUOT;
	bit = choose(s, which, c->account->user);
	if (i == s->trees) {
		s->tree[i].place = place;
		s->tree[i].user = c->account->user;
		s->tree[i].written = 0;
		s->tree[i].sequence = sequence_at(s, place);
		s->trees++;
	}
	if (s->tree[i].era != s->era)
		s->tree[i].written = 0;
	s->tree[i].era = s->era;
	if (s->tree[i].written & bit)
		return 0;
	err = tree_write_place(s->dir, h->page, &s->fabric, place, which);
	s->tree[i].written |= err ? 0 : bit;
	return err;
}

/* Our choice: many who read many files cost no more than this. */
static const wtime COUNTS_HOLD = WTIME_MS;

/* The files of the counters of a place's ports; those of a moment ago are as good. */
static void write_counts(struct hub *h, uint32_t place, uint32_t which)
{
	struct subnet *s = h->subnet;

	if (s->counts_place == place && s->counts_which == which && h->now < s->counts_until)
		return;
	s->counts_place = place;
	s->counts_which = which;
	s->counts_until = h->now + COUNTS_HOLD;
	subnet_counts_read(h, false);
	if (port_counts_write(h, place, which))
		log_line(LOG_INFO, "the counters of a port cannot be written to its device files");
}

void subnet_counts(struct hub *h, struct client *c, const struct control_msg *msg)
{
	int err = !h->subnet ? -ENODEV : msg->c >> h->page->devices ? -EINVAL : 0;

	if (!err && !may_choose(h, c, msg->c)) {
		hub_refuse(h, c, msg, LIMIT_CHOICES);
		return;
	}
	if (!err) {
		choose(h->subnet, msg->c, c->account->user);
		err = tree_write_some(h->subnet->dir, h->page, msg->c);
	}
	if (!err)
		write_counts(h, PORT_NONE, msg->c);
	hub_answer(h, c, msg, -err);
}

static int enter(struct hub *h, struct client *c, const struct control_msg *msg, enum control_limit *limit)
{
	uint32_t place = msg->a - 1;
	int err = check_number(h, msg->b);

	if (err)
		return err;
	if (!host_is_place(&h->subnet->fabric, place))
		return -EINVAL;
	if (c->kind != CLIENT_PROCESS) {
		err = write_tree(h, c, place, msg->c, limit);
		if (!err)
			write_counts(h, place, msg->c);
		if (!err && c->kind == CLIENT_LEASE)
			leases_place(h, c, place);
		return err;
	}
	if (subnet_place(h, c) != PORT_NONE && subnet_place(h, c) != place)
		return -EBUSY;
	put(h, c, place);
	return 0;
}

void subnet_node(struct hub *h, struct client *c, const struct control_msg *msg)
{
	enum control_limit limit = 0;
	int err = 0;

	if (!has_fabric(h))
		err = -ENOENT;
	else if (msg->a)
		err = enter(h, c, msg, &limit);
	else
		give(h, c, msg);
	if (limit)
		hub_refuse(h, c, msg, limit);
	else if (msg->a || err)
		hub_answer(h, c, msg, -err);
}

uint32_t subnet_nodes(const struct hub *h)
{
	return has_fabric(h) ? h->subnet->fabric.nodes : 0;
}

uint32_t subnet_place(const struct hub *h, const struct client *c)
{
	uint32_t place = c->slot && has_fabric(h) ? atomic_load(&h->page->slot_port[c->slot]) : 0;

	return place && host_is_place(&h->subnet->fabric, place - 1) ? place - 1 : PORT_NONE;
}

bool subnet_has_index(const struct hub *h, const struct client *c, uint32_t index)
{
	return index < h->page->devices || (index < PAGE_DEVICES && subnet_port(h, c, index) != PORT_NONE);
}

uint32_t subnet_port(const struct hub *h, const struct client *c, uint32_t index)
{
	uint32_t place = subnet_place(h, c);

	return place == PORT_NONE ? PORT_NONE : host_port(&h->subnet->fabric, place, page_port_number(h->page, index));
}

uint32_t subnet_index(const struct hub *h, const struct client *c, uint32_t port)
{
	uint32_t place = subnet_place(h, c), index;
	unsigned number = place == PORT_NONE ? 0 : host_port_number(&h->subnet->fabric, place, port);

	index = number ? page_index(h->page, number) : PAGE_DEVICES;
	return index < PAGE_DEVICES ? index : PAGE_DEVICES;
}

void subnet_describe(const struct hub *h, const struct client *c, uint32_t index, struct page_device *d)
{
	uint32_t port = subnet_port(h, c, index);

	*d = h->page->device[page_device_of(h->page, index)];
	if (port != PORT_NONE && control_device_has(d, DEVICE_LIDS))
		host_describe(&h->subnet->fabric, port, d);
}

/* ---- groups ---- */

static bool route_group(struct subnet *s, uint32_t mlid)
{
	int err = fabric_route_group(&s->fabric, mlid);

	if (err)
		log_line(LOG_ERROR, "no tree for a multicast group, what is sent to it gets lost: %s", strerror(-err));
	s->agents.changes++;
	return !err;
}

void subnet_route_group(struct hub *h, const struct client *c, uint32_t index, uint16_t mlid)
{
	struct subnet *s = h->subnet;
	uint32_t port = subnet_port(h, c, index), group = (uint32_t)mlid - MLID_FIRST;

	if (port == PORT_NONE || !FABRIC_READ(s->fabric.port[port].lid) || group >= PAGE_GROUPS ||
	    s->routed[group / 64] >> group % 64 & 1)
		return;
	if (route_group(s, mlid))
		s->routed[group / 64] |= 1ull << group % 64;
}

/* Trees lead around links that are down. A manager that has come since writes its own. */
static void route_groups_again(struct subnet *s, uint32_t port)
{
	for (uint32_t i = 0; i < PAGE_GROUPS && !FABRIC_READ(s->fabric.port[port].sm_lid); i++) {
		if (s->routed[i / 64] >> i % 64 & 1)
			route_group(s, MLID_FIRST + i);
	}
}

/* ---- links ---- */

/* The trees of programs at the link's ends say what state it has. */
static void refresh_tree(struct hub *h, uint32_t place)
{
	struct subnet *s = h->subnet;
	bool is_place = host_is_place(&s->fabric, place);

	for (uint32_t i = 0; is_place && i <= s->choices; i++) {
		uint32_t which = i ? s->choice[i - 1].which : 0;

		if (tree_has_place(s->dir, place, which))
			tree_refresh_place(s->dir, h->page, &s->fabric, place, which);
	}
}

void subnet_tell_changes(struct hub *h)
{
	struct subnet *s = h->subnet;

	if (!has_fabric(h) || s->told == s->agents.changes)
		return;
	s->told = s->agents.changes;
	for (uint32_t i = 0; i < s->trees; i++) {
		if (s->tree[i].sequence != sequence_at(s, s->tree[i].place))
			refresh_tree(h, s->tree[i].place);
		s->tree[i].sequence = sequence_at(s, s->tree[i].place);
	}
	hub_page_changed(h, CONTROL_PAGE_FABRIC);
}

/* 0, or why the fabric of this number has no link at this port. */
static int check_link(const struct hub *h, uint32_t port, uint32_t number)
{
	int err = check_number(h, number);

	if (err)
		return err;
	return port >= h->subnet->fabric.ports || fabric_peer(&h->subnet->fabric, port) == PORT_NONE ? -EINVAL : 0;
}

int subnet_set_fault(struct hub *h, uint32_t port, uint32_t number, uint32_t loss_ppm, uint32_t rate_kbps, uint64_t seed)
{
	int err = check_link(h, port, number);

	if (err)
		return err;
	agents_set_fault(&h->subnet->agents, port, loss_ppm, rate_kbps, seed);
	subnet_tell_changes(h);
	return 0;
}

int subnet_link_error(struct hub *h, uint32_t port, uint32_t number, enum link_error e, uint32_t times)
{
	int err = check_link(h, port, number);

	if (err)
		return err;
	if (FABRIC_READ(h->subnet->fabric.port[port].state) == PORT_DOWN)
		return -ENETDOWN;
	agents_link_error(&h->subnet->agents, h->now, port, e, times);
	return 0;
}

int subnet_set_link(struct hub *h, uint32_t port, uint32_t number, bool is_up)
{
	int err = check_link(h, port, number);

	if (err)
		return err;
	agents_set_link(&h->subnet->agents, h->now, port, is_up);
	route_groups_again(h->subnet, port);
	subnet_tell_changes(h);
	return 0;
}
