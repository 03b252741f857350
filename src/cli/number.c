#include "cli/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

bool number_read(const char *text, uint64_t most, uint64_t *number)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)text[0]) || (text[0] == '0' && isdigit((unsigned char)text[1])))
		return false;
	errno = 0;
	value = strtoull(text, &end, text[1] == 'x' || text[1] == 'X' ? 16 : 10);
	if (*end || errno || value > most)
		return false;
	*number = value;
	return true;
}
