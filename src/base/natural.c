#include "base/natural.h"

#include <stddef.h>
#include <string.h>

static size_t digits(const char *text)
{
	return strspn(text, "0123456789");
}

/* Of two numbers that begin there; *a and *b are behind them then. */
static int compare_numbers(const char **a, const char **b)
{
	size_t of_a, of_b;
	int order;

	*a += strspn(*a, "0");
	*b += strspn(*b, "0");
	of_a = digits(*a);
	of_b = digits(*b);
	order = of_a != of_b ? (of_a < of_b ? -1 : 1) : strncmp(*a, *b, of_a);
	*a += of_a;
	*b += of_b;
	return order;
}

int natural_compare(const char *a, const char *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		int order;

		if (digits(x) && digits(y)) {
			order = compare_numbers(&x, &y);
			if (order)
				return order;
		} else if (*x == *y) {
			x++;
			y++;
		} else {
			break;
		}
	}
	if (*x != *y)
		return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
	/* numbers with other zeros in front */
	return strcmp(a, b);
}
