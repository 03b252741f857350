#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 64 };	/* our choice */

int array_reserve(void *array, uint32_t *room, uint32_t elements, size_t each)
{
	uint64_t wanted = *room ? *room : ROOM_LEAST;
	uint8_t *old, *larger;

	if (elements <= *room)
		return 0;
	while (wanted < elements)
		wanted *= 2;
	memcpy(&old, array, sizeof(old));
	larger = wanted > UINT32_MAX || wanted > SIZE_MAX / each ? NULL : realloc(old, wanted * each);
	if (!larger)
		return -ENOMEM;
	memset(larger + *room * each, 0, (wanted - *room) * each);
	memcpy(array, &larger, sizeof(larger));
	*room = (uint32_t)wanted;
	return 0;
}
