/* What a program that asks subnet administration reads: what weftd says on its connection, answers of an administration that
 * writes what the input says, in both class versions, and a file of edits. Whatever comes, a question ends, an answer has the
 * bytes that it says it has, and what is shown of it is text that does nothing to a terminal. */
#include "fuzz.h"

#include "cli/cli.h"
#include "cli/sa_records.h"
#include "control/clock.h"
#include "control/message.h"
#include "mgmt/sa_store.h"
#include "mgmt/transaction.h"
#include "wire/field.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	LETTERS = 48,			/* that fit into the socket, with what they are answered by */
	HEAD = sizeof(struct control_mad), AGENT = 3,
	/* The input's first byte. */
	IS_TODAY = 1, IS_CALL = 2, IS_FILE = 4, IS_JSON = 8, IS_LSB_FIRST = 16, METHOD = 32,
};

static const uint16_t attributes[] = {
	SA_NODE_RECORD_ID, SA_PATH_RECORD_ID, SA_KEPT_ATTRIBUTE, SA_PORT_INFO_RECORD_ID, SA_LINK_RECORD_ID, 0x77,
};

static wtime now;

/* In place of control/clock.c: a millisecond goes by between two looks. */
wtime clock_now(void)
{
	return now += WTIME_MS;
}

int cli_fail(const char *next, const char *cause, ...)
{
	va_list more;

	(void)next;
	va_start(more, cause);
	vprintf(cause, more);
	va_end(more);
	putchar('\n');
	return EXIT_FAILED;
}

/* ---- what weftd says ---- */

/* One packet of class version 1 that is the question's, as long as the input does not change that. */
static void build_seed(struct input *in, const struct sa_client_question *q, uint32_t tid, uint8_t mad[MAD_BYTES])
{
	static const uint8_t flags[] = { SERIES_FIRST, 0, SERIES_LAST, SERIES_FIRST | SERIES_LAST, SERIES_RESEND, SERIES_ACK,
					 SERIES_KEEP_ALIVE, 0xff };
	const struct series_config config = { .is_lsb_first = q->is_lsb_first };
	unsigned what = take_byte(in), number = take_byte(in);
	struct series_header h = { .segment = number & 15, .flags = flags[what & 7], .window = number >> 4,
				   .length = what & 8 ? (uint32_t)take(in, 2) : 0, .end_id = (uint16_t)(number & 15) };

	memcpy(mad, (uint8_t[4]){ MAD_BASE_VERSION, MAD_CLASS_SA, SERIES_CLASS_VERSION, q->method | 0x80 }, 4);
	wire_put(mad, tid, 12, 0, 32);
	wire_put(mad, q->attribute, 16, 0, 16);
	series_build(&h, &config, mad);
	if (what & 16)
		wire_put(mad, take(in, 2), 4, 0, 16);
	for (int i = SERIES_HEAD; what & 32 && i < MAD_BYTES; i++)
		mad[i] = take_byte(in);
	for (unsigned k = take_byte(in) % 8; what & 64 && k; k--)
		mad[take_byte(in)] ^= take_byte(in);
}

/* A whole answer of class version 2, or a piece of one. */
static uint32_t build_today(struct input *in, uint8_t mad[CONTROL_MAD_PIECE])
{
	unsigned what = take_byte(in);
	uint32_t bytes = what & 1 ? MAD_BYTES : (uint32_t)take(in, 2) % (CONTROL_MAD_PIECE + 1);

	if (bytes >= SA_HEAD)
		wire_put(mad, what & 2 ? take(in, 2) : 64 / 8, SA_ATTRIBUTE_OFFSET);
	for (uint32_t i = SA_HEAD; what & 4 && i < bytes; i++)
		mad[i] = take_byte(in);
	if (what & 8 && bytes)
		mad[take_byte(in) % bytes] = take_byte(in);
	return bytes;
}

static void say(struct input *in, int socket, const struct sa_client_question *q, uint32_t tid)
{
	static char text[HEAD + CONTROL_MAD_PIECE];
	struct control_mad head = { .agent = AGENT, .total = MAD_BYTES };
	struct control_msg msg = { .type = CTL_MAD };
	unsigned what = take_byte(in);
	uint32_t bytes = MAD_BYTES;

	memset(text, 0, sizeof(text));
	if (q->class_version == SERIES_CLASS_VERSION)
		build_seed(in, q, tid, (uint8_t *)text + HEAD);
	else
		head.total = bytes = build_today(in, (uint8_t *)text + HEAD);
	if (what & 1)
		head.total = (uint32_t)take(in, 3);
	if (what & 2)
		head.at = (uint32_t)take(in, 3);
	if (what & 4)
		head.status = take_byte(in);
	if (what & 8)
		msg.type = take_byte(in);
	memcpy(text, &head, HEAD);
	msg.text_bytes = what & 16 ? (uint32_t)take(in, 2) % (HEAD + bytes + 1) : HEAD + bytes;
	message_send(socket, &msg, text, NULL, 0, MSG_DONTWAIT);
}

/* ---- what is shown ---- */

static void show(const struct sa_client_question *q, const struct sa_client_answer *a, bool as_json)
{
	FILE *real = stdout;
	size_t bytes = 0;
	char *text = NULL;

	stdout = open_memstream(&text, &bytes);
	REQUIRE(stdout);
	sa_records_show(q, a, as_json);
	fclose(stdout);
	stdout = real;
	for (size_t i = 0; i < bytes; i++)
		REQUIRE(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
	free(text);
}

static void read_all(const struct sa_client_answer *a)
{
	uint8_t *copy = malloc(a->bytes + 1);

	REQUIRE(copy && (a->data || !a->bytes));
	if (a->bytes)
		memcpy(copy, a->data, a->bytes);
	free(copy);
}

/* ---- a file of edits ---- */

static void read_file(struct input *in, uint64_t key)
{
	int fd = memfd_create("edits", MFD_CLOEXEC);
	uint8_t *edits = NULL;
	uint32_t bytes = 0, line;
	char path[32];
	int err;

	REQUIRE(fd >= 0 && write(fd, in->at, (size_t)(in->end - in->at)) == in->end - in->at);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = sa_records_read(path, key, &edits, &bytes, &line);
	REQUIRE(bytes % SA_EDIT_BYTES == 0 && (err || bytes));
	for (uint32_t at = 0; at < bytes; at += SA_EDIT_BYTES) {
		REQUIRE(edits[at] >= SA_ADD && edits[at] <= SA_EDIT_ONE);
		REQUIRE(wire_get(edits + at, 16, 0, 64) == key);
	}
	free(edits);
	close(fd);
}

static void ask(struct input *in, unsigned what)
{
	static const uint8_t methods[] = { TXN_GET_TABLE, TXN_GET_BULK, TXN_CONFIG, TXN_GET_TABLE };
	static const uint8_t records[4 * SA_EDIT_BYTES] = { SA_ADD };
	struct sa_client_question q = {
		.class_version = what & IS_TODAY ? SA_CLASS_VERSION : SERIES_CLASS_VERSION,
		.attribute = attributes[take_byte(in) % 6], .window = take_byte(in) % 4,
		.method = what & IS_TODAY ? SA_GET_TABLE : methods[what / METHOD % 4], .is_lsb_first = what & IS_LSB_FIRST,
		.lid = 1, .records = records, .bytes = sizeof(records), .retries = 7, .timeout_ms = 2000,
	};
	struct sa_client_answer a = { .status = 0 };
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, MAD_CLASS_SA, SA_CLASS_VERSION, MAD_GET };
	int pair[2], err;

	now = 5 * WTIME_S;
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair));
	for (int i = 0; i < LETTERS && in->at < in->end; i++)
		say(in, pair[1], &q, (uint32_t)(now + WTIME_MS));
	/* nothing is waited for: it has all been said, and weftd has ended */
	shutdown(pair[1], SHUT_WR);
	if (what & IS_CALL) {
		sa_client_call(pair[0], AGENT, 1, 100, mad);
	} else {
		err = sa_client_ask(pair[0], AGENT, &q, &a);
		REQUIRE(!err || !a.data);
		read_all(&a);
		if (!err)
			show(&q, &a, what & IS_JSON);
		free(a.data);
	}
	close(pair[0]);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned what = take_byte(&in);

	if (what & IS_FILE)
		read_file(&in, 0x1234);
	else
		ask(&in, what);
	return 0;
}
