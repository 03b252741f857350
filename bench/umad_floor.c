/* What OpenSM takes by itself: preloaded, this library answers umad_send() at once, in the caller, by the agents of a fabric of
 * its own, and hands the answer to umad_recv() through a list under a lock. No MAD leaves the process, so no provider of
 * libibumad can be much faster: opensm.py sets the time over weftd and over ibsim against this. FLOOR_FABRIC names the topology;
 * the program is at the first host. Calls that need no port are those of the library that was loaded after this one. */
#include "agents/agents.h"
#include "fabric/topology_file.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

struct answer {
	struct answer *next;
	struct ib_user_mad head;
	uint8_t mad[MAD_BYTES];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t come;
	struct answer *first, **last;
	struct fabric fabric;
	struct agents agents;
	uint32_t port;			/* where the program is */
	int fd;
	uint8_t classes[32];		/* of agents, by their numbers */
	int registered;
	uint64_t sent;
} floor_ = { .lock = PTHREAD_MUTEX_INITIALIZER, .come = PTHREAD_COND_INITIALIZER, .last = &floor_.first };

static wtime now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (wtime)t.tv_sec * WTIME_S + (wtime)t.tv_nsec;
}

static void fail(const char *why)
{
	fprintf(stderr, "umad_floor: %s\n", why);
	exit(1);
}

static void read_topology(const char *path, struct topology *t)
{
	static char text[1 << 24];
	struct topology_fault fault;
	FILE *in = fopen(path, "r");
	size_t bytes;

	if (!in)
		fail("FLOOR_FABRIC names no file");
	bytes = fread(text, 1, sizeof(text), in);
	fclose(in);
	topology_init(t);
	if (topology_parse(t, text, bytes, &fault))
		fail(fault.text);
}

/* As when hardware is switched on: nobody has a LID. */
static void make_bare(struct fabric *f)
{
	for (uint32_t p = 0; p < f->ports; p++)
		f->port[p].lid = 0;
}

static void open_fabric(void)
{
	const char *path = getenv("FLOOR_FABRIC");
	struct fabric *f = &floor_.fabric;
	struct topology t;
	char why[300];
	void *mapping;

	read_topology(path ? path : "", &t);
	mapping = calloc(1, fabric_bytes(&t));
	if (!mapping)
		fail("no memory");
	fabric_format(mapping, &t);
	if (fabric_open(f, mapping, fabric_bytes(&t), why, sizeof(why)))
		fail(why);
	topology_fini(&t);
	make_bare(f);
	if (agents_init(&floor_.agents, f))
		fail("no memory");
	for (floor_.port = 0; fabric_is_switch(f, f->owner[floor_.port]) || !fabric_port_number(f, floor_.port);)
		floor_.port++;
}

int umad_open_port(const char *ca_name, int portnum)
{
	(void)ca_name;
	(void)portnum;
	pthread_mutex_lock(&floor_.lock);
	if (!floor_.fabric.head) {
		open_fabric();
		floor_.fd = eventfd(0, EFD_CLOEXEC);
	}
	pthread_mutex_unlock(&floor_.lock);
	return floor_.fd;
}

int umad_close_port(int portid)
{
	(void)portid;
	fprintf(stderr, "umad_floor: %llu datagrams\n", (unsigned long long)floor_.sent);
	return 0;
}

int umad_get_fd(int portid)
{
	return portid;
}

int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version, long method_mask[16 / sizeof(long)])
{
	(void)portid;
	(void)mgmt_version;
	(void)rmpp_version;
	(void)method_mask;
	if (floor_.registered == sizeof(floor_.classes))
		return -EPERM;
	floor_.classes[floor_.registered] = (uint8_t)mgmt_class;
	return floor_.registered++;
}

int umad_unregister(int portid, int agentid)
{
	(void)portid;
	(void)agentid;
	return 0;
}

static int agent_of(uint8_t mgmt_class)
{
	for (int i = 0; i < floor_.registered; i++)
		if (floor_.classes[i] == mgmt_class)
			return i;
	return -1;
}

/* For the program itself, whichever port it is that it came to: nobody else is there. */
static void hand_over(const struct mad_arrival *at, int agent, uint32_t status, const uint8_t *mad)
{
	struct answer *a = calloc(1, sizeof(*a));

	if (!a)
		fail("no memory");
	a->head.agent_id = (uint32_t)agent;
	a->head.status = status;
	a->head.length = sizeof(a->head) + MAD_BYTES;
	a->head.addr.qpn = htobe32(at->address.src_qpn);
	a->head.addr.lid = htobe16(at->address.path.slid);
	memcpy(a->mad, mad, MAD_BYTES);
	*floor_.last = a;
	floor_.last = &a->next;
	pthread_cond_signal(&floor_.come);
}

static void address_of(const struct ib_user_mad *umad, struct mad_address *to)
{
	uint32_t qpn = be32toh(umad->addr.qpn);

	*to = (struct mad_address){ .src_qpn = qpn, .dest_qpn = qpn, .pkey = PKEY_DEFAULT, .qkey = be32toh(umad->addr.qkey) };
	to->path.dlid = be16toh(umad->addr.lid);
	to->path.sl = umad->addr.sl & 15;
}

int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	const struct ib_user_mad *u = umad;
	uint8_t mad[MAD_BYTES] = { 0 };
	struct mad_arrival at = { 0 };
	struct mad_address to;
	enum mad_outcome outcome;
	wtime when = now();

	(void)portid;
	(void)timeout_ms;
	(void)retries;
	memcpy(mad, u->data, length < MAD_BYTES ? (size_t)length : MAD_BYTES);
	address_of(u, &to);
	pthread_mutex_lock(&floor_.lock);
	floor_.sent++;
	outcome = agents_mad(&floor_.agents, when, floor_.port, &to, mad, &at);
	if (outcome == MAD_ARRIVED && at.port != floor_.port)
		outcome = agents_refuse(&floor_.agents, when, &at, mad, &at);
	if (outcome == MAD_ANSWERED)
		hand_over(&at, agentid, 0, mad);
	else if (outcome == MAD_ARRIVED && agent_of(mad[1]) >= 0)
		hand_over(&at, agent_of(mad[1]), 0, mad);
	else if (outcome == MAD_LOST && timeout_ms > 0)
		hand_over(&at, agentid, ETIMEDOUT, u->data);
	pthread_mutex_unlock(&floor_.lock);
	return 0;
}

/* umad_recv(3): the datagram, or how long it is where there is no room. */
int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	struct answer *a;

	(void)portid;
	(void)timeout_ms;
	pthread_mutex_lock(&floor_.lock);
	while (!floor_.first)
		pthread_cond_wait(&floor_.come, &floor_.lock);
	a = floor_.first;
	if (*length < MAD_BYTES) {
		pthread_mutex_unlock(&floor_.lock);
		return -EINVAL;
	}
	floor_.first = a->next;
	if (!floor_.first)
		floor_.last = &floor_.first;
	pthread_mutex_unlock(&floor_.lock);
	memcpy(umad, &a->head, sizeof(a->head));
	memcpy((uint8_t *)umad + sizeof(a->head), a->mad, MAD_BYTES);
	*length = MAD_BYTES;
	portid = (int)a->head.agent_id;
	free(a);
	return portid;
}

int umad_poll(int portid, int timeout_ms)
{
	(void)portid;
	(void)timeout_ms;
	return 0;
}
