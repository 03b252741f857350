#include "link/trace.h"

#include <string.h>

enum { MAGIC = 'W', VERSION = 2 };

/* Where each member stands in the 24 bytes. */
enum { AT_MAGIC = 0, AT_VERSION = 1, AT_KIND = 2, AT_LANE = 3, AT_MARKS = 4, AT_BYTES = 6, AT_PID = 8, AT_TO = 12, AT_TIME = 16 };

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
	to[AT_VERSION] = VERSION;
	to[AT_KIND] = (uint8_t)r->kind;
	to[AT_LANE] = (uint8_t)((unsigned)r->form * IMPAIR_DIRECTIONS + (unsigned)r->direction);
	put(to + AT_MARKS, r->marks, 2);
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
	if (from[AT_MAGIC] != MAGIC || from[AT_VERSION] != VERSION ||
	    from[AT_KIND] < TRACE_PROCESS || from[AT_KIND] >= TRACE_KINDS ||
	    from[AT_LANE] >= (PACKET_ETHERNET + 1) * IMPAIR_DIRECTIONS || get(from + AT_MARKS, 2) >> IMPAIR_MARKS ||
	    get(from + AT_BYTES, 2) > PACKET_MAX_BYTES)
		return -1;
	*r = (struct trace_record){
		.kind = (enum trace_kind)from[AT_KIND],
		.form = (enum packet_form)(from[AT_LANE] / IMPAIR_DIRECTIONS),
		.direction = (enum impair_direction)(from[AT_LANE] % IMPAIR_DIRECTIONS),
		.marks = (uint8_t)get(from + AT_MARKS, 2),
		.bytes = (uint32_t)get(from + AT_BYTES, 2),
		.pid = (uint32_t)get(from + AT_PID, 4),
		.to = (uint32_t)get(from + AT_TO, 4),
		.time = get(from + AT_TIME, 8),
		.data = from + TRACE_HEAD,
	};
	return bytes < TRACE_HEAD + r->bytes ? 0 : (int)(TRACE_HEAD + r->bytes);
}

uint32_t trace_put_process(const struct trace_process *p, uint8_t to[sizeof(struct trace_process)])
{
	size_t name = strlen(p->program) + 1, impair = strlen(p->impair) + 1;

	memcpy(to, p->program, name);
	memcpy(to + name, p->impair, impair);
	return (uint32_t)(name + impair);
}

bool trace_get_process(struct trace_process *p, const struct trace_record *r)
{
	const uint8_t *end = memchr(r->data, '\0', r->bytes);
	size_t name = end ? (size_t)(end - r->data) + 1 : 0;

	if (r->kind != TRACE_PROCESS || name == 0 || name > sizeof(p->program) || r->bytes <= name ||
	    r->bytes - name > sizeof(p->impair) || memchr(r->data + name, '\0', r->bytes - name) != r->data + r->bytes - 1)
		return false;
	memcpy(p->program, r->data, name);
	memcpy(p->impair, r->data + name, r->bytes - name);
	return true;
}
