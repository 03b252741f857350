#include "weftd/port_counts.h"

#include "control/devices.h"
#include "weftd/loads.h"
#include "weftd/subnet.h"

/* The counters as perfquery shows them: from where they were set last. */
static void read_counts(const struct port_view *v, uint64_t value[SYSFS_COUNTERS])
{
	unsigned n = 0;

#define PORT_COUNTER(file, counter) \
	value[n++] = port_counters_total(v, COUNT_##counter) - v->counters->from[COUNT_##counter];
#define PORT_COUNTER_EXT(file, place) value[n++] = port_counters_ext_total(v, place) - v->counters->ext_from[place];
#include "weftd/port_counter.def"
#undef PORT_COUNTER
#undef PORT_COUNTER_EXT
}

int port_counts_write(const struct hub *h, uint32_t port, uint32_t which)
{
	const struct agents *a = &h->subnet->agents;
	uint64_t value[SYSFS_COUNTERS], hw[SYSFS_HW_COUNTERS];
	char name[RUNDIR_TREE_NAME];
	bool is_fabrics;
	int err = 0;

	rundir_tree_name(port == PORT_NONE ? 0 : port + 1, which, name);
	for (uint32_t i = 0; i < h->page->devices && !err; i++) {
		if (which && !(which >> i & 1))
			continue;
		is_fabrics = port != PORT_NONE && control_device_has(&h->page->device[i], DEVICE_LIDS);
		if (is_fabrics)
			read_counts(&(struct port_view){ a->fabric, a->traffic, &a->counters[port], port }, value);
		else
			loads_read(h, i, value);
		err = sysfs_write_counters(h->subnet->dir->own, name, h->page->device[i].name, value);
		if (err || is_fabrics)
			continue;
		loads_read_hw(h, i, hw);
		err = sysfs_write_hw_counters(h->subnet->dir->own, name, h->page->device[i].name, hw);
	}
	return err;
}
