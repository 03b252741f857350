/* A program with functions of its own that have the names of other libraries' and of libibverbs', exported as by -rdynamic. When
 * one of them is called it says so and ends. It opens a device, prints "open" and waits for the end of its standard input. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define NAMESAKE(name) void name(void); void name(void) { fputs("called: " #name "\n", stderr); _exit(9); }

NAMESAKE(json_object) NAMESAKE(json_array) NAMESAKE(json_integer) NAMESAKE(json_string) NAMESAKE(json_delete)
NAMESAKE(json_object_set_new) NAMESAKE(json_dumpb) NAMESAKE(json_dumps) NAMESAKE(crc32_gzip_refl) NAMESAKE(crc32_iscsi)
NAMESAKE(crc_ieee) NAMESAKE(log_line) NAMESAKE(runtime_get) NAMESAKE(table_next) NAMESAKE(row_begin) NAMESAKE(qp_modify)
NAMESAKE(ibv_query_port) NAMESAKE(ibv_query_device) NAMESAKE(ibv_get_sysfs_path) NAMESAKE(ibv_event_type_str)

int main(void)
{
	void *verbs = dlopen("libibverbs.so.1", RTLD_NOW), **list, *context;
	void **(*get_list)(int *) = (void **(*)(int *))dlsym(verbs, "ibv_get_device_list");
	void *(*open_device)(void *) = (void *(*)(void *))dlsym(verbs, "ibv_open_device");
	int (*query_port)(void *, int, void *) = (int (*)(void *, int, void *))dlsym(verbs, "ibv_query_port");
	char attributes[256], c;

	list = get_list(NULL);
	context = list && *list ? open_device(*list) : NULL;
	if (!context || query_port(context, 1, attributes))
		return 1;
	puts("open");
	fflush(stdout);
	return read(STDIN_FILENO, &c, 1) != 0;
}
