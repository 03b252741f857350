#include "weftd/umad.h"

#include "base/log.h"
#include "base/qpn.h"
#include "control/devices.h"
#include "fabric/host.h"
#include "mgmt/gmp.h"
#include "mgmt/mad_agents.h"
#include "weftd/joins.h"
#include "weftd/late_frames.h"
#include "weftd/manager.h"
#include "weftd/paths.h"
#include "weftd/random.h"
#include "weftd/seed_sa.h"
#include "weftd/slots.h"
#include "weftd/subnet.h"
#include "wire/sa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)MAD_AGENTS == (int)CONTROL_AGENTS, "told by both");
_Static_assert((size_t)MAD_ANSWER_MOST_KB << 10 == (size_t)CONTROL_MAD_MOST, "told by both");

struct mad_port {
	struct mad_file file;		/* first */
	struct client *client;		/* borrowed: whose connection it is */
	uint8_t secret[16];
	umad_heard *heard;		/* weftd's own, without a client; NULL: a program's */
	void *arg;
	bool gives_back;		/* the program says which datagrams it is done with */
	bool is_sm;			/* it makes its port a subnet manager's, and has no datagrams */
	struct control_mad head;	/* of a datagram that comes in pieces; total 0: none does */
	uint8_t *data;			/* owned: what has come of it; NULL: it is lost */
	struct list parcels;		/* on their way to the program */
	uint32_t parcel_count;
};

/* A datagram of more than a piece, which goes as the program reads, or one behind it. */
struct parcel {
	struct list_node node;		/* mad_port.parcels */
	struct control_mad head;	/* at: what has gone */
	uint8_t *data;			/* owned */
};

/* Our choices: parcels of a file, about as many as letters of conn.c; and how soon those whose user has too many letters are
 * tried again. */
enum { PARCELS = 14336 };
#define PARCELS_AGAIN (20 * WTIME_MS)

static struct mad_port *mad_port_of(const struct mad_file *f)
{
	return (struct mad_port *)(uintptr_t)f;
}

/* ---- datagrams on their way ---- */

/* A program at no port of a fabric is heard by nobody. */
static bool is_placed(const struct hub *h, uint32_t port)
{
	return subnet_nodes(h) && port < h->subnet->fabric.ports;
}

static void write_address(const struct hub *h, uint32_t from, unsigned qpn, const struct mad_remote *to, struct mad_address *a)
{
	const struct fabric *f = &h->subnet->fabric;

	*a = (struct mad_address){ .src_qpn = qpn, .dest_qpn = to->qpn, .qkey = to->qkey };
	a->path.dlid = to->lid;
	a->path.sl = to->sl & 15;
	a->path.slid = (uint16_t)(FABRIC_READ(f->port[from].lid) + to->path_bits);	/* agents_mad judges it */
	a->pkey = FABRIC_READ(fabric_pkeys(f, from)[to->pkey_index % PORT_PKEYS]);
	a->path.has_grh = to->has_grh;
	a->path.hop_limit = to->hop_limit;
	a->path.tclass = to->tclass;
	a->path.flow_label = to->flow_label;
	memcpy(a->path.dgid, to->gid, sizeof(to->gid));
	host_write_gid(f, from, to->gid_index % FABRIC_GUIDS, a->path.sgid);
}

static void read_sender(const struct hub *h, const struct mad_arrival *at, struct mad_remote *r)
{
	const struct packet_path *path = &at->address.path;
	unsigned lmc = FABRIC_READ(h->subnet->fabric.port[at->port].lmc) & LMC_MOST;

	*r = (struct mad_remote){
		.qpn = at->address.src_qpn, .qkey = at->address.qkey, .lid = path->slid, .sl = path->sl,
		.path_bits = (uint8_t)(path->dlid & ((1u << lmc) - 1)), .pkey_index = at->pkey_index,
		.has_grh = path->has_grh, .hop_limit = path->hop_limit, .tclass = path->tclass, .flow_label = path->flow_label,
	};
	memcpy(r->gid, path->sgid, sizeof(r->gid));
}

static void read_arrival(const struct hub *h, const struct mad_arrival *a, struct mad_coming *at)
{
	at->port = a->port;
	at->lid = a->address.path.dlid;
	memcpy(at->gid, a->address.path.dgid, sizeof(at->gid));
	at->due = a->due;
	read_sender(h, a, &at->sender);
}

/* What read_arrival has read. */
static struct mad_arrival arrival_of(const struct hub *h, const struct mad_coming *at)
{
	const struct mad_remote *s = &at->sender;
	struct mad_arrival a = {
		.port = at->port, .pkey_index = s->pkey_index, .due = at->due,
		.address = { .src_qpn = s->qpn, .dest_qpn = s->qpn ? GSI_QPN : 0, .qkey = s->qkey,
			     .pkey = FABRIC_READ(fabric_pkeys(&h->subnet->fabric, at->port)[s->pkey_index % PORT_PKEYS]),
			     .path = { .slid = s->lid, .dlid = at->lid, .sl = s->sl, .has_grh = s->has_grh,
				       .hop_limit = s->hop_limit, .tclass = s->tclass, .flow_label = s->flow_label } },
	};

	memcpy(a.address.path.sgid, s->gid, sizeof(s->gid));
	memcpy(a.address.path.dgid, at->gid, sizeof(at->gid));
	return a;
}

/* From QP1 to a UD QP: its process looks at its Q_Key. */
static void give_qp(struct hub *h, const struct mad_arrival *a, const uint8_t mad[MAD_BYTES])
{
	struct gmp out = { .pkey = a->address.pkey, .qpn = a->address.dest_qpn, .qkey = a->address.qkey,
			   .path = a->address.path };
	struct client *c = slots_owner(h, qpn_slot(out.qpn));
	uint32_t index = c ? subnet_index(h, c, a->port) : PAGE_DEVICES;
	uint8_t frame[GMP_FRAME];

	if (index >= PAGE_DEVICES || !h->ops->has_room(h, c))
		return;
	memcpy(out.mad, mad, sizeof(out.mad));
	(void)late_frames_send(h, c, c, index, a->due, frame, gmp_build(&out, PACKET_IB, frame));
}

static enum mad_fate fate_of(struct hub *h, enum mad_outcome outcome, const struct mad_arrival *a, struct mad_coming *at,
			     const uint8_t mad[MAD_BYTES])
{
	if (outcome == MAD_LOST || outcome == MAD_TAKEN)
		return MAD_WAS_LOST;
	if (a->address.dest_qpn > GSI_QPN) {
		give_qp(h, a, mad);
		return MAD_WAS_LOST;	/* for agents */
	}
	read_arrival(h, a, at);
	return outcome == MAD_ANSWERED ? MAD_WAS_ANSWERED : MAD_HAS_ARRIVED;
}

static enum mad_fate carry_to(struct hub *h, wtime now, uint32_t from, const struct mad_address *to, uint8_t mad[MAD_BYTES],
			      struct mad_coming *at)
{
	bool is_count = mad[1] == MAD_CLASS_PERF, is_set = mad[3] == MAD_SET;
	struct mad_arrival arrival;
	enum mad_outcome outcome;

	h->subnet->agents.buffers = &h->mads.buffers;
	outcome = agents_mad(&h->subnet->agents, now, from, to, mad, &arrival);
	if (is_count)
		subnet_counts_read(h, is_set);
	return fate_of(h, outcome, &arrival, at, mad);
}

static enum mad_fate carry(void *arg, wtime now, uint32_t from, unsigned qpn, const struct mad_remote *to,
			   uint8_t mad[MAD_BYTES], struct mad_coming *at)
{
	struct hub *h = arg;
	struct mad_address a;

	if (!is_placed(h, from))
		return MAD_WAS_LOST;
	write_address(h, from, qpn, to, &a);
	return carry_to(h, now, from, &a, mad, at);
}

void umad_from_qp(struct hub *h, uint32_t port, struct gmp *in)
{
	const struct mad_address to = { .path = in->path, .pkey = in->pkey, .src_qpn = in->qpn, .dest_qpn = GSI_QPN,
					.qkey = in->qkey };
	struct mad_coming at = { 0 };

	if (carry_to(h, h->now, port, &to, in->mad, &at) == MAD_HAS_ARRIVED)
		mad_comes(&h->mads, h->now, &at, in->mad);
}

/* Our choice: until programs that the last weftd served have opened their ports again. */
static const wtime RETURNING = 2 * WTIME_S;

/* Who would answer may be on the way back: who asks hears nothing, and asks again. */
static bool are_returning(const struct hub *h)
{
	return h->subnet->is_taken_over && h->now < h->start + RETURNING;
}

static enum mad_fate refuse(void *arg, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	struct hub *h = arg;
	struct mad_arrival arrival;

	if (!is_placed(h, at->port))
		return MAD_WAS_LOST;
	if (seed_sa_begins(h, at->port, mad))
		return MAD_HAS_ARRIVED;
	if (are_returning(h))
		return MAD_WAS_LOST;
	arrival = arrival_of(h, at);
	return fate_of(h, agents_refuse(&h->subnet->agents, now, &arrival, mad, &arrival), &arrival, at, mad);
}

static void fill_head(struct control_mad *head, const struct mad_letter *l)
{
	const struct mad_remote *r = &l->remote;

	*head = (struct control_mad){
		.agent = l->agent, .status = l->status, .timeout_ms = l->timeout_ms, .retries = l->retries, .total = l->bytes,
		.qpn = r->qpn, .qkey = r->qkey, .flow_label = r->flow_label, .lid = r->lid, .pkey_index = r->pkey_index,
		.sl = r->sl, .path_bits = r->path_bits, .has_grh = r->has_grh, .gid_index = r->gid_index,
		.hop_limit = r->hop_limit, .tclass = r->tclass,
	};
	memcpy(head->gid, r->gid, sizeof(head->gid));
}

/* False: the connection is over. */
static bool send_piece(struct hub *h, struct client *c, struct control_mad *head, const uint8_t *data)
{
	uint8_t text[sizeof(*head) + CONTROL_MAD_PIECE];
	uint32_t left = head->total - head->at, bytes = left < CONTROL_MAD_PIECE ? left : CONTROL_MAD_PIECE;
	struct control_msg msg = { .type = CTL_MAD, .text_bytes = (uint32_t)sizeof(*head) + bytes };

	memcpy(text, head, sizeof(*head));
	memcpy(text + sizeof(*head), data + head->at, bytes);
	head->at += bytes;
	return h->ops->send(h, c, &msg, (char *)text, NULL, 0);
}

static size_t parcel_bytes(const struct parcel *l)
{
	return sizeof(*l) + l->head.total;
}

static void free_parcel(struct mad_port *p, struct parcel *l)
{
	list_remove(&l->node);
	p->parcel_count--;
	p->file.unread -= parcel_bytes(l);
	free(l->data);
	free(l);
}

void umad_resume(struct hub *h, struct client *c)
{
	struct mad_port *p = c->mad_port;
	struct parcel *l;
	bool goes_on = true;

	while (p && goes_on && (l = list_first_entry(&p->parcels, struct parcel, node)) && h->ops->has_room(h, c)) {
		goes_on = send_piece(h, c, &l->head, l->data);
		if (l->head.at == l->head.total)
			free_parcel(p, l);
	}
	if (p && goes_on && !list_empty(&p->parcels))
		h->parcels_at = wtime_min(h->parcels_at, h->now + PARCELS_AGAIN);
}

/* Its memory is the file's until the program has read it. */
static bool put_parcel(struct hub *h, struct mad_port *p, const struct mad_letter *l)
{
	size_t bytes = sizeof(struct parcel) + l->bytes;
	struct parcel *made;

	if (p->parcel_count == PARCELS || p->file.unread + bytes > mad_file_bytes(&h->mads) ||
	    account_check(h, p->client, LIMIT_DATAGRAMS, bytes))
		return false;
	made = calloc(1, sizeof(*made));
	/* a gift is made as long as it is; a datagram behind another one is copied */
	if (made)
		made->data = realloc(l->gift ? *l->gift : NULL, l->bytes);
	if (!made || !made->data) {
		free(made);
		return false;
	}
	if (l->gift)
		*l->gift = NULL;
	else
		memcpy(made->data, l->data, l->bytes);
	fill_head(&made->head, l);
	list_append(&p->parcels, &made->node);
	p->parcel_count++;
	p->file.unread += parcel_bytes(made);
	umad_resume(h, p->client);
	return true;
}

/* Dropped when the program does not read. */
static bool deliver(void *arg, struct mad_file *f, const struct mad_letter *l)
{
	struct hub *h = arg;
	struct mad_port *p = mad_port_of(f);
	struct client *c = p->client;
	struct control_mad head;
	bool goes;

	if (p->heard) {
		p->heard(p->arg, l);
		return false;
	}
	if (l->bytes > CONTROL_MAD_PIECE || !list_empty(&p->parcels)) {
		goes = put_parcel(h, p, l);
	} else {
		goes = h->ops->has_room(h, c);
		fill_head(&head, l);
		if (goes)
			send_piece(h, c, &head, l->data);
	}
	c->mads_dropped += !goes;
	return goes && p->gives_back && !l->status;
}

static bool may_hold(void *arg, const struct mad_file *f, size_t more)
{
	const struct mad_port *p = mad_port_of(f);

	return p->heard || !account_check(arg, p->client, LIMIT_DATAGRAMS, more);
}

static bool has_lid(void *arg, uint32_t port, uint16_t lid)
{
	const struct hub *h = arg;

	return is_placed(h, port) && host_has_lid(&h->subnet->fabric, port, lid);
}

static const struct mad_ops ops = { .carry = carry, .refuse = refuse, .deliver = deliver, .has_lid = has_lid,
				    .may_hold = may_hold };

void umad_start(struct hub *h)
{
	struct siphash_key key;

	random_bytes(&key, sizeof(key));
	mad_clients_init(&h->mads, &ops, h, &key);
	list_init(&h->joins);
	list_init(&h->paths);
	h->parcels_at = WTIME_NEVER;
}

void umad_end(struct hub *h)
{
	mad_clients_fini(&h->mads);
}

/* What agents of the fabric say by themselves. */
static void pull_agents(struct hub *h)
{
	uint8_t mad[MAD_BYTES];
	struct mad_arrival at;

	while (agents_output(&h->subnet->agents, h->now, mad, &at)) {
		struct mad_coming coming;

		read_arrival(h, &at, &coming);
		mad_comes(&h->mads, h->now, &coming, mad);
	}
}

/* Where a user has too many letters elsewhere, nobody tells when that is over. */
static void resume_all(struct hub *h)
{
	h->parcels_at = WTIME_NEVER;
	list_for_each(c, &h->clients, struct client, node) {
		if (c->mad_port && !list_empty(&c->mad_port->parcels))
			umad_resume(h, c);
	}
}

/* Called in each round of weftd, so that what many datagrams change is told once. */
void umad_expire(struct hub *h)
{
	if (mad_clients_deadline(&h->mads) <= h->now)
		mad_clients_expire(&h->mads, h->now);
	if (h->parcels_at <= h->now)
		resume_all(h);
	if (!subnet_nodes(h))
		return;
	if (agents_deadline(&h->subnet->agents) <= h->now)
		pull_agents(h);
	manager_expire(h);
	joins_expire(h);
	paths_expire(h);
	seed_sa_expire(h);
	subnet_expire(h);
	subnet_tell_changes(h);
}

wtime umad_deadline(const struct hub *h)
{
	const wtime each[] = { h->parcels_at, mad_clients_deadline(&h->mads), joins_deadline(h), paths_deadline(h),
			       manager_deadline(h), seed_sa_deadline(h), subnet_deadline(h),
			       subnet_nodes(h) ? agents_deadline(&h->subnet->agents) : WTIME_NEVER };
	wtime first = WTIME_NEVER;

	for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++)
		first = wtime_min(first, each[i]);
	return first;
}

/* ---- files ---- */

/* Those of the page, and behind them one for each further adapter of a program's host. */
static bool is_device(const struct hub *h, uint32_t device, bool has_place)
{
	return device < h->page->devices ? control_device_has(&h->page->device[device], DEVICE_LIDS) :
	       device < PAGE_DEVICES && has_place;
}

/* The port of the fabric that a program means, in *port: of the device at its place that of this number, 0: the first. Without a
 * name it is at none. */
static int find_port(const struct hub *h, const char *text, uint32_t bytes, uint32_t device, unsigned number, uint32_t *port)
{
	unsigned adapter = device < h->page->devices ? 0 : device - h->page->devices + 1;
	struct host_adapter a;
	char name[NODE_DESCRIPTION + 8];
	uint32_t place;

	*port = PORT_NONE;
	if (!bytes)
		return 0;
	if (!subnet_nodes(h) || bytes >= sizeof(name) || memchr(text, '\0', bytes))
		return -ENOENT;
	memcpy(name, text, bytes);
	name[bytes] = '\0';
	place = host_find_place(&h->subnet->fabric, name);
	if (place == PORT_NONE)
		return -ENOENT;
	a = host_adapter(&h->subnet->fabric, place, adapter);
	number = number ? number : 1;
	if (number <= a.ports)
		*port = host_port(&h->subnet->fabric, place, a.first + number - 1);
	return *port == PORT_NONE ? -ENOENT : 0;
}

/* A file that makes its port a manager's has come or gone. */
static void tell_manager(struct hub *h, const struct mad_port *changed)
{
	bool is_sm = false;

	if (!changed->is_sm || !is_placed(h, changed->file.port))
		return;
	list_for_each(f, &h->mads.files, struct mad_file, node)
		is_sm |= f->port == changed->file.port && mad_port_of(f)->is_sm;
	agents_set_sm(&h->subnet->agents, h->now, changed->file.port, is_sm);
}

static int open_port(struct hub *h, struct client *c, const struct control_msg *msg, const char *text)
{
	struct mad_port *p;
	uint32_t port;
	int err;

	if (c->mad_port)
		return -EINVAL;
	if (!is_device(h, msg->device, msg->text_bytes))
		return -ENODEV;
	if (msg->a && !hub_is_owner(h, c))
		return -EPERM;
	err = find_port(h, text, msg->text_bytes, msg->device, msg->c, &port);
	if (err)
		return err;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->client = c;
	p->is_sm = msg->a;
	p->gives_back = msg->b == 1;
	list_init(&p->parcels);
	random_bytes(p->secret, sizeof(p->secret));
	mad_file_open(&h->mads, &p->file, port);
	c->mad_port = p;
	tell_manager(h, p);
	return 0;
}

void umad_secret(const struct mad_file *f, uint8_t secret[16])
{
	memcpy(secret, mad_port_of(f)->secret, 16);
}

void umad_port(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct control_msg answer = *msg;
	int err = open_port(h, c, msg, text);

	if (!err)
		umad_secret(&c->mad_port->file, answer.gid);
	answer.b = answer.c = answer.slot = 0;
	answer.service = 0;
	if (!err && c->mad_port->file.port != PORT_NONE) {
		const struct fabric_port *port = &h->subnet->fabric.port[c->mad_port->file.port];

		answer.b = FABRIC_READ(port->sm_lid);
		answer.c = seed_sa_lid(h);
		control_set_port_times(&answer, FABRIC_READ(port->subnet_timeout), SA_RESPONSE_TIME);
	}
	hub_answer(h, c, &answer, -err);
}

static void drop_pieces(struct mad_port *p)
{
	free(p->data);
	p->data = NULL;
	p->head.total = 0;
}

void umad_leave(struct hub *h, struct client *c)
{
	struct mad_port *p = c->mad_port;

	for (int i = 0; i < PAGE_DEVICES; i++) {
		if (c->mad_pool[i])
			mad_pool_put(&h->mads.buffers, c->mad_pool[i]);
		c->mad_pool[i] = NULL;
	}
	if (!p)
		return;
	mad_file_close(&h->mads, &p->file);
	tell_manager(h, p);
	drop_pieces(p);
	for (struct parcel *l; (l = list_first_entry(&p->parcels, struct parcel, node));)
		free_parcel(p, l);
	free(p);
	c->mad_port = NULL;
}

uint64_t umad_bytes(const struct client *c)
{
	const struct mad_port *p = c->mad_port;

	return p ? p->file.bytes + p->file.bytes_in + p->file.unread + (p->data ? p->head.total : 0) : 0;
}

uint32_t umad_count_placed(const struct hub *h)
{
	uint32_t n = 0;

	list_for_each(f, &h->mads.files, struct mad_file, node)
		n += f->port != PORT_NONE && !mad_port_of(f)->heard;
	return n;
}

/* ---- weftd's own ---- */

struct mad_port *umad_open(struct hub *h, uint32_t port, const struct mad_registration *what, umad_heard *heard, void *arg)
{
	struct mad_port *p = calloc(1, sizeof(*p));
	uint32_t agent;

	if (!p)
		return NULL;
	p->heard = heard;
	p->arg = arg;
	list_init(&p->parcels);
	mad_file_open(&h->mads, &p->file, port);
	if (!mad_register(&h->mads, &p->file, what, &agent))
		return p;
	umad_close(h, p);
	return NULL;
}

int umad_ask(struct hub *h, struct mad_port *p, const struct mad_letter *l)
{
	return mad_send(&h->mads, h->now, &p->file, l);
}

bool umad_has_room(const struct mad_port *p, uint16_t lid)
{
	return mad_has_room_for(&p->file, lid);
}

void umad_close(struct hub *h, struct mad_port *p)
{
	mad_file_close(&h->mads, &p->file);
	free(p);
}

struct mad_port *umad_open_sa(struct hub *h, uint32_t port, umad_heard *heard, void *arg)
{
	return umad_open(h, port, &(struct mad_registration){ .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION },
			 heard, arg);
}

int umad_ask_sa(struct hub *h, struct mad_port *p, const struct sa_request *r, uint8_t mad[MAD_BYTES])
{
	const struct fabric *f = &h->subnet->fabric;
	const struct fabric_port *port = &f->port[p->file.port];
	int index = fabric_find_pkey(f, p->file.port, PKEY_DEFAULT);
	const struct mad_header head = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
		.method = r->method, .tid = r->tid, .attr_id = r->attr_id,
	};
	const struct mad_letter letter = {
		.timeout_ms = r->timeout_ms, .retries = (uint32_t)((r->until - h->now - 1) / (r->timeout_ms * WTIME_MS)),
		.data = mad, .bytes = MAD_BYTES,
		.remote = { .qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = FABRIC_READ(port->sm_lid), .sl = FABRIC_READ(port->sm_sl),
			    .pkey_index = (uint16_t)(index < 0 ? 0 : index) },
	};

	mad_header_build(&head, mad);
	return umad_ask(h, p, &letter);
}

/* ---- agents ---- */

/* All are compared, and each wholly: how long it takes tells nothing of a secret. */
static struct mad_port *find_secret(const struct hub *h, const uint8_t secret[16])
{
	struct mad_port *found = NULL;

	list_for_each(c, &h->clients, struct client, node) {
		uint8_t other = 0;

		for (int i = 0; c->mad_port && i < 16; i++)
			other |= c->mad_port->secret[i] ^ secret[i];
		if (c->mad_port && !other)
			found = c->mad_port;
	}
	return found;
}

static int add_agent(struct hub *h, const struct client *c, struct mad_port *p, const struct control_agent *a,
		     uint32_t buffers, uint32_t *id)
{
	const struct mad_registration what = {
		.mgmt_class = a->mgmt_class, .class_version = a->class_version, .rmpp_version = a->rmpp_version,
		.is_user_rmpp = a->is_user_rmpp, .oui = a->oui, .methods = { a->methods[0], a->methods[1] },
		.buffers = buffers,
	};

	if (!mad_class_qpn(a->mgmt_class) && !hub_is_owner(h, c))
		return -EPERM;
	return mad_register(&h->mads, &p->file, &what, id);
}

void umad_agent(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct mad_port *p = find_secret(h, msg->gid);
	struct control_msg answer = *msg;
	struct control_agent agent;
	int err = -EINVAL;

	if (!p || p->client->uid != c->uid || p->is_sm) {
		err = -ENOENT;
	} else if (msg->a == 1) {
		err = mad_unregister(&h->mads, &p->file, msg->b);
	} else if (msg->a == 2) {
		err = mad_change_buffers(&p->file, msg->b, (int32_t)msg->service);
	} else if (!msg->a && msg->text_bytes == sizeof(agent)) {
		memcpy(&agent, text, sizeof(agent));
		err = add_agent(h, c, p, &agent, msg->service, &answer.b);
	}
	hub_answer(h, c, &answer, -err);
}

/* ---- what programs send ---- */

static void fill_remote(struct mad_remote *r, const struct control_mad *head)
{
	*r = (struct mad_remote){
		.qpn = head->qpn, .qkey = head->qkey, .flow_label = head->flow_label, .lid = head->lid,
		.pkey_index = head->pkey_index, .sl = head->sl, .path_bits = head->path_bits, .has_grh = head->has_grh,
		.gid_index = head->gid_index, .hop_limit = head->hop_limit, .tclass = head->tclass,
	};
	memcpy(r->gid, head->gid, sizeof(r->gid));
}

/* The class says which QP a datagram leaves by, whatever its agent was registered for. */
static bool may_send(const struct hub *h, const struct client *c, const struct mad_letter *l)
{
	return l->bytes < MAD_HEADER_BYTES || mad_class_qpn(l->data[1]) || hub_is_owner(h, c);
}

static void make_letter(struct mad_letter *l, const struct control_mad *head, const uint8_t *data, uint32_t bytes)
{
	*l = (struct mad_letter){ .agent = head->agent, .timeout_ms = head->timeout_ms, .retries = head->retries, .data = data,
				  .bytes = bytes };
	fill_remote(&l->remote, head);
}

/* A request that cannot be sent comes back at once, as the kernel's write(2) would fail. */
static void come_back(struct hub *h, struct client *c, struct mad_letter *l, int err)
{
	c->mads_dropped++;
	l->status = (uint32_t)-err;
	if (l->bytes > MAD_HEADER_BYTES)
		l->bytes = MAD_HEADER_BYTES;
	if (l->timeout_ms)
		deliver(h, &c->mad_port->file, l);
}

/* gift: as of struct mad_letter. */
static void send_whole(struct hub *h, struct client *c, const struct control_mad *head, const uint8_t *data, uint8_t **gift)
{
	struct mad_letter l;
	int err;

	make_letter(&l, head, data, head->total);
	l.gift = gift;
	err = may_send(h, c, &l) ? mad_send(&h->mads, h->now, &c->mad_port->file, &l) : -EPERM;
	if (err)
		come_back(h, c, &l, err);
	else
		c->mads_sent++;
}

/* Where there is no room for the datagram, its pieces come to nothing. */
static void begin_pieces(struct hub *h, struct client *c, const struct control_mad *head, const uint8_t *data, uint32_t bytes)
{
	struct mad_port *p = c->mad_port;
	struct mad_letter l;
	bool fits;

	drop_pieces(p);
	p->head = *head;
	fits = head->total <= mad_file_bytes(&h->mads) && !account_check(h, c, LIMIT_DATAGRAMS, head->total);
	p->data = fits ? malloc(head->total) : NULL;
	if (p->data)
		return;
	make_letter(&l, head, data, bytes);
	come_back(h, c, &l, fits ? -ENOMEM : -EDQUOT);
}

/* False: it is no piece of the datagram under way. */
static bool add_piece(struct mad_port *p, const struct control_mad *head, const uint8_t *data, uint32_t bytes)
{
	if (head->total != p->head.total || head->at != p->head.at || bytes > p->head.total - p->head.at)
		return false;
	if (p->data)
		memcpy(p->data + p->head.at, data, bytes);
	p->head.at += bytes;
	return true;
}

void umad_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct mad_port *p = c->mad_port;
	struct control_mad head = { 0 };
	const uint8_t *data = (const uint8_t *)text + sizeof(head);
	uint32_t bytes = msg->text_bytes - (uint32_t)sizeof(head);

	if (msg->text_bytes > sizeof(head))
		memcpy(&head, text, sizeof(head));
	if (!p || p->is_sm || !head.total || head.total > CONTROL_MAD_MOST) {
		h->ops->drop(h, c, "a datagram that is none");
		return;
	}
	if (msg->a)
		mad_gave_back(&p->file, head.agent, msg->a);
	if (!head.at && bytes == head.total) {
		send_whole(h, c, &head, data, NULL);
		return;
	}
	if (!head.at)
		begin_pieces(h, c, &head, data, bytes);
	if (!add_piece(p, &head, data, bytes)) {
		h->ops->drop(h, c, "a piece of no datagram");
		return;
	}
	if (p->head.at < p->head.total)
		return;
	if (p->data)
		send_whole(h, c, &p->head, p->data, &p->data);
	drop_pieces(p);
}

void umad_done(struct hub *h, struct client *c, const struct control_msg *msg)
{
	if (c->mad_port && !c->mad_port->is_sm)
		mad_gave_back(&c->mad_port->file, msg->a, msg->b);
	else
		h->ops->drop(h, c, "a file without datagrams is done with some");
}

bool umad_admits_cm(struct hub *h, struct client *c, uint32_t index)
{
	struct mad_pool **pool = &c->mad_pool[index % PAGE_DEVICES];

	if (!*pool)
		*pool = mad_pool_get(&h->mads.buffers, subnet_port(h, c, index));
	return !*pool || mad_pool_pass(h->now, *pool, MAD_RESIDENT_CM);
}

const struct client *umad_client(const struct mad_file *f)
{
	return mad_port_of(f)->client;
}
