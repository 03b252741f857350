/* Numbers that users write. */
#ifndef WEFT_CLI_NUMBER_H
#define WEFT_CLI_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A number of at most this, decimal, or hexadecimal behind 0x, and nothing else. One that begins with a 0 before other digits is
 * none: octal is what few mean by it. */
bool number_read(const char *text, uint64_t most, uint64_t *number);

#endif
