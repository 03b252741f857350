#include "impair/pcapng.h"

#include "wire/field.h"
#include "wire/header.h"

#include <string.h>

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_FRAME = 6 };
enum { BYTE_ORDER_MAGIC = 0x1a2b3c4d, MAJOR = 1, MINOR = 0 };
enum { OPT_END = 0, IF_NAME = 2, IF_DESCRIPTION = 3, IF_TSRESOL = 9, SHB_USERAPPL = 4, EPB_FLAGS = 2 };
enum { NANOSECONDS = 9, FLAG_INBOUND = 1, FLAG_OUTBOUND = 2 };
enum { AT_LENGTH = 4, VCRC_BYTES = 2, MAC_BYTES = 6 };
/* Endace's ERF types: an InfiniBand packet from the LRH to the VCRC; flag: of any length */
enum { ERF_BYTES = 16, ERF_INFINIBAND = 21, ERF_VARYING = 4 };

static uint8_t *put(uint8_t *at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
	return at + bytes;
}

static uint8_t *pad(uint8_t *at, size_t bytes)
{
	return put(at, 0, -(unsigned)bytes & 3);
}

static uint8_t *put_option(uint8_t *at, unsigned code, const void *value, size_t bytes)
{
	at = put(put(at, code, 2), bytes, 2);
	if (bytes)
		memcpy(at, value, bytes);
	return pad(at + bytes, bytes);
}

static uint8_t *put_text(uint8_t *at, unsigned code, const char *text)
{
	return put_option(at, code, text, strnlen(text, PCAPNG_TEXT - 1));
}

static uint8_t *begin(uint8_t *to, uint32_t type)
{
	return put(put(to, type, 4), 0, 4);
}

/* The length stands at both ends. */
static size_t end(uint8_t *to, uint8_t *at)
{
	size_t bytes = (size_t)(at - to) + 4;

	put(to + AT_LENGTH, bytes, 4);
	put(at, bytes, 4);
	return bytes;
}

size_t pcapng_section(const char *writer, uint8_t *to)
{
	uint8_t *at = begin(to, BLOCK_SECTION);

	at = put(put(put(at, BYTE_ORDER_MAGIC, 4), MAJOR, 2), MINOR, 2);
	at = put(at, UINT64_MAX, 8);	/* the section's length is not told */
	at = put_text(at, SHB_USERAPPL, writer);
	return end(to, put_option(at, OPT_END, NULL, 0));
}

size_t pcapng_interface(enum pcapng_link link, const char *name, const char *description, uint8_t *to)
{
	static const uint8_t resolution = NANOSECONDS;
	uint8_t *at = begin(to, BLOCK_INTERFACE);

	at = put(put(put(at, (uint64_t)link, 2), 0, 2), 0, 4);	/* frames of any length */
	at = put_text(put_text(at, IF_NAME, name), IF_DESCRIPTION, description);
	at = put_option(at, IF_TSRESOL, &resolution, 1);
	return end(to, put_option(at, OPT_END, NULL, 0));
}

/* IBA 7.8.2: the polynomial 0x100B, from all ones, complemented; bits of a byte in the order of the ICRC. */
static uint16_t vcrc(const uint8_t *data, size_t bytes)
{
	uint16_t crc = UINT16_MAX;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (uint16_t)(crc & 1 ? crc >> 1 ^ 0xd008 : crc >> 1);
	}
	return (uint16_t)~crc;
}

/* A made-up address, locally administered: the end of the IP address. RFC 1112, 6.4 and RFC 2464, 7: a group's. */
static uint8_t *put_mac(uint8_t *at, const uint8_t *ip, bool is_ipv4)
{
	size_t bytes = is_ipv4 ? 4 : 16;
	bool is_group = is_ipv4 ? ip[0] >> 4 == 0xe : ip[0] == 0xff;

	memset(at, 0, MAC_BYTES);
	memcpy(at + 2, ip + bytes - 4, 4);
	if (!is_group)
		at[0] = 0x02;
	else if (is_ipv4)
		memcpy(at, (const uint8_t[]){ 0x01, 0x00, 0x5e, ip[1] & 0x7f }, 4);
	else
		memset(at, 0x33, 2);
	return at + MAC_BYTES;
}

static uint8_t *put_ethernet(uint8_t *at, const uint8_t *frame, size_t bytes)
{
	bool is_ipv4 = bytes && wire_get(frame, IPV4_VERSION) == 4;
	bool is_whole = bytes >= (size_t)(is_ipv4 ? IPV4_BYTES : IPV6_BYTES);
	static const uint8_t nobody[16];

	at = put_mac(at, is_whole ? frame + (is_ipv4 ? IPV4_DESTINATION : IPV6_DESTINATION) : nobody, is_ipv4);
	at = put_mac(at, is_whole ? frame + (is_ipv4 ? IPV4_SOURCE : IPV6_SOURCE) : nobody, is_ipv4);
	*at++ = is_ipv4 ? 0x08 : 0x86;
	*at++ = is_ipv4 ? 0x00 : 0xdd;
	return at;
}

/* Its time is in units of 2^-32 s; its lengths are big-endian. */
static uint8_t *put_erf(uint8_t *at, wtime time, size_t bytes)
{
	unsigned wire = (unsigned)bytes + VCRC_BYTES, record = wire + ERF_BYTES;

	at = put(at, time / WTIME_S << 32 | (time % WTIME_S << 32) / WTIME_S, 8);
	at = put(put(at, ERF_INFINIBAND, 1), ERF_VARYING, 1);
	at = put(put(put(at, record >> 8, 1), record, 1), 0, 2);	/* nothing was lost */
	return put(put(at, wire >> 8, 1), wire, 1);
}

static uint8_t *put_frame(uint8_t *at, wtime time, enum packet_form form, const void *frame, size_t bytes)
{
	if (form == PACKET_ROCE)
		at = put_ethernet(at, frame, bytes);
	else if (form == PACKET_IB)
		at = put_erf(at, time, bytes);
	memcpy(at, frame, bytes);
	at += bytes;
	return form == PACKET_IB ? put(at, vcrc(frame, bytes), VCRC_BYTES) : at;
}

size_t pcapng_frame(uint32_t interface, wtime time, enum impair_direction direction, enum packet_form form, const void *frame,
		    uint32_t bytes, uint8_t *to)
{
	uint8_t flags[4], *at = begin(to, BLOCK_FRAME), *data, *behind;

	at = put(put(put(at, interface, 4), time >> 32, 4), time, 4);
	data = at + 8;
	behind = put_frame(data, time, form, frame, bytes);
	put(put(at, (uint64_t)(behind - data), 4), (uint64_t)(behind - data), 4);
	put(flags, direction == IMPAIR_IN ? FLAG_INBOUND : FLAG_OUTBOUND, sizeof(flags));
	at = put_option(pad(behind, (size_t)(behind - data)), EPB_FLAGS, flags, sizeof(flags));
	return end(to, put_option(at, OPT_END, NULL, 0));
}
