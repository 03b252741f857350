/* Memory at the caller's pointers. The kernel says whether it is there, so that a bad pointer is EFAULT here as it is for the
 * kernel's device. It need not be asked about the calling thread's own stack from the running function to its far end, whose
 * frames are in use; that is where librdmacm has its commands and the room for their answers. */
#include "abi/ucm/ucm_state.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The stack that the thread was made with; low is UINTPTR_MAX: not known. */
struct stack {
	uintptr_t low, end;
};

static __thread struct stack own;

static void find_stack(void)
{
	pthread_attr_t attr;
	size_t bytes = 0;
	void *low = NULL;

	own.low = UINTPTR_MAX;
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &low, &bytes) == 0)
		own = (struct stack){ (uintptr_t)low, (uintptr_t)low + bytes };
	pthread_attr_destroy(&attr);
}

/* Not where the program has switched to a stack of its own: the thread's may be gone by then. */
static bool is_on_stack(uint64_t at, size_t bytes)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (!own.low)
		find_stack();
	return own.low <= here && here < own.end && at >= here && at < own.end && bytes <= own.end - at;
}

static int copy_error(ssize_t moved, size_t bytes)
{
	return moved == (ssize_t)bytes ? 0 : -EFAULT;
}

int ucm_copy_out(uint64_t to, const void *from, size_t bytes)
{
	struct iovec local = { (void *)from, bytes }, remote = { (void *)(uintptr_t)to, bytes };
	bool is_believed = is_on_stack(to, bytes);
	ssize_t moved = is_believed ? 0 : process_vm_writev(getpid(), &local, 1, &remote, 1, 0);

	/* a sandbox may forbid the call; then the pointer has to be believed */
	if (is_believed || (moved < 0 && errno != EFAULT && to)) {
		memcpy((void *)(uintptr_t)to, from, bytes);
		return 0;
	}
	return copy_error(moved, bytes);
}

int ucm_copy_in(void *to, uint64_t from, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)from, bytes };
	bool is_believed = is_on_stack(from, bytes);
	ssize_t moved = is_believed ? 0 : process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

	if (is_believed || (moved < 0 && errno != EFAULT && from)) {
		memcpy(to, (void *)(uintptr_t)from, bytes);
		return 0;
	}
	return copy_error(moved, bytes);
}
