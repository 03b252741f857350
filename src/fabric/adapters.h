/* Which adapters of a subnet are one host's: those whose descriptions are the host's name, one space and one more word, as "h1
 * HCA-1" and "h1 HCA-2" of ibnetdiscover's files, or "h1 mlx5_0" of Linux. Nothing else in a subnet tells. */
#ifndef WEFT_FABRIC_ADAPTERS_H
#define WEFT_FABRIC_ADAPTERS_H

#include "fabric/fabric.h"

#include <stddef.h>

/* Bytes of the host's name in a description that is such; 0: it is not. */
size_t adapters_host(const char *description);

/* Sets host and next of each place in f->place, whose other members are set. A mapping that another process writes is read
 * without harm. Adapters of a host are in natural order: HCA-2 before
 * HCA-10. 0 or -ENOMEM. */
int adapters_join(struct fabric *f);

#endif
