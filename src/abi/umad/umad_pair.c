/* Pairs of devices: which has the SMI of a port, and which its GSI. One device has both but for planar ports, where two devices
 * show one port GUID, and the one without an SMI says so in its capabilities (rdma-core 53 and later). */
#include "abi/umad/umad_sysfs.h"

#include <errno.h>
#include <string.h>

/* The first port that has a GUID, or NULL. */
static const umad_port_t *first_port(const umad_ca_t *ca)
{
	for (int i = 0; i < UMAD_CA_PORTS; i++)
		if (ca->ports[i] && ca->ports[i]->port_guid)
			return ca->ports[i];
	return NULL;
}

/* Whether another device than `name` shows this port GUID. */
static bool is_planar(char names[][UMAD_NAME], int n, const char *name, be64 guid)
{
	bool found = false;

	for (int i = 0; i < n && !found; i++) {
		umad_ca_t ca;

		if (strcmp(names[i], name) == 0 || umad_get_ca(names[i], &ca))
			continue;
		for (int j = 0; j < UMAD_CA_PORTS; j++)
			found = found || (ca.ports[j] && ca.ports[j]->port_guid == guid);
		umad_release_ca(&ca);
	}
	return found;
}

/* The pair of this port GUID; a new one if there is none and room for it, else -1. */
static int pair_of(be64 guid, be64 *guids, size_t *n, size_t max)
{
	size_t i = 0;

	while (i < *n && guids[i] != guid)
		i++;
	if (i == *n) {
		if (i == max)
			return -1;
		guids[(*n)++] = guid;
	}
	return (int)i;
}

/* Their number; preferred ports are left 0. */
UMAD_EXPORT int umad_get_smi_gsi_pairs(struct umad_ca_pair pairs[], size_t max)
{
	char names[UMAD_DEVICES][UMAD_NAME];
	int found = umad_get_cas_names(names, UMAD_DEVICES);
	be64 guids[UMAD_DEVICES];
	size_t n = 0;

	memset(pairs, 0, max * sizeof(*pairs));
	for (int i = 0; i < found; i++) {
		const umad_port_t *port;
		umad_ca_t ca;
		bool has_smi, planar;
		int at;

		if (umad_get_ca(names[i], &ca))
			continue;
		port = first_port(&ca);
		at = port ? pair_of(port->port_guid, guids, &n, max < UMAD_DEVICES ? max : UMAD_DEVICES) : -1;
		if (at >= 0) {
			has_smi = umad_has_smi(port->capmask);
			planar = is_planar(names, found, names[i], port->port_guid);
			if (has_smi)
				memcpy(pairs[at].smi_name, names[i], UMAD_NAME);
			if (!has_smi || !planar)
				memcpy(pairs[at].gsi_name, names[i], UMAD_NAME);
		}
		umad_release_ca(&ca);
	}
	return (int)n;
}

static bool is_up(const umad_ca_t *ca, int number)
{
	return number >= 0 && number < UMAD_CA_PORTS && ca->ports[number] && ca->ports[number]->state > 1;
}

/* The first port of the device that is not down, or 0. */
static uint32_t port_that_is_up(const char *name)
{
	uint32_t number = 0;
	umad_ca_t ca;

	if (umad_get_ca(name, &ca))
		return 0;
	for (int i = 1; i < UMAD_CA_PORTS && !number; i++)
		if (is_up(&ca, i))
			number = (uint32_t)i;
	umad_release_ca(&ca);
	return number;
}

/* The port of the device, 0 for any: of a device that the caller names it is taken as it is, else it must be up. 0: none. */
static uint32_t choose(const char *name, int wanted, bool is_named)
{
	int number = 0;
	umad_ca_t ca;

	if (umad_get_ca(name, &ca))
		return 0;
	if (!wanted && ca.numports == 1)
		wanted = 1;
	if (!wanted)
		number = (int)port_that_is_up(name);
	else if (wanted < UMAD_CA_PORTS && ca.ports[wanted] && (is_named || is_up(&ca, wanted)))
		number = wanted;
	umad_release_ca(&ca);
	return (uint32_t)number;
}

/* The ports of a pair that a caller means; false: it has none. */
static bool choose_ports(struct umad_ca_pair *pair, const char *name, int portnum)
{
	bool by_gsi = !pair->smi_name[0] || (name && strcmp(name, pair->gsi_name) == 0);
	uint32_t number = choose(by_gsi ? pair->gsi_name : pair->smi_name, portnum, name != NULL);

	if (!number)
		return false;
	if (strcmp(pair->gsi_name, pair->smi_name) == 0) {
		pair->gsi_preferred_port = pair->smi_preferred_port = number;
	} else if (by_gsi) {
		pair->gsi_preferred_port = number;
		pair->smi_preferred_port = pair->smi_name[0] ? port_that_is_up(pair->smi_name) : 0;
	} else {
		pair->smi_preferred_port = number;
		pair->gsi_preferred_port = port_that_is_up(pair->gsi_name);
	}
	return true;
}

/* name NULL: the first pair with a port that is up; portnum 0: any port. 0, or -ENODEV. */
UMAD_EXPORT int umad_get_smi_gsi_pair_by_ca_name(const char *name, uint8_t portnum, struct umad_ca_pair *pair,
						 unsigned enforce_smi)
{
	struct umad_ca_pair pairs[UMAD_DEVICES];
	int n;

	if (!pair)
		return -1;
	memset(pair, 0, sizeof(*pair));
	n = umad_get_smi_gsi_pairs(pairs, UMAD_DEVICES);
	for (int i = 0; i < n; i++) {
		if (!pairs[i].gsi_name[0] || (enforce_smi && !pairs[i].smi_name[0]))
			continue;
		if (name && strcmp(name, pairs[i].gsi_name) != 0 && strcmp(name, pairs[i].smi_name) != 0)
			continue;
		if (choose_ports(&pairs[i], name, portnum)) {
			*pair = pairs[i];
			return 0;
		}
	}
	errno = ENODEV;
	return -ENODEV;
}
