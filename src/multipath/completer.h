/* Responses to the packets of a requester. */
#ifndef WEFT_MULTIPATH_COMPLETER_H
#define WEFT_MULTIPATH_COMPLETER_H

#include "multipath/requester.h"

/* A RSP or NAK (MPT-13, MPT-25, MPT-27). */
void mp_completer_input(struct mp_requester *r, wtime now, unsigned path, const struct mp_packet *p);

#endif
