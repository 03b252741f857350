/* Whose subordinate users are whose (subuid(5)): a user can be each of those that /etc/subuid gives him. */
#ifndef WEFT_WEFTD_SUBIDS_H
#define WEFT_WEFTD_SUBIDS_H

#include <stdbool.h>
#include <stdint.h>

/* Root's or weftd's own, `own`: no quota holds for it. */
static inline bool subids_is_privileged(uint64_t uid, uint32_t own)
{
	return uid == 0 || uid == own;
}

/* The user to whom this uid belongs: itself, unless a line of `subuid` has it. Both texts are terminated; passwd gives names
 * their numbers. A range of root or of weftd's user, `own`, is one user by itself, its first: who is root in a container has no
 * right of root. So is one whose owner has no number. Root and `own` are the answer for themselves alone. */
uint32_t subids_find(uint32_t uid, uint32_t own, const char *subuid, const char *passwd);

/* The same from /etc/subuid and /etc/passwd as they are now. Reads files; asks no name service. */
uint32_t subids_owner(uint32_t uid, uint32_t own);

#endif
