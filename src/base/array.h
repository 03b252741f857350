/* Arrays that grow with what is put into them. */
#ifndef WEFT_BASE_ARRAY_H
#define WEFT_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Room for so many elements of `each` bytes in the array, whose address stands at `array` (NULL: none yet, *room is 0). New
 * elements are zero. 0; -ENOMEM: array and room stay as they were. */
int array_reserve(void *array, uint32_t *room, uint32_t elements, size_t each);

#endif
