#include "impair/trace.h"

#include <string.h>

enum { MAGIC = 'W' };

/* Where each member stands in the 24 bytes. */
enum {
	AT_MAGIC = 0, AT_VERSION = 1, AT_KIND = 2, AT_LANE = 3, AT_MARKS = 4, AT_DEVICE = 5, AT_BYTES = 6, AT_PID = 8, AT_TO = 12,
	AT_TIME = 16,
};

static void put(uint8_t *to, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)from[i] << 8 * i;
	return value;
}

size_t trace_put(const struct trace_record *r, uint8_t *to)
{
	to[AT_MAGIC] = MAGIC;
	to[AT_VERSION] = TRACE_VERSION;
	to[AT_KIND] = (uint8_t)r->kind;
	to[AT_LANE] = (uint8_t)((unsigned)r->form * IMPAIR_DIRECTIONS + (unsigned)r->direction);
	to[AT_MARKS] = r->marks;
	to[AT_DEVICE] = (uint8_t)r->device;
	put(to + AT_BYTES, r->bytes, 2);
	put(to + AT_PID, r->pid, 4);
	put(to + AT_TO, r->to, 4);
	put(to + AT_TIME, r->time, 8);
	if (r->bytes)
		memcpy(to + TRACE_HEAD, r->data, r->bytes);
	return TRACE_HEAD + r->bytes;
}

int trace_get(struct trace_record *r, const uint8_t *from, size_t bytes)
{
	if (bytes < TRACE_HEAD)
		return 0;
	if (from[AT_MAGIC] != MAGIC || from[AT_VERSION] != TRACE_VERSION ||
	    from[AT_KIND] < TRACE_PROCESS || from[AT_KIND] >= TRACE_KINDS ||
	    from[AT_LANE] >= (PACKET_ETHERNET + 1) * IMPAIR_DIRECTIONS || from[AT_MARKS] >> IMPAIR_MARKS ||
	    from[AT_DEVICE] >= IMPAIR_DEVICES ||
	    get(from + AT_BYTES, 2) > PACKET_MAX_BYTES)
		return -1;
	*r = (struct trace_record){
		.kind = (enum trace_kind)from[AT_KIND],
		.form = (enum packet_form)(from[AT_LANE] / IMPAIR_DIRECTIONS),
		.direction = (enum impair_direction)(from[AT_LANE] % IMPAIR_DIRECTIONS),
		.marks = from[AT_MARKS],
		.device = from[AT_DEVICE],
		.bytes = (uint32_t)get(from + AT_BYTES, 2),
		.pid = (uint32_t)get(from + AT_PID, 4),
		.to = (uint32_t)get(from + AT_TO, 4),
		.time = get(from + AT_TIME, 8),
		.data = from + TRACE_HEAD,
	};
	return bytes < TRACE_HEAD + r->bytes ? 0 : (int)(TRACE_HEAD + r->bytes);
}

int trace_version(const uint8_t *from, size_t bytes)
{
	return bytes > AT_VERSION && from[AT_MAGIC] == MAGIC ? from[AT_VERSION] : -1;
}

static uint8_t *put_text(uint8_t *to, const char *text)
{
	size_t bytes = strlen(text) + 1;

	memcpy(to, text, bytes);
	return to + bytes;
}

/* The text at *at, of less than `room` bytes, and *at is behind it. */
static bool get_text(const uint8_t **at, const uint8_t *end, char *to, size_t room)
{
	const uint8_t *nul = memchr(*at, '\0', (size_t)(end - *at));
	size_t bytes = nul ? (size_t)(nul - *at) + 1 : 0;

	if (bytes == 0 || bytes > room)
		return false;
	memcpy(to, *at, bytes);
	*at = nul + 1;
	return true;
}

uint32_t trace_put_process(const struct trace_process *p, uint8_t to[sizeof(struct trace_process)])
{
	uint8_t *at = put_text(put_text(to, p->program), p->impair);

	for (unsigned i = 0; i < p->devices; i++)
		at = put_text(put_text(at, p->device[i].name), p->device[i].protocol);
	return (uint32_t)(at - to);
}

bool trace_get_process(struct trace_process *p, const struct trace_record *r)
{
	const uint8_t *at = r->data, *end = r->data + r->bytes;

	if (r->kind != TRACE_PROCESS || !get_text(&at, end, p->program, sizeof(p->program)) ||
	    !get_text(&at, end, p->impair, sizeof(p->impair)))
		return false;
	for (p->devices = 0; at < end; p->devices++)
		if (p->devices == IMPAIR_DEVICES || !get_text(&at, end, p->device[p->devices].name, TRACE_NAME) ||
		    !get_text(&at, end, p->device[p->devices].protocol, TRACE_NAME))
			return false;
	return true;
}

bool trace_get_impair(const struct trace_record *r, char to[IMPAIR_TEXT])
{
	const uint8_t *at = r->data;

	return r->kind == TRACE_IMPAIR && get_text(&at, r->data + r->bytes, to, IMPAIR_TEXT) && at == r->data + r->bytes;
}
