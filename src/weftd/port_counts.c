#include "weftd/port_counts.h"

#include "control/devices.h"
#include "fabric/host.h"
#include "weftd/loads.h"
#include "weftd/subnet.h"
#include "weftd/tree.h"

#include <errno.h>

_Static_assert(CONTROL_PORT_COUNTS * sizeof(struct control_port_count) <= CONTROL_TEXT, "they fit");

static struct port_view view_of(const struct agents *a, uint32_t port)
{
	return (struct port_view){ a->fabric, a->traffic, &a->counters[port], port };
}

/* The counters as perfquery shows them: from where they were set last. */
static void read_counts(struct port_view v, uint64_t value[SYSFS_COUNTERS])
{
	unsigned n = 0;

#define PORT_COUNTER(file, counter) \
	value[n++] = port_counters_total(&v, COUNT_##counter) - v.counters->from[COUNT_##counter];
#define PORT_COUNTER_EXT(file, place) value[n++] = port_counters_ext_total(&v, place) - v.counters->ext_from[place];
#include "weftd/port_counter.def"
#undef PORT_COUNTER
#undef PORT_COUNTER_EXT
}

/* Of a device with LIDs, which is this adapter of the place. */
static int write_ports(const struct hub *h, uint32_t place, const struct host_adapter *adapter, const char *name,
		       const char *device)
{
	const struct agents *a = &h->subnet->agents;
	uint64_t value[SYSFS_COUNTERS];
	int err = 0;

	for (unsigned n = 0; !err && n < adapter->ports && page_index(h->page, adapter->first + n) < PAGE_DEVICES; n++) {
		read_counts(view_of(a, host_port(a->fabric, place, adapter->first + n)), value);
		err = sysfs_write_counters(h->subnet->dir->own, name, device, n + 1, value);
	}
	return err;
}

static bool is_one_of(uint32_t device, uint32_t which)
{
	return !which || which >> device & 1;
}

/* Of devices behind the page's. */
static int write_adapters(const struct hub *h, uint32_t place, uint32_t which, const char *name)
{
	uint32_t devices = tree_devices(h->page, &h->subnet->fabric, place);
	struct control_table names;
	char device[PAGE_NAME];
	int err = 0;

	control_table_of(h->page->device, h->page->devices, &names);
	for (uint32_t i = h->page->devices; i < devices && !err; i++) {
		unsigned further = i - h->page->devices + 1;
		struct host_adapter a = host_adapter(&h->subnet->fabric, place, further);

		control_adapter_name(&names, further, device);
		if (is_one_of(i, which))
			err = write_ports(h, place, &a, name, device);
	}
	return err;
}

int port_counts_write(const struct hub *h, uint32_t place, uint32_t which)
{
	uint64_t value[SYSFS_COUNTERS], hw[SYSFS_HW_COUNTERS];
	struct host_adapter first = { 0 };
	char name[RUNDIR_TREE_NAME];
	int err = 0;

	if (place != PORT_NONE)
		first = host_adapter(&h->subnet->fabric, place, 0);
	rundir_tree_name(place == PORT_NONE ? 0 : place + 1, which, name);
	for (uint32_t i = 0; i < h->page->devices && !err; i++) {
		if (!is_one_of(i, which))
			continue;
		if (place != PORT_NONE && control_device_has(&h->page->device[i], DEVICE_LIDS)) {
			err = write_ports(h, place, &first, name, h->page->device[i].name);
			continue;
		}
		loads_read(h, i, value);
		err = sysfs_write_counters(h->subnet->dir->own, name, h->page->device[i].name, 1, value);
		if (err)
			continue;
		loads_read_hw(h, i, hw);
		err = sysfs_write_hw_counters(h->subnet->dir->own, name, h->page->device[i].name, hw);
	}
	return err || place == PORT_NONE ? err : write_adapters(h, place, which, name);
}

static struct control_port_count count_of(const struct agents *a, uint32_t port)
{
	const struct port_view v = view_of(a, port);

	return (struct control_port_count){
		.words = port_counters_total(&v, COUNT_XMIT_DATA), .packets = port_counters_total(&v, COUNT_XMIT_PKTS),
		.waits = port_counters_total(&v, COUNT_XMIT_WAIT), .discards = port_counters_total(&v, COUNT_XMIT_DISCARDS),
		.errors = port_counters_total(&v, COUNT_SYMBOL_ERRORS),
	};
}

void port_counts_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_port_count count[CONTROL_PORT_COUNTS];
	struct control_msg answer = *msg;
	uint32_t n = 0, ports;

	if (!subnet_nodes(h) || msg->b != atomic_load(&h->page->fabric)) {
		hub_answer(h, c, msg, subnet_nodes(h) ? ESTALE : ENOENT);
		return;
	}
	ports = h->subnet->fabric.ports;
	if (msg->a >= ports) {
		hub_answer(h, c, msg, EINVAL);
		return;
	}
	for (; n < CONTROL_PORT_COUNTS && n < ports - msg->a; n++)
		count[n] = count_of(&h->subnet->agents, msg->a + n);
	answer.status = 0;
	answer.text_bytes = n * (uint32_t)sizeof(count[0]);
	subnet_counts_read(h, false);
	h->ops->send(h, c, &answer, (const char *)count, NULL, 0);
}
