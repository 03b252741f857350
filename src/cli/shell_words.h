/* Words as a shell takes them. */
#ifndef WEFT_CLI_SHELL_WORDS_H
#define WEFT_CLI_SHELL_WORDS_H

#include <stdio.h>

/* Prints the word so that a POSIX shell, or fish, reads it as one: as it is, or in single quotes. */
void shell_word(FILE *to, const char *word);

#endif
