#include "runtime/bad_keys.h"

#include "runtime/state.h"
#include "verbs/qp.h"
#include "wire/opcode.h"

/* Our choice: a trap goes out once in a subnet timeout, of at least 100 ms. */
static const wtime TELL_EVERY = 5 * WTIME_MS;

static void tell(struct runtime *rt, struct control_msg *msg, const struct ca_device *port, const struct packet *p,
		 uint32_t packets)
{
	msg->gid[BAD_KEY_PORT] = port->place_number;
	msg->gid[BAD_KEY_FROM] = p->path.slid >> 8;
	msg->gid[BAD_KEY_FROM + 1] = p->path.slid & 0xff;
	msg->type = CTL_BAD_KEY;
	msg->slot |= p->path.dlid | (uint32_t)(p->path.sl & 15) << BAD_KEY_SL;
	msg->service = packets | (uint64_t)p->pkey << BAD_KEY_PKEY;
	(void)session_post(&rt->session, msg, NULL);
}

void bad_keys_sent(struct runtime *rt, const struct route *r, const struct burst_row *b)
{
	struct way *way = r->way ? rt->peers.node.ways.way[r->way - 1] : NULL;
	const struct packet *p = &b->out[0].packet;
	bool is_ud = opcode_row(p->opcode)->service == SERVICE_UD;

	if (!way || !way->is_barred)
		return;
	way->untold += b->packets;
	if (rt->ca.now < way->next_tell)
		return;
	tell(rt, &(struct control_msg){ .a = is_ud ? p->deth.src_qpn : 0, .b = p->dest_qpn }, b->dev, p, way->untold);
	way->untold = 0;
	way->next_tell = rt->ca.now + TELL_EVERY;
}

void bad_keys_received(void *runtime, const struct qp *qp, const struct packet *p, bool is_qkey)
{
	struct runtime *rt = runtime;
	struct bad_keys *bad;
	uint32_t from = opcode_row(p->opcode)->service == SERVICE_UD ? p->deth.src_qpn : qp->attr.dest_qp_num;

	if (!node_is_somewhere(&rt->peers.node) || !device_has(qp->dev, DEVICE_LIDS))
		return;
	bad = &rt->bad_keys[is_qkey];
	bad->untold++;
	if (rt->ca.now < bad->next)
		return;
	tell(rt, &(struct control_msg){ .device = BAD_KEY_ARRIVED, .a = from, .b = qp->qpn, .c = is_qkey ? p->deth.qkey : 0,
					.slot = is_qkey ? BAD_KEY_IS_QKEY : 0 }, qp->dev, p, bad->untold);
	bad->untold = 0;
	bad->next = rt->ca.now + TELL_EVERY;
}
