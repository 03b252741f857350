/* Parsing and building of both wire forms from the field lists of header.h. Every length is checked here, once: behind
 * packet_parse nobody sees raw bytes. Masking for the ICRC is in icrc.c, printing in packet_dump.c. */
#include "wire/packet.h"

#include "wire/addr.h"
#include "wire/header.h"
#include "wire/icrc.h"

#define GET(member, ...) p->member = wire_get(at, __VA_ARGS__);
#define PUT(member, ...) wire_put(at, p->member, __VA_ARGS__);

/* RFC 791: the ones' complement sum of the header's words, its own field taken as 0. */
static uint16_t ipv4_checksum(const uint8_t *at)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	sum -= (uint32_t)wire_get(at, IPV4_CHECKSUM);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* The parse_ functions set *used to the bytes of the headers in front of the BTH. */

static enum packet_error check_length(size_t said, size_t bytes)
{
	return bytes < said ? PACKET_SHORT : bytes > said ? PACKET_BAD_LENGTH : PACKET_OK;
}

static void parse_ipv6_addresses(struct packet *p, const uint8_t *at)
{
	IPV6_FIELDS(GET)
	memcpy(p->path.sgid, at + IPV6_SOURCE, 16);
	memcpy(p->path.dgid, at + IPV6_DESTINATION, 16);
}

static enum packet_error parse_ib(struct packet *p, const uint8_t *at, size_t bytes, size_t *used)
{
	enum packet_error error;
	uint64_t lnh;

	if (bytes < LRH_BYTES)
		return PACKET_SHORT;
	lnh = wire_get(at, LRH_LNH);
	if (wire_get(at, LRH_LVER) != 0)
		return PACKET_BAD_VERSION;
	if (lnh != LNH_LOCAL && lnh != LNH_GLOBAL)
		return PACKET_BAD_FORM;
	error = check_length(4 * wire_get(at, LRH_PKTLEN), bytes);
	if (error)
		return error;
	LRH_FIELDS(GET)
	*used = LRH_BYTES;
	p->path.has_grh = lnh == LNH_GLOBAL;
	if (!p->path.has_grh)
		return PACKET_OK;

	at += LRH_BYTES;
	if (bytes < LRH_BYTES + GRH_BYTES)
		return PACKET_SHORT;
	if (wire_get(at, IPV6_VERSION) != 6)
		return PACKET_BAD_VERSION;
	if (wire_get(at, IPV6_NEXT) != NEXT_HEADER_BTH)
		return PACKET_BAD_FORM;
	parse_ipv6_addresses(p, at);
	*used += GRH_BYTES;
	/* IBA 8.3: PayLen counts from behind the GRH to the end of the ICRC */
	return check_length(*used + wire_get(at, IPV6_PAYLOAD), bytes);
}

static enum packet_error parse_ipv4(struct packet *p, const uint8_t *at, size_t bytes, size_t *used)
{
	enum packet_error error;
	uint64_t fragment;

	if (bytes < IPV4_BYTES)
		return PACKET_SHORT;
	fragment = wire_get(at, IPV4_FRAGMENT);
	/* A17.3.1: no options; RFC 791: only DF may be set in a datagram that is whole */
	if (wire_get(at, IPV4_IHL) != IPV4_BYTES / 4 || (fragment & ~(uint64_t)IPV4_DF) ||
	    wire_get(at, IPV4_PROTOCOL) != PROTOCOL_UDP || wire_get(at, IPV4_CHECKSUM) != ipv4_checksum(at))
		return PACKET_BAD_FORM;
	error = check_length(wire_get(at, IPV4_LENGTH), bytes);
	if (error)
		return error;
	IPV4_FIELDS(GET)
	p->path.ip_may_fragment = !fragment;
	p->path.is_ipv4 = true;
	gid_from_ipv4(p->path.sgid, at + IPV4_SOURCE);
	gid_from_ipv4(p->path.dgid, at + IPV4_DESTINATION);
	*used = IPV4_BYTES;
	return PACKET_OK;
}

static enum packet_error parse_ipv6(struct packet *p, const uint8_t *at, size_t bytes, size_t *used)
{
	if (bytes < IPV6_BYTES)
		return PACKET_SHORT;
	if (wire_get(at, IPV6_NEXT) != PROTOCOL_UDP)
		return PACKET_BAD_FORM;
	parse_ipv6_addresses(p, at);
	*used = IPV6_BYTES;
	return check_length(IPV6_BYTES + wire_get(at, IPV6_PAYLOAD), bytes);
}

static enum packet_error parse_roce(struct packet *p, const uint8_t *at, size_t bytes, size_t *used)
{
	uint64_t version = bytes ? wire_get(at, IPV4_VERSION) : 0;
	enum packet_error error;

	if (!bytes)
		return PACKET_SHORT;
	if (version != 4 && version != 6)
		return PACKET_BAD_VERSION;
	error = version == 4 ? parse_ipv4(p, at, bytes, used) : parse_ipv6(p, at, bytes, used);
	if (error)
		return error;
	at += *used;
	bytes -= *used;
	if (bytes < UDP_BYTES)
		return PACKET_SHORT;
	if (wire_get(at, UDP_DPORT) != ROCE_PORT)
		return PACKET_BAD_FORM;
	UDP_FIELDS(GET)
	p->path.has_grh = true;
	*used += UDP_BYTES;
	return check_length(wire_get(at, UDP_LENGTH), bytes);
}

enum packet_error packet_parse_path(struct packet_path *path, const void *frame, size_t bytes, size_t *header_bytes)
{
	struct packet p = { .form = PACKET_ROCE };
	size_t used = 0;
	enum packet_error error = parse_roce(&p, frame, bytes, &used);

	if (error)
		return error;
	*path = p.path;
	*header_bytes = used;
	return PACKET_OK;
}

static void point_payload(struct packet *p, const void *at, size_t bytes)
{
	p->payload_bytes = (uint32_t)bytes;
	p->payload_one = (struct iovec){ (void *)(uintptr_t)at, bytes };
	p->payload = &p->payload_one;
	p->payload_iovs = 1;
}

static enum packet_error parse_ethernet(struct packet *p, const void *frame, size_t bytes)
{
	if (bytes < ETHER_BYTES)
		return PACKET_SHORT;
	if (bytes > PACKET_MAX_ETHERNET)
		return PACKET_BAD_LENGTH;
	point_payload(p, frame, bytes);
	return PACKET_OK;
}

/* BTH to pad; bytes counts from the BTH to the end of the ICRC. */
static enum packet_error parse_transport(struct packet *p, const uint8_t *at, size_t bytes)
{
	const struct opcode_row *row;
	size_t payload;

	if (bytes < BTH_BYTES + ICRC_BYTES)
		return PACKET_SHORT;
	if (wire_get(at, BTH_TVER) != 0)
		return PACKET_BAD_VERSION;
	BTH_FIELDS(GET)
	p->pad = wire_get(at, BTH_PAD);
	p->opcode = wire_get(at, BTH_OPCODE);
	row = opcode_row(p->opcode);
	if (!row)
		return PACKET_BAD_OPCODE;
	at += BTH_BYTES;
	bytes -= BTH_BYTES + ICRC_BYTES;
	if (bytes < row->header_bytes)
		return PACKET_SHORT;
#define PARSE_HEADER(x, bit, header_bytes, FIELDS)	\
	if (row->headers & (bit)) {			\
		FIELDS(GET)				\
		at += (header_bytes);			\
	}
	EXTENDED_HEADERS(PARSE_HEADER, 0)
	bytes -= row->header_bytes;

	if (bytes % 4 || bytes < p->pad)
		return PACKET_BAD_LENGTH;
	payload = bytes - p->pad;
	if (payload < row->payload_min || payload > row->payload_max)
		return PACKET_BAD_LENGTH;
	memcpy(p->resv.pad, at + payload, p->pad);
	point_payload(p, at, payload);
	return PACKET_OK;
}

enum packet_error packet_parse(struct packet *p, enum packet_form form, const void *frame, size_t bytes, bool check_icrc)
{
	enum packet_error error;
	uint32_t icrc;
	size_t used = 0;

	*p = (struct packet){ .form = form };
	if (form == PACKET_ETHERNET)
		return parse_ethernet(p, frame, bytes);
	error = form == PACKET_IB ? parse_ib(p, frame, bytes, &used) : parse_roce(p, frame, bytes, &used);
	if (!error)
		error = parse_transport(p, (const uint8_t *)frame + used, bytes - used);
	if (error || !check_icrc)
		return error;
	memcpy(&icrc, (const uint8_t *)frame + bytes - ICRC_BYTES, ICRC_BYTES);
	return le32toh(icrc) == icrc_compute(form, frame, bytes - ICRC_BYTES) ? PACKET_OK : PACKET_BAD_ICRC;
}

void packet_copy(struct packet *to, const struct packet *from)
{
	*to = *from;
	if (from->payload == &from->payload_one)
		to->payload = &to->payload_one;
}

size_t packet_path_bytes(enum packet_form form, const struct packet_path *path)
{
	if (form == PACKET_IB)
		return LRH_BYTES + (path->has_grh ? GRH_BYTES : 0);
	return (path->is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
}

static size_t path_bytes(const struct packet *p)
{
	return packet_path_bytes(p->form, &p->path);
}

static unsigned pad_bytes(const struct packet *p)
{
	return -p->payload_bytes & 3;
}

size_t packet_header_bytes(const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);

	if (p->form == PACKET_ETHERNET)
		return 0;
	return path_bytes(p) + BTH_BYTES + (row ? row->header_bytes : 0);
}

size_t packet_bytes(const struct packet *p)
{
	if (p->form == PACKET_ETHERNET)
		return p->payload_bytes;
	return packet_header_bytes(p) + p->payload_bytes + pad_bytes(p) + ICRC_BYTES;
}

/* The build_ functions write over zeroed bytes; `bytes` counts from `at` to the end of the ICRC. */

static void build_ipv6(const struct packet *p, uint8_t *at, size_t bytes, unsigned next_header)
{
	wire_put(at, 6, IPV6_VERSION);
	wire_put(at, bytes - IPV6_BYTES, IPV6_PAYLOAD);
	wire_put(at, next_header, IPV6_NEXT);
	IPV6_FIELDS(PUT)
	memcpy(at + IPV6_SOURCE, p->path.sgid, 16);
	memcpy(at + IPV6_DESTINATION, p->path.dgid, 16);
}

static inline __attribute__((always_inline)) void build_ipv4(const struct packet *p, uint8_t *at, size_t bytes)
{
	wire_put(at, 4, IPV4_VERSION);
	wire_put(at, IPV4_BYTES / 4, IPV4_IHL);
	wire_put(at, bytes, IPV4_LENGTH);
	wire_put(at, p->path.ip_may_fragment ? 0 : IPV4_DF, IPV4_FRAGMENT);
	wire_put(at, PROTOCOL_UDP, IPV4_PROTOCOL);
	IPV4_FIELDS(PUT)
	memcpy(at + IPV4_SOURCE, p->path.sgid + 12, 4);
	memcpy(at + IPV4_DESTINATION, p->path.dgid + 12, 4);
	wire_put(at, ipv4_checksum(at), IPV4_CHECKSUM);
}

static void build_ib(const struct packet *p, uint8_t *at, size_t bytes)
{
	wire_put(at, p->path.has_grh ? LNH_GLOBAL : LNH_LOCAL, LRH_LNH);
	wire_put(at, bytes / 4, LRH_PKTLEN);
	LRH_FIELDS(PUT)
	if (p->path.has_grh)
		build_ipv6(p, at + LRH_BYTES, bytes - LRH_BYTES, NEXT_HEADER_BTH);
}

static inline __attribute__((always_inline)) void build_roce(const struct packet *p, uint8_t *at, size_t bytes)
{
	size_t ip = p->path.is_ipv4 ? IPV4_BYTES : IPV6_BYTES;

	if (p->path.is_ipv4)
		build_ipv4(p, at, bytes);
	else
		build_ipv6(p, at, bytes, PROTOCOL_UDP);
	at += ip;
	wire_put(at, ROCE_PORT, UDP_DPORT);
	wire_put(at, bytes - ip, UDP_LENGTH);
	UDP_FIELDS(PUT)
}

void packet_build_path(const struct packet_path *path, void *header, size_t bytes)
{
	memset(header, 0, (path->is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES);
	build_roce(&(struct packet){ .path = *path }, header, bytes);
}

static void build_transport(const struct packet *p, const struct opcode_row *row, uint8_t *at)
{
	wire_put(at, row->code, BTH_OPCODE);
	wire_put(at, pad_bytes(p), BTH_PAD);
	BTH_FIELDS(PUT)
	at += BTH_BYTES;
#define BUILD_HEADER(x, bit, header_bytes, FIELDS)	\
	if (row->headers & (bit)) {			\
		FIELDS(PUT)				\
		at += (header_bytes);			\
	}
	/* cppcheck-suppress uselessAssignmentPtrArg ; the last header's step over itself */
	EXTENDED_HEADERS(BUILD_HEADER, 0)
}

/* Copies the gather list; false when it does not hold exactly payload_bytes. */
static bool gather(const struct packet *p, uint8_t *at)
{
	size_t left = p->payload_bytes;

	for (unsigned i = 0; i < p->payload_iovs; i++) {
		size_t n = p->payload[i].iov_len;

		if (weft_bug_on(n > left))
			return false;
		if (n)
			memcpy(at, p->payload[i].iov_base, n);
		at += n;
		left -= n;
	}
	return !weft_bug_on(left);
}

static size_t build_ethernet(const struct packet *p, uint8_t *frame, size_t room)
{
	return !weft_bug_on(p->payload_bytes > room) && gather(p, frame) ? p->payload_bytes : 0;
}

/* The header alone, or all of it: one function for both, so that the compiler makes one of it and all that it calls. */
static __attribute__((noinline, noclone)) size_t build_packet(const struct packet *p, uint8_t *frame, size_t room, bool whole)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	size_t bytes = packet_bytes(p), header = packet_header_bytes(p);
	uint8_t *at = frame, *icrc_at = frame + bytes - ICRC_BYTES;
	uint32_t icrc;

	if (weft_bug_on(!row) || weft_bug_on(bytes > room) || weft_bug_on(p->payload_bytes > PACKET_MAX_PAYLOAD))
		return 0;
	memset(at, 0, header);
	if (p->form == PACKET_IB)
		build_ib(p, at, bytes);
	else
		build_roce(p, at, bytes);
	build_transport(p, row, at + path_bytes(p));
	if (!whole)
		return header;
	if (!gather(p, at + header))
		return 0;
	memcpy(at + header + p->payload_bytes, p->resv.pad, pad_bytes(p));
	icrc = htole32(icrc_compute(p->form, frame, bytes - ICRC_BYTES));
	memcpy(icrc_at, &icrc, ICRC_BYTES);
	return bytes;
}

size_t packet_build_header(const struct packet *p, void *header)
{
	return build_packet(p, header, SIZE_MAX, false);
}

size_t packet_build(const struct packet *p, void *frame, size_t room)
{
	return p->form == PACKET_ETHERNET ? build_ethernet(p, frame, room) : build_packet(p, frame, room, true);
}

const char *packet_error_name(enum packet_error e)
{
	static const char *const name[] = {
		[PACKET_OK] = "ok", [PACKET_SHORT] = "short", [PACKET_BAD_FORM] = "bad form", [PACKET_BAD_OPCODE] = "bad opcode",
		[PACKET_BAD_LENGTH] = "bad length", [PACKET_BAD_ICRC] = "bad ICRC", [PACKET_BAD_VERSION] = "bad version",
	};

	return name[e];
}
