/* Which users can be told apart. The kernel shows all users that a user namespace does not map as one, the overflow uid. */
#ifndef WEFT_WEFTD_USERS_H
#define WEFT_WEFTD_USERS_H

#include <stdbool.h>
#include <sys/types.h>

/* Does this uid name one user? False for the overflow uid where the namespace of this process does not map every user. */
bool users_is_somebody(uid_t uid);

/* The same, of a given overflow uid and the text of /proc/PID/uid_map. */
bool users_is_mapped(uid_t uid, uid_t overflow, const char *uid_map);

#endif
