/* The order in which people count: numbers in texts by their values, so HCA-2 comes before HCA-10. */
#ifndef WEFT_BASE_NATURAL_H
#define WEFT_BASE_NATURAL_H

/* Below 0, 0 or above, as strcmp(3); 0 for the same bytes alone. Digits are 0 to 9, of any number of them. */
int natural_compare(const char *a, const char *b);

#endif
