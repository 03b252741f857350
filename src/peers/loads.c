#include "peers/loads.h"

#include "link/memfile.h"
#include "peers/peers.h"

#include <sys/mman.h>
#include <unistd.h>

void loads_point(struct peers *ps)
{
	for (int i = 0; i < ps->ca->devices; i++) {
		struct ca_device *dev = &ps->ca->dev[i];
		bool is_elsewhere = node_is_somewhere(&ps->node) && device_has(dev, DEVICE_LIDS);

		dev->load = ps->loads && !is_elsewhere ? &ps->loads->slot[ps->slot][i] : NULL;
		dev->counters = dev->load ? &ps->loads->counters[ps->slot][i] : NULL;
	}
}

void loads_take(struct peers *ps, int fd)
{
	void *at = MAP_FAILED, *last = ps->loads;

	if (fd < 0)
		return;
	if (memfile_is_fixed(fd, sizeof(*ps->loads)))
		at = mmap(NULL, sizeof(*ps->loads), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return;
	ps->loads = at;
	loads_point(ps);
	if (last)
		munmap(last, sizeof(*ps->loads));
}

void loads_end(struct peers *ps)
{
	if (ps->loads)
		munmap(ps->loads, sizeof(*ps->loads));
	ps->loads = NULL;
}
