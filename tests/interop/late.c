/*
 * Preloaded into the client of a row: rdma_getaddrinfo answers LATE_MS milliseconds later, as it may where a server resolves
 * names. perftest's client calls it before its second connection, for which its server has yet to listen.
 */
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <time.h>

__attribute__((visibility("default"))) int rdma_getaddrinfo(const char *node, const char *service,
							    const struct rdma_addrinfo *hints, struct rdma_addrinfo **found);

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **found)
{
	int (*next)(const char *, const char *, const struct rdma_addrinfo *, struct rdma_addrinfo **) =
		(int (*)(const char *, const char *, const struct rdma_addrinfo *, struct rdma_addrinfo **))
			dlsym(RTLD_NEXT, "rdma_getaddrinfo");
	const char *late = getenv("LATE_MS");
	long ms = late ? atol(late) : 0;
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
	return next(node, service, hints, found);
}
