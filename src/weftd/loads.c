#include "weftd/loads.h"

#include "base/log.h"
#include "fabric/loads.h"
#include "link/memfile.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void loads_open(struct hub *h)
{
	void *at = MAP_FAILED;

	h->loads.fd = memfile_create_fixed("weft-loads", sizeof(struct port_loads));
	if (h->loads.fd >= 0)
		at = mmap(NULL, sizeof(struct port_loads), PROT_READ, MAP_SHARED, h->loads.fd, 0);
	if (at != MAP_FAILED) {
		h->loads.all = at;
		return;
	}
	log_line(LOG_WARNING, "no memory to count what ports carry: the counters in /sys stay 0");
	loads_close(h);
}

void loads_close(struct hub *h)
{
	if (h->loads.all)
		munmap((void *)(uintptr_t)h->loads.all, sizeof(*h->loads.all));
	if (h->loads.fd >= 0)
		close(h->loads.fd);
	h->loads.all = NULL;
	h->loads.fd = -1;
}

/* Of all processes, those too that have ended. */
static void add_up(const struct hub *h, uint32_t device, uint64_t sum[PORT_LOADS])
{
	memset(sum, 0, PORT_LOADS * sizeof(sum[0]));
	for (uint32_t slot = 1; h->loads.all && slot < PAGE_SLOTS; slot++) {
		const struct port_load *l = &h->loads.all->slot[slot][device];

		if (!atomic_load(&h->page->slot_owner[slot]))
			continue;	/* nobody had it */
		for (int i = 0; i < PORT_LOADS; i++)
			sum[i] += __atomic_load_n(&l->count[i], __ATOMIC_RELAXED);
	}
}

/* The places of PortCountersExtended: IBA 16.1.4.11. */
static uint64_t extended(const uint64_t sum[PORT_LOADS], unsigned place)
{
	static const struct {
		uint8_t loop, own, less;	/* less: what is taken away, with its loop before it; PORT_LOADS: nothing */
	} places[] = {
		{ PORT_LOAD_LOOP_WORDS, PORT_LOAD_XMIT_WORDS, PORT_LOADS },
		{ PORT_LOAD_LOOP_WORDS, PORT_LOAD_RCV_WORDS, PORT_LOADS },
		{ PORT_LOAD_LOOP_PACKETS, PORT_LOAD_XMIT_PACKETS, PORT_LOADS },
		{ PORT_LOAD_LOOP_PACKETS, PORT_LOAD_RCV_PACKETS, PORT_LOADS },
		{ PORT_LOAD_LOOP_PACKETS, PORT_LOAD_XMIT_PACKETS, PORT_LOAD_XMIT_MULTICAST },
		{ PORT_LOAD_LOOP_PACKETS, PORT_LOAD_RCV_PACKETS, PORT_LOAD_RCV_MULTICAST },
		{ PORT_LOAD_LOOP_MULTICAST, PORT_LOAD_XMIT_MULTICAST, PORT_LOADS },
		{ PORT_LOAD_LOOP_MULTICAST, PORT_LOAD_RCV_MULTICAST, PORT_LOADS },
	};
	uint64_t all = sum[places[place].loop] + sum[places[place].own];

	return places[place].less == PORT_LOADS ? all : all - sum[PORT_LOAD_LOOP_MULTICAST] - sum[places[place].less];
}

void loads_read(const struct hub *h, uint32_t device, uint64_t value[SYSFS_COUNTERS])
{
	/* the counters of agents/counter.def that are counted here */
	uint64_t plain[PORT_COUNTS] = { 0 };
	uint64_t sum[PORT_LOADS];
	unsigned n = 0;

	add_up(h, device, sum);
	plain[COUNT_XMIT_DISCARDS] = sum[PORT_LOAD_XMIT_DISCARDS];
	plain[COUNT_LINK_DOWNED] = h->loads.link_downed[device];
#define PORT_COUNTER(file, counter) value[n++] = plain[COUNT_##counter];
#define PORT_COUNTER_EXT(file, place) value[n++] = extended(sum, place);
#include "weftd/port_counter.def"
#undef PORT_COUNTER
#undef PORT_COUNTER_EXT
}

/* As add_up does. A device's link is not a process's: weftd counts how often it went down. */
void loads_read_hw(const struct hub *h, uint32_t device, uint64_t value[SYSFS_HW_COUNTERS])
{
	struct counters sum = { 0 };
	unsigned n = 0;

	for (uint32_t slot = 1; h->loads.all && slot < PAGE_SLOTS; slot++) {
		const struct counters *of = &h->loads.all->counters[slot][device];

		if (!atomic_load(&h->page->slot_owner[slot]))
			continue;
#define HW_COUNTER(name) sum.name += __atomic_load_n(&of->name, __ATOMIC_RELAXED);
#include "weftd/hw_counter.def"
#undef HW_COUNTER
	}
	sum.link_downed = h->loads.link_downed[device];
#define HW_COUNTER(name) value[n++] = sum.name;
#include "weftd/hw_counter.def"
#undef HW_COUNTER
}
