/* Operations of a same-host path over which nothing is published. */
#ifndef WEFT_TESTS_ENGINE_DIRECT_STUBS_H
#define WEFT_TESTS_ENGINE_DIRECT_STUBS_H

#include "verbs/direct.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

static inline bool unpublish_mr(void *owner, struct mr *mr)
{
	(void)owner;
	(void)mr;
	return true;
}

static inline void show_no_mr(void *owner, struct mr *mr)
{
	(void)owner;
	(void)mr;
}

static inline void show_no_qp(void *owner, struct qp *qp)
{
	(void)owner;
	qp->published = 0;
}

#endif
