#include "weftd/kept_counts.h"

#include "weftd/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t counters_bytes(uint32_t ports)
{
	return ((size_t)ports + 1) * sizeof(struct port_counters);
}

/* A file of so many bytes, of zeros if it had others. 0 or -errno. */
static int size(int fd, size_t bytes, bool is_new)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!is_new && (size_t)st.st_size == bytes)
		return 0;
	if (ftruncate(fd, 0))
		return -errno;
	return -posix_fallocate(fd, 0, (off_t)bytes);
}

int kept_counts_open(struct kept_counts *k, const struct rundir *dir, const char *name, uint32_t ports, bool is_new)
{
	size_t bytes = counters_bytes(ports) + (size_t)ports * sizeof(*k->data);
	int fd = entry_open(dir->own, name, O_RDWR | O_CREAT, 0600), err;
	void *at;

	*k = (struct kept_counts){ .at = NULL };
	if (fd < 0)
		return fd;
	err = size(fd, bytes, is_new);
	at = err ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!err && at == MAP_FAILED)
		err = -errno;
	close(fd);
	if (err)
		return err;
	*k = (struct kept_counts){ .at = at, .bytes = bytes, .ports = ports, .counters = at };
	k->data = (uint64_t (*)[TRAFFIC_COUNTS])(void *)((char *)at + counters_bytes(ports));
	return 0;
}

void kept_counts_close(struct kept_counts *k)
{
	if (k->at)
		munmap(k->at, k->bytes);
	*k = (struct kept_counts){ .at = NULL };
}

/* A weftd that was killed may have set a counter after it saved what that counts: it would be below zero. */
static void settle(const struct port_view *v)
{
	for (int c = 0; c < PORT_COUNTS; c++) {
		uint64_t total = port_counters_total(v, (enum port_count)c);

		if ((int64_t)(total - v->counters->from[c]) < 0)
			v->counters->from[c] = total;
	}
	for (unsigned i = 0; i < EXT_COUNTS; i++) {
		uint64_t total = port_counters_ext_total(v, i);

		if ((int64_t)(total - v->counters->ext_from[i]) < 0)
			v->counters->ext_from[i] = total;
	}
	for (int d = 0; d < PORT_DETAILS; d++) {
		uint64_t total = port_counters_detail_total(v, (enum port_detail)d);

		if ((int64_t)(total - v->counters->detail_from[d]) < 0)
			v->counters->detail_from[d] = total;
	}
}

void kept_counts_restore(const struct kept_counts *k, const struct fabric *f, struct traffic_block *traffic)
{
	for (uint32_t port = 0; port < k->ports; port++)
		for (int c = 0; c < TRAFFIC_COUNTS; c++)
			traffic_add(&traffic[port], (enum traffic_count)c, k->data[port][c]);
	for (uint32_t port = 0; port < k->ports; port++)
		settle(&(struct port_view){ f, traffic, &k->counters[port], port });
}

void kept_counts_save(struct kept_counts *k, const struct traffic_block *traffic)
{
	for (uint32_t port = 0; port < k->ports; port++)
		for (int c = 0; c < TRAFFIC_COUNTS; c++)
			k->data[port][c] = traffic_read(traffic, port, (enum traffic_count)c);
}
