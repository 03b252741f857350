/* One thread looks at the files of devices while another loads and unloads a library: both end. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { TIMES = 3000, PATIENCE_S = 60 };

static void *load(void *arg)
{
	void *library;

	(void)arg;
	for (int i = 0; i < TIMES; i++) {
		library = dlopen("libresolv.so.2", RTLD_NOW);
		if (library)
			dlclose(library);
	}
	return NULL;
}

int main(void)
{
	pthread_t loader;

	alarm(PATIENCE_S);
	if (pthread_create(&loader, NULL, load, NULL)) {
		perror("no thread");
		return 1;
	}
	for (int i = 0; i < TIMES; i++)
		if (access("/sys/class/infiniband_verbs/abi_version", F_OK)) {
			perror("no devices");
			return 1;
		}
	pthread_join(loader, NULL);
	return 0;
}
