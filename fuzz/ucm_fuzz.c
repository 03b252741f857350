/* The rdma_cm device under hostile commands and CM MADs. The input is a script: each step opens or closes a channel, runs a
 * command with the input's bytes (ids and response pointers made plausible as often as not), delivers a MAD of the
 * input's or one of our own, changed or not, lets time pass, or ends the peer. Nothing may crash, and closing leaves nothing. */
#include "fuzz.h"

#include "../tests/unit/ucm_host.h"
#include "runtime/cm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHANNELS = 3, FAREWELLS = 64, SENT = 32 };

static struct gmp sent[SENT];
static unsigned sent_count;

void runtime_send_gmp(struct runtime *rt, const struct gmp *gmp)
{
	sent[sent_count++ % SENT] = *gmp;
}

static void bytes(struct input *in, void *to, size_t n)
{
	size_t left = (size_t)(in->end - in->at);

	memset(to, 0, n);
	memcpy(to, in->at, left < n ? left : n);
	in->at += left < n ? left : n;
}

static int channel[CHANNELS];
static uint8_t response[1024] __attribute__((aligned(8)));
/* Ids that the commands' answers told of: the n-th, whatever its number is in this run. */
static uint32_t ids[16];
static unsigned id_count;

#define NONE SIZE_MAX
#define AT(type, member) offsetof(struct rdma_ucm_##type, member)

/* Where a command has its id and its response pointer. */
static const struct { size_t id, response; } places[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = { NONE, AT(create_id, response) },
	[RDMA_USER_CM_CMD_DESTROY_ID] = { AT(destroy_id, id), AT(destroy_id, response) },
	[RDMA_USER_CM_CMD_BIND_IP] = { AT(bind_ip, id), NONE },
	[RDMA_USER_CM_CMD_RESOLVE_IP] = { AT(resolve_ip, id), NONE },
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = { AT(resolve_route, id), NONE },
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = { AT(query, id), AT(query, response) },
	[RDMA_USER_CM_CMD_CONNECT] = { AT(connect, id), NONE },
	[RDMA_USER_CM_CMD_LISTEN] = { AT(listen, id), NONE },
	[RDMA_USER_CM_CMD_ACCEPT] = { AT(accept, id), NONE },
	[RDMA_USER_CM_CMD_REJECT] = { AT(reject, id), NONE },
	[RDMA_USER_CM_CMD_DISCONNECT] = { AT(disconnect, id), NONE },
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = { AT(init_qp_attr, id), AT(init_qp_attr, response) },
	[RDMA_USER_CM_CMD_GET_EVENT] = { NONE, AT(get_event, response) },
	[RDMA_USER_CM_CMD_GET_OPTION] = { NONE, NONE },
	[RDMA_USER_CM_CMD_SET_OPTION] = { AT(set_option, id), AT(set_option, optval) },
	[RDMA_USER_CM_CMD_NOTIFY] = { AT(notify, id), NONE },
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = { AT(join_ip_mcast, id), AT(join_ip_mcast, response) },
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = { AT(destroy_id, id), AT(destroy_id, response) },
	[RDMA_USER_CM_CMD_MIGRATE_ID] = { AT(migrate_id, id), AT(migrate_id, response) },
	[RDMA_USER_CM_CMD_QUERY] = { AT(query, id), AT(query, response) },
	[RDMA_USER_CM_CMD_BIND] = { AT(bind, id), NONE },
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = { AT(resolve_addr, id), NONE },
	[RDMA_USER_CM_CMD_JOIN_MCAST] = { AT(join_mcast, id), AT(join_mcast, response) },
};

static struct sockaddr_in address(uint8_t choice, uint8_t port)
{
	static const uint32_t hosts[] = { INADDR_ANY, 0x0a000001, INADDR_LOOPBACK, 0xef010203 };

	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(7000 + port % 4),
				     .sin_addr.s_addr = htonl(hosts[choice % 4]) };
}

/* What chance would hardly make: the fields without which a command is refused at once. */
static void make_plausible(uint8_t number, uint8_t choice, uint8_t *body)
{
	static const uint16_t spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB };
	struct sockaddr_in addr = address(choice, choice >> 2);
	union {
		struct rdma_ucm_create_id create_id;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_resolve_addr resolve_addr;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_reject reject;
		struct rdma_ucm_join_mcast join_mcast;
		struct rdma_ucm_set_option set_option;
		struct rdma_ucm_query query;
		struct rdma_ucm_init_qp_attr init_qp_attr;
	} *in = (void *)body;

	switch (number) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		in->create_id.ps = spaces[choice % 4];
		in->create_id.qp_type = IBV_QPT_RC;
		in->create_id.uid = 1;
		break;
	case RDMA_USER_CM_CMD_BIND:
		in->bind.addr_size = sizeof(addr);
		in->bind.reserved = 0;
		memcpy(&in->bind.addr, &addr, sizeof(addr));
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		in->resolve_addr.src_size = in->resolve_addr.reserved = 0;
		in->resolve_addr.dst_size = sizeof(addr);
		memcpy(&in->resolve_addr.dst_addr, &addr, sizeof(addr));
		break;
	case RDMA_USER_CM_CMD_CONNECT:
		in->connect.conn_param.valid = 1;
		in->connect.conn_param.private_data_len %= 60;
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		in->accept.conn_param.valid = choice & 1;
		in->accept.conn_param.private_data_len %= 100;
		break;
	case RDMA_USER_CM_CMD_REJECT:
		in->reject.reason = 0;
		in->reject.private_data_len %= 140;
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		in->join_mcast.addr_size = sizeof(addr);
		in->join_mcast.join_flags %= 2;
		memcpy(&in->join_mcast.addr, &addr, sizeof(addr));
		break;
	case RDMA_USER_CM_CMD_SET_OPTION:
		in->set_option.level = choice & 1;
		in->set_option.optname = choice >> 1 & 3;
		in->set_option.optlen = (uint32_t[]){ 1, 4, 72, 144 }[choice >> 3 & 3];
		break;
	case RDMA_USER_CM_CMD_QUERY:
		in->query.option = choice % 4;
		break;
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		in->init_qp_attr.qp_state = choice % 5;
		break;
	}
}

static void remember(uint8_t number)
{
	const struct rdma_ucm_event_resp *event = (void *)response;
	const struct rdma_ucm_create_id_resp *created = (void *)response;

	if (number == RDMA_USER_CM_CMD_CREATE_ID || number == RDMA_USER_CM_CMD_JOIN_MCAST)
		ids[id_count++ % 16] = created->id;
	if (number == RDMA_USER_CM_CMD_GET_EVENT && event->event == UCM_EVENT_CONNECT_REQUEST)
		ids[id_count++ % 16] = event->id;
}

static void run_command(struct input *in)
{
	struct { struct rdma_ucm_cmd_hdr hdr; uint8_t body[512]; } cmd;
	uint8_t number = take_byte(in), flags = take_byte(in), length = take_byte(in);
	/* or an address that no process has: one of this process's own, which inputs do find, would be written to */
	uint64_t to = flags & 0x40 ? UINT64_MAX - length : (uintptr_t)response;
	uint32_t id = ids[take_byte(in) % 16];
	int fd = channel[flags % CHANNELS];

	memset(&cmd, 0, sizeof(cmd));
	cmd.hdr = (struct rdma_ucm_cmd_hdr){
		.cmd = number, .in = sizeof(cmd.body), .out = flags & 0x80 ? length : sizeof(response),
	};
	if (!(flags & 0x10))
		number %= sizeof(places) / sizeof(places[0]);
	cmd.hdr.cmd = number;
	bytes(in, cmd.body, flags & 8 ? 0 : length);
	if (!(flags & 0x10))
		make_plausible(number, length, cmd.body);
	if (number < sizeof(places) / sizeof(places[0])) {
		if (places[number].id != NONE && !(flags & 0x20))
			memcpy(cmd.body + places[number].id, &id, sizeof(id));
		if (places[number].response != NONE)
			memcpy(cmd.body + places[number].response, &to, sizeof(to));
		if (number == RDMA_USER_CM_CMD_MIGRATE_ID)
			memcpy(cmd.body + AT(migrate_id, fd), &channel[length % CHANNELS], sizeof(int));
	}
	if (weft_ucm_write(fd, &cmd, sizeof(cmd)) >= 0)
		remember(number);
}

/* One of our own messages comes back as its answer might, with a byte of the input's in it, or as the owner of QP1 answers it. */
static void deliver_own(struct input *in)
{
	struct gmp gmp;
	struct cm_msg msg, answer;
	uint8_t which = take_byte(in), flags = take_byte(in), place = take_byte(in), value = take_byte(in);

	if (!sent_count)
		return;
	gmp = sent[which % (sent_count < SENT ? sent_count : SENT)];
	gmp.is_from_here = flags & 1;
	if (flags & 2 && cm_parse(&msg, gmp.mad) && cm_answer_stray(&msg, &answer))
		cm_build(&answer, gmp.mad);
	if (flags & 4)
		gmp.mad[place] = value;
	if (flags & 8)
		gmp.path = gmp_path_back(&gmp.path);
	fake.cm.mad(fake.cm.cm, fake.now, &gmp);
}

static void deliver_any(struct input *in)
{
	uint8_t port = take_byte(in);
	struct gmp gmp = { .is_from_here = port & 1, .device = take_byte(in) % 2, .pkey = 0xffff,
			   .path = { .slid = port, .has_grh = port & 2, .sgid = { port } } };
	static const uint8_t header[4] = { 1, 7, 2, 3 };

	bytes(in, gmp.mad, sizeof(gmp.mad));
	memcpy(gmp.mad, header, sizeof(header));
	gmp.mad[16] = 0;
	gmp.mad[17] = 0x10 + gmp.mad[17] % 12;
	fake.cm.mad(fake.cm.cm, fake.now, &gmp);
}

static void step(struct input *in)
{
	int *fd = &channel[take_byte(in) % CHANNELS];

	switch (take_byte(in) % 8) {
	case 0:
		weft_ucm_close(*fd);
		close(*fd);
		*fd = weft_ucm_open(O_NONBLOCK);
		break;
	case 1:
		deliver_any(in);
		break;
	case 2:
	case 3:
		deliver_own(in);
		break;
	case 4:
		fake.now += WTIME_S * take_byte(in);
		fake.cm.expire(fake.cm.cm, fake.now);
		fake.cm.peer_gone(fake.cm.cm, fake.now, take_byte(in));
		break;
	default:
		run_command(in);
	}
}

static void set_up(void)
{
	static const uint8_t gid_ib[16] = { 0xfe, 0x80 }, gid_v4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

	fake_devices();
	fake_gid(0, 0, gid_ib, IBV_GID_TYPE_IB);
	fake_gid(1, 0, gid_v4, IBV_GID_TYPE_ROCE_V2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!fake.ca.devices)
		set_up();
	sent_count = 0;
	id_count = 0;
	memset(ids, 0, sizeof(ids));
	for (int i = 0; i < CHANNELS; i++)
		channel[i] = weft_ucm_open(O_NONBLOCK);
	while (in.at < in.end)
		step(&in);
	for (int i = 0; i < CHANNELS; i++) {
		weft_ucm_close(channel[i]);
		close(channel[i]);
	}
	/* what nobody waits for is still told to its peer, which never answers */
	for (int i = 0; i < FAREWELLS && ucm.cm.ids == ucm.cm.orphans && ucm.cm.ids; i++) {
		fake.now += 1000 * WTIME_S;
		fake.cm.expire(fake.cm.cm, fake.now);
	}
	if (fake.ports || fake.groups || ucm.ids.count || ucm.mcasts.count || ucm.cm.ids)
		abort();
	return 0;
}
