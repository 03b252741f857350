#include "mgmt/mad_under_way.h"

/* Of all that is on its way. */
static size_t bytes_to(const struct mad_file *f, uint16_t lid)
{
	size_t bytes = 0;

	list_for_each(r, &f->request_list, struct request, node)
		bytes += r->remote.lid == lid ? r->bytes : 0;
	return bytes;
}

bool mad_has_room(const struct mad_file *f)
{
	return f->requests < MAD_REQUESTS && f->bytes + sizeof(struct request) + MAD_LONGEST <= MAD_FILE_BYTES;
}

bool mad_has_room_for(const struct mad_file *f, uint16_t lid)
{
	return mad_has_room(f) && bytes_to(f, lid) + MAD_LONGEST <= MAD_SENT_TO_ONE;
}

bool mad_leaves_room(const struct mad_clients *c, const struct mad_file *f, const struct mad_letter *l)
{
	size_t longest = mad_longest(c, l->data), half = mad_file_bytes(c) / 2, bytes = l->bytes;

	if (bytes <= MAD_BYTES || !is_response(l->data))
		return true;
	bytes += bytes_to(f, l->remote.lid);
	return bytes <= (half > longest ? half : longest);
}
