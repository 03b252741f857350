/* How many PathRecords a subnet administration answers: Gets by libibumad from the port that the program is at to LIDs FIRST to
 * LAST in turn, WINDOW of them under way, for SECONDS. Prints the answers with status 0 in a second. sa.py runs it and looks at
 * who answers. Anything else than such an answer ends it.
 *
 * usage: sa_rate SM_LID OWN_LID FIRST LAST WINDOW SECONDS */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAD = 256, ARGUMENTS = 6, TIMEOUT_MS = 5000 };
enum { SA_CLASS = 3, SA_VERSION = 2, RMPP_VERSION = 1, METHOD_GET = 1, METHOD_GET_RESP = 0x81, PATH_RECORD = 0x35 };
/* 13.4.2 and 15.2.1.1, in bytes from the MAD's begin; of the record, 15.2.5.16 */
enum { AT_METHOD = 3, AT_STATUS = 4, AT_TID = 8, AT_ATTRIBUTE = 16, AT_MASK = 48, AT_DLID = 56 + 40, AT_SLID = 56 + 42 };
#define MASK_LIDS (1u << 4 | 1u << 5)

struct ends {
	unsigned sm, own, first, last;
	int port, agent;
	uint8_t *buffer;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *why)
{
	fprintf(stderr, "sa_rate: %s\n", why);
	exit(1);
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void ask(const struct ends *e, uint64_t number)
{
	uint64_t mask = htobe64(MASK_LIDS), tid = htobe64(number & 0xffffffff);
	uint8_t *mad = umad_get_mad(e->buffer);
	unsigned dlid = e->first + (unsigned)(number % (e->last - e->first + 1));

	memset(e->buffer, 0, umad_size() + MAD);
	umad_set_addr(e->buffer, (int)e->sm, 1, 0, 0x80010000);
	mad[0] = 1;
	mad[1] = SA_CLASS;
	mad[2] = SA_VERSION;
	mad[AT_METHOD] = METHOD_GET;
	memcpy(mad + AT_TID, &tid, sizeof(tid));
	put16(mad + AT_ATTRIBUTE, PATH_RECORD);
	memcpy(mad + AT_MASK, &mask, sizeof(mask));
	put16(mad + AT_DLID, dlid);
	put16(mad + AT_SLID, e->own);
	if (umad_send(e->port, e->agent, e->buffer, MAD, TIMEOUT_MS, 0))
		fail("umad_send fails");
}

static void hear(const struct ends *e)
{
	const uint8_t *mad = umad_get_mad(e->buffer);
	int length = MAD;

	if (umad_recv(e->port, e->buffer, &length, -1) < 0)
		fail("umad_recv fails");
	if (umad_status(e->buffer))
		fail("a question is not answered in time");
	if (mad[AT_METHOD] != METHOD_GET_RESP || mad[AT_STATUS] || mad[AT_STATUS + 1])
		fail("a question is refused");
}

int main(int argc, char **argv)
{
	uint64_t asked = 0, answered = 0;
	unsigned number[ARGUMENTS];
	struct ends e = { 0 };
	double begin, seconds;

	if (argc != ARGUMENTS + 1)
		fail("usage: sa_rate SM_LID OWN_LID FIRST LAST WINDOW SECONDS");
	for (int i = 0; i < ARGUMENTS; i++)
		number[i] = (unsigned)strtoul(argv[i + 1], NULL, 10);
	e = (struct ends){ .sm = number[0], .own = number[1], .first = number[2], .last = number[3] };
	if (e.last < e.first || !number[4] || !number[5])
		fail("no LIDs, or no window, or no time");
	e.buffer = calloc(1, umad_size() + MAD);
	if (!e.buffer || umad_init())
		fail("umad_init fails");
	e.port = umad_open_port("weft0", 1);
	e.agent = e.port < 0 ? -1 : umad_register(e.port, SA_CLASS, SA_VERSION, RMPP_VERSION, NULL);
	if (e.agent < 0)
		fail("the port cannot be opened");
	begin = now_s();
	for (seconds = 0; seconds < number[5]; seconds = now_s() - begin) {
		while (asked - answered < number[4])
			ask(&e, asked++);
		hear(&e);
		answered++;
	}
	printf("%.0f\n", (double)answered / seconds);
	umad_close_port(e.port);
	free(e.buffer);
	return 0;
}
