#include "weftd/farewells.h"

#include "base/log.h"
#include "weftd/random.h"
#include "weftd/slots.h"
#include "weftd/roce_port.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Our choices. MOST_EACH of a process, so that eight have as many as they want. Beyond the first tries, which take 8 s, three
 * more of 4.8 s each: whoever has not answered by then is away. The path, which a peer may have told, adds PATH_TIMEOUT at most
 * to each (0.5 s, as in Linux's rdma_cm; a process that lives waits longer, mgmt/cm_id.h). 32 begin every 10 ms: fewer than a
 * socket's buffer holds. A peer that has missed a DREP repeats its DREQ several times in 10 s, also if it is Linux's (every 5 s).
 * When weftd ends, half a second is what who ends it does not notice, and time for thousands of datagrams. */
enum { MOST = 65536, MOST_EACH = MOST / 8, RETRIES = 3, PATH_TIMEOUT = 17, BURST = 32, LAST_WORDS_MS = 500 };
static const wtime PAUSE = 10 * WTIME_MS, LINGER = 10 * WTIME_S;

struct connection {
	struct list_node node;		/* client.connections, then farewells.due */
	struct hash_node by_id;		/* farewells.known, while its process lives */
	struct cm_connection at;
};

struct farewells {
	struct hash_table known;
	struct list due;		/* their processes have ended */
	uint32_t count, due_count;
	wtime next;			/* when some of them begin */
	wtime linger_until;
	bool is_told;			/* that there are too many */
	struct cm cm;			/* being said */
};

static struct farewells *get(struct hub *h)
{
	struct cm_config config = { .max_ids = MOST * 4 };
	struct siphash_key key;
	struct farewells *f = h->farewells;

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	random_bytes(&key, sizeof(key));
	config.key = &key;
	if (cm_init(&f->cm, &config)) {
		free(f);
		return NULL;
	}
	f->cm.max_retries = RETRIES;
	hash_table_init(&f->known);
	list_init(&f->due);
	h->farewells = f;
	return f;
}

/* ---- what processes tell ---- */

static uint64_t hash_of(const struct farewells *f, uint32_t id)
{
	return hash_table_hash(&f->known, &id, sizeof(id));
}

static struct connection *find(const struct farewells *f, uint32_t id)
{
	for (struct hash_node *n = hash_table_first(&f->known, hash_of(f, id)); n; n = hash_table_next(n)) {
		struct connection *k = container_of(n, struct connection, by_id);

		if (k->at.local_id == id)
			return k;
	}
	return NULL;
}

static struct cm_connection read_connection(const struct control_msg *msg)
{
	uint8_t ack_timeout = msg->service >> CONN_ACK_TIMEOUT & 31;
	struct cm_connection at = {
		.local_id = msg->a, .remote_id = msg->b, .local_qpn = msg->slot & QPN_MASK, .remote_qpn = msg->c & QPN_MASK,
		.device = (int)msg->device, .pkey = (uint16_t)(msg->service >> CONN_PKEY),
		.ack_timeout = ack_timeout < PATH_TIMEOUT ? ack_timeout : PATH_TIMEOUT,
		.to = { .has_grh = true, .tclass = (uint8_t)(msg->service >> CONN_TCLASS),
			.hop_limit = (uint8_t)(msg->service >> CONN_HOP_LIMIT), .flow_label = msg->service & CONN_FLOW_LABEL },
	};

	memcpy(at.to.sgid, msg->gid, sizeof(at.to.sgid));
	memcpy(at.to.dgid, msg->dgid, sizeof(at.to.dgid));
	return at;
}

/* A process speaks of its own conversations alone, and of peers that the wire leads to. */
static int check(struct hub *h, const struct client *c, const struct control_msg *msg)
{
	const struct page_device *dev;

	if (!h->roce.port || msg->device != roce_port_device(h) || msg->device >= h->page->devices || !msg->b)
		return -EINVAL;
	dev = &h->page->device[msg->device];
	if (CM_ID_SLOT(msg->a) != c->slot || !page_device_has_gid(dev, msg->gid) || page_device_has_gid(dev, msg->dgid))
		return -EPERM;
	return 0;
}

static int add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct farewells *f = get(h);
	struct connection *k;
	int err = f ? check(h, c, msg) : -ENOMEM;

	if (err)
		return err;
	if (find(f, msg->a))
		return -EEXIST;
	if (f->count >= MOST || c->connection_count >= MOST_EACH) {
		if (!f->is_told)
			log_line(LOG_WARNING, "%s[%d] has %" PRIu32 " connections with other hosts, and all processes %" PRIu32
				 ": peers of more are not told of its end", c->program, (int)c->pid, c->connection_count,
				 f->count);
		f->is_told = true;
		return -ENOBUFS;
	}
	k = hash_table_reserve(&f->known, 1) ? NULL : calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->at = read_connection(msg);
	hash_table_add(&f->known, &k->by_id, hash_of(f, k->at.local_id));
	list_append(&c->connections, &k->node);
	c->connection_count++;
	f->count++;
	return 0;
}

void farewells_add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, -add(h, c, msg));
}

static void forget(struct farewells *f, struct connection *k)
{
	list_remove(&k->node);
	free(k);
	f->count--;
}

static int take_back(struct hub *h, struct client *c, uint32_t id)
{
	struct farewells *f = h->farewells;
	struct connection *k = f && CM_ID_SLOT(id) == c->slot ? find(f, id) : NULL;

	if (!k)
		return -ENOENT;
	hash_table_remove(&f->known, &k->by_id);
	forget(f, k);
	c->connection_count--;
	f->linger_until = h->now + LINGER;
	return 0;
}

void farewells_remove(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, -take_back(h, c, msg->a));
}

/* ---- what is said in their place ---- */

void farewells_leave(struct hub *h, struct client *c)
{
	struct farewells *f = h->farewells;
	struct connection *k;

	if (!f)
		return;
	while ((k = list_first_entry(&c->connections, struct connection, node))) {
		hash_table_remove(&f->known, &k->by_id);
		if (h->is_closing || !h->roce.group) {
			forget(f, k);
			continue;
		}
		list_remove(&k->node);
		list_append(&f->due, &k->node);
		f->due_count++;
	}
}

static void flush(struct hub *h)
{
	struct gmp out;
	uint8_t frame[GMP_FRAME];

	while (cm_output(&h->farewells->cm, &out))
		roce_port_send(h, frame, gmp_build(&out, PACKET_ROCE, frame));
}

static void begin(struct hub *h)
{
	struct farewells *f = h->farewells;
	struct connection *k;

	for (int n = 0; n < BURST && (k = list_first_entry(&f->due, struct connection, node)); n++) {
		struct cm_id *id = cm_adopt(&f->cm, &k->at);

		if (id)
			cm_id_destroy(id, h->now);
		forget(f, k);
		f->due_count--;
	}
	f->next = h->now + PAUSE;
}

bool farewells_input(struct hub *h, const struct gmp *in, const struct cm_msg *msg)
{
	struct farewells *f = h->farewells;
	struct cm_event event;

	if (!f || !cm_knows(&f->cm, cm_ids_of(msg).receiver))
		return false;
	cm_input(&f->cm, h->now, in, &event);	/* orphans have no events */
	flush(h);
	if (!farewells_count(h))
		f->linger_until = h->now + LINGER;
	return true;
}

void farewells_expire(struct hub *h)
{
	struct farewells *f = h->farewells;
	struct cm_event event;

	if (!f)
		return;
	if (f->due_count && h->now >= f->next)
		begin(h);
	cm_expire(&f->cm, h->now, &event);
	flush(h);
	roce_port_close_unused(h);
}

void farewells_say_all(struct hub *h)
{
	unsigned ms = LAST_WORDS_MS;

	while (h->farewells && h->farewells->due_count && roce_port_await_room(h, &ms)) {
		begin(h);
		flush(h);
	}
	roce_port_await_room(h, &ms);	/* the last ones wait, too */
}

wtime farewells_deadline(const struct hub *h)
{
	const struct farewells *f = h->farewells;
	wtime at = WTIME_NEVER;

	if (!f)
		return at;
	if (f->due_count)
		at = f->next;
	else if (h->roce.group && !h->roce.sockets && f->linger_until > h->now)
		at = f->linger_until;
	return wtime_min(at, cm_deadline(&f->cm));
}

uint32_t farewells_count(const struct hub *h)
{
	return h->farewells ? h->farewells->due_count + h->farewells->cm.ids : 0;
}

bool farewells_wait(const struct hub *h)
{
	return h->roce.group && (farewells_count(h) || (h->farewells && h->now < h->farewells->linger_until));
}

void farewells_free(struct hub *h)
{
	struct farewells *f = h->farewells;
	struct connection *k;

	if (!f)
		return;
	while ((k = list_first_entry(&f->due, struct connection, node)))
		forget(f, k);
	cm_fini(&f->cm);
	free(f);
	h->farewells = NULL;
}
