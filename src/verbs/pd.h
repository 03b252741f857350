/* Protection domains. A PD is held by its MRs, MWs, AHs, SRQs and QPs and cannot go before them. */
#ifndef WEFT_VERBS_PD_H
#define WEFT_VERBS_PD_H

#include "verbs/ca.h"

struct pd {
	struct ca *ca;		/* borrowed */
	struct ca_device *dev;	/* borrowed */
	uint32_t handle;
	uint32_t refs;		/* children */
};

int pd_create(struct ca *ca, struct ca_device *dev, struct pd **pd);
int pd_destroy(struct pd *pd);	/* -EBUSY while children live */
void pd_get(struct pd *pd);
void pd_put(struct pd *pd);

#endif
