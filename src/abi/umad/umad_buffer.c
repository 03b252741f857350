/* The buffer of a program: a header with the address, and the datagram behind it. Nothing here asks weftd. */
#include "abi/umad/umad_abi.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int debug_level;

UMAD_EXPORT int umad_init(void)
{
	return 0;
}

UMAD_EXPORT int umad_done(void)
{
	return 0;
}

UMAD_EXPORT int umad_debug(int level)
{
	if (level >= 0)
		debug_level = level;
	return debug_level;
}

UMAD_EXPORT void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

UMAD_EXPORT size_t umad_size(void)
{
	return sizeof(struct ib_user_mad);
}

UMAD_EXPORT int umad_status(void *umad)
{
	return (int)((struct ib_user_mad *)umad)->status;
}

UMAD_EXPORT ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
	return &((struct ib_user_mad *)umad)->addr;
}

UMAD_EXPORT int umad_set_grh(void *umad, void *mad_addr)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad);
	const struct ib_mad_addr *from = mad_addr;

	to->grh_present = from != NULL;
	if (!from)
		return 0;
	memcpy(to->gid, from->gid, sizeof(to->gid));
	to->flow_label = htobe32(from->flow_label);
	to->hop_limit = from->hop_limit;
	to->traffic_class = from->traffic_class;
	return 0;
}

UMAD_EXPORT int umad_set_addr_net(void *umad, be16 dlid, be32 dqp, int sl, be32 qkey)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad);

	to->qpn = dqp;
	to->lid = dlid;
	to->qkey = qkey;
	to->sl = (uint8_t)sl;
	return 0;
}

UMAD_EXPORT int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(umad, htobe16((uint16_t)dlid), htobe32((uint32_t)dqp), sl, htobe32((uint32_t)qkey));
}

UMAD_EXPORT int umad_set_pkey(void *umad, int pkey_index)
{
	umad_get_mad_addr(umad)->pkey_index = (uint16_t)pkey_index;
	return 0;
}

UMAD_EXPORT int umad_get_pkey(void *umad)
{
	return umad_get_mad_addr(umad)->pkey_index;
}

static void say(const char *function)
{
	fprintf(stderr, "ibwarn: [%d] %s: ", (int)getpid(), function);
}

UMAD_EXPORT void umad_addr_dump(ib_mad_addr_t *addr)
{
	char gid[2 * sizeof(addr->gid) + 1];

	for (size_t i = 0; i < sizeof(addr->gid); i++)
		snprintf(gid + 2 * i, 3, "%02x", addr->gid[i]);
	say("umad_addr_dump");
	fprintf(stderr, "qpn %u qkey 0x%x lid %u sl %u\n", be32toh(addr->qpn), be32toh(addr->qkey), be16toh(addr->lid), addr->sl);
	fprintf(stderr, "grh_present %u gid_index %u hop_limit %u traffic_class %u flow_label 0x%x pkey_index 0x%x\nGid 0x%s\n",
		addr->grh_present, addr->gid_index, addr->hop_limit, addr->traffic_class, be32toh(addr->flow_label),
		addr->pkey_index, gid);
}

UMAD_EXPORT void umad_dump(void *umad)
{
	const struct ib_user_mad *mad = umad;

	say("umad_dump");
	fprintf(stderr, "agent id %u status %x timeout %u\n", mad->agent_id, mad->status, mad->timeout_ms);
	umad_addr_dump(umad_get_mad_addr(umad));
}
