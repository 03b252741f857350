/* What weft qp, mr, cq and counters ask of a process. */
#ifndef WEFT_RUNTIME_REPORT_H
#define WEFT_RUNTIME_REPORT_H

#include "runtime/state.h"

void report_answer(struct runtime *rt, const struct control_msg *request, const char *what);

/* Why QPs of this process have stopped, as text for weftd, the caller's; NULL: none has. Under the lock. */
char *report_at_end(struct runtime *rt);

#endif
