/* Frames captured from Linux rdma_rxe: each parses with a good ICRC, is rebuilt to the same bytes, and so is each CM message
 * inside; some captures are compared as text with golden/NAME.txt. `wire_packet_golden_test --write` writes the text anew; with
 * --dump FILE it prints that of a capture, for tshark.py. */
#include "pcap.h"
#include "wire/cm.h"
#include "wire/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

struct capture {
	const char *name;
	unsigned frames, cm_messages;
	bool golden;
};

static const struct capture captures[] = {
	{ "rxe-atomic_cs", 40, 0, false },
	{ "rxe-atomic_fa", 40, 0, true },
	{ "rxe-rdma_client", 11, 7, false },
	{ "rxe-read_lat", 100, 0, false },
	{ "rxe-rnr", 148, 0, false },
	{ "rxe-rping", 41, 5, true },
	{ "rxe-rping6", 41, 5, true },
	{ "rxe-send_lat", 202, 0, false },
	{ "rxe-send_odd", 15, 0, true },
	{ "rxe-ucmatose", 45, 5, false },
	{ "rxe-ud_pingpong", 40, 0, false },
	{ "rxe-udaddy", 22, 2, true },
	{ "rxe-write_lat", 204, 0, false },
};

enum { TEXT = 4000 };

static void open_capture(struct pcap *pcap, const char *name)
{
	char path[500];

	snprintf(path, sizeof(path), "%s/wire/captures/%s.pcap", TESTS_DIR, name);
	assert_int_equal(pcap_open(pcap, path), 0);
}

static const uint8_t *cm_mad(const struct packet *p)
{
	bool is_mad = p->opcode == OPCODE_UD_SEND_ONLY && p->dest_qpn == 1 && p->payload_bytes == MAD_BYTES;

	return is_mad ? p->payload->iov_base : NULL;
}

static void check_cm(const uint8_t *mad)
{
	uint8_t again[MAD_BYTES];
	struct cm_msg msg;

	assert_true(cm_parse(&msg, mad));
	cm_build(&msg, again);
	assert_memory_equal(again, mad, MAD_BYTES);
}

static void check_frame(const uint8_t *frame, size_t bytes, struct packet *p)
{
	uint8_t again[PACKET_MAX_BYTES];
	struct packet copy;

	assert_int_equal(packet_parse(p, PACKET_ROCE, frame, bytes, true), PACKET_OK);
	assert_int_equal(packet_bytes(p), bytes);
	assert_int_equal(packet_build(p, again, sizeof(again)), bytes);
	assert_memory_equal(again, frame, bytes);
	packet_copy(&copy, p);
	assert_ptr_equal(copy.payload, &copy.payload_one);
	assert_int_equal(packet_build(&copy, again, sizeof(again)), bytes);
	assert_memory_equal(again, frame, bytes);
}

static void rebuilt_to_the_same_bytes(void **state)
{
	for (unsigned i = 0; i < COUNT(captures); i++) {
		unsigned frames = 0, cm_messages = 0;
		const uint8_t *frame;
		struct pcap pcap;
		struct packet p;
		size_t bytes;

		open_capture(&pcap, captures[i].name);
		for (; (frame = pcap_next_roce(&pcap, &bytes)); frames++) {
			check_frame(frame, bytes, &p);
			if (cm_mad(&p)) {
				check_cm(cm_mad(&p));
				cm_messages++;
			}
		}
		pcap_close(&pcap);
		print_message("%s: %u frames, %u CM messages\n", captures[i].name, frames, cm_messages);
		assert_int_equal(frames, captures[i].frames);
		assert_int_equal(cm_messages, captures[i].cm_messages);
	}
}

/* The next line or two of a capture's text: the packet, and the CM message in it. */
static bool next_text(struct pcap *pcap, char *text, size_t room)
{
	struct packet p;
	struct cm_msg msg;
	size_t bytes;
	const uint8_t *frame = pcap_next_roce(pcap, &bytes);
	int n;

	if (!frame)
		return false;
	assert_int_equal(packet_parse(&p, PACKET_ROCE, frame, bytes, true), PACKET_OK);
	n = packet_dump(&p, text, room);
	n += snprintf(text + n, room - (size_t)n, "\n");
	if (cm_mad(&p) && cm_parse(&msg, cm_mad(&p))) {
		n += snprintf(text + n, room - (size_t)n, "\t");
		n += cm_dump(&msg, text + n, room - (size_t)n);
		n += snprintf(text + n, room - (size_t)n, "\n");
	}
	assert_true((size_t)n < room);
	return true;
}

static FILE *open_golden(const char *name, const char *mode)
{
	char path[500];

	snprintf(path, sizeof(path), "%s/wire/golden/%s.txt", TESTS_DIR, name);
	return fopen(path, mode);
}

static void same_text_as_golden(void **state)
{
	for (unsigned i = 0; i < COUNT(captures); i++) {
		char text[TEXT], golden[TEXT];
		struct pcap pcap;
		FILE *f;

		if (!captures[i].golden)
			continue;
		f = open_golden(captures[i].name, "r");
		assert_non_null(f);
		open_capture(&pcap, captures[i].name);
		while (next_text(&pcap, text, sizeof(text))) {
			golden[fread(golden, 1, strlen(text), f)] = 0;
			assert_string_equal(text, golden);
		}
		assert_int_equal(fgetc(f), EOF);
		pcap_close(&pcap);
		fclose(f);
	}
}

/* A dump into too little room needs the same length, stays inside and ends with a NUL. */
static void dump_is_cut_to_its_room(void **state)
{
	char whole[TEXT], cut[TEXT];
	const uint8_t *frame;
	struct pcap pcap;
	struct packet p;
	size_t bytes = 0;

	open_capture(&pcap, "rxe-rping");
	frame = pcap_next_roce(&pcap, &bytes);
	assert_non_null(frame);
	assert_int_equal(packet_parse(&p, PACKET_ROCE, frame, bytes, true), PACKET_OK);
	int n = packet_dump(&p, whole, sizeof(whole));
	for (size_t room = 0; room < (size_t)n + 2; room++) {
		memset(cut, 'x', sizeof(cut));
		assert_int_equal(packet_dump(&p, cut, room), n);
		assert_int_equal(cut[room], 'x');
		if (room)
			assert_int_equal(strncmp(cut, whole, room - 1) | cut[room > (size_t)n ? (size_t)n : room - 1], 0);
	}
	pcap_close(&pcap);
}

static int dump_file(const char *path)
{
	char text[TEXT];
	struct pcap pcap;

	if (pcap_open(&pcap, path))
		return 1;
	while (next_text(&pcap, text, sizeof(text)))
		fputs(text, stdout);
	pcap_close(&pcap);
	return 0;
}

static int write_golden(void)
{
	for (unsigned i = 0; i < COUNT(captures); i++) {
		char text[TEXT];
		struct pcap pcap;
		FILE *f = captures[i].golden ? open_golden(captures[i].name, "w") : NULL;

		if (!f)
			continue;
		open_capture(&pcap, captures[i].name);
		while (next_text(&pcap, text, sizeof(text)))
			fputs(text, f);
		pcap_close(&pcap);
		fclose(f);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rebuilt_to_the_same_bytes),
		cmocka_unit_test(same_text_as_golden),
		cmocka_unit_test(dump_is_cut_to_its_room),
	};

	if (argc > 1 && !strcmp(argv[1], "--write"))
		return write_golden();
	if (argc > 2 && !strcmp(argv[1], "--dump"))
		return dump_file(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
