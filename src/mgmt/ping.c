#include "mgmt/ping.h"

#include "mgmt/gmp.h"
#include "wire/addr.h"
#include "wire/field.h"

#include <string.h>

/* Our choices: a class of the second range (0x30 to 0x4f) and an OUI that is locally administered, so nobody's. */
enum { PING_CLASS = 0x37, PING_CLASS_VERSION = 1, PING_ATTRIBUTE = 1, PING_OUI_WEFT = 0x027766 };

/* IBA 16.5.1: the OUI is behind the RMPP header; what follows it is the vendor's. */
#define PING_OUI 37, 0, 24
enum { PING_TEXT = 40 };

size_t ping_build(const struct ping *ping, uint8_t frame[PING_FRAME])
{
	const struct mad_header h = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = PING_CLASS, .class_version = PING_CLASS_VERSION,
		.method = ping->is_answer ? MAD_GET_RESP : MAD_GET, .tid = ping->tid, .attr_id = PING_ATTRIBUTE,
	};
	uint8_t payload[PING_MOST] = { 0 };
	struct iovec iov = { payload, ping->bytes };
	struct packet p = {
		.form = PACKET_ROCE, .opcode = OPCODE_UD_SEND_ONLY, .pkey = ping->pkey, .dest_qpn = GSI_QPN,
		.deth = { GSI_QKEY, GSI_QPN }, .path = ping->path,
		.payload = &iov, .payload_iovs = 1, .payload_bytes = ping->bytes,
	};

	mad_header_build(&h, payload);
	wire_put(payload, PING_OUI_WEFT, PING_OUI);
	memcpy(payload + PING_TEXT, ping->version, strnlen(ping->version, PING_VERSION - 1));
	p.path.is_ipv4 = gid_is_ipv4(ping->path.sgid) && gid_is_ipv4(ping->path.dgid);
	p.path.udp_sport = ROCE_SPORT_BASE;
	return packet_build(&p, frame, PING_FRAME);
}

/* A stranger's text is for a terminal. */
static void read_version(char version[PING_VERSION], const uint8_t *text)
{
	memcpy(version, text, PING_VERSION - 1);
	version[PING_VERSION - 1] = '\0';
	for (char *c = version; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static bool is_ping(const struct mad_header *h, const uint8_t *payload)
{
	return h->base_version == MAD_BASE_VERSION && h->mgmt_class == PING_CLASS && h->class_version == PING_CLASS_VERSION &&
	       h->attr_id == PING_ATTRIBUTE && (h->method == MAD_GET || h->method == MAD_GET_RESP) &&
	       h->status == 0 &&	/* Linux sends the whole question back, with a status */
	       wire_get(payload, PING_OUI) == PING_OUI_WEFT;
}

bool ping_parse(struct ping *ping, const void *frame, size_t bytes)
{
	const uint8_t *payload;
	struct mad_header h;
	struct packet p;

	if (packet_parse(&p, PACKET_ROCE, frame, bytes, true) || p.opcode != OPCODE_UD_SEND_ONLY || p.dest_qpn != GSI_QPN ||
	    p.deth.src_qpn != GSI_QPN || p.deth.qkey != GSI_QKEY || p.payload_bytes < PING_LEAST || p.payload_bytes > PING_MOST)
		return false;
	payload = p.payload->iov_base;
	mad_header_parse(&h, payload);
	if (!is_ping(&h, payload))
		return false;
	*ping = (struct ping){ .path = p.path, .pkey = p.pkey, .is_answer = h.method == MAD_GET_RESP, .tid = h.tid,
			       .bytes = p.payload_bytes };
	read_version(ping->version, payload + PING_TEXT);
	return true;
}
