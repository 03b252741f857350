/* Fork. Nothing is pinned and the adapter reads the program's memory with its own loads, so a copy-on-write after fork moves
 * no page away under a region: the parent goes on, and the child opens devices of its own. */
#include "abi/verbs/object.h"

ABI_EXPORT int ibv_dontfork_range(void *base, size_t size);
ABI_EXPORT int ibv_dofork_range(void *base, size_t size);

ABI_EXPORT int ibv_fork_init(void)
{
	return 0;
}

ABI_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
