/* What to do about an error that a limit brought about: for people. */
#ifndef WEFT_CONTROL_LIMITS_H
#define WEFT_CONTROL_LIMITS_H

/* For a positive errno: "; next: ..." with the limit's name, or "". */
const char *limits_advice(int err);

/* What a limit of weftd (enum control_limit) counts, for any number. */
const char *limits_name(unsigned limit);

#endif
