#include "ib/word.h"

#include "verbs/direct.h"

#include <errno.h>
#include <string.h>

static int change(struct mr *mr, uint64_t va, bool swaps, uint64_t compare, uint64_t operand, uint64_t *original)
{
	uint64_t old, wanted, *word = mr_borrow(mr, va);

	mr_settle(mr);
	if (word && !mr_is_there(mr, va, sizeof(*word)))
		word = NULL;
	if (word && (uintptr_t)word % sizeof(*word) == 0) {
		*original = compare;
		if (swaps)
			__atomic_compare_exchange_n(word, original, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		else
			*original = __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
		return 0;
	}
	if (mr_read(mr, va, &old, sizeof(old)) < 0)
		return -EFAULT;
	wanted = swaps ? (old == compare ? operand : old) : old + operand;
	if (wanted != old && mr_write(mr, va, &wanted, sizeof(wanted)) < 0)
		return -EFAULT;
	*original = old;
	return 0;
}

/* Others of this host may be at it directly: they and we have the same lock. */
int word_change(struct qp *qp, struct mr *mr, uint64_t va, enum opcode_op op, uint64_t compare, uint64_t operand,
		uint64_t *original)
{
	const struct direct_ops *direct = qp->ca->direct;
	int err;

	if (direct)
		direct->atomic_begin(qp->ca->direct_arg);
	err = change(mr, va, op == OP_CMP_SWAP, compare, operand, original);
	if (direct)
		direct->atomic_end(qp->ca->direct_arg);
	return err;
}

static int store(struct mr *mr, uint64_t va, const void *data)
{
	uint64_t value, *word = mr_borrow(mr, va);

	mr_settle(mr);
	memcpy(&value, data, sizeof(value));
	if (!word || (uintptr_t)word % sizeof(*word) || !mr_is_there(mr, va, sizeof(*word)))
		return mr_write(mr, va, &value, sizeof(value));
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return 0;
}

int word_write(struct qp *qp, struct mr *mr, uint64_t va, const void *data)
{
	const struct direct_ops *direct = qp->ca->direct;
	int err;

	if (direct)
		direct->atomic_begin(qp->ca->direct_arg);
	err = store(mr, va, data);
	if (direct)
		direct->atomic_end(qp->ca->direct_arg);
	return err;
}
