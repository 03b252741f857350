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
void copy_write(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t tail = tail_of((uintptr_t)to + bytes, bytes), head = bytes - tail;
	uint64_t word = 0;

	if (tail == WORD_BYTES)
		memcpy(&word, from + head, sizeof(word));
	else
		word = from[head];
	if (head)
		memmove(to, from, head);
	if (tail == WORD_BYTES)
		__atomic_store_n((uint64_t *)(void *)(to + head), word, __ATOMIC_RELEASE);
	else
		__atomic_store_n(to + head, (uint8_t)word, __ATOMIC_RELEASE);
}

static void copy_in(uint8_t *to, const struct iovec *iov, unsigned iovs)
{
	for (; iovs > 1; iovs--, iov++) {
		memmove(to, iov->iov_base, iov->iov_len);
		to += iov->iov_len;
	}
	copy_write(to, iov->iov_base, iov->iov_len);
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
