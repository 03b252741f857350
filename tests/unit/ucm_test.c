/* The rdma_cm device by its commands, over a host that is one function: messages for this process come straight back. */
#include "runtime/cm.h"
#include "ucm_host.h"

#include <arpa/inet.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/sa.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- messages of the communication manager ---- */

static bool loses_mads;

static bool has_receiver(const struct cm_msg *msg)
{
	if (msg->attribute == CM_REQ)
		return listens(msg->req.service_id);
	if (msg->attribute == CM_SIDR_REQ)
		return listens(msg->sidr_req.service_id);
	/* a REJ that takes a request back names no receiver */
	return CM_ID_SLOT(cm_ids_of(msg).receiver) == SLOT || msg->attribute == CM_REJ;
}

static _Atomic uint16_t last_reason;	/* of the last REJ */
static _Atomic uint32_t asked_psn;	/* of the last request; several threads may make one */

/* QP1: to this process, or answered as by its owner. */
void runtime_send_gmp(struct runtime *rt, const struct gmp *gmp)
{
	struct gmp in = *gmp;
	struct cm_msg msg, answer;

	assert_true(cm_parse(&msg, gmp->mad));
	if (msg.attribute == CM_REQ)
		asked_psn = msg.req.starting_psn;
	in.is_from_here = true;
	if (!has_receiver(&msg)) {
		if (!cm_answer_stray(&msg, &answer))
			return;
		in.path = gmp_path_back(&gmp->path);
		cm_build(&answer, in.mad);
	}
	if (msg.attribute == CM_REJ)
		last_reason = msg.rej.reason;
	if (!loses_mads)
		rt->cm.mad(rt->cm.cm, rt->now, &in);
}

static const uint8_t gid_ib[16] = { 0xfe, 0x80, [15] = 7 };
static const uint8_t gid_v6[16] = { 0xfd, 1, [15] = 9 };
static const uint8_t gid_v4[16] = { [10] = 0xff, 0xff, 10, 1, 2, 3 };
static const uint8_t gid_far[16] = { [10] = 0xff, 0xff, 10, 7, 0, 2 };	/* of another host */

static int set_up(void **state)
{
	fake_devices();
	fake_gid(0, 0, gid_ib, IBV_GID_TYPE_IB);
	fake_gid(1, 0, gid_v6, IBV_GID_TYPE_ROCE_V2);
	fake_gid(1, 1, gid_v4, IBV_GID_TYPE_ROCE_V2);
	loses_mads = false;
	return 0;
}

/* Whatever a test did, closing its channels leaves nothing. */
static void expect_nothing_left(void)
{
	assert_int_equal(fake.ports, 0);
	assert_int_equal(fake.groups, 0);
	assert_int_equal(ucm.cm.ids, 0);
	assert_int_equal(ucm.ids.count, 0);
	assert_int_equal(ucm.mcasts.count, 0);
	assert_true(listens(0));
}

/* ---- commands ---- */

static int command(int fd, uint32_t cmd, const void *in, size_t bytes, size_t out)
{
	struct rdma_ucm_cmd_hdr hdr = { .cmd = cmd, .in = (uint16_t)bytes, .out = (uint16_t)out };
	uint8_t raw[1024] = { 0 };
	ssize_t done;

	memcpy(raw, &hdr, sizeof(hdr));
	memcpy(raw + sizeof(hdr), in, bytes);
	done = weft_ucm_write(fd, raw, sizeof(hdr) + bytes);
	return done == (ssize_t)(sizeof(hdr) + bytes) ? 0 : -errno;
}

#define COMMAND(fd, NAME, in, out) command(fd, RDMA_USER_CM_CMD_##NAME, &(in), sizeof(in), out)

static uint32_t create(int fd, uint16_t ps, uint64_t uid)
{
	struct rdma_ucm_create_id_resp resp = { 0 };
	struct rdma_ucm_create_id in = { .uid = uid, .response = (uintptr_t)&resp, .ps = ps, .qp_type = IBV_QPT_RC };

	assert_int_equal(COMMAND(fd, CREATE_ID, in, sizeof(resp)), 0);
	return resp.id;
}

static int destroy(int fd, uint32_t id, uint32_t *events)
{
	struct rdma_ucm_destroy_id_resp resp = { 0 };
	struct rdma_ucm_destroy_id in = { .response = (uintptr_t)&resp, .id = id };
	int error = COMMAND(fd, DESTROY_ID, in, sizeof(resp));

	if (events)
		*events = resp.events_reported;
	return error;
}

static struct sockaddr_in ip4(const char *text, uint16_t port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port) };
	unsigned a, b, c, d;

	assert_int_equal(sscanf(text, "%u.%u.%u.%u", &a, &b, &c, &d), 4);
	addr.sin_addr.s_addr = htonl(a << 24 | b << 16 | c << 8 | d);
	return addr;
}

static int bind4(int fd, uint32_t id, const char *text, uint16_t port)
{
	struct sockaddr_in addr = ip4(text, port);
	struct rdma_ucm_bind in = { .id = id, .addr_size = sizeof(addr) };

	memcpy(&in.addr, &addr, sizeof(addr));
	return COMMAND(fd, BIND, in, 0);
}

static int resolve4(int fd, uint32_t id, const char *text, uint16_t port)
{
	struct sockaddr_in addr = ip4(text, port);
	struct rdma_ucm_resolve_addr in = { .id = id, .timeout_ms = 2000, .dst_size = sizeof(addr) };

	memcpy(&in.dst_addr, &addr, sizeof(addr));
	return COMMAND(fd, RESOLVE_ADDR, in, 0);
}

static int listen_on(int fd, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen in = { .id = id, .backlog = backlog };

	return COMMAND(fd, LISTEN, in, 0);
}

static int get_event(int fd, struct rdma_ucm_event_resp *resp)
{
	struct rdma_ucm_get_event in = { .response = (uintptr_t)resp };

	return COMMAND(fd, GET_EVENT, in, sizeof(*resp));
}

static struct rdma_ucm_event_resp expect_event(int fd, uint32_t type, uint32_t status)
{
	struct rdma_ucm_event_resp resp;

	assert_int_equal(get_event(fd, &resp), 0);
	assert_int_equal(resp.event, type);
	assert_int_equal(resp.status, status);
	return resp;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void expect_no_event(int fd)
{
	struct rdma_ucm_event_resp resp;

	assert_false(readable(fd));
	assert_int_equal(get_event(fd, &resp), -EAGAIN);
}

static struct rdma_ucm_query_addr_resp query(int fd, uint32_t id, uint32_t option)
{
	struct rdma_ucm_query_addr_resp resp;
	struct rdma_ucm_query in = { .response = (uintptr_t)&resp, .id = id, .option = option };

	assert_int_equal(COMMAND(fd, QUERY, in, sizeof(resp)), 0);
	return resp;
}

static void resolve_route(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_route in = { .id = id };

	assert_int_equal(COMMAND(fd, RESOLVE_ROUTE, in, 0), 0);
	expect_event(fd, UCM_EVENT_ROUTE_RESOLVED, 0);
}

static uint32_t resolved(int fd, uint16_t ps, const char *text, uint16_t port)
{
	uint32_t id = create(fd, ps, 0x900);

	assert_int_equal(resolve4(fd, id, text, port), 0);
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	resolve_route(fd, id);
	return id;
}

static struct rdma_ucm_conn_param conn_param(const char *words)
{
	struct rdma_ucm_conn_param conn = {
		.qp_num = 0x5001, .private_data_len = (uint8_t)strlen(words), .responder_resources = 2, .initiator_depth = 1,
		.retry_count = 7, .rnr_retry_count = 5, .valid = 1,
	};

	memcpy(conn.private_data, words, strlen(words));
	return conn;
}

static int connect_qp(int fd, uint32_t id, uint32_t qpn, const char *words)
{
	struct rdma_ucm_connect in = { .conn_param = conn_param(words), .id = id, .ece = { 0x15b3, 0x77 } };

	in.conn_param.qp_num = qpn;
	return COMMAND(fd, CONNECT, in, 0);
}

static int connect_to(int fd, uint32_t id, const char *words)
{
	return connect_qp(fd, id, 0x5001, words);
}

static int accept_id(int fd, uint32_t id, uint64_t uid, bool active)
{
	struct rdma_ucm_accept in = { .uid = uid, .id = id };

	if (!active)
		in.conn_param = conn_param("welcome");
	in.conn_param.qp_num = 0x6001;
	return COMMAND(fd, ACCEPT, in, 0);
}

static int disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect in = { .id = id };

	return COMMAND(fd, DISCONNECT, in, 0);
}

static int qp_attr(int fd, uint32_t id, uint32_t state, struct ib_uverbs_qp_attr *attr)
{
	struct rdma_ucm_init_qp_attr in = { .response = (uintptr_t)attr, .id = id, .qp_state = state };

	return COMMAND(fd, INIT_QP_ATTR, in, sizeof(*attr));
}

static int channel(void)
{
	int fd = weft_ucm_open(O_CLOEXEC | O_NONBLOCK);

	assert_true(fd >= 0);
	return fd;
}

static void channel_close(int fd)
{
	weft_ucm_close(fd);
	close(fd);
}

/* Lets the timers run that are due within this time. */
static void pass_time(wtime time)
{
	wtime end = fake.now + time;

	while (cm_deadline(&ucm.cm) <= end) {
		fake.now = cm_deadline(&ucm.cm);
		fake.cm.expire(fake.cm.cm, fake.now);
	}
	fake.now = end;
}

struct pair {
	int server, client;
	uint32_t listener, passive, active;
};

static void pair_listen(struct pair *p, uint16_t ps)
{
	p->server = channel();
	p->client = channel();
	p->listener = create(p->server, ps, 0x100);
	assert_int_equal(bind4(p->server, p->listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(p->server, p->listener, 0), 0);
}

static void pair_request(struct pair *p, uint16_t ps)
{
	pair_listen(p, ps);
	p->active = resolved(p->client, ps, "10.1.2.3", 7000);
	assert_int_equal(connect_to(p->client, p->active, "hello"), 0);
}

static void pair_connect(struct pair *p)
{
	pair_request(p, RDMA_PS_TCP);
	p->passive = expect_event(p->server, UCM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(accept_id(p->server, p->passive, 0x200, false), 0);
	expect_event(p->client, UCM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(accept_id(p->client, p->active, 0, true), 0);
	expect_event(p->server, UCM_EVENT_ESTABLISHED, 0);
}

static void pair_close(struct pair *p)
{
	channel_close(p->client);
	channel_close(p->server);
	expect_nothing_left();
}

/* ---- tests ---- */

static void malformed_commands_are_refused(void **state)
{
	struct rdma_ucm_cmd_hdr hdr = { .cmd = 99 };
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id in = { .uid = 1, .response = (uintptr_t)&resp, .ps = 0x9999 };
	int fd = channel();

	assert_int_equal(weft_ucm_write(fd, &hdr, 4), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(weft_ucm_write(fd, &hdr, sizeof(hdr)), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(weft_ucm_write(fd, (void *)8, sizeof(hdr)), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(weft_ucm_write(9999, &hdr, sizeof(hdr)), -1);
	assert_int_equal(errno, EBADF);
	hdr = (struct rdma_ucm_cmd_hdr){ .cmd = RDMA_USER_CM_CMD_CREATE_ID, .in = sizeof(in) };
	assert_int_equal(weft_ucm_write(fd, &hdr, sizeof(hdr)), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(COMMAND(fd, CREATE_ID, in, sizeof(resp)), -EINVAL);
	in.ps = RDMA_PS_TCP;
	assert_int_equal(COMMAND(fd, CREATE_ID, in, 2), -ENOSPC);
	in.response = 16;
	assert_int_equal(COMMAND(fd, CREATE_ID, in, sizeof(resp)), -EFAULT);
	assert_int_equal(COMMAND(fd, GET_OPTION, in, 0), -ENOSYS);
	channel_close(fd);
	expect_nothing_left();
}

static void ids_belong_to_their_channel(void **state)
{
	int a = channel(), b = channel();
	uint32_t id = create(a, RDMA_PS_TCP, 1);

	assert_int_equal(destroy(b, id, NULL), -EINVAL);
	assert_int_equal(destroy(a, 54321, NULL), -ENOENT);
	assert_int_equal(destroy(a, id, NULL), 0);
	assert_int_equal(destroy(a, id, NULL), -ENOENT);
	channel_close(a);
	channel_close(b);
	expect_nothing_left();
}

static void addresses_of_this_host_resolve(void **state)
{
	static const struct { const char *text; uint64_t guid; const uint8_t *gid; } rows[] = {
		{ "10.1.2.3", 0x11, gid_v4 }, { "127.0.0.1", 0x11, gid_v4 },
		{ "127.8.8.8", 0x11, gid_v4 }, { "0.0.0.0", 0x11, gid_v4 },
	};
	int fd = channel();

	for (size_t i = 0; i < 4; i++) {
		uint32_t id = resolved(fd, RDMA_PS_TCP, rows[i].text, 9);
		struct rdma_ucm_query_addr_resp addr = query(fd, id, RDMA_USER_CM_QUERY_ADDR);
		struct rdma_ucm_query_addr_resp gid = query(fd, id, RDMA_USER_CM_QUERY_GID);

		assert_true(addr.node_guid == htobe64(rows[i].guid));
		assert_int_equal(addr.port_num, 1);
		assert_int_equal(addr.src_size, sizeof(struct sockaddr_in));
		assert_true(((struct sockaddr_in *)&addr.src_addr)->sin_port != 0);
		assert_int_equal(((struct sockaddr_in *)&addr.dst_addr)->sin_port, htons(9));
		assert_memory_equal(((struct sockaddr_ib *)&gid.dst_addr)->sib_addr.sib_raw, rows[i].gid, 16);
		assert_memory_equal(((struct sockaddr_ib *)&gid.src_addr)->sib_addr.sib_raw, rows[i].gid, 16);
		assert_true(((struct sockaddr_ib *)&gid.dst_addr)->sib_sid == htobe64(0x1060009));
	}
	channel_close(fd);
	expect_nothing_left();
}

static void loopback_over_ipv6_and_over_weft0(void **state)
{
	struct rdma_ucm_resolve_ip in = { .dst_addr = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT } };
	struct rdma_ucm_query_addr_resp gid;
	int fd = channel();

	in.id = create(fd, RDMA_PS_TCP, 1);
	assert_int_equal(COMMAND(fd, RESOLVE_IP, in, 0), 0);
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	gid = query(fd, in.id, RDMA_USER_CM_QUERY_GID);
	assert_memory_equal(((struct sockaddr_ib *)&gid.dst_addr)->sib_addr.sib_raw, gid_v6, 16);
	fake.visible[1] = false;
	uint32_t id = resolved(fd, RDMA_PS_TCP, "10.1.2.3", 1);
	gid = query(fd, id, RDMA_USER_CM_QUERY_GID);
	assert_true(gid.node_guid == htobe64(0x10));
	assert_memory_equal(((struct sockaddr_ib *)&gid.dst_addr)->sib_addr.sib_raw, gid_ib, 16);
	channel_close(fd);
	expect_nothing_left();
}

/* The GUID of the device that an id has which is bound to a loop-back address. */
static uint64_t bound_to(int fd, uint16_t space, uint64_t uid)
{
	uint32_t id = create(fd, space, uid);

	assert_int_equal(bind4(fd, id, "127.0.0.1", 7100), 0);
	return query(fd, id, RDMA_USER_CM_QUERY_GID).node_guid;
}

static void loopback_is_no_address_of_the_only_device(void **state)
{
	int fd = channel();
	uint32_t id = create(fd, RDMA_PS_TCP, 1), of_two = create(fd, RDMA_PS_TCP, 2);

	assert_int_equal(bind4(fd, of_two, "127.0.0.1", 7001), 0);
	assert_true(query(fd, of_two, RDMA_USER_CM_QUERY_GID).node_guid == htobe64(0x11));
	fake.visible[0] = false;
	assert_int_equal(bind4(fd, id, "127.0.0.1", 7000), 0);
	assert_true(query(fd, id, RDMA_USER_CM_QUERY_GID).node_guid == 0);
	/* and is still where the program asks itself */
	assert_int_equal(resolve4(fd, id, "127.0.0.1", 1), 0);
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	assert_true(query(fd, id, RDMA_USER_CM_QUERY_GID).node_guid == htobe64(0x11));
	/* for datagrams it is: rsockets of them want a device as soon as they are bound */
	assert_true(bound_to(fd, RDMA_PS_UDP, 4) == htobe64(0x11));
	/* and of a device that reaches no other host */
	fake.visible[0] = true;
	fake.visible[1] = false;
	id = create(fd, RDMA_PS_TCP, 3);
	assert_int_equal(bind4(fd, id, "127.0.0.1", 7002), 0);
	assert_true(query(fd, id, RDMA_USER_CM_QUERY_GID).node_guid == htobe64(0x10));
	channel_close(fd);
	expect_nothing_left();
}

static void foreign_addresses_do_not_resolve(void **state)
{
	struct rdma_ucm_event_resp resp;
	int fd = channel();
	uint32_t id = create(fd, RDMA_PS_TCP, 1);

	assert_int_equal(bind4(fd, id, "10.9.9.9", 0), -EADDRNOTAVAIL);
	assert_int_equal(resolve4(fd, id, "10.9.9.9", 1), 0);
	assert_int_equal(get_event(fd, &resp), 0);
	assert_int_equal(resp.event, UCM_EVENT_ADDR_ERROR);
	assert_int_equal((int32_t)resp.status, -ENETUNREACH);
	channel_close(fd);
	expect_nothing_left();
}

static void addresses_of_other_hosts_resolve(void **state)
{
	struct rdma_ucm_event_resp resp;
	int fd = channel();
	uint32_t number = resolved(fd, RDMA_PS_TCP, "10.7.0.2", 1), without;
	struct rdma_ucm_query_addr_resp gid = query(fd, number, RDMA_USER_CM_QUERY_GID);
	struct rdma_ucm_query_addr_resp ip = query(fd, number, RDMA_USER_CM_QUERY_ADDR);
	struct ucm_id *id = NULL;

	assert_memory_equal(((struct sockaddr_ib *)&gid.src_addr)->sib_addr.sib_raw, gid_v4, 16);
	assert_memory_equal(((struct sockaddr_ib *)&gid.dst_addr)->sib_addr.sib_raw, gid_far, 16);
	assert_int_equal(((struct sockaddr_in *)&ip.src_addr)->sin_addr.s_addr, inet_addr("10.1.2.3"));
	assert_int_equal(((struct sockaddr_in *)&ip.dst_addr)->sin_addr.s_addr, inet_addr("10.7.0.2"));
	id = table_get(&ucm.ids, number);
	assert_int_equal(id->path.mtu, IBV_MTU_512);
	assert_memory_equal(id->path.dgid, gid_far, 16);
	/* from no address that stays at home */
	without = create(fd, RDMA_PS_TCP, 3);
	assert_int_equal(bind4(fd, without, "127.0.0.1", 0), 0);
	assert_int_equal(resolve4(fd, without, "10.7.0.2", 1), 0);
	assert_int_equal(get_event(fd, &resp), 0);
	assert_int_equal(resp.event, UCM_EVENT_ADDR_ERROR);
	/* they are reached by weft1 alone */
	fake.visible[1] = false;
	without = create(fd, RDMA_PS_TCP, 2);
	assert_int_equal(resolve4(fd, without, "10.7.0.2", 1), 0);
	assert_int_equal(get_event(fd, &resp), 0);
	assert_int_equal(resp.event, UCM_EVENT_ADDR_ERROR);
	channel_close(fd);
	expect_nothing_left();
}

static void error_of(int fd, uint32_t type, int status)
{
	struct rdma_ucm_event_resp resp;

	assert_int_equal(get_event(fd, &resp), 0);
	assert_int_equal(resp.event, type);
	assert_int_equal((int32_t)resp.status, status);
}

static void hosts_of_a_fabric_resolve(void **state)
{
	struct rdma_ucm_resolve_route in = { .timeout_ms = 1234 };
	struct rdma_ucm_query_addr_resp ip;
	struct ucm_id *id;
	int fd = channel();
	uint32_t number;

	fake.is_in_fabric = true;
	fake.path_error = -ETIMEDOUT;
	in.id = number = create(fd, RDMA_PS_TCP, 1);
	assert_int_equal(resolve4(fd, number, "127.1.0.8", 7000), 0);
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	ip = query(fd, number, RDMA_USER_CM_QUERY_ADDR);
	assert_int_equal(((struct sockaddr_in *)&ip.src_addr)->sin_addr.s_addr, inet_addr("127.1.0.2"));
	/* the administration is silent, and can be asked again */
	assert_int_equal(COMMAND(fd, RESOLVE_ROUTE, in, 0), 0);
	error_of(fd, UCM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
	assert_int_equal(fake.asked.c, 1234);
	assert_int_equal(fake.asked.a, 0xffff);
	assert_memory_equal(fake.asked.gid, fake.ca.dev[0].gid[0].raw, 16);
	assert_memory_equal(fake.asked.dgid, gid_host_8, 16);
	fake.path_error = 0;
	assert_int_equal(COMMAND(fd, RESOLVE_ROUTE, in, 0), 0);
	expect_event(fd, UCM_EVENT_ROUTE_RESOLVED, 0);
	id = table_get(&ucm.ids, number);
	assert_int_equal(id->path.device, 0);
	assert_int_equal(id->path.dlid << 16 | id->path.slid, 8 << 16 | 3);
	assert_int_equal(id->path.pkey, 0x8001);
	assert_int_equal(id->path.mtu, IBV_MTU_2048);
	assert_int_equal(id->path.rate, IBV_RATE_40_GBPS);
	assert_int_equal(id->path.flow_label, 0x12345);
	assert_int_equal(id->path.sl << 16 | id->path.tclass << 8 | id->path.hop_limit, 5 << 16 | 7 << 8 | 1);
	assert_int_equal(id->path.ack_timeout, 19);
	/* its own address needs no path; nobody has that of a host that is not there, and nobody else that of another one */
	number = create(fd, RDMA_PS_TCP, 2);
	assert_int_equal(resolve4(fd, number, "127.1.0.2", 7000), 0);
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(((struct ucm_id *)table_get(&ucm.ids, number))->path.dlid, 3);
	number = create(fd, RDMA_PS_TCP, 3);
	assert_int_equal(resolve4(fd, number, "127.1.0.10", 7000), 0);
	error_of(fd, UCM_EVENT_ADDR_ERROR, -ENETUNREACH);
	number = create(fd, RDMA_PS_TCP, 4);
	assert_int_equal(bind4(fd, number, "127.1.0.8", 7000), -EADDRNOTAVAIL);
	fake.is_in_fabric = false;
	channel_close(fd);
	expect_nothing_left();
}

/* Those of the machine would be of each host alike, and lead clients to themselves; so would loop-back, as libfabric tells it. */
static void a_host_of_a_fabric_has_its_own_addresses_alone(void **state)
{
	int fd = channel();

	fake.is_in_fabric = true;
	assert_true(bound_to(fd, RDMA_PS_TCP, 1) == 0);
	assert_true(bound_to(fd, RDMA_PS_UDP, 2) != 0);
	assert_int_equal(bind4(fd, create(fd, RDMA_PS_TCP, 3), "10.1.2.3", 7000), 0);
	fake.visible[1] = false;
	assert_int_equal(bind4(fd, create(fd, RDMA_PS_TCP, 4), "10.1.2.3", 7001), -EADDRNOTAVAIL);
	assert_int_equal(bind4(fd, create(fd, RDMA_PS_TCP, 5), "127.1.0.2", 7002), 0);
	fake.is_in_fabric = false;
	channel_close(fd);
	expect_nothing_left();
}

/* As ibacm gives them to librdmacm. */
static void a_path_of_another_service_is_taken(void **state)
{
	struct ibv_path_data path = { .flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL };
	struct rdma_ucm_set_option in = {
		.level = RDMA_OPTION_IB, .optname = RDMA_OPTION_IB_PATH, .optval = (uintptr_t)&path, .optlen = sizeof(path),
	};
	int fd = channel();
	struct ucm_id *id;

	fake.is_in_fabric = true;
	in.id = create(fd, RDMA_PS_TCP, 1);
	assert_int_equal(resolve4(fd, in.id, "127.1.0.8", 7000), 0);
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	memcpy(path.path.sgid.raw, fake.ca.dev[0].gid[0].raw, 16);
	memcpy(path.path.dgid.raw, gid_host_8, 16);
	path.path.slid = htobe16(3);
	path.path.pkey = htobe16(0x8002);
	path.path.mtu = 2 << 6 | IBV_MTU_512;
	path.path.packetlifetime = 2 << 6 | 12;
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), -EINVAL);	/* it leads nowhere */
	path.path.dlid = htobe16(8);
	path.path.mtu = 2 << 6 | 6;
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), -EINVAL);
	path.path.mtu = 2 << 6 | IBV_MTU_512;
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), 0);
	expect_event(fd, UCM_EVENT_ROUTE_RESOLVED, 0);
	id = table_get(&ucm.ids, in.id);
	assert_int_equal(id->path.dlid << 16 | id->path.slid, 8 << 16 | 3);
	assert_int_equal(id->path.pkey, 0x8002);
	assert_int_equal(id->path.mtu << 8 | id->path.ack_timeout, IBV_MTU_512 << 8 | 13);
	fake.is_in_fabric = false;
	channel_close(fd);
	expect_nothing_left();
}

static void ports_collide_as_in_linux(void **state)
{
	int one = 1, fd = channel();
	uint32_t a = create(fd, RDMA_PS_TCP, 1), b = create(fd, RDMA_PS_TCP, 2), c = create(fd, RDMA_PS_TCP, 3);
	uint32_t d = create(fd, RDMA_PS_TCP, 4), e = create(fd, RDMA_PS_TCP, 5);
	uint32_t f = create(fd, RDMA_PS_TCP, 6), g = create(fd, RDMA_PS_TCP, 7);
	struct rdma_ucm_set_option reuse = {
		.optval = (uintptr_t)&one, .optname = RDMA_OPTION_ID_REUSEADDR, .optlen = sizeof(one),
	};

	assert_int_equal(bind4(fd, a, "10.1.2.3", 7000), 0);
	assert_int_equal(bind4(fd, a, "10.1.2.3", 7000), -EINVAL);
	assert_int_equal(bind4(fd, b, "10.1.2.3", 7000), -EADDRINUSE);
	assert_int_equal(bind4(fd, b, "0.0.0.0", 7000), -EADDRNOTAVAIL);
	assert_int_equal(bind4(fd, b, "127.0.0.1", 7000), 0);
	assert_int_equal(bind4(fd, c, "0.0.0.0", 7001), 0);
	reuse.id = d;
	assert_int_equal(COMMAND(fd, SET_OPTION, reuse, 0), 0);
	reuse.id = e;
	assert_int_equal(COMMAND(fd, SET_OPTION, reuse, 0), 0);
	assert_int_equal(bind4(fd, d, "0.0.0.0", 7002), 0);
	assert_int_equal(bind4(fd, e, "0.0.0.0", 7002), 0);
	assert_int_equal(listen_on(fd, d, 1), -EADDRNOTAVAIL);
	assert_int_equal(listen_on(fd, c, 1), 0);
	assert_int_equal(listen_on(fd, c, 1), -EINVAL);
	/* who listens shares with nobody who comes later */
	reuse.id = f;
	assert_int_equal(COMMAND(fd, SET_OPTION, reuse, 0), 0);
	reuse.id = g;
	assert_int_equal(COMMAND(fd, SET_OPTION, reuse, 0), 0);
	assert_int_equal(bind4(fd, f, "0.0.0.0", 7003), 0);
	assert_int_equal(listen_on(fd, f, 1), 0);
	assert_int_equal(bind4(fd, g, "0.0.0.0", 7003), -EADDRNOTAVAIL);
	channel_close(fd);
	expect_nothing_left();
}

static int bind_any6(int fd, uint32_t id, uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct rdma_ucm_bind in = { .id = id, .addr_size = sizeof(any) };
	struct rdma_ucm_set_option only = { .id = id, .optname = RDMA_OPTION_ID_AFONLY, .optlen = sizeof(int) };
	int one = 1;

	only.optval = (uintptr_t)&one;
	assert_int_equal(COMMAND(fd, SET_OPTION, only, 0), 0);
	memcpy(&in.addr, &any, sizeof(any));
	return COMMAND(fd, BIND, in, 0);
}

static const struct ucm_port *reserved_by(uint32_t id)
{
	return ((struct ucm_id *)table_get(&ucm.ids, id))->port;
}

/* IPv4's ids always have their own family alone. */
static void wildcards_of_two_families_share_a_port_number(void **state)
{
	int fd = channel(), asked;
	uint32_t id[4];

	for (int i = 0; i < 4; i++)
		id[i] = create(fd, RDMA_PS_TCP, 1);
	assert_int_equal(bind4(fd, id[0], "0.0.0.0", 7000), 0);
	assert_int_equal(bind_any6(fd, id[1], 7000), 0);
	assert_memory_equal(reserved_by(id[0])->gid, control_any(FAMILY_IPV4), 16);
	assert_memory_equal(reserved_by(id[1])->gid, control_any(FAMILY_IPV6), 16);
	/* a port that was chosen is this process's for both */
	assert_int_equal(bind4(fd, id[2], "0.0.0.0", 0), 0);
	asked = fake.requests;
	assert_int_equal(bind_any6(fd, id[3], (uint16_t)reserved_by(id[2])->service), 0);
	assert_ptr_equal(reserved_by(id[3]), reserved_by(id[2]));
	assert_int_equal(fake.requests, asked);
	for (int i = 0; i < 4; i++)
		assert_int_equal(listen_on(fd, id[i], 1), 0);
	channel_close(fd);
	expect_nothing_left();
}

static void options_are_checked(void **state)
{
	struct ibv_path_data path = { .flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL };
	struct rdma_ucm_set_option in = { .optname = RDMA_OPTION_ID_ACK_TIMEOUT, .optlen = 1 };
	uint8_t timeout = 32;
	int fd = channel();

	in.id = create(fd, RDMA_PS_TCP, 1);
	in.optval = (uintptr_t)&timeout;
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), -EINVAL);
	timeout = 31;
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), 0);
	/* a path must be between the addresses that were resolved */
	assert_int_equal(resolve4(fd, in.id, "10.1.2.3", 7000), 0);
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	in.level = RDMA_OPTION_IB;
	in.optname = RDMA_OPTION_IB_PATH;
	in.optval = (uintptr_t)&path;
	in.optlen = sizeof(path);
	memcpy(path.path.sgid.raw, gid_v4, 16);
	memcpy(path.path.dgid.raw, gid_v6, 16);
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), -EINVAL);
	memcpy(path.path.sgid.raw, gid_v6, 16);
	memcpy(path.path.dgid.raw, gid_v4, 16);
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), -EINVAL);
	memcpy(path.path.sgid.raw, gid_v4, 16);
	assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), 0);
	expect_event(fd, UCM_EVENT_ROUTE_RESOLVED, 0);
	channel_close(fd);
	expect_nothing_left();
}

/* Before the address is resolved or after it, but before the route is, as in Linux's cma_resolve_iboe_route(). */
static void the_type_of_service_may_be_set_until_the_route_is_resolved(void **state)
{
	uint8_t tos = 0x68;
	struct rdma_ucm_set_option in = { .optname = RDMA_OPTION_ID_TOS, .optval = (uintptr_t)&tos, .optlen = sizeof(tos) };
	int fd = channel();

	for (int late = 0; late < 2; late++) {
		in.id = create(fd, RDMA_PS_TCP, 1);
		if (!late)
			assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), 0);
		assert_int_equal(resolve4(fd, in.id, "10.1.2.3", 7000), 0);
		expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
		if (late)
			assert_int_equal(COMMAND(fd, SET_OPTION, in, 0), 0);
		resolve_route(fd, in.id);
		assert_int_equal(((struct ucm_id *)table_get(&ucm.ids, in.id))->path.tclass, tos);
	}
	channel_close(fd);
	expect_nothing_left();
}

static uint32_t create_of_type(int fd, uint8_t qp_type)
{
	struct rdma_ucm_create_id_resp resp = { 0 };
	struct rdma_ucm_create_id in = { .uid = 0x300, .response = (uintptr_t)&resp, .ps = RDMA_PS_IB, .qp_type = qp_type };

	assert_int_equal(COMMAND(fd, CREATE_ID, in, sizeof(resp)), 0);
	return resp.id;
}

/* Nobody gets the request: a rejection. */
static void expect_rejection(int fd, uint32_t id)
{
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	resolve_route(fd, id);
	assert_int_equal(connect_to(fd, id, ""), 0);
	pass_time(WTIME_S / 3);
	expect_event(fd, UCM_EVENT_REJECTED, CM_REJ_INVALID_SERVICE_ID);
}

static void expect_no_listener(int fd, uint32_t id, const char *text)
{
	assert_int_equal(resolve4(fd, id, text, 7000), 0);
	expect_rejection(fd, id);
}

static void expect_no_listener_of_ipv6(int fd, uint32_t id)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(7000) };
	struct rdma_ucm_resolve_addr in = { .id = id, .timeout_ms = 2000, .dst_size = sizeof(to) };

	memcpy(&to.sin6_addr, gid_v6, 16);
	memcpy(&in.dst_addr, &to, sizeof(to));
	assert_int_equal(COMMAND(fd, RESOLVE_ADDR, in, 0), 0);
	expect_rejection(fd, id);
}

static void listeners_take_only_what_is_for_them(void **state)
{
	struct rdma_ucm_bind_ip any6 = { .addr = { .sin6_family = AF_INET6, .sin6_port = htons(7000) } };
	int one = 1, server = channel(), client = channel();
	struct rdma_ucm_set_option afonly = {
		.optval = (uintptr_t)&one, .optname = RDMA_OPTION_ID_AFONLY, .optlen = sizeof(one),
	};
	uint32_t bound = create(server, RDMA_PS_TCP, 1), typed = create_of_type(server, IBV_QPT_RC), any4;

	/* another address of this host, and then IPv6 alone */
	assert_int_equal(bind4(server, bound, "10.1.2.3", 7000), 0);
	assert_int_equal(listen_on(server, bound, 0), 0);
	expect_no_listener(client, create(client, RDMA_PS_TCP, 2), "127.0.0.1");
	assert_int_equal(destroy(server, bound, NULL), 0);
	any6.id = afonly.id = create(server, RDMA_PS_TCP, 1);
	assert_int_equal(COMMAND(server, SET_OPTION, afonly, 0), 0);
	assert_int_equal(COMMAND(server, BIND_IP, any6, 0), 0);
	assert_int_equal(listen_on(server, any6.id, 0), 0);
	expect_no_listener(client, create(client, RDMA_PS_TCP, 2), "10.1.2.3");
	/* IPv4 alone, beside it */
	any4 = create(server, RDMA_PS_TCP, 1);
	assert_int_equal(bind4(server, any4, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(server, any4, 0), 0);
	assert_int_equal(destroy(server, any6.id, NULL), 0);
	expect_no_listener_of_ipv6(client, create(client, RDMA_PS_TCP, 2));
	assert_int_equal(destroy(server, any4, NULL), 0);
	/* another type of QP */
	assert_int_equal(bind4(server, typed, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(server, typed, 0), 0);
	expect_no_listener(client, create_of_type(client, IBV_QPT_UC), "10.1.2.3");
	expect_no_event(server);
	channel_close(client);
	channel_close(server);
	expect_nothing_left();
}

static void a_connection_comes_and_goes(void **state)
{
	struct rdma_ucm_event_resp resp;
	struct ib_uverbs_qp_attr attr;
	struct pair p;

	pair_request(&p, RDMA_PS_TCP);
	assert_true(readable(p.server));
	resp = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(resp.uid, 0x100);
	assert_int_equal(resp.param.conn.private_data_len, 56);
	assert_memory_equal(resp.param.conn.private_data, "hello\0", 6);
	assert_int_equal(resp.param.conn.responder_resources, 1);
	assert_int_equal(resp.param.conn.initiator_depth, 2);
	assert_int_equal(resp.param.conn.qp_num, 0x5001);
	assert_int_equal(resp.ece.vendor_id, 0x15b3);
	assert_int_equal(resp.ece.attr_mod, 0x77);
	assert_false(readable(p.server));
	p.passive = resp.id;
	assert_int_equal(qp_attr(p.server, p.passive, IBV_QPS_RTR, &attr), 0);
	assert_int_equal(attr.dest_qp_num, 0x5001);
	assert_int_equal(accept_id(p.server, p.passive, 0x200, false), 0);
	resp = expect_event(p.client, UCM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(resp.param.conn.private_data_len, 196);
	assert_memory_equal(resp.param.conn.private_data, "welcome\0", 8);
	assert_int_equal(accept_id(p.client, p.active, 0, true), 0);
	resp = expect_event(p.server, UCM_EVENT_ESTABLISHED, 0);
	assert_int_equal(resp.uid, 0x200);
	expect_no_event(p.client);
	assert_int_equal(disconnect(p.client, p.active), 0);
	expect_event(p.server, UCM_EVENT_DISCONNECTED, 0);
	expect_no_event(p.client);
	assert_int_equal(disconnect(p.server, p.passive), 0);
	expect_event(p.client, UCM_EVENT_DISCONNECTED, 0);
	assert_int_equal(disconnect(p.server, p.passive), 0);
	fake.now += 10 * WTIME_S;
	fake.cm.expire(fake.cm.cm, fake.now);
	expect_event(p.client, UCM_EVENT_TIMEWAIT_EXIT, 0);
	pair_close(&p);
}

static void qp_attributes_are_the_kernels(void **state)
{
	struct ib_uverbs_qp_attr a, b;
	struct pair p;

	pair_connect(&p);
	assert_int_equal(qp_attr(p.client, p.active, IBV_QPS_INIT, &a), 0);
	assert_int_equal(a.qp_attr_mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(qp_attr(p.client, p.active, IBV_QPS_RTR, &a), 0);
	assert_int_equal(a.qp_attr_mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(a.dest_qp_num, 0x6001);
	assert_int_equal(a.path_mtu, IBV_MTU_1024);
	assert_true(a.ah_attr.is_global);
	assert_int_equal(a.ah_attr.grh.sgid_index, 1);
	assert_memory_equal(a.ah_attr.grh.dgid, gid_v4, 16);
	assert_int_equal(qp_attr(p.server, p.passive, IBV_QPS_RTS, &b), 0);
	assert_int_equal(a.rq_psn, b.sq_psn);
	/* each side says what the other one begins with, as Linux takes it */
	assert_int_equal(a.rq_psn, asked_psn);
	assert_int_equal(b.qp_attr_mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					  IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(b.timeout, 17);
	assert_int_equal(b.retry_cnt, 7);
	assert_int_equal(b.rnr_retry, 5);
	/* what one side asks for is what the other answers */
	assert_int_equal(b.max_rd_atomic, 1);
	assert_int_equal(a.max_dest_rd_atomic, 1);
	assert_int_equal(qp_attr(p.server, p.passive, IBV_QPS_RTR, &b), 0);
	assert_int_equal(b.max_dest_rd_atomic, 2);
	assert_int_not_equal(b.rq_psn, asked_psn);
	assert_int_equal(qp_attr(p.client, p.active, IBV_QPS_RTS, &a), 0);
	assert_int_equal(a.sq_psn, b.rq_psn);
	assert_int_equal(a.max_rd_atomic, 2);
	assert_int_equal(qp_attr(p.server, p.passive, IBV_QPS_SQE, &b), -EINVAL);
	assert_int_equal(qp_attr(p.server, p.listener, IBV_QPS_INIT, &b), -EINVAL);
	pair_close(&p);
}

static void a_request_can_be_rejected(void **state)
{
	struct rdma_ucm_reject in = { .private_data_len = 2, .private_data = "no" };
	struct rdma_ucm_event_resp resp;
	struct pair p;

	pair_request(&p, RDMA_PS_TCP);
	in.id = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0).id;
	in.reason = 3;
	assert_int_equal(COMMAND(p.server, REJECT, in, 0), -EINVAL);
	in.reason = 0;
	assert_int_equal(COMMAND(p.server, REJECT, in, 0), 0);
	resp = expect_event(p.client, UCM_EVENT_REJECTED, CM_REJ_CONSUMER);
	assert_int_equal(resp.param.conn.private_data_len, 148);
	assert_memory_equal(resp.param.conn.private_data, "no", 3);
	pair_close(&p);
}

static void nobody_listening_is_a_rejection(void **state)
{
	int fd = channel();
	uint32_t id = resolved(fd, RDMA_PS_TCP, "127.0.0.1", 4444);

	assert_int_equal(connect_to(fd, id, ""), 0);
	pass_time(WTIME_S / 3);
	expect_event(fd, UCM_EVENT_REJECTED, CM_REJ_INVALID_SERVICE_ID);
	channel_close(fd);
	expect_nothing_left();
}

static void a_listener_may_come_a_moment_late(void **state)
{
	struct pair p;

	p.client = channel();
	p.server = channel();
	p.active = resolved(p.client, RDMA_PS_TCP, "127.0.0.1", 7000);
	assert_int_equal(connect_to(p.client, p.active, ""), 0);
	pass_time(WTIME_S / 10);
	expect_no_event(p.client);
	p.listener = create(p.server, RDMA_PS_TCP, 0x100);
	assert_int_equal(bind4(p.server, p.listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(p.server, p.listener, 0), 0);
	pass_time(WTIME_S / 3);
	expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
	pair_close(&p);
}

static void destroying_a_listener_rejects_what_waits(void **state)
{
	struct pair p;
	uint32_t events;

	pair_request(&p, RDMA_PS_TCP);
	assert_int_equal(destroy(p.server, p.listener, &events), 0);
	assert_int_equal(events, 0);
	expect_no_event(p.server);
	expect_event(p.client, UCM_EVENT_REJECTED, CM_REJ_CONSUMER);
	pair_close(&p);
}

static void destroying_counts_what_was_reported(void **state)
{
	struct pair p;
	uint32_t events;

	pair_connect(&p);
	assert_int_equal(destroy(p.client, p.active, &events), 0);
	assert_int_equal(events, 3);
	expect_event(p.server, UCM_EVENT_DISCONNECTED, 0);
	assert_int_equal(destroy(p.server, p.passive, &events), 0);
	assert_int_equal(events, 2);
	assert_int_equal(destroy(p.server, p.listener, &events), 0);
	assert_int_equal(events, 1);
	pair_close(&p);
}

static void a_full_backlog_makes_the_peer_ask_again(void **state)
{
	struct pair p;
	uint32_t id[3];

	p.server = channel();
	p.client = channel();
	p.listener = create(p.server, RDMA_PS_TCP, 0x100);
	assert_int_equal(bind4(p.server, p.listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(p.server, p.listener, 2), 0);
	for (int i = 0; i < 3; i++) {
		id[i] = resolved(p.client, RDMA_PS_TCP, "127.0.0.1", 7000);
		assert_int_equal(connect_to(p.client, id[i], ""), 0);
	}
	for (int i = 0; i < 2; i++)
		expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
	expect_no_event(p.server);
	fake.now += 7 * WTIME_S;
	fake.cm.expire(fake.cm.cm, fake.now);
	expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
	pair_close(&p);
}

/* As Linux with net.rdma_ucm.max_backlog, whatever a program asks for; 0 means as many as there may be. */
static void no_backlog_is_longer_than_the_sysctls(void **state)
{
	static const uint32_t backlogs[] = { 0, 2000 };

	for (int round = 0; round < 2; round++) {
		struct pair p;
		uint32_t many;

		p.server = channel();
		p.client = channel();
		many = ucm.max_backlog + 3;
		p.listener = create(p.server, RDMA_PS_TCP, 0x100);
		assert_int_equal(bind4(p.server, p.listener, "0.0.0.0", 7000), 0);
		assert_int_equal(listen_on(p.server, p.listener, backlogs[round]), 0);
		for (uint32_t i = 0; i < many; i++)
			assert_int_equal(connect_to(p.client, resolved(p.client, RDMA_PS_TCP, "127.0.0.1", 7000), ""), 0);
		for (uint32_t i = 0; i < ucm.max_backlog; i++)
			expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
		expect_no_event(p.server);
		fake.now += 7 * WTIME_S;
		while (fake.cm.expire(fake.cm.cm, fake.now) <= fake.now)
			;
		for (uint32_t i = ucm.max_backlog; i < many; i++)
			expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
		pair_close(&p);
	}
}

/* A request of another process, which has nothing behind it. */
static void flood(uint32_t slot, uint32_t comm_id, uint16_t port)
{
	struct cm_msg msg = { .attribute = CM_REQ, .tid = comm_id };
	struct gmp from = { .device = 1, .pkey = 0xffff, .is_from_here = true, .path.has_grh = true };
	struct cma_header header = { .version = CMA_VERSION, .ip_version = 4, .port = 1 };

	memcpy(from.path.sgid, gid_v4, 16);
	memcpy(from.path.dgid, gid_v4, 16);
	msg.req.local_comm_id = slot << 20 | comm_id;
	msg.req.service_id = (uint64_t)RDMA_PS_TCP << 16 | port;
	memcpy(msg.req.primary.remote_gid, gid_v4, 16);
	memcpy(msg.req.primary.local_gid, gid_v4, 16);
	memcpy(header.destination + 12, gid_v4 + 12, 4);
	cma_build(&header, msg.req.private_data);
	cm_build(&msg, from.mad);
	fake.cm.mad(fake.cm.cm, fake.now, &from);
}

/* One process asks 60,000 times, of two listeners: so many stand in the queues as one may have, and its end is one pass over
 * them. Others get in. */
static void a_flood_of_requests_is_bounded(void **state)
{
	enum { FLOODER = 9, OTHER = 10, MANY = 60000 };
	int fd = channel();
	uint32_t listener[2];

	for (uint16_t i = 0; i < 2; i++) {
		listener[i] = create(fd, RDMA_PS_TCP, 0x100u + i);
		assert_int_equal(bind4(fd, listener[i], "0.0.0.0", (uint16_t)(7000 + i)), 0);
		assert_int_equal(listen_on(fd, listener[i], 0), 0);
	}
	for (uint32_t i = 0; i < MANY; i++)
		flood(FLOODER, i + 1, (uint16_t)(7000 + i % 2));
	assert_int_equal(ucm.cm.ids, ucm.max_backlog);
	assert_int_equal(ucm.ids.count, 2 + ucm.max_backlog);
	flood(OTHER, 1, 7000);
	flood(OTHER, 2, 7001);
	assert_int_equal(ucm.cm.ids, ucm.max_backlog + 2);
	fake.cm.peer_gone(fake.cm.cm, fake.now, FLOODER);
	/* what is reported, or goes with its listener, makes room again */
	expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0);
	flood(FLOODER, MANY + 1, 7000);
	flood(FLOODER, MANY + 2, 7000);
	assert_int_equal(ucm.cm.ids, ucm.max_backlog + 3);
	assert_int_equal(destroy(fd, listener[1], NULL), 0);
	flood(FLOODER, MANY + 3, 7000);
	assert_int_equal(ucm.unreported[OTHER], 1);
	assert_int_equal(destroy(fd, listener[0], NULL), 0);
	assert_int_equal(ucm.unreported[FLOODER], 0);
	assert_int_equal(ucm.unreported[OTHER], 0);
	weft_ucm_close(fd);
	close(fd);
	expect_nothing_left();
}

/* What a stranger's request is: from gid_far, but for what it says. */
struct claim {
	uint16_t attribute;
	const uint8_t *to, *leads_to;	/* of its packet; of the connection */
	const uint8_t *asked, *from;	/* in its header */
};

static uint32_t stranger_id = 99, stranger_qpn;
static uint64_t stranger_ca_guid;
static uint8_t stranger_timeout;
static const uint8_t *stranger_gid = gid_far;

static void stranger_asks(struct claim c)
{
	struct cm_msg msg = { .attribute = c.attribute, .tid = 7 };
	struct gmp from = { .device = 1, .pkey = 0xffff, .path.has_grh = true };
	struct cma_header header = { .version = CMA_VERSION, .ip_version = 4, .port = 1 };
	bool is_ud = c.attribute == CM_SIDR_REQ;

	memcpy(from.path.sgid, stranger_gid, 16);
	memcpy(from.path.dgid, c.to, 16);
	memcpy(header.destination + 12, c.asked + 12, 4);
	memcpy(header.source + 12, c.from + 12, 4);
	if (is_ud) {
		msg.sidr_req.request_id = stranger_id;
		msg.sidr_req.pkey = 0xffff;
		msg.sidr_req.service_id = (uint64_t)RDMA_PS_UDP << 16 | 7000;
	} else {
		msg.req.local_comm_id = stranger_id;
		msg.req.service_id = (uint64_t)RDMA_PS_TCP << 16 | 7000;
		memcpy(msg.req.primary.remote_gid, c.to, 16);
		memcpy(msg.req.primary.local_gid, c.leads_to, 16);
		msg.req.local_qpn = stranger_qpn;
		msg.req.local_ca_guid = stranger_ca_guid;
		msg.req.primary.ack_timeout = stranger_timeout;
	}
	cma_build(&header, is_ud ? msg.sidr_req.private_data : msg.req.private_data);
	cm_build(&msg, from.mad);
	fake.cm.mad(fake.cm.cm, fake.now, &from);
}

static const uint8_t gid_third[16] = { [10] = 0xff, 0xff, 10, 7, 9, 9 };
static const uint8_t gid_loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

static void strangers_ask_for_where_they_send_to(void **state)
{
	int fd = channel();
	uint32_t at_home = create(fd, RDMA_PS_TCP, 0x100), listener = create(fd, RDMA_PS_TCP, 0x101);

	assert_int_equal(bind4(fd, at_home, "127.0.0.1", 7000), 0);
	assert_int_equal(listen_on(fd, at_home, 0), 0);
	assert_int_equal(fake.strangers, 0);
	stranger_asks((struct claim){ CM_REQ, gid_v4, gid_far, gid_loopback, gid_far });
	expect_no_event(fd);
	assert_int_equal(destroy(fd, at_home, NULL), 0);

	assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, listener, 0), 0);
	assert_int_equal(fake.strangers, 1);
	stranger_asks((struct claim){ CM_REQ, gid_v4, gid_far, gid_loopback, gid_far });
	stranger_asks((struct claim){ CM_REQ, gid_v4, gid_third, gid_v4, gid_far });
	assert_int_equal(ucm.cm.ids, 0);
	expect_no_event(fd);
	stranger_asks((struct claim){ CM_REQ, gid_v4, gid_far, gid_v4, gid_far });
	expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0);
	fake.strangers = 0;
	weft_ucm_close(fd);
	close(fd);
	expect_nothing_left();
}

static unsigned flood_of_a_host(const uint8_t *gid, uint32_t requests)
{
	uint32_t before = ucm.cm.ids;

	stranger_gid = gid;
	for (uint32_t i = 0; i < requests; i++) {
		stranger_id = (1 + i % 9) << 20 | (i + 1);
		stranger_asks((struct claim){ CM_REQ, gid_v4, gid, gid_v4, gid });
	}
	stranger_gid = gid_far;
	stranger_id = 99;
	return ucm.cm.ids - before;
}

/* Ids of other hosts are no processes of this one: their requests are counted by their address, whatever slots they seem to have.
 * A host that floods leaves as much room as it takes. */
static void strangers_choose_no_quota(void **state)
{
	int fd = channel();
	uint32_t listener = create(fd, RDMA_PS_TCP, 0x100), many = ucm.max_backlog + 10;

	assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, listener, 0), 0);
	ucm.key = (struct siphash_key){ 1, 1 };	/* gid_far and gid_third have different places then */
	assert_int_equal(flood_of_a_host(gid_far, many), ucm.max_backlog / 2);
	assert_int_equal(flood_of_a_host(gid_third, 20), 20);
	assert_int_equal(flood_of_a_host(gid_far, many), 0);
	assert_int_equal(ucm.unreported[UCM_ALL_STRANGERS], ucm.max_backlog / 2 + 20);
	for (uint32_t slot = 1; slot < 10; slot++)
		assert_int_equal(ucm.unreported[slot], 0);
	assert_int_equal(destroy(fd, listener, NULL), 0);
	for (uint32_t place = 0; place < PAGE_SLOTS + UCM_STRANGERS; place++)
		assert_int_equal(ucm.unreported[place], 0);
	fake.strangers = 0;
	weft_ucm_close(fd);
	close(fd);
	expect_nothing_left();
}

/* A listener with a short backlog gives all of it to who comes first. */
static void a_short_backlog_is_for_one_host(void **state)
{
	int fd = channel();
	uint32_t listener = create(fd, RDMA_PS_TCP, 0x100);

	assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, listener, 4), 0);
	assert_int_equal(flood_of_a_host(gid_far, 10), 4);
	assert_int_equal(flood_of_a_host(gid_third, 10), 0);
	assert_int_equal(destroy(fd, listener, NULL), 0);
	fake.strangers = 0;
	weft_ucm_close(fd);
	close(fd);
	expect_nothing_left();
}

/* Programs admit by the address that they see. */
static void strangers_say_where_they_are(void **state)
{
	static const uint8_t nobody[16];
	static const struct { uint16_t port_space, attribute; } kinds[] = {
		{ RDMA_PS_TCP, CM_REQ }, { RDMA_PS_UDP, CM_SIDR_REQ },
	};

	for (size_t i = 0; i < 2; i++) {
		uint16_t kind = kinds[i].attribute;
		int fd = channel();
		uint32_t listener = create(fd, kinds[i].port_space, 0x100);

		assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
		assert_int_equal(listen_on(fd, listener, 0), 0);
		stranger_asks((struct claim){ kind, gid_v4, gid_far, gid_v4, nobody });
		stranger_asks((struct claim){ kind, gid_v4, gid_far, gid_v4, gid_loopback });
		stranger_asks((struct claim){ kind, gid_v4, gid_far, gid_v4, gid_v4 });
		stranger_asks((struct claim){ kind, gid_v4, gid_far, gid_v4, gid_third });
		assert_int_equal(ucm.cm.ids, 0);
		expect_no_event(fd);
		stranger_asks((struct claim){ kind, gid_v4, gid_far, gid_v4, gid_far });
		expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0);
		fake.strangers = 0;
		weft_ucm_close(fd);
		close(fd);
		expect_nothing_left();
	}
}

static void stranger_is_ready(const struct cm_id *cm)
{
	struct gmp from = { .device = 1, .pkey = 0xffff, .path = gmp_path_back(&cm->to) };
	struct cm_msg rtu = { .attribute = CM_RTU, .tid = 7, .rtu = { .local_comm_id = cm->remote_id,
								      .remote_comm_id = cm->local_id } };

	cm_build(&rtu, from.mad);
	fake.cm.mad(fake.cm.cm, fake.now, &from);
}

/* IBA 12.9.8.3.1: who asks by a QP that is connected has lost that connection. */
static void a_request_that_is_refused_ends_no_connection(void **state)
{
	const struct claim good = { CM_REQ, gid_v4, gid_far, gid_v4, gid_far };
	struct claim forged[] = { good, good, good };
	int fd = channel();
	uint32_t listener = create(fd, RDMA_PS_TCP, 0x100), passive;
	const struct cm_id *old;

	forged[0].leads_to = gid_third;
	forged[1].asked = gid_loopback;
	forged[2].from = gid_third;
	assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, listener, 1), 0);
	loses_mads = true;
	stranger_qpn = 0xabc;
	stranger_ca_guid = 0x77;
	stranger_asks(good);
	passive = expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0).id;
	old = ((struct ucm_id *)table_get(&ucm.ids, passive))->cm;
	assert_int_equal(accept_id(fd, passive, 0x200, false), 0);
	stranger_is_ready(old);
	expect_event(fd, UCM_EVENT_ESTABLISHED, 0);
	stranger_id++;
	for (size_t i = 0; i < 3; i++) {
		last_reason = 0;
		stranger_asks(forged[i]);
		assert_int_equal(last_reason, i == 1 ? CM_REJ_INVALID_SERVICE_ID : CM_REJ_INVALID_GID);
		assert_int_equal(old->state, CM_ESTABLISHED);
	}
	/* another adapter's; the backlog is full then */
	stranger_ca_guid++;
	stranger_asks(good);
	assert_int_equal(old->state, CM_ESTABLISHED);
	stranger_id++;
	stranger_ca_guid--;
	stranger_asks(good);
	assert_int_equal(last_reason, CM_REJ_STALE_CONNECTION);
	assert_int_equal(old->state, CM_DREQ_SENT);
	assert_int_equal(ucm.cm.counters.stale, 1);
	expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0);
	expect_no_event(fd);
	stranger_id = 99;
	stranger_qpn = 0;
	stranger_ca_guid = 0;
	loses_mads = false;
	fake.strangers = 0;
	channel_close(fd);
	pass_time(300 * WTIME_S);
	expect_nothing_left();
}

static struct rdma_ucm_query_route_resp query_route(int fd, uint32_t id)
{
	struct rdma_ucm_query_route_resp resp;
	struct rdma_ucm_query in = { .response = (uintptr_t)&resp, .id = id };

	assert_int_equal(COMMAND(fd, QUERY_ROUTE, in, sizeof(resp)), 0);
	return resp;
}

static uint8_t queried_life(int fd, uint32_t id)
{
	uint8_t raw[sizeof(struct rdma_ucm_query_path_resp) + 2 * sizeof(struct ibv_path_data)];
	struct rdma_ucm_query in = { .response = (uintptr_t)raw, .id = id, .option = RDMA_USER_CM_QUERY_PATH };
	struct ibv_path_data data;

	assert_int_equal(COMMAND(fd, QUERY, in, sizeof(raw)), 0);
	memcpy(&data, raw + sizeof(struct rdma_ucm_query_path_resp), sizeof(data));
	return data.path.packetlifetime & 0x3f;
}

/* The path is as the peer says, but that no QP waits for ever by its will. */
static void a_stranger_says_how_long_its_path_is(void **state)
{
	static const struct { uint8_t said, timeout, life; } rows[] = {
		{ 0, 1, 0 }, { 1, 1, 0 }, { 19, 19, 18 }, { 31, 31, 30 },
	};
	struct ib_uverbs_qp_attr attr;
	int fd = channel();
	uint32_t listener = create(fd, RDMA_PS_TCP, 0x100);

	assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, listener, 0), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t id;

		stranger_id++;
		stranger_timeout = rows[i].said;
		stranger_asks((struct claim){ CM_REQ, gid_v4, gid_far, gid_v4, gid_far });
		id = expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0).id;
		assert_int_equal(qp_attr(fd, id, IBV_QPS_RTS, &attr), 0);
		assert_int_equal(attr.timeout, rows[i].timeout);
		assert_int_equal(query_route(fd, id).ib_route[0].packet_life_time, rows[i].life);
		assert_int_equal(queried_life(fd, id), rows[i].life);
	}
	stranger_id = 99;
	stranger_timeout = 0;
	fake.strangers = 0;
	channel_close(fd);
	expect_nothing_left();
}

/* As in Linux: its own QP waits for ever, and the peer's does not. */
static void a_program_may_want_no_timeout(void **state)
{
	struct rdma_ucm_set_option in = { .optname = RDMA_OPTION_ID_ACK_TIMEOUT, .optlen = 1 };
	struct ib_uverbs_qp_attr attr;
	uint8_t none = 0;
	struct pair p;

	pair_listen(&p, RDMA_PS_TCP);
	p.active = resolved(p.client, RDMA_PS_TCP, "10.1.2.3", 7000);
	in.id = p.active;
	in.optval = (uintptr_t)&none;
	assert_int_equal(COMMAND(p.client, SET_OPTION, in, 0), 0);
	assert_int_equal(connect_to(p.client, p.active, "hello"), 0);
	p.passive = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(accept_id(p.server, p.passive, 0x200, false), 0);
	expect_event(p.client, UCM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(qp_attr(p.client, p.active, IBV_QPS_RTS, &attr), 0);
	assert_int_equal(attr.timeout, 0);
	assert_int_equal(qp_attr(p.server, p.passive, IBV_QPS_RTS, &attr), 0);
	assert_int_equal(attr.timeout, 17);
	pair_close(&p);
}

/* A request from host 8 of the fabric; what its header says. */
static void host_8_asks(const uint8_t *asked, const uint8_t *from)
{
	struct cm_msg msg = { .attribute = CM_REQ, .tid = 7, .req.local_comm_id = 7 << 20 | 1 };
	struct gmp came = { .device = 0, .pkey = 0xffff, .is_from_here = true,
			    .path = { .has_grh = true, .slid = 8, .dlid = 3 } };
	struct cma_header header = { .version = CMA_VERSION, .ip_version = 4, .port = 1 };

	memcpy(came.path.sgid, gid_host_8, 16);
	memcpy(came.path.dgid, fake.ca.dev[0].gid[0].raw, 16);
	memcpy(header.destination + 12, asked + 12, 4);
	memcpy(header.source + 12, from + 12, 4);
	msg.req.service_id = (uint64_t)RDMA_PS_TCP << 16 | 7000;
	memcpy(msg.req.primary.remote_gid, came.path.dgid, 16);
	memcpy(msg.req.primary.local_gid, gid_host_8, 16);
	cma_build(&header, msg.req.private_data);
	cm_build(&msg, came.mad);
	fake.cm.mad(fake.cm.cm, fake.now, &came);
}

static void hosts_of_a_fabric_say_where_they_are(void **state)
{
	static const uint8_t host_8[16] = { [10] = 0xff, 0xff, 127, 1, 0, 8 }, host_7[16] = { [10] = 0xff, 0xff, 127, 1, 0, 7 };
	static const uint8_t host_99[16] = { [10] = 0xff, 0xff, 127, 1, 0, 99 };
	int fd = channel();
	uint32_t listener = create(fd, RDMA_PS_TCP, 0x100);

	fake.is_in_fabric = true;
	assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, listener, 0), 0);
	host_8_asks(host_2, host_7);
	host_8_asks(host_2, host_2);
	host_8_asks(host_2, host_99);
	host_8_asks(host_7, host_8);
	assert_int_equal(ucm.cm.ids, 0);
	expect_no_event(fd);
	host_8_asks(host_2, host_8);
	expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0);
	fake.is_in_fabric = false;
	fake.strangers = 0;
	weft_ucm_close(fd);
	close(fd);
	expect_nothing_left();
}

static uint16_t port_of(int fd, uint32_t id)
{
	struct rdma_ucm_query_addr_resp addr = query(fd, id, RDMA_USER_CM_QUERY_ADDR);

	return ntohs(((struct sockaddr_in *)&addr.src_addr)->sin_port);
}

/* Who binds again and again waits for weftd a few times only; all that it was given goes back when it closes the device. Another
 * id may want one of those that are not used. */
static void ports_are_asked_for_in_advance(void **state)
{
	enum { MANY = 400 };
	static bool seen[65536];
	int fd = channel(), before = fake.requests, unused;
	uint32_t id[MANY], other, spare;

	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < MANY; i++) {
		id[i] = resolved(fd, RDMA_PS_TCP, "127.0.0.1", 7000);
		assert_false(seen[port_of(fd, id[i])]);
		seen[port_of(fd, id[i])] = true;
	}
	assert_in_range(fake.requests - before, 6, 20);
	unused = fake.ports - MANY;
	assert_in_range(unused, 0, CONTROL_PORT_ROW);
	/* one row at most is kept */
	for (int i = 1; i < MANY; i++)
		assert_int_equal(destroy(fd, id[i], NULL), 0);
	assert_in_range(fake.ports, 1, 2 * CONTROL_PORT_ROW);
	before = fake.requests;
	for (int i = 1; i < 10; i++)
		id[i] = resolved(fd, RDMA_PS_TCP, "127.0.0.1", 7000);
	assert_int_equal(fake.requests, before);
	/* another port space has its own */
	other = resolved(fd, RDMA_PS_UDP, "127.0.0.1", 7000);
	assert_true(fake.requests > before);
	assert_int_equal(destroy(fd, other, NULL), 0);
	/* a port that is there for nobody is anybody's, and is not reserved twice */
	for (int i = 0; i < 10; i++)
		seen[port_of(fd, id[i])] = false;
	spare = port_of(fd, id[1]) / CONTROL_PORT_ROW * CONTROL_PORT_ROW;
	while (!seen[spare])
		spare++;
	assert_int_equal(spare / CONTROL_PORT_ROW, port_of(fd, id[1]) / CONTROL_PORT_ROW);
	other = create(fd, RDMA_PS_TCP, 0x900);
	before = fake.ports;
	assert_int_equal(bind4(fd, other, "10.1.2.3", (uint16_t)spare), 0);
	assert_int_equal(fake.ports, before);
	weft_ucm_close(fd);
	close(fd);
	expect_nothing_left();
	assert_int_equal(ucm.ports_ahead, 0);
}

/* As another thread might, while weftd is asked. */
static int doomed_fd;
static uint32_t doomed;

static void destroy_doomed(void)
{
	fake.meanwhile = NULL;
	assert_int_equal(destroy(doomed_fd, doomed, NULL), 0);
}

static void an_id_destroyed_while_it_binds_leaves_no_port(void **state)
{
	doomed_fd = channel();
	doomed = create(doomed_fd, RDMA_PS_TCP, 0x100);
	fake.meanwhile = destroy_doomed;
	assert_int_equal(bind4(doomed_fd, doomed, "0.0.0.0", 0), -EINVAL);
	assert_int_equal(fake.ports, 0);
	doomed = create(doomed_fd, RDMA_PS_TCP, 0x101);
	assert_int_equal(bind4(doomed_fd, doomed, "0.0.0.0", 7000), 0);
	fake.meanwhile = destroy_doomed;
	assert_int_equal(listen_on(doomed_fd, doomed, 0), -EINVAL);
	assert_false(listens((uint64_t)RDMA_PS_TCP << 16 | 7000));
	doomed = create(doomed_fd, RDMA_PS_TCP, 0x102);
	assert_int_equal(bind4(doomed_fd, doomed, "10.1.2.3", 7000), 0);
	fake.meanwhile = destroy_doomed;
	assert_int_equal(resolve4(doomed_fd, doomed, "10.7.0.2", 7000), -EINVAL);
	weft_ucm_close(doomed_fd);
	close(doomed_fd);
	expect_nothing_left();
}

static void migration_takes_queued_events_along(void **state)
{
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id in = { .response = (uintptr_t)&resp };
	int other = channel();
	struct pair p;

	pair_request(&p, RDMA_PS_TCP);
	in.id = p.listener;
	in.fd = 4242;
	assert_int_equal(COMMAND(other, MIGRATE_ID, in, sizeof(resp)), -ENOENT);
	in.fd = (uint32_t)p.client;
	assert_int_equal(COMMAND(other, MIGRATE_ID, in, sizeof(resp)), -EINVAL);
	in.fd = (uint32_t)p.server;
	assert_int_equal(COMMAND(other, MIGRATE_ID, in, sizeof(resp)), 0);
	assert_int_equal(resp.events_reported, 0);
	expect_no_event(p.server);
	p.passive = expect_event(other, UCM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(accept_id(p.server, p.passive, 1, false), -EINVAL);
	assert_int_equal(accept_id(other, p.passive, 1, false), 0);
	channel_close(other);
	expect_event(p.client, UCM_EVENT_CONNECT_RESPONSE, 0);
	expect_event(p.client, UCM_EVENT_REJECTED, CM_REJ_CONSUMER);
	pair_close(&p);
}

static void datagrams_learn_qpn_and_qkey(void **state)
{
	struct rdma_ucm_event_resp resp;
	struct ib_uverbs_qp_attr attr;
	struct pair p;

	pair_request(&p, RDMA_PS_UDP);
	resp = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(resp.param.ud.private_data_len, 180);
	assert_memory_equal(resp.param.ud.private_data, "hello\0", 6);
	assert_int_equal(qp_attr(p.server, resp.id, IBV_QPS_INIT, &attr), 0);
	assert_int_equal(attr.qp_attr_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(attr.qkey, 0x01234567);
	assert_int_equal(accept_id(p.server, resp.id, 7, false), 0);
	resp = expect_event(p.client, UCM_EVENT_ESTABLISHED, 0);
	assert_int_equal(resp.param.ud.private_data_len, 136);
	assert_int_equal(resp.param.ud.qp_num, 0x6001);
	assert_int_equal(resp.param.ud.qkey, 0x01234567);
	assert_memory_equal(resp.param.ud.ah_attr.grh.dgid, gid_v4, 16);
	pair_close(&p);
}

static struct rdma_ucm_event_resp join_at(int fd, uint32_t id, const void *addr, uint16_t bytes, uint16_t flags,
					  uint32_t *number)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_join_mcast in = { .response = (uintptr_t)&resp, .uid = 0x700, .id = id, .addr_size = bytes,
					  .join_flags = flags };

	memcpy(&in.addr, addr, bytes);
	assert_int_equal(COMMAND(fd, JOIN_MCAST, in, sizeof(resp)), 0);
	*number = resp.id;
	return expect_event(fd, UCM_EVENT_MULTICAST_JOIN, 0);
}

static struct rdma_ucm_event_resp join_as(int fd, uint32_t id, const char *text, uint16_t flags, uint32_t *number)
{
	struct sockaddr_in addr = ip4(text, 0);

	return join_at(fd, id, &addr, sizeof(addr), flags, number);
}

static struct rdma_ucm_event_resp join(int fd, uint32_t id, const char *text, uint32_t *number)
{
	return join_as(fd, id, text, RDMA_MC_JOIN_FLAG_FULLMEMBER, number);
}

static void who_only_sends_joins_and_leaves_so(void **state)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id leave = { .response = (uintptr_t)&resp };
	int fd = channel();
	uint32_t id = create(fd, RDMA_PS_UDP, 1), other;

	(void)state;
	assert_int_equal(bind4(fd, id, "10.1.2.3", 0), 0);
	join_as(fd, id, "239.1.2.3", RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, &leave.id);
	assert_int_equal(fake.senders, 1);
	join(fd, id, "239.1.2.4", &other);
	assert_int_equal(fake.groups, 2);
	assert_int_equal(fake.senders, 1);
	assert_int_equal(COMMAND(fd, LEAVE_MCAST, leave, sizeof(resp)), 0);
	assert_int_equal(fake.groups, 1);
	assert_int_equal(fake.senders, 0);
	channel_close(fd);
	expect_nothing_left();
}

/* UCC does so: one process joins the any-address, and tells the others the MGID of its event. */
static void the_any_address_is_a_group_of_its_own(void **state)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 }, told = any;
	struct rdma_ucm_event_resp event[3];
	int fd = channel();
	uint32_t id, number;

	for (int is_ib = 0; is_ib < 2; is_ib++) {
		fake.visible[1] = !is_ib;
		id = create(fd, RDMA_PS_UDP, 1);
		assert_int_equal(bind4(fd, id, "10.1.2.3", 0), 0);
		for (int i = 0; i < 2; i++) {
			event[i] = join_at(fd, id, &any, sizeof(any), RDMA_MC_JOIN_FLAG_FULLMEMBER, &number);
			assert_int_equal(event[i].param.ud.ah_attr.grh.dgid[0], 0xff);
		}
		assert_memory_not_equal(event[0].param.ud.ah_attr.grh.dgid, event[1].param.ud.ah_attr.grh.dgid, 16);
		memcpy(&told.sin6_addr, event[0].param.ud.ah_attr.grh.dgid, 16);
		event[2] = join_at(fd, id, &told, sizeof(told), RDMA_MC_JOIN_FLAG_FULLMEMBER, &number);
		assert_memory_equal(event[0].param.ud.ah_attr.grh.dgid, event[2].param.ud.ah_attr.grh.dgid, 16);
	}
	channel_close(fd);
	expect_nothing_left();
}

static void groups_map_as_in_linux(void **state)
{
	static const uint8_t roce[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
	static const uint8_t ib[16] = { 0xff, 0x12, 0x40, 0x01, 0xff, 0xff, [12] = 0x0f, 1, 2, 3 };
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id leave = { .response = (uintptr_t)&resp };
	struct rdma_ucm_event_resp event;
	int fd = channel();
	uint32_t id = resolved(fd, RDMA_PS_UDP, "239.1.2.3", 0);

	/* a route is too much: Linux joins before */
	assert_int_equal(destroy(fd, id, NULL), 0);
	id = create(fd, RDMA_PS_UDP, 1);
	assert_int_equal(bind4(fd, id, "10.1.2.3", 0), 0);
	event = join(fd, id, "239.1.2.3", &leave.id);
	assert_int_equal(event.uid, 0x700);
	assert_int_equal(event.param.ud.qp_num, 0xffffff);
	assert_memory_equal(event.param.ud.ah_attr.grh.dgid, roce, 16);
	assert_int_equal(COMMAND(fd, LEAVE_MCAST, leave, sizeof(resp)), 0);
	assert_int_equal(resp.events_reported, 1);
	assert_int_equal(COMMAND(fd, LEAVE_MCAST, leave, sizeof(resp)), -ENOENT);
	fake.visible[1] = false;
	id = create(fd, RDMA_PS_UDP, 1);
	assert_int_equal(bind4(fd, id, "10.1.2.3", 0), 0);
	event = join(fd, id, "239.1.2.3", &leave.id);
	assert_memory_equal(event.param.ud.ah_attr.grh.dgid, ib, 16);
	assert_int_equal(event.param.ud.ah_attr.dlid, 0xc123);
	channel_close(fd);
	expect_nothing_left();
}

static void a_dead_peer_disconnects(void **state)
{
	struct pair p;

	pair_connect(&p);
	fake.cm.peer_gone(fake.cm.cm, fake.now, SLOT);
	expect_event(p.client, UCM_EVENT_DISCONNECTED, 0);
	expect_event(p.server, UCM_EVENT_DISCONNECTED, 0);
	expect_no_event(p.client);
	assert_int_equal(disconnect(p.client, p.active), 0);
	pair_close(&p);
}

static void silence_is_unreachable(void **state)
{
	int fd = channel();
	uint32_t id = resolved(fd, RDMA_PS_TCP, "127.0.0.1", 4444);

	loses_mads = true;
	assert_int_equal(connect_to(fd, id, ""), 0);
	for (int i = 0; i < 7 + 16; i++) {	/* those that come soon, and the first try with its 15 retries */
		expect_no_event(fd);
		fake.now += 7 * WTIME_S;
		fake.cm.expire(fake.cm.cm, fake.now);
	}
	expect_event(fd, UCM_EVENT_UNREACHABLE, (uint32_t)-ETIMEDOUT);
	channel_close(fd);
	expect_nothing_left();
}

static void accepting_too_late_fails(void **state)
{
	struct pair p;

	pair_request(&p, RDMA_PS_TCP);
	p.passive = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(destroy(p.client, p.active, NULL), 0);
	expect_no_event(p.server);
	assert_int_equal(accept_id(p.server, p.passive, 1, false), -EINVAL);
	pair_close(&p);
}

static void too_much_private_data_is_refused(void **state)
{
	char words[58];
	struct pair p;

	memset(words, 'x', 57);
	words[57] = 0;
	pair_listen(&p, RDMA_PS_TCP);
	p.active = resolved(p.client, RDMA_PS_TCP, "127.0.0.1", 7000);
	assert_int_equal(connect_to(p.client, p.active, words), -EINVAL);
	words[56] = 0;
	assert_int_equal(connect_to(p.client, p.active, words), 0);
	assert_int_equal(connect_to(p.client, p.active, words), -EINVAL);
	expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0);
	pair_close(&p);
}

static void notify_establishes_once(void **state)
{
	struct rdma_ucm_notify in = { .event = IBV_EVENT_COMM_EST };
	struct pair p;

	pair_request(&p, RDMA_PS_TCP);
	in.id = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(COMMAND(p.server, NOTIFY, in, 0), -EINVAL);
	assert_int_equal(accept_id(p.server, in.id, 0x200, false), 0);
	assert_int_equal(COMMAND(p.server, NOTIFY, in, 0), 0);
	expect_event(p.server, UCM_EVENT_ESTABLISHED, 0);
	assert_int_equal(COMMAND(p.server, NOTIFY, in, 0), -EISCONN);
	expect_event(p.client, UCM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(accept_id(p.client, p.active, 0, true), 0);
	expect_no_event(p.server);
	pair_close(&p);
}

/* Of a QP that the runtime does not know no path can be loaded, and its peer is told. */
static void a_lap_is_answered(void **state)
{
	struct rdma_ucm_notify in = { .event = IBV_EVENT_PATH_MIG };
	struct cm_path path;
	struct cm_id *cm;
	struct pair p;

	pair_request(&p, RDMA_PS_TCP);
	p.passive = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(accept_id(p.server, p.passive, 0x200, false), 0);
	expect_event(p.client, UCM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(accept_id(p.client, p.active, 0, true), 0);
	expect_event(p.server, UCM_EVENT_ESTABLISHED, 0);
	in.id = p.active;
	assert_int_equal(COMMAND(p.client, NOTIFY, in, 0), -EINVAL);
	ucm_lock();
	cm = list_first_entry(&ucm.cm.all, struct cm_id, all);
	path = cm->path;
	path.dgid[15]++;
	assert_int_equal(cm_lap(cm, fake.now, &path, NULL, 0), 0);
	assert_int_equal(cm->alt, CM_ALT_LAP_SENT);
	ucm_unlock_and_send();
	assert_int_equal(cm->alt, CM_ALT_NONE);
	assert_int_equal(cm->alternate_is, CM_ALTERNATE_NONE);
	/* as if it had been loaded */
	cm->alternate_is = CM_ALTERNATE_AGREED;
	in.id = ((struct ucm_id *)cm->user)->number;
	assert_int_equal(COMMAND(cm->user && in.id == p.active ? p.client : p.server, NOTIFY, in, 0), 0);
	assert_memory_equal(cm->to.dgid, path.dgid, 16);
	expect_no_event(p.client);
	expect_no_event(p.server);
	pair_close(&p);
}

static int set_paths(int fd, uint32_t id, const struct ibv_path_data *paths, uint32_t bytes)
{
	struct rdma_ucm_set_option in = { .optval = (uintptr_t)paths, .id = id, .level = RDMA_OPTION_IB,
					  .optname = RDMA_OPTION_IB_PATH, .optlen = bytes };

	return COMMAND(fd, SET_OPTION, in, 0);
}

static struct ibv_path_data path_data(uint32_t flags, const uint8_t *from, const uint8_t *to)
{
	struct ibv_path_data data = { .flags = flags | IB_PATH_BIDIRECTIONAL,
				      .path = { .tclass = 3, .slid = 0xffff, .dlid = 0xffff } };

	memcpy(data.path.sgid.raw, from, 16);
	memcpy(data.path.dgid.raw, to, 16);
	return data;
}

/* The two ends' QPs get the path with the other attributes, and both can see it. */
static void a_request_offers_an_alternate_path(void **state)
{
	struct { struct rdma_ucm_query_path_resp head; struct ibv_path_data data[2]; } paths;
	struct rdma_ucm_query_route_resp route;
	struct rdma_ucm_query in = { .response = (uintptr_t)&route };
	struct ibv_path_data want[2] = { path_data(IB_PATH_ALTERNATE, gid_v6, gid_v6),
					 path_data(IB_PATH_GMP | IB_PATH_PRIMARY, gid_v4, gid_v4) };
	struct ib_uverbs_qp_attr attr;
	struct pair p;

	pair_listen(&p, RDMA_PS_TCP);
	p.active = create(p.client, RDMA_PS_TCP, 0x900);
	assert_int_equal(resolve4(p.client, p.active, "10.1.2.3", 7000), 0);
	expect_event(p.client, UCM_EVENT_ADDR_RESOLVED, 0);
	memcpy(want[0].path.sgid.raw, gid_far, 16);	/* begins elsewhere */
	assert_int_equal(set_paths(p.client, p.active, want, sizeof(want)), -EINVAL);
	memcpy(want[0].path.sgid.raw, gid_v6, 16);
	assert_int_equal(set_paths(p.client, p.active, want, sizeof(want[0])), -EINVAL);	/* no primary one */
	assert_int_equal(set_paths(p.client, p.active, want, sizeof(want)), 0);
	expect_event(p.client, UCM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(connect_to(p.client, p.active, "hello"), 0);
	p.passive = expect_event(p.server, UCM_EVENT_CONNECT_REQUEST, 0).id;

	in.id = p.passive;
	assert_int_equal(COMMAND(p.server, QUERY_ROUTE, in, sizeof(route)), 0);
	assert_int_equal(route.num_paths, 2);
	assert_memory_equal(route.ib_route[0].dgid, gid_v4, 16);
	assert_memory_equal(route.ib_route[1].dgid, gid_v6, 16);
	in.option = RDMA_USER_CM_QUERY_PATH;
	in.response = (uintptr_t)&paths;
	assert_int_equal(COMMAND(p.server, QUERY, in, sizeof(paths)), 0);
	assert_int_equal(paths.head.num_paths, 2);
	assert_memory_equal(paths.data[0].path.sgid.raw, gid_v4, 16);
	assert_memory_equal(paths.data[1].path.sgid.raw, gid_v6, 16);
	memset(&paths, 0x55, sizeof(paths));
	assert_int_equal(COMMAND(p.server, QUERY, in, sizeof(paths) - 1), 0);	/* room for one */
	assert_memory_equal(paths.data[0].path.sgid.raw, gid_v4, 16);
	assert_int_equal(paths.data[1].path.sgid.raw[0], 0x55);

	assert_int_equal(qp_attr(p.server, p.passive, IBV_QPS_RTR, &attr), 0);
	assert_true(attr.qp_attr_mask & IBV_QP_ALT_PATH);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 1);
	assert_int_equal(attr.alt_ah_attr.grh.sgid_index, 0);
	assert_int_equal(attr.alt_ah_attr.grh.traffic_class, 3);
	assert_memory_equal(attr.alt_ah_attr.grh.dgid, gid_v6, 16);
	assert_int_equal(attr.alt_port_num, 1);
	assert_int_equal(attr.alt_timeout, 17);
	assert_int_equal(accept_id(p.server, p.passive, 0x200, false), 0);
	expect_event(p.client, UCM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(qp_attr(p.client, p.active, IBV_QPS_RTR, &attr), 0);
	assert_true(attr.qp_attr_mask & IBV_QP_ALT_PATH);
	assert_int_equal(qp_attr(p.client, p.active, IBV_QPS_RTS, &attr), 0);
	assert_true(attr.qp_attr_mask & IBV_QP_PATH_MIG_STATE);
	assert_int_equal(attr.path_mig_state, IBV_MIG_REARM);
	pair_close(&p);
}

/* Who offers a path that does not end at an address of ours hears so. */
static void an_alternate_path_ends_here(void **state)
{
	static const struct { int device; const uint8_t *to; uint16_t lid, reason; } cases[] = {
		{ 1, gid_third, 0xffff, CM_REJ_INVALID_ALT_GID }, { 1, gid_v6, 0xffff, 0 },
		{ 0, gid_third, 4, CM_REJ_INVALID_ALT_LID }, { 0, gid_third, 3, 0 },
	};
	int fd = channel();
	uint32_t listener = create(fd, RDMA_PS_TCP, 0x100);

	assert_int_equal(bind4(fd, listener, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, listener, 0), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint8_t *own = cases[i].device ? gid_v4 : gid_ib;
		struct gmp in = { .device = cases[i].device, .pkey = 0xffff, .is_from_here = true, .path.has_grh = true };
		struct cma_header header = { .ip_version = 4, .source = { [12] = 10, 1, 2, 3 },
					     .destination = { [12] = 10, 1, 2, 3 } };
		struct cm_msg msg = { .attribute = CM_REQ, .tid = 7, .req = {
			.local_comm_id = (uint32_t)(SLOT << CM_SLOT_SHIFT) + 77 + (uint32_t)i,
			.service_id = (uint64_t)RDMA_PS_TCP << 16 | 7000,
			.primary = { .local_lid = 3, .remote_lid = 3 },
			.alternate = { .local_lid = 3, .remote_lid = cases[i].lid } } };

		memcpy(in.path.sgid, own, 16);
		memcpy(in.path.dgid, own, 16);
		memcpy(msg.req.primary.local_gid, own, 16);
		memcpy(msg.req.primary.remote_gid, own, 16);
		memcpy(msg.req.alternate.local_gid, own, 16);
		memcpy(msg.req.alternate.remote_gid, cases[i].to, 16);
		cma_build(&header, msg.req.private_data);
		cm_build(&msg, in.mad);
		last_reason = 0;
		fake.cm.mad(fake.cm.cm, fake.now, &in);
		ucm_lock();
		ucm_unlock_and_send();
		assert_int_equal(last_reason, cases[i].reason);
		if (cases[i].reason)
			expect_no_event(fd);
		else
			expect_event(fd, UCM_EVENT_CONNECT_REQUEST, 0);
	}
	fake.strangers = 0;
	channel_close(fd);
	expect_nothing_left();
}

/* So that who waits by poll or epoll, for edges too, misses none. */
static void a_channel_is_readable_while_events_are_queued(void **state)
{
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	int fd = channel(), epoll = epoll_create1(EPOLL_CLOEXEC);
	uint32_t id[3];

	for (int i = 0; i < 3; i++)
		id[i] = create(fd, RDMA_PS_TCP, 1);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &edge), 0);
	assert_int_equal(epoll_wait(epoll, &edge, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(resolve4(fd, id[i], "127.0.0.1", 1), 0);
		assert_int_equal(epoll_wait(epoll, &edge, 1, 0), 1);
	}
	for (int i = 0; i < 3; i++) {
		assert_true(readable(fd));
		expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	}
	expect_no_event(fd);
	assert_int_equal(epoll_wait(epoll, &edge, 1, 0), 0);
	close(epoll);
	channel_close(fd);
	expect_nothing_left();
}

static bool is_on_futex(pid_t tid)
{
	char path[64];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	f = fopen(path, "r");
	assert_non_null(f);
	if (fscanf(f, "%ld", &number) != 1)
		number = -1;
	fclose(f);
	return number == SYS_futex;
}

static _Atomic pid_t reader_tid;

static bool has_reader(int fd)
{
	bool has;

	ucm_lock();
	has = ucm.files[fd]->waiting;
	ucm_unlock_and_send();
	return has;
}

/* A thread that sleeps for an event of the channel: `how` tells its tid first. */
static pthread_t blocked_reader(void *(*how)(void *), int *fd)
{
	pthread_t thread;

	reader_tid = 0;
	assert_int_equal(pthread_create(&thread, NULL, how, fd), 0);
	while (!reader_tid || !has_reader(*fd) || !is_on_futex(reader_tid))
		sched_yield();
	return thread;
}

static void *wait_for_event_thread(void *arg)
{
	struct rdma_ucm_event_resp resp;

	reader_tid = gettid();
	return get_event(*(int *)arg, &resp) == 0 && resp.event == UCM_EVENT_ADDR_RESOLVED ? arg : NULL;
}

static void a_blocking_reader_is_woken(void **state)
{
	int fd = weft_ucm_open(O_CLOEXEC);
	uint32_t id = create(fd, RDMA_PS_TCP, 1);
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, wait_for_event_thread, &fd), 0);
	assert_int_equal(resolve4(fd, id, "127.0.0.1", 1), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, &fd);
	assert_false(readable(fd));
	channel_close(fd);
	expect_nothing_left();
}

/* Who polls the channel meanwhile is not told of an event that another thread takes, but of the next one. */
static void an_event_is_whose_who_waits_for_it(void **state)
{
	int fd = weft_ucm_open(O_CLOEXEC | O_NONBLOCK);
	uint32_t number = create(fd, RDMA_PS_TCP, 1);
	struct ucm_id *id;
	pthread_t thread;
	void *result;

	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(ucm_id_find(ucm.files[fd], number, &id), 0);
	thread = blocked_reader(wait_for_event_thread, &fd);
	ucm_lock();
	assert_int_equal(ucm_event_post(id, UCM_EVENT_ADDR_RESOLVED, 0), 0);
	assert_false(readable(fd));
	assert_int_equal(ucm_event_post(id, UCM_EVENT_ROUTE_RESOLVED, 0), 0);
	assert_true(readable(fd));
	ucm_unlock_and_send();
	pthread_join(thread, &result);
	assert_ptr_equal(result, &fd);
	assert_true(readable(fd));
	expect_event(fd, UCM_EVENT_ROUTE_RESOLVED, 0);
	assert_false(readable(fd));
	channel_close(fd);
	expect_nothing_left();
}

/* Who polls the channel is told of the next event. */
static void expect_events_told(int fd, uint32_t id)
{
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	expect_no_event(fd);
	assert_int_equal(resolve4(fd, id, "127.0.0.1", 1), 0);
	assert_true(readable(fd));
	expect_event(fd, UCM_EVENT_ADDR_RESOLVED, 0);
	channel_close(fd);
	expect_nothing_left();
}

static void a_blocked_reader_can_be_cancelled(void **state)
{
	int fd = weft_ucm_open(O_CLOEXEC);
	uint32_t id = create(fd, RDMA_PS_TCP, 1);
	pthread_t thread = blocked_reader(wait_for_event_thread, &fd);
	void *result;

	assert_int_equal(pthread_cancel(thread), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	expect_events_told(fd, id);
}

static sigjmp_buf before_read;

static void jump_out(int number)
{
	siglongjmp(before_read, 1);
}

static void *read_and_jump_thread(void *arg)
{
	if (sigsetjmp(before_read, 1) == 0)
		wait_for_event_thread(arg);
	pthread_exit(NULL);
}

static void a_reader_that_jumps_away_leaves_events_to_others(void **state)
{
	struct sigaction action = { .sa_handler = jump_out }, was;
	int fd = weft_ucm_open(O_CLOEXEC);
	uint32_t id = create(fd, RDMA_PS_TCP, 1);
	pthread_t thread;

	sigaction(SIGUSR1, &action, &was);
	thread = blocked_reader(read_and_jump_thread, &fd);
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	pthread_join(thread, NULL);
	sigaction(SIGUSR1, &was, NULL);
	expect_events_told(fd, id);
}

static void be_cancelled(void)
{
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

static uint32_t bound_id;

static void *bind_cancelled_thread(void *arg)
{
	struct rdma_ucm_event_resp resp;

	if (bind4(*(int *)arg, bound_id, "127.0.0.1", 0))
		return arg;
	bound_id = 0;
	get_event(*(int *)arg, &resp);
	return arg;
}

/* It would take the lock along, or leave half of what the command does. */
static void no_thread_is_cancelled_inside_a_command(void **state)
{
	int fd = channel();
	pthread_t thread;
	void *result;

	bound_id = create(fd, RDMA_PS_TCP, 1);
	fake.meanwhile = be_cancelled;
	assert_int_equal(pthread_create(&thread, NULL, bind_cancelled_thread, &fd), 0);
	pthread_join(thread, &result);
	fake.meanwhile = NULL;
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(bound_id, 0);
	channel_close(fd);
	expect_nothing_left();
}

/* Of a thread of the program that computes, or polls a CQ, and takes in what is for others. */
static void *drop_events_cancelled_thread(void *arg)
{
	ucm_lock();
	pthread_cancel(pthread_self());
	ucm_events_drop(arg);
	ucm_unlock_and_send();
	return arg;
}

static void an_event_is_taken_by_no_cancellation_point(void **state)
{
	int fd = channel();
	uint32_t number = create(fd, RDMA_PS_TCP, 1);
	struct ucm_id *id;
	pthread_t thread;
	void *result;

	assert_int_equal(resolve4(fd, number, "127.0.0.1", 1), 0);
	assert_int_equal(ucm_id_find(ucm.files[fd], number, &id), 0);
	assert_int_equal(pthread_create(&thread, NULL, drop_events_cancelled_thread, id), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, id);
	expect_no_event(fd);
	channel_close(fd);
	expect_nothing_left();
}

struct reader {
	int fd;
	pid_t closer;
	uint32_t taken;
	bool closed;
};

static void *read_two_events_thread(void *arg)
{
	struct reader *reader = arg;
	struct rdma_ucm_event_resp resp;

	for (int i = 0; i < 2; i++) {
		if (get_event(reader->fd, &resp))
			return NULL;
		__atomic_store_n(&reader->taken, i + 1, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&reader->closed, __ATOMIC_ACQUIRE) && !is_on_futex(reader->closer))
			sched_yield();
	}
	return arg;
}

/* rping's thread of events ends the program when rdma_get_cm_event fails. */
static void closing_lets_the_reader_come_back_first(void **state)
{
	struct reader reader = { .fd = weft_ucm_open(O_CLOEXEC), .closer = gettid() };
	uint32_t number = create(reader.fd, RDMA_PS_TCP, 1);
	struct ucm_id *id;
	pthread_t thread;
	void *result;

	weft_ucm_await_reader(reader.fd);	/* nobody has read: nobody is waited for */
	assert_int_equal(ucm_id_find(ucm.files[reader.fd], number, &id), 0);
	ucm_lock();
	assert_int_equal(ucm_event_post(id, UCM_EVENT_DISCONNECTED, 0), 0);
	ucm_unlock_and_send();
	assert_int_equal(pthread_create(&thread, NULL, read_two_events_thread, &reader), 0);
	while (!__atomic_load_n(&reader.taken, __ATOMIC_ACQUIRE))
		sched_yield();
	ucm.files[reader.fd]->reader_left += 10 * WTIME_S;	/* however late the reader comes back */
	weft_ucm_await_reader(reader.fd);
	assert_int_equal(__atomic_load_n(&ucm.files[reader.fd]->waiting, __ATOMIC_ACQUIRE), 1);
	__atomic_store_n(&reader.closed, true, __ATOMIC_RELEASE);
	assert_int_equal(resolve4(reader.fd, number, "127.0.0.1", 1), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, &reader);
	channel_close(reader.fd);
	expect_nothing_left();
}

enum { CLIENTS = 4, ROUNDS = 50 };

static void *serve_thread(void *arg)
{
	int fd = *(int *)arg;

	for (int gone = 0; gone < CLIENTS * ROUNDS;) {
		struct rdma_ucm_event_resp resp;

		assert_int_equal(get_event(fd, &resp), 0);
		if (resp.event == UCM_EVENT_CONNECT_REQUEST) {
			accept_id(fd, resp.id, 0x200, false);
		} else if (resp.event == UCM_EVENT_DISCONNECTED) {
			assert_int_equal(destroy(fd, resp.id, NULL), 0);
			gone++;
		}
	}
	return NULL;
}

static void *connect_thread(void *arg)
{
	const uint32_t *qpn = arg;
	int fd = weft_ucm_open(O_CLOEXEC);

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t id = resolved(fd, RDMA_PS_TCP, "127.0.0.1", 7000);

		assert_int_equal(connect_qp(fd, id, *qpn, ""), 0);
		expect_event(fd, UCM_EVENT_CONNECT_RESPONSE, 0);
		assert_int_equal(accept_id(fd, id, 0, true), 0);
		assert_int_equal(disconnect(fd, id), 0);
		expect_event(fd, UCM_EVENT_DISCONNECTED, 0);
		assert_int_equal(destroy(fd, id, NULL), 0);
	}
	channel_close(fd);
	return NULL;
}

static void threads_share_the_device(void **state)
{
	uint32_t qpn[CLIENTS];
	pthread_t server, client[CLIENTS];
	int fd = weft_ucm_open(O_CLOEXEC);
	uint32_t id = create(fd, RDMA_PS_TCP, 0x100);

	assert_int_equal(bind4(fd, id, "0.0.0.0", 7000), 0);
	assert_int_equal(listen_on(fd, id, 10), 0);
	assert_int_equal(pthread_create(&server, NULL, serve_thread, &fd), 0);
	for (int i = 0; i < CLIENTS; i++) {
		qpn[i] = 0x5001 + (uint32_t)i;
		assert_int_equal(pthread_create(&client[i], NULL, connect_thread, &qpn[i]), 0);
	}
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(client[i], NULL);
	pthread_join(server, NULL);
	channel_close(fd);
	expect_nothing_left();
}

static void ib_addresses_carry_service_ids(void **state)
{
	struct sockaddr_ib sib = {
		.sib_family = AF_IB, .sib_sid = htobe64(0x1060000), .sib_sid_mask = htobe64(0xffffffffffff0000),
	};
	struct rdma_ucm_bind in = { .addr_size = sizeof(sib) };
	struct rdma_ucm_query_addr_resp addr;
	int fd = channel();

	in.id = create(fd, RDMA_PS_IB, 1);
	memcpy(&in.addr, &sib, sizeof(sib));
	assert_int_equal(COMMAND(fd, BIND, in, 0), 0);
	addr = query(fd, in.id, RDMA_USER_CM_QUERY_ADDR);
	assert_int_equal(addr.src_size, sizeof(sib));
	memcpy(&sib, &addr.src_addr, sizeof(sib));
	assert_true(be64toh(sib.sib_sid) > 0x1060000 && be64toh(sib.sib_sid) <= 0x106ffff);
	sib.sib_sid = htobe64(0x1234000000000000);
	memcpy(&in.addr, &sib, sizeof(sib));
	in.id = create(fd, RDMA_PS_IB, 1);
	assert_int_equal(COMMAND(fd, BIND, in, 0), -EPROTONOSUPPORT);
	channel_close(fd);
	expect_nothing_left();
}

/* It has none of its parent's conversations, and may have its own. No assertions: they are the parent's. */
static bool is_well_as_child(const struct pair *p)
{
	struct rdma_ucm_create_id_resp resp = { 0 };
	struct rdma_ucm_create_id in = { .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC };
	int fd;

	if (COMMAND(p->server, CREATE_ID, in, sizeof(resp)) != -EBADF || ucm.ids.count)
		return false;
	fd = weft_ucm_open(O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && COMMAND(fd, CREATE_ID, in, sizeof(resp)) == 0 && ucm.ids.count == 1;
}

static void a_child_leaves_its_parents_connections_alone(void **state)
{
	struct pair p;
	int status;
	pid_t pid;

	pair_connect(&p);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(20);
		_exit(!is_well_as_child(&p));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	channel_close(p.client);
	expect_event(p.server, UCM_EVENT_DISCONNECTED, 0);
	channel_close(p.server);
	expect_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
		TEST(malformed_commands_are_refused),
		TEST(ids_belong_to_their_channel),
		TEST(addresses_of_this_host_resolve),
		TEST(loopback_over_ipv6_and_over_weft0),
		TEST(foreign_addresses_do_not_resolve),
		TEST(addresses_of_other_hosts_resolve),
		TEST(strangers_ask_for_where_they_send_to),
		TEST(strangers_choose_no_quota),
		TEST(a_short_backlog_is_for_one_host),
		TEST(strangers_say_where_they_are),
		TEST(a_request_that_is_refused_ends_no_connection),
		TEST(a_stranger_says_how_long_its_path_is),
		TEST(a_program_may_want_no_timeout),
		TEST(hosts_of_a_fabric_resolve),
		TEST(hosts_of_a_fabric_say_where_they_are),
		TEST(a_path_of_another_service_is_taken),
		TEST(ports_collide_as_in_linux),
		TEST(loopback_is_no_address_of_the_only_device),
		TEST(a_host_of_a_fabric_has_its_own_addresses_alone),
		TEST(wildcards_of_two_families_share_a_port_number),
		TEST(options_are_checked),
		TEST(the_type_of_service_may_be_set_until_the_route_is_resolved),
		TEST(listeners_take_only_what_is_for_them),
		TEST(a_connection_comes_and_goes),
		TEST(qp_attributes_are_the_kernels),
		TEST(a_request_can_be_rejected),
		TEST(nobody_listening_is_a_rejection),
		TEST(a_listener_may_come_a_moment_late),
		TEST(destroying_a_listener_rejects_what_waits),
		TEST(destroying_counts_what_was_reported),
		TEST(a_full_backlog_makes_the_peer_ask_again),
		TEST(no_backlog_is_longer_than_the_sysctls),
		TEST(a_flood_of_requests_is_bounded),
		TEST(ports_are_asked_for_in_advance),
		TEST(an_id_destroyed_while_it_binds_leaves_no_port),
		TEST(migration_takes_queued_events_along),
		TEST(datagrams_learn_qpn_and_qkey),
		TEST(groups_map_as_in_linux),
		TEST(the_any_address_is_a_group_of_its_own),
		TEST(who_only_sends_joins_and_leaves_so),
		TEST(a_dead_peer_disconnects),
		TEST(silence_is_unreachable),
		TEST(accepting_too_late_fails),
		TEST(too_much_private_data_is_refused),
		TEST(notify_establishes_once), TEST(a_lap_is_answered),
		TEST(a_request_offers_an_alternate_path), TEST(an_alternate_path_ends_here),
		TEST(a_channel_is_readable_while_events_are_queued),
		TEST(an_event_is_whose_who_waits_for_it),
		TEST(a_blocking_reader_is_woken),
		TEST(a_blocked_reader_can_be_cancelled),
		TEST(a_reader_that_jumps_away_leaves_events_to_others),
		TEST(no_thread_is_cancelled_inside_a_command),
		TEST(an_event_is_taken_by_no_cancellation_point),
		TEST(closing_lets_the_reader_come_back_first),
		TEST(threads_share_the_device),
		TEST(ib_addresses_carry_service_ids),
		TEST(a_child_leaves_its_parents_connections_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
