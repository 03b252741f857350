/* Programs wait for a message by polling its last byte, so that byte, or the aligned word that ends with it, is one store
 * after all others. */
#include "direct/copy.h"

#include <string.h>

enum { WORD_BYTES = 8 };

/* How much of the last piece, which ends at `end`, is stored by itself. */
static size_t tail_of(uintptr_t end, size_t bytes)
{
	return end % WORD_BYTES == 0 && bytes >= WORD_BYTES ? WORD_BYTES : 1;
}

/* Source and target may overlap, as both may be ours: so the tail is loaded first. */
static void copy_in(uint8_t *to, const struct iovec *iov, unsigned iovs)
{
	size_t head, tail;
	uint64_t word = 0;

	for (; iovs > 1; iovs--, iov++) {
		memmove(to, iov->iov_base, iov->iov_len);
		to += iov->iov_len;
	}
	tail = tail_of((uintptr_t)to + iov->iov_len, iov->iov_len);
	head = iov->iov_len - tail;
	memcpy(&word, (const uint8_t *)iov->iov_base + head, tail);
	if (head)
		memmove(to, iov->iov_base, head);
	if (tail == WORD_BYTES)
		__atomic_store_n((uint64_t *)(void *)(to + head), word, __ATOMIC_RELEASE);
	else
		__atomic_store_n(to + head, *(const uint8_t *)&word, __ATOMIC_RELEASE);
}

void copy_scatter(const struct iovec *iov, unsigned iovs, const uint8_t *from)
{
	for (unsigned i = 0; i < iovs; from += iov[i++].iov_len)
		memmove(iov[i].iov_base, from, iov[i].iov_len);
}

static bool change_word(uint64_t *word, struct direct_request *r)
{
	if ((uintptr_t)word % sizeof(*word))
		return false;
	r->original = r->compare;
	if (r->op == OP_CMP_SWAP)
		__atomic_compare_exchange_n(word, &r->original, r->operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	else if (r->op == OP_ATOMIC_WRITE)
		__atomic_store_n(word, r->operand, __ATOMIC_SEQ_CST);
	else
		r->original = __atomic_fetch_add(word, r->operand, __ATOMIC_SEQ_CST);
	return true;
}

bool copy_execute(void *memory, struct direct_request *r)
{
	if (direct_is_atomic(r))
		return change_word(memory, r);
	if (r->op == OP_WRITE)
		copy_in(memory, r->iov, r->iovs);
	else
		copy_scatter(r->iov, r->iovs, memory);
	return true;
}
