#include "control/limits.h"

#include "control/protocol.h"

#include <errno.h>
#include <stddef.h>

const char *limits_advice(int err)
{
	static const struct {
		int err;
		const char *text;
	} advice[] = {
		{ EMFILE, "; next: raise RLIMIT_NOFILE (ulimit -n) of this program, or of weftd where weftd.log says so" },
		{ ENFILE, "; next: raise the system's fs.file-max" },
		{ EFBIG, "; next: raise RLIMIT_FSIZE (ulimit -f), which holds for shared memory too" },
		{ ENOMEM, "; next: look at RLIMIT_AS (ulimit -v) and at the cgroup's memory limit" },
		{ EAGAIN, "; next: raise RLIMIT_NPROC (ulimit -u): there is no room for a thread" },
		{ EDQUOT, "; next: end other programs: weftd gives one user and one process no more than this" },
	};

	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		if (advice[i].err == err)
			return advice[i].text;
	}
	return "";
}

const char *limits_name(unsigned limit)
{
	static const char *const names[CONTROL_LIMITS] = {
		[LIMIT_CONNECTIONS] = "connections to weftd", [LIMIT_DESCRIPTORS] = "descriptors in weftd",
		[LIMIT_LETTERS] = "messages that were not read", [LIMIT_SLOTS] = "ranges of QP numbers",
		[LIMIT_CHANNELS] = "channels", [LIMIT_GROUPS] = "multicast groups", [LIMIT_LISTENERS] = "listeners",
		[LIMIT_PORTS] = "rdma_cm ports", [LIMIT_QUESTIONS] = "questions under way",
		[LIMIT_NODES] = "hosts of the fabric", [LIMIT_DATAGRAMS] = "bytes in management datagrams",
		[LIMIT_CHOICES] = "choices of devices",
	};

	return limit < CONTROL_LIMITS && names[limit] ? names[limit] : "something";
}
