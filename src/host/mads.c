#include "host/mads.h"

#include "verbs/ca.h"
#include "wire/opcode.h"

#include <netinet/in.h>
#include <string.h>

enum {
	GSI_QPN = 1,			/* IBA 3.9.4.3 */
	HOP_LIMIT = 64,			/* as Linux's rdma_cm sends it */
	IS_MAD = 1u << 31,		/* in `to`; a slot never has it */
};

static const uint32_t GSI_QKEY = 0x80010000;	/* IBA 10.2.5 */

static bool is_ipv4(const uint8_t gid[16])
{
	struct in6_addr addr;

	memcpy(&addr, gid, sizeof(addr));
	return IN6_IS_ADDR_V4MAPPED(&addr);
}

size_t mads_frame(const struct ca_device *dev, const struct control_msg *msg, uint8_t *frame, size_t room)
{
	struct iovec mad = { (void *)(uintptr_t)msg->mad, sizeof(msg->mad) };
	struct packet p = {
		.form = dev->form, .opcode = OPCODE_UD_SEND_ONLY, .pkey = dev->pkey[0], .dest_qpn = GSI_QPN,
		.deth = { GSI_QKEY, GSI_QPN }, .payload = &mad, .payload_iovs = 1, .payload_bytes = sizeof(msg->mad),
		.path = { .slid = dev->lid, .dlid = dev->lid, .has_grh = dev->form == PACKET_ROCE },
	};

	if (p.path.has_grh) {
		memcpy(p.path.sgid, msg->gid, sizeof(p.path.sgid));
		memcpy(p.path.dgid, msg->dgid, sizeof(p.path.dgid));
		p.path.is_ipv4 = is_ipv4(msg->gid) && is_ipv4(msg->dgid);
		p.path.hop_limit = HOP_LIMIT;
	}
	return packet_build(&p, frame, room);
}

uint32_t mads_keep(struct mads *m, const struct control_msg *msg)
{
	uint32_t number = ++m->number & ~(uint32_t)IS_MAD;

	m->kept[number % MADS_KEPT] = *msg;
	m->kept_number[number % MADS_KEPT] = number;
	return number | IS_MAD;
}

bool mads_is_one(uint32_t to)
{
	return to & IS_MAD;
}

bool mads_restore(const struct mads *m, enum packet_form form, const void *frame, size_t bytes, uint32_t to,
		  struct control_msg *msg)
{
	uint32_t number = to & ~(uint32_t)IS_MAD;
	struct packet p;

	if (m->kept_number[number % MADS_KEPT] != number)
		return false;
	if (packet_parse(&p, form, frame, bytes, true) != PACKET_OK || p.payload_bytes != sizeof(msg->mad))
		return false;
	*msg = m->kept[number % MADS_KEPT];
	memcpy(msg->mad, p.payload->iov_base, sizeof(msg->mad));
	return true;
}

void mads_arrive(struct mads *m, const struct control_msg *msg)
{
	if (m->count < MADS_ARRIVED)
		m->arrived[(m->first + m->count++) % MADS_ARRIVED] = *msg;
}

bool mads_take(struct mads *m, struct control_msg *msg)
{
	if (!m->count)
		return false;
	*msg = m->arrived[m->first];
	m->first = (m->first + 1) % MADS_ARRIVED;
	m->count--;
	return true;
}
