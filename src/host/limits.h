/* What to do about an error that a limit brought about: for people. */
#ifndef WEFT_HOST_LIMITS_H
#define WEFT_HOST_LIMITS_H

/* For a positive errno: "; next: ..." with the limit's name, or "". */
const char *limits_advice(int err);

#endif
