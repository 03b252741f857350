/* Protection domains: a count of children, nothing else. */
#include "verbs/pd.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

int pd_create(struct ca *ca, struct ca_device *dev, struct pd **out)
{
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return -ENOMEM;
	pd->ca = ca;
	pd->dev = dev;
	if (table_insert(&ca->pds, pd, &pd->handle) < 0) {
		free(pd);
		return -ENOMEM;
	}
	*out = pd;
	return 0;
}

int pd_destroy(struct pd *pd)
{
	if (pd->refs)
		return -EBUSY;
	table_remove(&pd->ca->pds, pd->handle);
	free(pd);
	return 0;
}

void pd_get(struct pd *pd)
{
	pd->refs++;
}

void pd_put(struct pd *pd)
{
	weft_bug_on(pd->refs == 0);
	pd->refs--;
}
