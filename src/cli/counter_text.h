/* Counters as text. */
#ifndef WEFT_CLI_COUNTER_TEXT_H
#define WEFT_CLI_COUNTER_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Prints a line for each counter of the object {name: number} that is not zero; with its meaning when that is asked for. */
void counter_text_print(FILE *to, const json_t *counters, bool explains);

#endif
