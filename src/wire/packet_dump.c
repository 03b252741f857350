/* A packet as one line of text, from the same field lists that parse and build it. */
#include "wire/packet.h"

#include "base/crc.h"
#include "wire/header.h"
#include "wire/text.h"

#define DUMP(member, ...) text_field(t, #member, p->member);

static void dump_address(struct text *t, const struct packet_path *path, const uint8_t *gid)
{
	if (path->is_ipv4)
		text_ipv4(t, gid + 12);
	else
		text_gid(t, gid);
}

static void dump_addresses(struct text *t, const struct packet *p)
{
	if (p->form == PACKET_IB && !p->path.has_grh)
		return;
	text_add(t, " ");
	dump_address(t, &p->path, p->path.sgid);
	text_add(t, " > ");
	dump_address(t, &p->path, p->path.dgid);
}

static void dump_headers(struct text *t, const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);

	text_add(t, "%s", p->form == PACKET_IB ? "IB" : "ROCE");
	dump_addresses(t, p);
	if (p->form == PACKET_IB) {
		LRH_FIELDS(DUMP)
	} else {
		UDP_FIELDS(DUMP)
	}
	DUMP(path.tclass)
	DUMP(path.flow_label)
	DUMP(path.hop_limit)
	DUMP(path.ip_id)
	DUMP(path.ip_may_fragment)
	text_add(t, " %s", row ? row->name : "?");
	BTH_FIELDS(DUMP)
#define DUMP_HEADER(x, bit, header_bytes, FIELDS)	\
	if (row && (row->headers & (bit))) {		\
		FIELDS(DUMP)				\
	}
	EXTENDED_HEADERS(DUMP_HEADER, 0)
	text_bytes(t, "resv.pad", p->resv.pad, sizeof(p->resv.pad));
}

int packet_dump(const struct packet *p, char *text, size_t room)
{
	struct text t = { text, room, 0 };

	if (p->form == PACKET_ETHERNET)
		text_add(&t, "ETHERNET");
	else
		dump_headers(&t, p);
	if (p->payload_bytes)
		text_add(&t, " payload %u crc 0x%08x", p->payload_bytes, crc_ieee_iov(0, p->payload, p->payload_iovs));
	return (int)t.length;
}
