/* Operations of a same-host path over which nothing is published. */
#ifndef WEFT_TESTS_ENGINE_DIRECT_STUBS_H
#define WEFT_TESTS_ENGINE_DIRECT_STUBS_H

#include "verbs/direct.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

static inline bool unpublish_mr(void *host, struct mr *mr)
{
	(void)host;
	(void)mr;
	return true;
}

static inline void show_no_mr(void *host, struct mr *mr)
{
	(void)host;
	(void)mr;
}

static inline void show_no_qp(void *host, struct qp *qp)
{
	(void)host;
	qp->published = 0;
}

#endif
