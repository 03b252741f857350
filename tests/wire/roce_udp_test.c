/* RoCEv2 as a UDP socket has it: every packet that Linux rdma_rxe sent comes back from the bytes that a socket would show of it,
 * to the bit and with the IPv4 identification that no socket shows; and what we send is what packet_build makes. */
#include "pcap.h"
#include "wire/header.h"
#include "wire/roce_udp.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

enum { LINE = ROCE_UDP_HEADERS + PACKET_MAX_BYTES };

static size_t kernel_bytes(const struct packet_path *path)
{
	return (path->is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
}

static void build(const struct packet *p, struct roce_udp *d)
{
	roce_udp_build(p, p->payload, p->payload_iovs, p->path.udp_sport, p->path.ip_id, d);
}

static size_t join(const struct roce_udp *d, const struct packet *p, uint8_t *to)
{
	size_t at = (size_t)d->header_bytes - d->kernel_bytes;

	memcpy(to, d->header + d->kernel_bytes, at);
	for (unsigned i = 0; i < p->payload_iovs; i++) {
		memcpy(to + at, p->payload[i].iov_base, p->payload[i].iov_len);
		at += p->payload[i].iov_len;
	}
	memcpy(to + at, d->trailer, d->trailer_bytes);
	assert_int_equal(at + d->trailer_bytes, roce_udp_bytes(d, p));
	return at + d->trailer_bytes;
}

/* What a socket shows: the bytes behind the UDP header, addresses, and no identification. */
static void through_a_socket(struct icrc_id *solver, const uint8_t *frame, size_t bytes)
{
	uint8_t line[LINE], again[PACKET_MAX_BYTES];
	struct packet original, p;
	struct roce_udp d;
	size_t kernel, header = 0;

	assert_int_equal(packet_parse(&original, PACKET_ROCE, frame, bytes, true), PACKET_OK);
	kernel = kernel_bytes(&original.path);
	memset(line, 0xa5, sizeof(line));
	memcpy(line + ROCE_UDP_HEADERS, frame + kernel, bytes - kernel);
	p = original;
	p.path.ip_id = 0xbeef;
	assert_int_equal(roce_udp_frame(solver, &p.path, line + ROCE_UDP_HEADERS, bytes - kernel, &header), PACKET_OK);
	assert_int_equal(header, kernel);
	assert_memory_equal(line + ROCE_UDP_HEADERS - header, frame, bytes);
	assert_int_equal(packet_parse(&p, PACKET_ROCE, line + ROCE_UDP_HEADERS - header, bytes, true), PACKET_OK);
	assert_int_equal(p.path.ip_id, original.path.ip_id);
	build(&p, &d);
	assert_int_equal(d.kernel_bytes, kernel);
	assert_int_equal(join(&d, &p, again), bytes - kernel);
	assert_memory_equal(again, frame + kernel, bytes - kernel);
	assert_memory_equal(d.header, frame, d.header_bytes);
	roce_udp_build(&p, p.payload, p.payload_iovs, 1, 2, &d);
	assert_int_equal(wire_get(d.header + kernel - UDP_BYTES, UDP_SPORT), 1);
}

static void captures_come_back_from_what_a_socket_shows(void **state)
{
	DIR *dir = opendir(TESTS_DIR "/wire/captures");
	unsigned frames = 0, with_id = 0;
	struct icrc_id solver;
	struct dirent *e;

	assert_non_null(dir);
	icrc_id_init(&solver);
	while ((e = readdir(dir))) {
		char path[500];
		const uint8_t *frame;
		struct pcap pcap;
		size_t bytes;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/wire/captures/%s", TESTS_DIR, e->d_name);
		assert_int_equal(pcap_open(&pcap, path), 0);
		for (; (frame = pcap_next_roce(&pcap, &bytes)); frames++) {
			through_a_socket(&solver, frame, bytes);
			with_id += frame[0] == 0x45 && wire_get(frame, IPV4_IDENTIFICATION) != 0;
		}
		pcap_close(&pcap);
	}
	closedir(dir);
	print_message("%u frames, %u with an identification\n", frames, with_id);
	assert_true(frames > 900 && with_id > 800);
}

static struct packet a_write(bool is_ipv4, struct iovec *payload, uint32_t bytes)
{
	static uint8_t memory[PACKET_MAX_PAYLOAD];
	struct packet p = {
		.form = PACKET_ROCE, .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .pkey = 0xffff, .dest_qpn = 0x123456, .psn = 77,
		.path = { .has_grh = true, .is_ipv4 = is_ipv4, .hop_limit = 64, .udp_sport = 0xc123 },
		.reth = { 0x1000, 42, bytes },
	};

	for (unsigned i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i * 7 + i / 256);
	*payload = (struct iovec){ memory, bytes };
	p.payload = payload;
	p.payload_iovs = 1;
	p.payload_bytes = bytes;
	p.path.sgid[10] = p.path.sgid[11] = p.path.dgid[10] = p.path.dgid[11] = is_ipv4 ? 0xff : 0;
	p.path.sgid[15] = 1;
	p.path.dgid[15] = 2;
	return p;
}

static size_t build_line(const struct packet *p, uint8_t line[LINE])
{
	size_t kernel = kernel_bytes(&p->path);

	return packet_build(p, line + ROCE_UDP_HEADERS - kernel, PACKET_MAX_BYTES) - kernel;
}

static void every_identification_is_found(void **state)
{
	static const uint32_t lengths[] = { 0, 1, 4, 255, 1024, 4096 };
	struct icrc_id solver;
	uint8_t line[LINE];
	struct iovec payload;

	icrc_id_init(&solver);
	for (unsigned n = 0; n < sizeof(lengths) / sizeof(*lengths); n++)
		for (uint32_t id = 0; id <= 0xffff; id += n ? 251 : 1) {
			struct packet p = a_write(true, &payload, lengths[n]), q;
			size_t bytes, header = 0;

			p.path.ip_id = (uint16_t)id;
			bytes = build_line(&p, line);
			p.path.ip_id = (uint16_t[]){ 0, (uint16_t)id, 0x5aa5 }[id % 3];	/* the guess */
			assert_int_equal(roce_udp_frame(&solver, &p.path, line + ROCE_UDP_HEADERS, bytes, &header), PACKET_OK);
			assert_int_equal(packet_parse(&q, PACKET_ROCE, line + ROCE_UDP_HEADERS - header, header + bytes, true),
					 PACKET_OK);
			assert_int_equal(q.path.ip_id, id);
		}
}

/* Bytes of another place, a damaged ICRC, another port, a missing DF: no identification makes up for them. */
static void damage_is_found(void **state)
{
	struct icrc_id solver;
	struct iovec payload;
	unsigned missed = 0;

	icrc_id_init(&solver);
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		struct packet p = a_write(is_ipv4, &payload, 1000);
		uint8_t sound[LINE], line[LINE];
		size_t bytes = build_line(&p, sound), header;

		for (size_t bit = 0; bit < 8 * bytes; bit++) {
			bool is_masked = bit / 8 == 4;

			memcpy(line, sound, sizeof(line));
			line[ROCE_UDP_HEADERS + bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (roce_udp_frame(&solver, &p.path, line + ROCE_UDP_HEADERS, bytes, &header) == PACKET_OK)
				missed += !is_masked;
		}
		assert_int_equal(missed, 0);
		memcpy(line, sound, sizeof(line));
		p.path.udp_sport ^= 1;
		assert_int_equal(roce_udp_frame(&solver, &p.path, line + ROCE_UDP_HEADERS, bytes, &header), PACKET_BAD_ICRC);
		p.path.udp_sport ^= 1;
		p.path.dgid[15] ^= 1;
		assert_int_equal(roce_udp_frame(&solver, &p.path, line + ROCE_UDP_HEADERS, bytes, &header), PACKET_BAD_ICRC);
		p.path.dgid[15] ^= 1;
		assert_int_equal(roce_udp_frame(&solver, &p.path, line + ROCE_UDP_HEADERS, bytes, &header), PACKET_OK);
	}
}

static void a_frame_without_df_is_refused(void **state)
{
	struct iovec payload;
	struct packet p = a_write(true, &payload, 64);
	struct icrc_id solver;
	uint8_t line[LINE];
	size_t bytes, header;

	icrc_id_init(&solver);
	p.path.ip_may_fragment = true;
	bytes = build_line(&p, line);
	p.path.ip_may_fragment = false;
	assert_int_equal(roce_udp_frame(&solver, &p.path, line + ROCE_UDP_HEADERS, bytes, &header), PACKET_BAD_ICRC);
}

static void too_short_and_too_long_are_refused(void **state)
{
	struct packet_path path = { .has_grh = true, .is_ipv4 = true };
	uint8_t line[2 * LINE] = { 0 };
	struct icrc_id solver;
	size_t header;

	icrc_id_init(&solver);
	for (size_t bytes = 0; bytes < ROCE_UDP_LEAST; bytes++)
		assert_int_equal(roce_udp_frame(&solver, &path, line + ROCE_UDP_HEADERS, bytes, &header), PACKET_SHORT);
	assert_int_equal(roce_udp_frame(&solver, &path, line + ROCE_UDP_HEADERS, ROCE_UDP_LEAST, &header), PACKET_BAD_ICRC);
	assert_int_equal(roce_udp_frame(&solver, &path, line + ROCE_UDP_HEADERS, ROCE_UDP_MOST, &header), PACKET_BAD_ICRC);
	assert_int_equal(roce_udp_frame(&solver, &path, line + ROCE_UDP_HEADERS, ROCE_UDP_MOST + 1, &header), PACKET_BAD_LENGTH);
}

/* The payload in pieces, every pad: the same bytes as in one. */
static void built_in_pieces_as_in_one(void **state)
{
	for (uint32_t bytes = 0; bytes <= PACKET_MAX_PAYLOAD; bytes += bytes < 9 ? 1 : 1021) {
		uint8_t line[LINE], pieces[LINE];
		struct iovec payload, part[2];
		struct packet p = a_write(bytes & 1, &payload, bytes);
		struct roce_udp d;

		p.path.ip_id = (uint16_t)(p.path.is_ipv4 ? bytes : 0);
		assert_int_equal(build_line(&p, line), join((build(&p, &d), &d), &p, pieces));
		assert_memory_equal(pieces, line + ROCE_UDP_HEADERS, roce_udp_bytes(&d, &p));
		part[0] = (struct iovec){ payload.iov_base, bytes / 3 };
		part[1] = (struct iovec){ (uint8_t *)payload.iov_base + bytes / 3, bytes - bytes / 3 };
		p.payload = part;
		p.payload_iovs = 2;
		build(&p, &d);
		join(&d, &p, pieces);
		assert_memory_equal(pieces, line + ROCE_UDP_HEADERS, roce_udp_bytes(&d, &p));
	}
}

/* How a receiver takes a frame that came from this port; its identification in *id. */
static enum packet_error taken(const uint8_t *frame, size_t bytes, struct packet_path path, uint16_t sport, uint16_t *id)
{
	size_t kernel = kernel_bytes(&path), header = 0;
	struct icrc_id solver;
	uint8_t line[LINE];
	enum packet_error error;

	icrc_id_init(&solver);
	path.udp_sport = sport;
	memcpy(line + ROCE_UDP_HEADERS, frame + kernel, bytes - kernel);
	error = roce_udp_frame(&solver, &path, line + ROCE_UDP_HEADERS, bytes - kernel, &header);
	*id = (uint16_t)wire_get(line + ROCE_UDP_HEADERS - kernel, IPV4_IDENTIFICATION);
	return error;
}

/* A frame of a fault's making leaves by another port: the sound stays sound, the spoilt spoilt. */
static void a_frame_that_takes_another_port_keeps_its_damage(void **state)
{
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		struct iovec payload;
		struct packet p = a_write(is_ipv4, &payload, 100);
		uint8_t frame[PACKET_MAX_BYTES];
		size_t bytes = packet_build(&p, frame, sizeof(frame));
		uint16_t id;

		assert_true(roce_udp_repath(frame, bytes, 0xd00d, 3));
		assert_int_equal(taken(frame, bytes, p.path, 0xd00d, &id), PACKET_OK);
		if (is_ipv4)
			assert_int_equal(id, 3);
		frame[bytes - 20] ^= 4;
		assert_true(roce_udp_repath(frame, bytes, 0xd00e, 4));
		assert_int_equal(taken(frame, bytes, p.path, 0xd00e, &id), PACKET_BAD_ICRC);
		assert_false(roce_udp_repath(frame, kernel_bytes(&p.path) + ROCE_UDP_LEAST - 1, 1, 1));
		assert_false(roce_udp_repath(frame, 0, 1, 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captures_come_back_from_what_a_socket_shows),
		cmocka_unit_test(every_identification_is_found),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(a_frame_without_df_is_refused),
		cmocka_unit_test(too_short_and_too_long_are_refused),
		cmocka_unit_test(built_in_pieces_as_in_one),
		cmocka_unit_test(a_frame_that_takes_another_port_keeps_its_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
