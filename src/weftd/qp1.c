#include "weftd/qp1.h"

#include "base/qpn.h"
#include "control/devices.h"
#include "fabric/host.h"
#include "mgmt/cm.h"
#include "wire/addr.h"
#include "weftd/farewells.h"
#include "weftd/late_frames.h"
#include "weftd/listeners.h"
#include "weftd/pings.h"
#include "weftd/slots.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"
#include "weftd/roce_port.h"
#include "wire/pkey.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

static const struct asked nobody;

static enum packet_form form_of(const struct page_device *dev)
{
	return control_device_protocol(dev)->form;
}

/* Does a packet to, or from, this LID and GID name the device's port? Its path bits choose one of the port's LIDs. */
static bool is_port(const struct page_device *dev, const struct packet_path *path, uint16_t lid, const uint8_t gid[16])
{
	if (control_device_has(dev, DEVICE_LIDS) && !lid_is_of(lid, dev->lid, dev->lmc))
		return false;
	return !path->has_grh || page_device_has_gid(dev, gid);
}

int qp1_send(struct hub *h, struct client *to, uint32_t device, const void *frame, size_t bytes)
{
	struct control_msg msg = { .type = CTL_FRAME, .device = device, .text_bytes = (uint32_t)bytes };

	return h->ops->send(h, to, &msg, frame, NULL, 0) ? 0 : -ENOENT;
}

static const struct page_device *device_of(const struct hub *h, const struct gmp *in)
{
	return &h->page->device[page_device_of(h->page, (uint32_t)in->device)];
}

/* From this port back to the sender, by the path that its packet came by; it is there at `due`. */
static int answer(struct hub *h, struct client *c, const struct gmp *in, wtime due, const struct cm_msg *stray)
{
	struct gmp out = { .device = in->device, .pkey = in->pkey, .path = gmp_path_back(&in->path) };
	uint8_t frame[GMP_FRAME];
	struct cm_msg msg;

	if (!cm_answer_stray(stray, &msg))
		return -ENOENT;
	if (!h->ops->has_room(h, c))
		return -EAGAIN;
	cm_build(&msg, out.mad);
	return late_frames_send(h, c, c, (uint32_t)out.device, due, frame,
				gmp_build(&out, form_of(device_of(h, &out)), frame));
}

/* The address that a request asks for: rdma_cm's header tells it as its listener may have bound it, be it a loop-back
 * address, the path otherwise. */
static void asked_address(const struct gmp *in, const uint8_t *private_data, uint8_t address[16])
{
	struct cma_header header;

	memcpy(address, in->path.dgid, 16);
	if (!cma_parse(&header, private_data))
		return;
	if (header.ip_version == 4)
		gid_from_ipv4(address, header.destination + 12);
	else
		memcpy(address, header.destination, 16);
}

/* At this place in the fabric, and the port of this index there. */
static struct client *find_listener(struct hub *h, const struct gmp *in, uint32_t place, uint32_t index, uint64_t service,
				    const uint8_t *private_data)
{
	uint8_t address[16];
	struct client *to;

	asked_address(in, private_data, address);
	to = listeners_find(h, service, place, index, address);
	/* what looked like a header is the private data of a program that has none (AF_IB) */
	return to ? to : listeners_find(h, service, place, index, in->path.dgid);
}

/* Where ports have no LIDs: of several hosts' listeners at the address it is the sender's own. */
static struct client *listener_anywhere(struct hub *h, const struct client *c, const struct gmp *in, uint64_t service,
					const uint8_t *private_data)
{
	uint32_t device = (uint32_t)in->device, own = subnet_place(h, c);
	uint8_t address[16];
	struct client *to;

	asked_address(in, private_data, address);
	to = own == PORT_NONE ? NULL : listeners_find(h, service, own, device, address);
	return to ? to : find_listener(h, in, LISTENERS_ANYWHERE, device, service, private_data);
}

/* Who is at a port of an adapter alone has it as its first, and who is at a host has those of all adapters. */
static struct client *listener(struct hub *h, const struct client *c, const struct gmp *in, uint64_t service,
			       const uint8_t *private_data)
{
	uint32_t device = page_device_of(h->page, (uint32_t)in->device), port, place[HOST_PLACES];
	struct client *to = NULL;
	unsigned places;

	if (!control_device_has(&h->page->device[device], DEVICE_LIDS))
		return listener_anywhere(h, c, in, service, private_data);
	port = subnet_destination(h, c, in);
	if (port == PORT_NONE)
		return find_listener(h, in, PORT_NONE, device, service, private_data);
	places = host_places(&h->subnet->fabric, port, place);
	for (unsigned i = 0; i < places && !to; i++) {
		uint32_t index = page_index(h->page, host_port_number(&h->subnet->fabric, place[i], port));

		if (index < PAGE_DEVICES)
			to = find_listener(h, in, place[i], index, service, private_data);
	}
	return to;
}

static struct asked *asked_of(struct client *c, uint32_t id)
{
	return &c->asked[id % QP1_ASKED];
}

/* IBA 12.6.7: who gives up its request may not know the receiver's id. */
static struct client *who_was_asked(struct hub *h, const struct asked *a, uint32_t id)
{
	return a->id == id ? slots_owner(h, a->slot) : NULL;
}

/* Of a message that is no request. asked: who got the sender's request with this id. */
static struct client *converses(struct hub *h, const struct asked *asked, const struct cm_msg *msg)
{
	struct cm_ids ids = cm_ids_of(msg);

	if (msg->attribute == CM_REJ && !ids.receiver)
		return who_was_asked(h, asked, ids.sender);
	return slots_owner(h, CM_ID_SLOT(ids.receiver));
}

static struct client *receiver(struct hub *h, struct client *c, const struct gmp *in, const struct cm_msg *msg)
{
	switch (msg->attribute) {
	case CM_REQ:
		return listener(h, c, in, msg->req.service_id, msg->req.private_data);
	case CM_SIDR_REQ:
		return listener(h, c, in, msg->sidr_req.service_id, msg->sidr_req.private_data);
	default:
		return converses(h, asked_of(c, cm_ids_of(msg).sender), msg);
	}
}

static bool know_each_other(const struct client *a, const struct client *b)
{
	return a->known[b->slot / 64] >> b->slot % 64 & 1;
}

/* A REJ of what has no conversation with its sender names none of the sender's (IBA 12.6.7), a SIDR_REP never does. Both answer
 * something, so the two have exchanged MADs. */
static bool is_senders_own(const struct client *c, const struct cm_msg *msg, const struct client *to)
{
	uint32_t id = cm_ids_of(msg).sender;

	if (id)
		return CM_ID_SLOT(id) == c->slot;
	return (msg->attribute == CM_REJ || msg->attribute == CM_SIDR_REP) && (!to || know_each_other(c, to));
}

static bool may_offer(const struct hub *h, const struct client *c, uint32_t qpn)
{
	const struct client *owner = slots_owner(h, qpn_slot(qpn));

	return !owner || owner == c || owner->pid == c->pid;
}

/* The QP that a REQ or a REP offers is the sender's own, or no process's here: who has asked for one that is connected has lost
 * that connection (12.9.8.3.1), and all processes of a port have one address. An XRC target's is where an EE context's would be
 * (A14). */
static bool offers_own_qp(const struct hub *h, const struct client *c, const struct cm_msg *msg)
{
	switch (msg->attribute) {
	case CM_REQ:
		return may_offer(h, c, msg->req.local_qpn);
	case CM_REP:
		return may_offer(h, c, msg->rep.local_qpn) && may_offer(h, c, msg->rep.local_eecn);
	default:
		return true;
	}
}

/* Where ports have LIDs, the receiver is where the packet goes, and the fabric leads there. */
static enum subnet_way carry(struct hub *h, const struct client *c, const struct client *to, const struct gmp *in,
			     uint32_t *index, wtime *due)
{
	*index = (uint32_t)in->device;
	*due = h->now;
	return control_device_has(device_of(h, in), DEVICE_LIDS) ? subnet_carry(h, c, to, in, index, due) : SUBNET_LEADS;
}

/* There is nobody at the other end: the port there says so. */
static int refuse(struct hub *h, struct client *c, const struct gmp *in, const struct cm_msg *stray)
{
	wtime due = h->now;
	enum subnet_way way = control_device_has(device_of(h, in), DEVICE_LIDS) ? subnet_carry_back(h, c, in, &due) :
										  SUBNET_LEADS;

	if (way == SUBNET_LEADS_ELSEWHERE)
		return -EHOSTUNREACH;
	return way == SUBNET_LOSES ? 0 : answer(h, c, in, due, stray);
}

static int pass_on(struct hub *h, struct client *c, const struct gmp *in, const char *frame, size_t bytes)
{
	enum subnet_way way;
	struct cm_msg msg;
	struct client *to;
	uint32_t index;
	wtime due;

	if (!cm_parse(&msg, in->mad))
		return -EINVAL;
	to = receiver(h, c, in, &msg);
	if (!is_senders_own(c, &msg, to) || !offers_own_qp(h, c, &msg))
		return -EPERM;
	if (!to)
		return slots_are_settling(h) ? -EAGAIN : refuse(h, c, in, &msg);
	if (!h->ops->has_room(h, to))
		return -EAGAIN;
	way = carry(h, c, to, in, &index, &due);
	if (way == SUBNET_LEADS_ELSEWHERE)
		return -EHOSTUNREACH;
	if (way == SUBNET_LOSES || !umad_admits_cm(h, to, index))
		return 0;	/* nobody tells the sender */
	hub_acquaint(c, to);
	if (msg.attribute == CM_REQ)
		*asked_of(c, msg.req.local_comm_id) = (struct asked){ msg.req.local_comm_id, to->slot };
	return late_frames_send(h, c, to, index, due, frame, bytes);
}

/* From a UD QP of the sender's own, at a port of the fabric. */
static int take_from_qp(struct hub *h, struct client *c, const struct page_device *dev, struct gmp *in)
{
	uint32_t port = subnet_port(h, c, (uint32_t)in->device);

	if (port == PORT_NONE || !control_device_has(dev, DEVICE_LIDS) || slots_owner(h, qpn_slot(in->qpn)) != c ||
	    !is_port(dev, &in->path, in->path.slid, in->path.sgid) || !fabric_has_pkey(&h->subnet->fabric, port, in->pkey))
		return -EPERM;
	umad_from_qp(h, port, in);
	return 0;
}

static int take(struct hub *h, struct client *c, const struct control_msg *msg, const char *frame)
{
	struct gmp in = { .device = (int)msg->device };
	struct page_device dev;
	enum gmp_verdict verdict;

	if (!subnet_has_index(h, c, msg->device))
		return -EINVAL;
	subnet_describe(h, c, msg->device, &dev);
	if (dev.port_state != IBV_PORT_ACTIVE)
		return -EHOSTUNREACH;
	verdict = gmp_parse(&in, form_of(&dev), frame, msg->text_bytes);
	if (verdict == GMP_NOT_QP1 && gmp_parse_from_qp(&in, form_of(&dev), frame, msg->text_bytes) == GMP_OK)
		return take_from_qp(h, c, &dev, &in);
	if (verdict != GMP_OK)
		return verdict == GMP_NOT_QP1 ? -EPERM : -EINVAL;
	if (!is_port(&dev, &in.path, in.path.slid, in.path.sgid))
		return -EPERM;
	/* a client in a fabric may mean the port of another host: its receiver tells */
	if (!is_port(&dev, &in.path, in.path.dlid, in.path.dgid) && subnet_place(h, c) == PORT_NONE)
		return -EHOSTUNREACH;
	return pass_on(h, c, &in, frame, msg->text_bytes);
}

void qp1_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *frame)
{
	int err = take(h, c, msg, frame);

	if (err)
		c->mads_dropped++;
	else
		c->mads_sent++;
	if (msg->seq)
		hub_answer(h, c, msg, -err);
}

/* ---- from other hosts ---- */

/* Secret, so that nobody chooses whom to share a place with. */
static uint64_t hash_of(const struct hub *h, const uint8_t gid[16])
{
	return hash_table_hash(&h->listeners, gid, 16);
}

/* Where the request of this id that came from this address is noted. Others cannot tell which of theirs have the same place. */
static struct stranger *stranger_of(struct hub *h, const uint8_t gid[16], uint32_t id)
{
	uint8_t key[20];

	memcpy(key, gid, 16);
	memcpy(key + 16, &id, sizeof(id));
	return &h->roce.strangers[hash_table_hash(&h->listeners, key, sizeof(key)) % QP1_STRANGERS];
}

static void note_stranger(struct hub *h, const struct gmp *in, const struct cm_msg *msg, const struct client *to)
{
	struct stranger *s = stranger_of(h, in->path.sgid, msg->req.local_comm_id);

	memcpy(s->gid, in->path.sgid, sizeof(s->gid));
	s->asked = (struct asked){ msg->req.local_comm_id, to->slot };
}

static struct client *receiver_here(struct hub *h, const struct gmp *in, const struct cm_msg *msg)
{
	const struct stranger *s;

	switch (msg->attribute) {
	case CM_REQ:
		return listeners_find(h, msg->req.service_id, LISTENERS_ANYWHERE, (uint32_t)in->device, in->path.dgid);
	case CM_SIDR_REQ:
		return listeners_find(h, msg->sidr_req.service_id, LISTENERS_ANYWHERE, (uint32_t)in->device, in->path.dgid);
	default:
		s = stranger_of(h, in->path.sgid, cm_ids_of(msg).sender);
		return converses(h, memcmp(s->gid, in->path.sgid, sizeof(s->gid)) ? &nobody : &s->asked, msg);
	}
}

static enum qp1_fate answer_stranger(struct hub *h, const struct gmp *in, const struct cm_msg *stray)
{
	struct gmp out = { .device = in->device, .pkey = in->pkey, .path = gmp_path_back(&in->path) };
	uint8_t frame[GMP_FRAME];
	struct cm_msg msg;

	if (slots_are_settling(h) || !cm_answer_stray(stray, &msg))
		return QP1_NOBODY;
	/* strangers get no more of weftd's time, and nobody by it more packets */
	if (!rates_allow(&h->roce.answers, h->now, hash_of(h, in->path.sgid), QP1_ANSWERS_EACH, QP1_ANSWERS))
		return QP1_NO_ROOM;
	cm_build(&msg, out.mad);
	return roce_port_send(h, frame, gmp_build(&out, PACKET_ROCE, frame)) ? QP1_ANSWERED : QP1_NO_ROOM;
}

/* QP1_FATES: it is a port's of this host, from another one's. */
static enum qp1_fate check_way(const struct page_device *dev, uint16_t pkey, const struct packet_path *path)
{
	if (dev->port_state != IBV_PORT_ACTIVE)
		return QP1_PORT_DOWN;
	if (!pkey_matches(dev->pkey[0], pkey))
		return QP1_WRONG_PARTITION;
	if (page_device_has_gid(dev, path->sgid) || !page_device_has_gid(dev, path->dgid))
		return QP1_WRONG_SOURCE;
	return QP1_FATES;
}

static enum qp1_fate take_ping(struct hub *h, const struct page_device *dev, const struct ping *ping)
{
	enum qp1_fate fate = check_way(dev, ping->pkey, &ping->path);

	return fate == QP1_FATES ? pings_arrived(h, ping) : fate;
}

enum qp1_fate qp1_input_wire(struct hub *h, const void *frame, size_t bytes)
{
	struct gmp in = { .device = (int)roce_port_device(h) };
	const struct page_device *dev = &h->page->device[in.device];
	enum gmp_verdict verdict = gmp_parse(&in, PACKET_ROCE, frame, bytes);
	enum qp1_fate fate;
	struct client *to;
	struct cm_msg msg;
	struct ping ping;

	if (verdict == GMP_NOT_QP1)
		return QP1_WRONG_KEY;
	if (verdict != GMP_OK || !cm_parse(&msg, in.mad))
		return ping_parse(&ping, frame, bytes) ? take_ping(h, dev, &ping) : QP1_NO_MAD;
	fate = check_way(dev, in.pkey, &in.path);
	if (fate != QP1_FATES)
		return fate;
	if (farewells_input(h, &in, &msg))
		return QP1_ENDED;
	to = receiver_here(h, &in, &msg);
	if (!to)
		return answer_stranger(h, &in, &msg);
	if (!to->has_socket)
		return QP1_NO_SOCKET;
	if (!rates_allow(&h->roce.passed, h->now, hash_of(h, in.path.sgid), QP1_PASSED_EACH, UINT32_MAX) ||
	    !h->ops->has_room(h, to) || !umad_admits_cm(h, to, (uint32_t)in.device))
		return QP1_NO_ROOM;
	if (msg.attribute == CM_REQ)
		note_stranger(h, &in, &msg, to);
	return qp1_send(h, to, (uint32_t)in.device, frame, bytes) ? QP1_NO_ROOM : QP1_PASSED;
}
