/* Prints the names of the devices in one line, as a program sees them that inject.sh builds in some way: linked with libibverbs
 * or, with BY_NAME, by dlopen; without the libraries and flags of weft's build. Ends with 1 when there are none. */
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef OWN
int the_own_one(void) __attribute__((weak));
#endif

#ifdef BY_NAME
typedef struct ibv_device **list_fn(int *);
typedef const char *name_fn(struct ibv_device *);

static struct ibv_device **get_list(int *n, name_fn **name)
{
	void *verbs = dlopen(BY_NAME, RTLD_NOW);
	list_fn *list = verbs ? (list_fn *)dlsym(verbs, "ibv_get_device_list") : NULL;

	*name = verbs ? (name_fn *)dlsym(verbs, "ibv_get_device_name") : NULL;
	return list ? list(n) : NULL;
}
#else
static struct ibv_device **get_list(int *n, const char *(**name)(struct ibv_device *))
{
	*name = ibv_get_device_name;
	return ibv_get_device_list(n);
}
#endif

int main(void)
{
	const char *(*name)(struct ibv_device *);
	int n = 0;
	struct ibv_device **list = get_list(&n, &name);

	for (int i = 0; i < n; i++)
		printf("%s%s", i ? " " : "", name(list[i]));
	printf("\n");
#ifndef BY_NAME
	if (list)
		ibv_free_device_list(list);
#endif
#ifdef OWN
	if (!the_own_one || the_own_one() != 42)
		return 3;
#endif
#ifdef OVERRUN
	return ((volatile char *)malloc(8))[8];
#endif
	return n == 0;
}
