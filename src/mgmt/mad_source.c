#include "mgmt/mad_source.h"

#include "wire/field.h"

#include <stdlib.h>

void mad_flow_end(struct mad_flow *f)
{
	if (f->source)
		f->source->end(f->source);
	f->source = NULL;
}

/* What has gone makes room, all at once; what was there at first has gone some day, and its memory with it. */
static bool make_room(struct mad_flow *f, struct rmpp_send *s, uint8_t **data, uint32_t wanted)
{
	uint32_t bytes = s->bytes;
	uint8_t *moved;

	if (bytes + wanted > f->room || f->room > MAD_AT_HAND_BYTES)
		bytes = rmpp_send_trim(s, *data);
	if (bytes + wanted <= f->room && (f->room <= MAD_AT_HAND_BYTES || bytes + wanted > MAD_AT_HAND_BYTES))
		return true;
	/* within MAD_AT_HAND_BYTES are two windows, one of which has not been acknowledged */
	moved = bytes + wanted <= MAD_AT_HAND_BYTES ? realloc(*data, MAD_AT_HAND_BYTES) : NULL;
	if (!moved)
		return false;
	/* also where nothing follows any more, the sender says so by the head */
	s->data = *data = moved;
	f->room = MAD_AT_HAND_BYTES;
	return true;
}

void mad_flow_fill(struct mad_flow *f, struct rmpp_send *s, uint8_t **data)
{
	uint32_t room = MAD_BYTES - rmpp_data_offset((uint8_t)wire_get(*data, 1, 0, 8));
	uint32_t wanted = rmpp_send_missing(s), bytes = 0;
	enum mad_given given;

	if (!f->source || f->gave_up || !wanted)
		return;
	if (!make_room(f, s, data, wanted * room)) {
		f->gave_up = true;
		return;
	}
	given = f->source->give(f->source, *data + s->bytes, wanted * room, &bytes);
	f->gave_up = given == MAD_GIVES_UP;
	if (f->gave_up)
		return;
	if (given == MAD_GAVE_ALL)
		mad_flow_end(f);
	rmpp_send_more(s, *data, s->bytes + bytes, f->source != NULL);
}
