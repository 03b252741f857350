/* A process that asks weftd for the service of an rdma_cm server of somebody else, at every device and address that might be
 * preferred to the server's. `intruder PORT`, of a server at all addresses, or `intruder PORT ipv4`, at those of IPv4: addresses
 * of IPv6 are not that one's. WEFT_DIR names the network. Exit 0: weftd refuses all of it. */
#include "control_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TCP = 0x106, DEVICES = 3 };

int main(int argc, char **argv)
{
	uint64_t service = argc > 1 ? (uint64_t)TCP << 16 | strtoul(argv[1], NULL, 0) : 0;
	bool is_ipv4 = argc > 2 && !strcmp(argv[2], "ipv4");
	struct peer *p;
	int taken = 0;

	if (!service || !getenv("WEFT_DIR")) {
		fprintf(stderr, "usage: intruder PORT [ipv4], with WEFT_DIR of a running weftd\n");
		return 2;
	}
	snprintf(dir, sizeof(dir), "%s", getenv("WEFT_DIR"));
	p = join(CONTROL_PROCESS);
	for (uint32_t device = 0; device < DEVICES; device++) {
		static const uint8_t local[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

		for (int i = 0; i <= PAGE_GIDS; i++) {
			struct control_msg msg = { .type = CTL_LISTEN, .service = service, .a = device };
			const struct page_gid *gid = &p->page->device[1].gid[i];

			memcpy(msg.gid, i < PAGE_GIDS ? gid->raw : local, sizeof(msg.gid));
			if (is_ipv4 && control_family(msg.gid) == FAMILY_IPV6)
				continue;
			taken += call(p, &msg) != EADDRINUSE;
		}
		for (int family = 0; family < CONTROL_FAMILIES; family++) {
			struct control_msg msg = { .type = CTL_LISTEN, .service = service, .a = device };

			memcpy(msg.gid, control_any((enum control_family)family), sizeof(msg.gid));
			taken += !(is_ipv4 && family == FAMILY_IPV6) && call(p, &msg) != EADDRINUSE;
		}
		taken += bind_port(p, service, true, (uint8_t)device) != EADDRINUSE;
	}
	if (taken)
		printf("%d times weftd gave away the port\n", taken);
	return taken != 0;
}
