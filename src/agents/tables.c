/* The attributes that are arrays. Where an entry is follows from the modifier alone, which is checked here, once for reading and
 * writing. */
#include "agents/call.h"

#include "wire/field.h"
#include "wire/smp.h"

enum { LFT_BLOCK = 64, MFT_BLOCK = 32, PKEY_BLOCK = 32, GUID_BLOCK = 8, VLARB_BLOCK = 32 };	/* entries in 64 bytes */

/* ---- GUIDInfo, 14.2.5.5 ---- */

static uint64_t *guid_block(const struct call *c)
{
	const struct fabric *f = c->a->fabric;
	uint32_t port = fabric_is_switch(f, c->node) ? f->place[c->node].first_port : c->port;

	return c->modifier < FABRIC_GUIDS / GUID_BLOCK ? fabric_guids(f, port) + (size_t)c->modifier * GUID_BLOCK : NULL;
}

enum mad_status guid_info_get(const struct call *c)
{
	const uint64_t *guids = guid_block(c);

	for (unsigned i = 0; guids && i < GUID_BLOCK; i++) {
		uint64_t guid = htobe64(guids[i]);

		memcpy(c->data + i * sizeof(guid), &guid, sizeof(guid));
	}
	return guids ? 0 : MAD_STATUS_BAD_VALUE;
}

/* The first GUID of the first block is the port's own. */
enum mad_status guid_info_set(const struct call *c)
{
	uint64_t *guids = guid_block(c);

	for (unsigned i = c->modifier ? 0 : 1; guids && i < GUID_BLOCK; i++) {
		uint64_t guid;

		memcpy(&guid, c->data + i * sizeof(guid), sizeof(guid));
		FABRIC_SET(guids[i], be64toh(guid));
	}
	return guids ? 0 : MAD_STATUS_BAD_VALUE;
}

/* ---- P_KeyTable, 14.2.5.7: the upper half of the modifier is a port of a switch ---- */

static uint16_t *pkey_block(const struct call *c)
{
	const struct fabric *f = c->a->fabric;
	uint32_t block = c->modifier & 0xffff, number = fabric_is_switch(f, c->node) ? c->modifier >> 16 : 0;
	uint32_t port = call_port(c, number);

	return port == PORT_NONE || block >= PORT_PKEYS / PKEY_BLOCK ? NULL : fabric_pkeys(f, port) + (size_t)block * PKEY_BLOCK;
}

enum mad_status pkey_table_get(const struct call *c)
{
	const uint16_t *pkeys = pkey_block(c);

	for (unsigned i = 0; pkeys && i < PKEY_BLOCK; i++) {
		uint16_t pkey = htobe16(pkeys[i]);

		memcpy(c->data + i * sizeof(pkey), &pkey, sizeof(pkey));
	}
	return pkeys ? 0 : MAD_STATUS_BAD_VALUE;
}

enum mad_status pkey_table_set(const struct call *c)
{
	uint16_t *pkeys = pkey_block(c);

	for (unsigned i = 0; pkeys && i < PKEY_BLOCK; i++) {
		uint16_t pkey;

		memcpy(&pkey, c->data + i * sizeof(pkey), sizeof(pkey));
		FABRIC_SET(pkeys[i], be16toh(pkey));
	}
	return pkeys ? 0 : MAD_STATUS_BAD_VALUE;
}

/* ---- SLtoVLMappingTable, 14.2.5.8: input and output port of a switch; a Set may mean all of its input, or output ports ---- */

enum { ALL_OUT = 1 << 16, ALL_IN = 1 << 17 };

struct port_range {
	uint32_t first, last;
};

/* Of which tables the modifier tells. False: of none. An adapter's port is the one that the SMP has come to. */
static bool sl2vl_ranges(const struct call *c, struct port_range *in, struct port_range *out)
{
	const struct fabric *f = c->a->fabric;
	uint32_t ports = f->place[c->node].ports, all = fabric_is_switch(f, c->node) ? ALL_IN | ALL_OUT : 0;

	if (c->modifier & ~(all | 0xffff))
		return false;
	*in = (struct port_range){ c->modifier >> 8 & 255, c->modifier >> 8 & 255 };
	*out = (struct port_range){ c->modifier & 255, c->modifier & 255 };
	if (c->modifier & ALL_IN)
		*in = (struct port_range){ 0, ports };
	if (c->modifier & ALL_OUT)
		*out = (struct port_range){ 0, ports };
	if (in->last > ports || out->last > ports)
		return false;
	if (!all)
		out->first = out->last = fabric_port_number(f, c->port);
	return true;
}

/* Of several tables the first one: a Set has made them alike. */
enum mad_status sl2vl_get(const struct call *c)
{
	struct port_range in, out;

	if (!sl2vl_ranges(c, &in, &out))
		return MAD_STATUS_BAD_VALUE;
	memset(c->data, 0, SMP_DATA_BYTES);
	memcpy(c->data, fabric_sl2vl(c->a->fabric, c->node, in.first, out.first), FABRIC_SL2VL);
	return 0;
}

static void set_entry(const struct call *c, uint32_t in, uint32_t out)
{
	uint8_t *entry = fabric_sl2vl(c->a->fabric, c->node, in, out);

	for (unsigned i = 0; i < FABRIC_SL2VL; i++)
		FABRIC_SET(entry[i], c->data[i]);
}

enum mad_status sl2vl_set(const struct call *c)
{
	struct port_range ins, outs;

	if (!sl2vl_ranges(c, &ins, &outs))
		return MAD_STATUS_BAD_VALUE;
	for (uint32_t in = ins.first; in <= ins.last; in++) {
		for (uint32_t out = outs.first; out <= outs.last; out++)
			set_entry(c, in, out);
	}
	return 0;
}

/* ---- VLArbitrationTable, 14.2.5.9: blocks 1 and 2 have low priority, 3 and 4 high ---- */

static struct fabric_vlarb *vlarb_block(const struct call *c)
{
	const struct fabric *f = c->a->fabric;
	uint32_t block = c->modifier >> 16;
	uint32_t port = call_port(c, fabric_is_switch(f, c->node) ? c->modifier & 0xffff : 0);

	if (port == PORT_NONE || block < 1 || block > FABRIC_VLARB / VLARB_BLOCK)
		return NULL;
	return fabric_vlarb(f, port) + (size_t)((block + 1) % 4) * VLARB_BLOCK;
}

enum mad_status vlarb_get(const struct call *c)
{
	const struct fabric_vlarb *entry = vlarb_block(c);

	for (unsigned i = 0; entry && i < VLARB_BLOCK; i++) {
		c->data[2 * i] = entry[i].vl & 15;
		c->data[2 * i + 1] = entry[i].weight;
	}
	return entry ? 0 : MAD_STATUS_BAD_VALUE;
}

enum mad_status vlarb_set(const struct call *c)
{
	struct fabric_vlarb *entry = vlarb_block(c);

	for (unsigned i = 0; entry && i < VLARB_BLOCK; i++) {
		FABRIC_SET(entry[i].vl, c->data[2 * i] & 15);
		FABRIC_SET(entry[i].weight, c->data[2 * i + 1]);
	}
	return entry ? 0 : MAD_STATUS_BAD_VALUE;
}

/* ---- LinearForwardingTable, 14.2.5.10 ---- */

static uint8_t *lft_block(const struct call *c)
{
	const struct fabric *f = c->a->fabric;

	return c->modifier < f->lids / LFT_BLOCK ? fabric_lft(f, c->node) + (size_t)c->modifier * LFT_BLOCK : NULL;
}

enum mad_status lft_get(const struct call *c)
{
	const uint8_t *block = lft_block(c);

	if (!block)
		return MAD_STATUS_BAD_VALUE;
	memcpy(c->data, block, LFT_BLOCK);
	return 0;
}

enum mad_status lft_set(const struct call *c)
{
	uint8_t *block = lft_block(c);

	for (unsigned i = 0; block && i < LFT_BLOCK; i++)
		FABRIC_SET(block[i], c->data[i]);
	return block ? 0 : MAD_STATUS_BAD_VALUE;
}

/* ---- MulticastForwardingTable, 14.2.5.12: the upper 4 bits of the modifier are which 16 ports ---- */

static uint16_t *mft_entry(const struct call *c, unsigned i)
{
	const struct fabric *f = c->a->fabric;
	uint32_t mlid = (c->modifier & 0x1ff) * MFT_BLOCK + i, position = c->modifier >> 28;

	if (mlid >= f->mlids || position > f->place[c->node].ports / MFT_BITS)
		return NULL;
	return fabric_mft(f, c->node, MLID_FIRST + mlid) + position;
}

enum mad_status mft_get(const struct call *c)
{
	for (unsigned i = 0; i < MFT_BLOCK; i++) {
		const uint16_t *entry = mft_entry(c, i);
		uint16_t mask = htobe16(entry ? *entry : 0);

		if (!entry && !i)
			return MAD_STATUS_BAD_VALUE;
		memcpy(c->data + i * sizeof(mask), &mask, sizeof(mask));
	}
	return 0;
}

enum mad_status mft_set(const struct call *c)
{
	for (unsigned i = 0; i < MFT_BLOCK; i++) {
		uint16_t *entry = mft_entry(c, i), mask;

		if (!entry && !i)
			return MAD_STATUS_BAD_VALUE;
		memcpy(&mask, c->data + i * sizeof(mask), sizeof(mask));
		if (entry)
			FABRIC_SET(*entry, be16toh(mask));
	}
	return 0;
}
