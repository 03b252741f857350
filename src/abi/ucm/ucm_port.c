/* Port numbers of the port spaces. weftd keeps one process from taking another's (CTL_PORT) and routes requests to who
 * listens (CTL_LISTEN); ids of this process that share a number are told apart here, by Linux's rules. */
#include "abi/ucm/ucm_state.h"
#include "runtime/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct list *bucket_of(uint64_t service)
{
	return &ucm.ports[service % UCM_PORT_BUCKETS];
}

static struct ucm_port *port_find(uint64_t service, const uint8_t gid[16])
{
	list_for_each(port, bucket_of(service), struct ucm_port, node)
		if (port->service == service && memcmp(port->gid, gid, 16) == 0)
			return port;
	return NULL;
}

/* May id share its port with this other? As Linux answers: a wildcard in the way is EADDRNOTAVAIL. */
static int conflict(const struct ucm_id *id, const struct ucm_id *other, bool reuse)
{
	if (reuse && other->reuseaddr && other->state != UCM_LISTEN)
		return 0;
	if (id->afonly && other->afonly && id->src.ss_family != other->src.ss_family)
		return 0;
	if (ucm_addr_is_any(&id->src) || ucm_addr_is_any(&other->src))
		return -EADDRNOTAVAIL;
	return ucm_addr_same(&id->src, &other->src) ? -EADDRINUSE : 0;
}

static int conflicts(const struct ucm_id *id, uint64_t service, bool reuse)
{
	list_for_each(port, bucket_of(service), struct ucm_port, node) {
		if (port->service != service)
			continue;
		list_for_each(other, &port->ids, struct ucm_id, of_port) {
			int error = other == id ? 0 : conflict(id, other, reuse);

			if (error)
				return error;
		}
	}
	return 0;
}

static void post(uint32_t type, uint64_t service, const uint8_t gid[16])
{
	struct control_msg msg = { .type = type, .service = service };

	memcpy(msg.gid, gid, 16);
	ucm_post(&msg);
}

/* A request to weftd about one service, the lock given up meanwhile. The caller keeps its id, which may be destroyed by then:
 * what weftd granted is to be given back. */
static int ask(struct control_msg *msg)
{
	int error;

	ucm_unlock_and_send();
	error = runtime_request(ucm.rt, msg);
	ucm_lock();
	return error;
}

/* ---- ports in advance: who binds again and again asks for more at a time, as the answer takes longer than all else ---- */

static const uint8_t any[16];

static uint64_t bit_of(uint64_t service)
{
	return 1ull << service % CONTROL_PORT_ROW;
}

static struct ucm_port_row *row_of(uint64_t service)
{
	list_for_each(row, &ucm.port_rows, struct ucm_port_row, node)
		if (row->service == service / CONTROL_PORT_ROW * CONTROL_PORT_ROW)
			return row;
	return NULL;
}

static void row_give_back(struct ucm_port_row *row, uint64_t bits)
{
	struct control_msg msg = { .type = CTL_UNPORT, .service = row->service };

	control_set_port_row(&msg, bits);
	ucm_post(&msg);
	row->granted &= ~bits;
	if (row->granted)
		return;
	list_remove(&row->node);
	free(row);
}

void ucm_port_rows_trim(unsigned rows)
{
	list_for_each_safe(row, &ucm.port_rows, struct ucm_port_row, node) {
		if (row->used)
			continue;
		if (rows)
			rows--;
		else
			row_give_back(row, row->granted);
	}
}

/* A port of this port space that is there already, in place of port 0. False: none is. */
static bool row_take(uint64_t *service)
{
	list_for_each(row, &ucm.port_rows, struct ucm_port_row, node) {
		uint64_t unused = row->granted & ~row->used;

		if (row->service >> 16 != *service >> 16 || !unused)
			continue;
		row->used |= unused & -unused;
		*service = control_port_of_row(row->service, unused);
		return true;
	}
	return false;
}

/* What weftd has granted with the port that was asked for. Without memory only that. */
static void row_note(const struct control_msg *msg)
{
	uint64_t bits = control_port_row(msg), one = bit_of(msg->service);
	struct ucm_port_row *row = row_of(msg->service);
	struct control_msg back = { .type = CTL_UNPORT, .service = msg->service };

	if (!row && bits & (bits - 1)) {
		row = calloc(1, sizeof(*row));
		if (!row) {
			control_set_port_row(&back, bits & ~one);
			ucm_post(&back);
			return;
		}
		row->service = msg->service / CONTROL_PORT_ROW * CONTROL_PORT_ROW;
		list_append(&ucm.port_rows, &row->node);
	}
	if (!row)
		return;
	row->granted |= bits | one;
	row->used |= one;
}

/* No id of this process uses it any more. */
static void unport(uint64_t service, const uint8_t gid[16])
{
	struct ucm_port_row *row = memcmp(gid, any, 16) == 0 ? row_of(service) : NULL;

	if (!row || !(row->used & bit_of(service))) {
		post(CTL_UNPORT, service, gid);
		return;
	}
	row->used &= ~bit_of(service);
	ucm_port_rows_trim(1);
}

/* An id wants this very port, at any address or at one. */
static void row_leave(uint64_t service)
{
	struct ucm_port_row *row = row_of(service);

	if (row && row->granted & ~row->used & bit_of(service))
		row_give_back(row, bit_of(service));
}

/* ---- reserving ---- */

static int port_create(uint64_t service, const uint8_t gid[16], struct ucm_port **port)
{
	*port = calloc(1, sizeof(**port));
	if (!*port) {
		unport(service, gid);
		return -ENOMEM;
	}
	(*port)->service = service;
	memcpy((*port)->gid, gid, 16);
	list_init(&(*port)->ids);
	list_append(bucket_of(service), &(*port)->node);
	return 0;
}

/* *port stays what another thread made meanwhile, or becomes a new one. */
static int port_reserve(struct ucm_id *id, const uint8_t gid[16], struct ucm_port **port)
{
	struct control_msg msg = { .type = CTL_PORT, .service = ucm_addr_service(id, &id->src), .a = id->reuseaddr };
	bool is_anyones = !ucm_addr_port(&id->src) && !id->reuseaddr && memcmp(gid, any, 16) == 0;
	int error;

	if (is_anyones && row_take(&msg.service)) {
		ucm_addr_set_port(&id->src, (uint16_t)msg.service);
		return port_create(msg.service, gid, port);
	}
	memcpy(msg.gid, gid, 16);
	if (is_anyones) {
		msg.b = ucm.ports_ahead;
		ucm.ports_ahead = 2 * ucm.ports_ahead + 1 < CONTROL_PORT_ROW ? 2 * ucm.ports_ahead + 1 : CONTROL_PORT_ROW - 1;
	}
	error = ask(&msg);
	if (error)
		return error;
	if (is_anyones)
		row_note(&msg);
	if (id->destroyed) {
		unport(msg.service, gid);
		return -EINVAL;
	}
	ucm_addr_set_port(&id->src, (uint16_t)msg.service);
	*port = port_find(msg.service, gid);
	if (!*port)
		return port_create(msg.service, gid, port);
	unport(msg.service, gid);	/* now reserved twice */
	return 0;
}

/* A port that weftd is to choose is reserved for both families, as rows are. */
static void gid_of(const struct ucm_id *id, uint8_t gid[16])
{
	bool is_of_family = id->afonly && id->src.ss_family != AF_IB && ucm_addr_port(&id->src);

	ucm_addr_gid(&id->src, gid);
	if (is_of_family && ucm_addr_is_any(&id->src))
		memcpy(gid, control_any(id->src.ss_family == AF_INET ? FAMILY_IPV4 : FAMILY_IPV6), 16);
}

int ucm_port_bind(struct ucm_id *id)
{
	uint64_t service = ucm_addr_service(id, &id->src);
	struct ucm_port *port = NULL;
	uint8_t gid[16];
	int error = 0;

	gid_of(id, gid);
	if (ucm_addr_port(&id->src)) {
		error = conflicts(id, service, id->reuseaddr);
		if (error)
			return error;
		port = port_find(service, gid);
		if (!port && ucm_addr_is_any(&id->src))
			port = port_find(service, any);
		if (!port)
			row_leave(service);
	}
	if (!port)
		error = port_reserve(id, gid, &port);
	/* Linux's word for a port that some wildcard address has */
	if (error == -EADDRINUSE && ucm_addr_is_any(&id->src))
		error = -EADDRNOTAVAIL;
	if (error)
		return error;
	id->port = port;
	list_append(&port->ids, &id->of_port);
	return 0;
}

/* For an id that is gone; another one may listen there by now, and weftd knows one listener for all. */
static int unlisten(uint64_t service, const uint8_t gid[16])
{
	const struct ucm_port *port = port_find(service, gid);

	if (!port || !port->listens)
		post(CTL_UNLISTEN, service, gid);
	return -EINVAL;
}

/* The wire first: weftd passes nothing of other hosts on to who could not answer them. */
static int ask_to_listen(const struct ucm_id *id, struct control_msg *msg)
{
	struct sockaddr_storage src = id->src;
	int error;

	ucm_unlock_and_send();
	ucm_route_expect(&src);
	error = runtime_request(ucm.rt, msg);
	ucm_lock();
	return error;
}

int ucm_port_listen(struct ucm_id *id)
{
	struct control_msg msg = { .type = CTL_LISTEN, .service = id->port->service };
	uint8_t gid[16];
	int error = conflicts(id, id->port->service, false);

	if (error)
		return error;
	memcpy(gid, id->port->gid, 16);
	memcpy(msg.gid, gid, 16);
	id->is_listening = true;
	if (id->port->listens++)
		return 0;
	error = ask_to_listen(id, &msg);
	if (!error && id->destroyed)
		error = unlisten(msg.service, gid);
	if (error && id->is_listening) {
		id->is_listening = false;
		id->port->listens--;
	}
	return error;
}

void ucm_port_release(struct ucm_id *id)
{
	struct ucm_port *port = id->port;

	if (!port)
		return;
	list_remove(&id->of_port);
	id->port = NULL;
	if (id->is_listening && --port->listens == 0)
		post(CTL_UNLISTEN, port->service, port->gid);
	id->is_listening = false;
	if (!list_empty(&port->ids))
		return;
	list_remove(&port->node);
	unport(port->service, port->gid);
	free(port);
}
