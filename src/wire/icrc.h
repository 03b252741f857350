/* The invariant CRC of both wire forms: IBA 7.8.1 and A17.3.3. */
#ifndef WEFT_WIRE_ICRC_H
#define WEFT_WIRE_ICRC_H

#include "wire/packet.h"

/* Over `bytes` bytes of a frame whose headers are whole, up to where the ICRC stands. On the wire it goes low byte first. */
uint32_t icrc_compute(enum packet_form form, const void *frame, size_t bytes);

#endif
